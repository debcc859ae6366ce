"""Commands of `simindex scaleout` that look at all documents: one file each."""
