"""A commit of one new document, in half of the steps that a commit of many takes."""
