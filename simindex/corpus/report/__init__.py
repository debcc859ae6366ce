"""The report: one HTML page on the duplicates of an index, which opens from disk.

`index_overview` and `job_overview` count; what they give is `overview`. `texts` reads texts, `text_forms`
makes of them what a page reads, `report` chooses what is shown, and `page` fills the template: page.html,
page.css, page.js, and shared.js, which is for other pages, too. Must not print.
Invariant: the page loads nothing, and nothing that comes from data is markup or script in it.
"""
