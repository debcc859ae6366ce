"""Every exception that simindex raises.

    SimIndexError
    ├── BackupTargetError    (ValueError)    the target of a backup is something else
    ├── KeyExistsError       (KeyError)      the key is in the index already
    ├── ConfigMismatchError  (ValueError)    another configuration than the stored one
    ├── FormatError          (ValueError)    not an index, or one this version cannot read
    ├── CorruptIndexError                    stored bytes fail their seal
    ├── IndexLockedError                     another writer has the index open
    ├── TransactionOpenError (RuntimeError)  a transaction is open, of this or of another task
    ├── IndexFullError       (OSError)       the disk or the allowed size is used up
    ├── DiskError            (OSError)       the disk failed
    ├── RemovalLimitError    (ValueError)    more documents would go than the caller allows
    ├── ReadOnlyError        (TypeError)     a change through a handle opened with "r"
    ├── ClosedError          (ValueError)    a handle used after close, or in a forked child
    ├── InputError           (ValueError)    an input or a remote path cannot be read
    └── MissingPackageError  (ModuleNotFoundError) a package is not installed that only some calls need

Misuse raises a ``TypeError`` or ``ValueError``, mostly an `ArgumentError`, which is one of them. A message
says what was expected, what was found, where, and what to do. Arguments are parts of it (`Argument`,
`Difference`): Python makes a sentence of calls of them, the command line one of options. Reading files adds
its own errors: `simindex.inputs.rows`.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Argument:
    """An argument of a call in a message; `of` is what it makes, where that is another argument.

    >>> str(Argument("by", "simhash")), str(Argument("keep_shingles", of="Config"))
    ('by="simhash"', 'Config(keep_shingles=...)')
    """

    name: str
    value: object = ...
    of: str = ""

    def __str__(self) -> str:
        value = f'"{self.value}"' if isinstance(self.value, str) else repr(self.value)
        text = f"{self.name}={'...' if self.value is ... else value}"
        return f"{self.of}({text})" if self.of else text


@dataclass(frozen=True)
class Difference:
    """Two values of a field of `Config` in a message; `words` say which is which.

    >>> str(Difference("seed", 1, 2, "stored {}, asked for {}"))
    'seed: stored 1, asked for 2'
    """

    name: str
    one: Any
    other: Any
    words: str = "{} and {}"

    def __str__(self) -> str:
        return f"{self.name}: {self.words.format(repr(self.one), repr(self.other))}"


class Worded(Exception):  # noqa: N818 - what errors have in common
    """An error whose message is made of parts."""

    def parts(self) -> tuple[object, ...]:
        """Return the pieces of text and `Argument` that make the message, in the order in which they are
        said; a piece may be a tuple of pieces."""
        return self.args

    def __str__(self) -> str:
        return self.say(str)

    def say(self, word: Callable[[object], str]) -> str:
        """Return the message, with what `word` makes of each part that is no tuple."""
        return _said(self.parts(), word)


def _said(part: object, word: Callable[[object], str]) -> str:
    return "".join(_said(each, word) for each in part) if isinstance(part, tuple) else word(part)


def joined(between: str, parts: Iterable[object]) -> tuple[object, ...]:
    """Return the parts of a list in a message, as one tuple, with a text between each two of them."""
    return tuple(part for each in parts for part in (between, each))[1:]


class ArgumentError(Worded):
    """An argument is not what it should be; always a ``ValueError`` or a ``TypeError``, too.

    Attributes:
        argument: its name; ``None`` where several do not fit each other, or the index.
        expected: what it should be.
        found: what it is; "" where `expected` says enough.
        advice: what to do about it, "" where that is plain.
        where: what stands before all that: of which of many documents it is.

    All but the name are a text, or a tuple of its parts.
    """

    where = ""

    def __init__(
        self, argument: str | None, expected: object, found: object = "", advice: object = ""
    ) -> None:
        super().__init__(argument, expected, found, advice)
        self.argument, self.expected, self.found, self.advice = argument, expected, found, advice

    def at(self, where: str) -> Self:
        """Put a text before the message of this error, in place of an earlier one, and return the error."""
        self.where = where
        return self

    def parts(self) -> tuple[object, ...]:
        """Return the pieces of the message: `where`, the argument, what was expected, what was found, and the
        advice; the last two may be empty texts."""
        named = f"{self.argument}: expected " if self.argument else "expected "
        found = "" if self.found == "" else (", found ", self.found)
        return self.where, named, self.expected, found, "; " if self.advice else "", self.advice


class ArgumentValueError(ArgumentError, ValueError):
    """The value of an argument is out of range, or does not fit the others."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of another type."""


class SimIndexError(Worded):
    """Base of all simindex errors.

    Attributes:
        path: folder of the index that it is about; ``None`` where there is none.
    """

    path: str | None = None

    def located(self, path: str) -> Self:
        """Set the path of this error if it has none, and return the error itself."""
        if self.path is None:
            self.path = path
        return self


class BackupTargetError(SimIndexError, ValueError):
    """The target of a backup holds an index that is no older backup of this one. It was left as it is."""


