"""Deduplication as a star: a row stays unless one kept before it is within the threshold.

`settings` is what is asked, `job` runs it, and `journal` knows how far it is. `steps` decides: `sketches`
writes down what rows are compared by and sorts it, `all_pairs.ranges` compares, `star` says which stay, by
kept shingles too, in the order of `orders`, `other_indexes` has `against=` and `into=`, and `verdict_file`
keeps what was decided. `reporter` has the words for a row, and `writer_loop` writes them to the files of
`output_files`, while `rows` reads the input once more.

What makes a job safe to kill: a row is known by its number in the input. What was sketched is durable up to
a mark, and what was decided is a file that is whole or not there. Output is cut into frames at places that
follow from the rows alone, and the journal speaks of whole frames only: so the bytes depend neither on
batches nor on threads nor on when the job was killed.
"""
