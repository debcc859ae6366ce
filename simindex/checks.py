"""Check the types and ranges of arguments; errors say what was expected and what was found."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from simindex.errors import ArgumentTypeError, ArgumentValueError


def require_int(
    name: str, value: object, low: int, high: int | None = None, *, multiple: int = 1, remark: str = ""
) -> int:
    """Return a value as an int. Raise ArgumentTypeError for what is none, and ArgumentValueError, which says
    the range and then `remark`, for one below `low`, above `high` if there is one, or no multiple.

    NumPy's integers are some. True and False are none, nor is one of a subclass of int, which may compare as
    it likes.
    """
    if isinstance(value, Integral) and not isinstance(value, int):
        value = int(value)
    if type(value) is not int:
        raise ArgumentTypeError(name, "an int", type(value).__name__)
    if value < low or (high is not None and value > high) or value % multiple:
        expected = f"{low} or more" if high is None else f"{low}..{high}"
        expected = expected if multiple == 1 else f"a multiple of {multiple} in {expected}"
        raise ArgumentValueError(name, expected + remark, value)
    return value


def set_int(of: object, name: str, low: int, high: int | None = None, *, multiple: int = 1) -> None:
    """Replace a field of a frozen dataclass by the int that `require_int` returns for it."""
    object.__setattr__(of, name, require_int(name, getattr(of, name), low, high, multiple=multiple))


def local_path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the path of a folder, with a leading ``~`` as the home folder; a path of bytes as it is. Raises
    ArgumentValueError for an address, an empty path, ":memory:" and a name that is not UTF-8."""
    text = os.fspath(path)
    if not isinstance(text, str):
        return path  # of bytes: refused where a folder is made of it
    if text in ("", ":memory:"):
        remedy = 'an index in memory is made by simindex.open(":memory:"), and goes with that handle'
        raise ArgumentValueError("path", "a folder", repr(text), remedy)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentValueError(
            "path", "a folder whose name is UTF-8, as LMDB needs it", repr(text)
        ) from None
    if "://" in text:
        raise ArgumentValueError("path", "a folder of this machine", f"an address, {text!r}")
    return os.path.expanduser(text) if text.startswith("~") else path


def _require_number(name: str, value: object, expected: str = "a number") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentTypeError(name, expected, type(value).__name__)
    return value


def plain_number(value: Any) -> Any:
    """Return a number of another type than Python's own, one of NumPy say, as a float, and any other value
    as it is."""
    is_foreign = not isinstance(value, float | int | None) and isinstance(value, Real)
    return float(value) if is_foreign else value


def require_share(name: str, value: object, *, zero: bool = False) -> None:
    """Raise ArgumentTypeError or ArgumentValueError for what is no number in (0, 1], or in [0, 1] with
    `zero`."""
    number = _require_number(name, value)
    if not (0 <= number <= 1 if zero else 0 < number <= 1):
        raise ArgumentValueError(name, f"a number in {'[' if zero else '('}0, 1]", repr(value))


def require_ignorable(value: object, name: str = "ignore_common") -> None:
    """Raise ArgumentTypeError or ArgumentValueError for a share that is no number above 0 and below 1."""
    if not 0 < _require_number(name, value) < 1:
        raise ArgumentValueError(name, "a share between 0 and 1", value)


def require_seconds(name: str, value: object) -> None:
    """Raise ArgumentTypeError or ArgumentValueError for what is neither ``None`` nor a number of seconds, 0
    or more."""
    if value is not None and not _require_number(name, value, "a number of seconds or None") >= 0:
        raise ArgumentValueError(name, "0 seconds or more, or None", repr(value))


def require_callable(name: str, value: object) -> None:
    """Refuse what is neither ``None`` nor a callable. Raises TypeError."""
    if value is not None and not callable(value):
        raise ArgumentTypeError(name, "a callable or None", type(value).__name__)


def require_word(name: str, value: object, words: Sequence[str]) -> None:
    """Raise ArgumentValueError for what is none of some words, of which there are two or more."""
    if value not in words:
        *others, last = (f'"{word}"' for word in words)
        raise ArgumentValueError(name, f"{', '.join(others)} or {last}", repr(value))


def require_conflict(on_conflict: object) -> None:
    """Raise ValueError unless `on_conflict` is one of its words."""
    require_word("on_conflict", on_conflict, ("error", "skip", "replace"))


def require_many(call: str, name: str, argument: object, instead: str) -> None:
    """Raise TypeError for what is one thing (a text, bytes, no iterable), a mapping, a data frame or an
    asynchronous iterator; the message names the `call`, and what takes one `instead`."""
    if type(argument) is list:
        return  # nearly always, and looking at the rest takes a tenth of a query
    require_synchronous(name, argument)
    remedy = f"; for one use {instead}"
    if isinstance(argument, Mapping):
        remedy = "; hand over its items(), values() or keys()"
    elif hasattr(argument, "columns") and (library := frame_library(argument)):
        remedy = f" of {library}; hand over its columns, as zip(frame[...], frame[...])"
    elif isinstance(argument, Iterable) and not isinstance(argument, str | bytes | bytearray | memoryview):
        return
    what = "(key, document)" if name == "items" else name
    raise TypeError(f"{call}: expected an iterable of {what}, found {type(argument).__name__}{remedy}")


_FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf", "dask")


def frame_library(value: object) -> str | None:
    """Return the library of data frames that a value's class is of, ``None``: of none. It goes by names, for
    importing one to see takes long."""
    modules = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    return next((library for library in _FRAME_LIBRARIES if library in modules), None)


def require_synchronous(name: str, value: object) -> None:
    """Refuse an asynchronous iterator where a plain one is read. Raises TypeError."""
    if isinstance(value, AsyncIterable):
        found = f"{type(value).__name__}, which only `async for` reads"
        remedy = "gather a batch of its items in a list and pass that, batch by batch"
        raise ArgumentTypeError(name, "an iterable", found, remedy)
