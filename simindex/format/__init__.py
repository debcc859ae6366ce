"""Every byte of an index: what is stored and how it is found again. docs/format.md describes it.

In the order of imports: `rows` (structs shared with the kernel), `seals`, `keys`, `records`, `columns`,
`layout`, `chunks`, `manifest`. The law of this folder: it alone knows offsets, widths and byte orders, and it
neither opens files nor decides anything.
"""
