"""The public face: the class `Index` and the function `open`.

It checks arguments and delegates; it does nothing itself. Must not know bytes, lmdb or table layouts.
"""

from simindex.index.index import Index
from simindex.index.opening import open  # noqa: A004 - the public name

__all__ = ["Index", "open"]
