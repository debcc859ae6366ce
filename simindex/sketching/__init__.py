"""Document -> sketch: from a text, or ready shingles, to what an index keeps of it.

`alphabet` says which characters are letters, `shingles` what a document is and how it is cut, `hash_family`
which hash functions make the rows, `sketcher` makes the `sketch`es, `estimate` compares them, `permutations`
says in which orders a fingerprint is stored. Must not know keys, tables or disk.
"""
