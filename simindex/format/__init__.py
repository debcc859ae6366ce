"""The file format: how every value of an index is encoded. See docs/format.md.

In the order of imports: `kernel_structs` (shared with the kernel), `seals`, `keys`, `records`, `layout`,
`chunks`, `meta` (header, manifest, notes). The law of this folder: it alone knows offsets, widths and byte
orders, and it neither opens files nor decides anything.
"""
