"""Write rows to files, unchanged, in the format that the output's name says.

`lines` writes frames of lines that can be resumed after a kill, `rows` knows the formats of lines,
`parquet` that of tables. Must not know why a row is written.
"""
