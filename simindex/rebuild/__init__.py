"""Rebuild: indexes made of what other indexes store, without the documents.

Repair, in the order of imports: `report` (what it says), `salvage` (values out of damaged pages),
`sketches` (the sketches of a segment, healed from its tables), `build` (the new index), `repair` (its
steps, and its caller's side). Merging and resketching: `source` (an index that is read), `place` (where the
new one is made), `joining` (a source that goes over by its segments), `merge`, `resketch`. Must not change
an index that it reads.
"""