class KeyExistsError(SimIndexError, KeyError):
    """A document with this key is stored already, or came before in the same input. Nothing of the call, or
    of its batch, was written."""

    def __init__(self, key: object) -> None:
        super().__init__(key)
        self.key = key

    def parts(self) -> tuple[object, ...]:
        """Return the pieces of the message: that the key exists, and as an `Argument` each value of
        `on_conflict` that helps, with what it does."""
        found = f"key {self.key!r} is in the index already, or twice in the input; "
        skip, replace = Argument("on_conflict", "skip"), Argument("on_conflict", "replace")
        return found, skip, " keeps the older document, ", replace, " the newer one"


class ConfigMismatchError(SimIndexError, ValueError):
    """The configuration asked for differs from the stored one.

    Attributes:
        fields: name of each differing field -> (stored value, value asked for).
    """

    def __init__(self, message: object, fields: dict[str, tuple[object, object]] | None = None) -> None:
        super().__init__(message)
        self.fields = fields or {}


class FormatError(SimIndexError, ValueError):
    """The path holds no simindex index, or one of a format this version does not read."""


class CorruptIndexError(SimIndexError):
    """Stored bytes do not match their seal. No result was returned for them.

    Attributes:
        path: the file or folder.
        segment: id of the segment.
        table: name of the table in it, as `Geometry.name` gives it: "keys", "band 3", "sketches".
        chunk: number of the chunk in the table.
        block: number of the sealed block in the chunk.
        key: database key of the value, bytes.

    Each is ``None`` where it is not known or does not apply.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        segment: int | None = None,
        table: str | None = None,
        chunk: int | None = None,
        block: int | None = None,
        key: bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.segment = segment
        self.table = table
        self.chunk = chunk
        self.block = block
        self.key = key


def damaged(found: str, **where: Any) -> CorruptIndexError:
    """Return the error of what was found in an index, with what to do about it; `where` as its attributes."""
    return CorruptIndexError(f"{found}; restore a backup or rebuild the index", **where)


class IndexLockedError(SimIndexError):
    """Another process, or another handle of this one, has the index open for writing.

    Attributes:
        waited_seconds: how long `open` has waited for it (`timeout=`).
    """

    def __init__(self, message: str, *, waited_seconds: float = 0.0) -> None:
        super().__init__(message)
        self.waited_seconds = waited_seconds


class TransactionOpenError(SimIndexError, RuntimeError):
    """A transaction is open, and this change is not part of it. Nothing of the change was stored.

    It is another task's of the same thread, or this thread works for the task that has it open, so waiting
    for its end could last for ever; or it is the caller's own, and the call commits by itself.
    """


class IndexFullError(SimIndexError, OSError):
    """The disk or the allowed size of the index is used up. What was committed is intact.

    Attributes:
        errno: ENOSPC, whatever the system called it.
        needed_bytes: free bytes of disk that the call needs, where it was known before anything was changed
            (`compact`); else ``None``.
    """

    def __init__(self, message: str, *, needed_bytes: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno.ENOSPC
        self.needed_bytes = needed_bytes


class DiskError(SimIndexError, OSError):
    """The disk failed to read or to write. What was committed is intact as far as the disk is.

    Attributes:
        errno: EIO.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.EIO


class RemovalLimitError(SimIndexError, ValueError):
    """A removal would take a larger share of the documents than its `at_most`. Nothing was removed.

    Attributes:
        found: how many documents it would remove, or of an expiry the first that are too many.
        stored: how many documents the index has.
        at_most: the share that is allowed, in (0, 1].
    """

    def __init__(self, found: int, stored: int, at_most: float) -> None:
        super().__init__(found, stored, at_most)
        self.found, self.stored, self.at_most = found, stored, at_most

    def parts(self) -> tuple[object, ...]:
        """Return the message as one piece of text."""
        most = f"at most {self.at_most:g} of the {self.stored:,} stored documents to be removed"
        remedy = "nothing was removed. Where so many shall go, give a larger at_most"
        return (f"expected {most}, found {self.found:,}; {remedy}",)


class ReadOnlyError(SimIndexError, TypeError):
    """An index opened with mode "r" cannot be changed."""


class ClosedError(SimIndexError, ValueError):
    """The handle is closed, or a writer's that was inherited through fork()."""


class InputError(SimIndexError, ValueError):
    """An input cannot be read, or not to its end.

    Attributes:
        place: the input, or ``input:number`` of a row or line in it.
        reason: what was expected there, and what was found.
    """

    def __init__(self, place: str, reason: object) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = _said(reason, str)

    def parts(self) -> tuple[object, ...]:
        """Return the pieces of the message: the place, a colon, and the reason as it was given."""
        return self.place, ": ", self.args[1]


def reason_of(error: BaseException) -> str:
    """Return the message of another package's error, "not enough memory" for a MemoryError, or the name of
    its class where it has no message."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    return str(error).strip() or type(error).__name__


class MissingPackageError(SimIndexError, ModuleNotFoundError):
    """A package is not installed that simindex does not require, but this call does.

    The attribute `name` is that of the package.
    """


def optional_module(name: str, purpose: str, package: str = "") -> Any:
    """Import a module of a package that simindex does not require, and return it. Raises MissingPackageError,
    which says that `purpose` needs it and what pip installs: `package`, "" for the first part of the name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise
        package = package or name.partition(".")[0]
        message = f"{purpose} needs {package}; install it with: pip install {package}"
        raise MissingPackageError(message, name=package) from exc
