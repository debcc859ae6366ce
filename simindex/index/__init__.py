"""The public face: the class `Index` and the function `open`."""

from simindex.index.index import Index, open  # noqa: A004 - the public name

__all__ = ["Index", "open"]
