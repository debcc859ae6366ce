"""What lies in a store as objects: the parts and the manifest of a backup, the batches of a journal.

Owns their bytes. Must not know stores.
"""
