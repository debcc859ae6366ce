"""Deduplication as a star: a row stays unless one kept before it is within the threshold.

`entries` gives the rows of sources one after the other, `asking` says what becomes of each by asking an
index, and `sorting` by looking at all of them first; `writing` knows the files of a job, `work` writes them,
`telling` has the words for a row, `journal` knows how far a job is, and `job` lets them work.

What makes a job safe to kill: rows are told by their number in the input. A working index may be ahead of
the journal; then what it holds from the journal's row on is removed again, and decided once more, with the
same result. Output is cut into frames at places that follow from the rows alone, and the journal speaks of
whole frames only: so the bytes depend neither on batches nor on threads nor on when the job was killed.
"""
