"""What a commit does to the ages of documents: which runs it stores, and how expiry walks them."""
