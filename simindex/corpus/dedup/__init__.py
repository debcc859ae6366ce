"""Deduplication as a star: a row stays unless one kept before it is within the threshold.

`deduplicate` runs a job, `journal` knows how far it is, `steps` does it: `sketches` writes down what rows
are compared by and sorts it, `pairs.ranges` compares, `star` decides, by kept shingles too,
`verdict_file` keeps what was decided, and `rows` reads the input once more. `orders` ranks rows,
`other_indexes` has `against=` and `into=`. `output_files` knows the files of a job, `writer_loop`
writes them and has the words for a row.

What makes a job safe to kill: a row is known by its number in the input. What was sketched is durable up to
a mark, and what was decided is a file that is whole or not there. Output is cut into frames at places that
follow from the rows alone, and the journal speaks of whole frames only: so the bytes depend neither on
batches nor on threads nor on when the job was killed.
"""
