"""A package, since tests/sketching has files of the same names."""
