"""Formulas that the index goes by: the S-curve of banding, the estimate, and the odds of a match."""
