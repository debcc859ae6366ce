"""The report: one HTML page on the duplicates of an index, which opens from disk.

`overview` counts, of an index or a finished job, `report` gathers what is shown, `page` fills the template:
page.html, page.css, page.js, and shared.js, which is for other pages, too. Must not print.
Invariant: the page loads nothing, and nothing that comes from data is markup or script in it.
"""
