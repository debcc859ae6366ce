"""Values of the database "meta" that stand beside header and manifest."""
