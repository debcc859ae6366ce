"""Write rows to files, unchanged, in the format that the output's name says.

`frames` writes bytes in frames that can be resumed after a kill, `rows` knows the formats of lines,
`parquet` that of tables, and `choice` picks one by a name. Must not know why a row is written.
"""
