"""datasketch's MinHash, LeanMinHash, MinHashLSH and MinHashLSHForest, kept in a folder by simindex.

Hash values are datasketch's to the bit, and signatures that either library made go into the other. What
differs is the index: it is on disk, it compares signatures before it returns keys, and says their
similarity (`MinHashLSH.query_with_scores`).

>>> from simindex.compat.datasketch import MinHash, MinHashLSH
>>> fox, dog = MinHash(), MinHash()
>>> fox.update_batch([b"the", b"quick", b"brown", b"fox"])
>>> dog.update_batch([b"the", b"quick", b"brown", b"dog"])
>>> lsh = MinHashLSH(threshold=0.5)
>>> lsh.insert("fox", fox)
>>> lsh.query(dog)
['fox']
"""

from simindex.compat.datasketch.lsh import MinHashLSH, MinHashLSHForest
from simindex.compat.datasketch.minhash import LeanMinHash, MinHash

__all__ = ["LeanMinHash", "MinHash", "MinHashLSH", "MinHashLSHForest"]
