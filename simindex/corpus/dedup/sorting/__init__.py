"""Which rows stay, where all of them are looked at before the first is written.

`decisions` has the steps of one machine: `sketches` writes down what rows are compared by, `candidates` sorts
it, `verified` compares, `told` keeps what was decided, and `again` reads the input once more. `figures` says
how much two rows are alike, `orders` who comes first, `star` decides, and `crowd` knows the documents of long
runs.
"""
