"""Deduplication as a star: a row stays unless one kept before it is within the threshold.

`entries` gives the rows of sources one after the other, `sorting` looks at all of them and says which stay;
`output_files` knows the files of a job, `writer_loop` writes them, `annotations` has the words for a row,
`journal` knows how far a job is, and `deduplicate` runs it.

What makes a job safe to kill: a row is known by its number in the input. What was sketched is durable up to
a mark, and what was decided is a file that is whole or not there. Output is cut into frames at places that
follow from the rows alone, and the journal speaks of whole frames only: so the bytes depend neither on
batches nor on threads nor on when the job was killed.
"""
