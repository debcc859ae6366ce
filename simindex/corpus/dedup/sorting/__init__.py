"""Which rows stay: all of them are looked at before the first is written.

`decisions` has the steps: `sketches` writes down what rows are compared by, `candidates` sorts it, `verified`
compares, `verdict_file` keeps what was decided, and `second_pass` reads the input once more. `scored_edges`
says how much two rows are alike, `exact` by kept shingles, `orders` who comes first, `star` decides, and
`large_buckets` knows the documents of long runs.
"""
