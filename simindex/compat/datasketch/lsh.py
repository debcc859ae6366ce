"""`MinHashLSH` and `MinHashLSHForest`: datasketch's indexes over an index of simindex in a folder.

What is stored of a signature is a byte of each hash value, and as metadata its scheme and seed, so that
signatures which cannot be compared are refused, also when the folder is opened again. Hash values are mixed
before a byte is taken: the low bits of an affine scheme depend on the low bits of one hash alone, so two sets
of one element each would agree in all of them in one of 256 cases.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np

from simindex.checks import require_int
from simindex.compat.datasketch.minhash import SCHEMES, mixed
from simindex.config import Config
from simindex.format.keys import Key, encode_key
from simindex.index import Index
from simindex.index import open as open_index
from simindex.queries.container import Record
from simindex.sketching.sketch import Sketch

_MOST_ROWS = 1024
_ROOM = 10_000
"""Signatures that an index in a temporary folder, or a forest, gathers for one commit."""
_LEAST_THRESHOLD = 1e-3


def _kind_of(minhash: Any) -> list[Any]:
    """Return what must be equal for two signatures to be compared: [scheme, seed].

    Signatures without a scheme count as "legacy", those of datasketch before 2.0, or as "weighted".
    """
    scheme = getattr(minhash, "scheme", "legacy" if minhash.hashvalues.ndim == 1 else "weighted")
    return [scheme, int(minhash.seed)]


class StoredSignatures:
    """An index of signatures in a folder: opened to be read, and for writing at the first change. In a forked
    child it is opened anew.

    Changes are gathered in `_added` and `_removed` while there are at most `_room` of them. Before a fork by
    the thread that made them they are stored, for a child cannot write beside its parent.
    """

    def __init__(self, num_perm: int, path: str | os.PathLike[str] | None, room: int) -> None:
        num_perm = require_int("num_perm", num_perm, 8)
        self.h = num_perm
        self._config = Config(num_perm=min(num_perm // 8 * 8, _MOST_ROWS), simhash=None)
        self._room = room
        self._kind: list[Any] | None = None
        self._added: dict[Key, tuple[Sketch, list[Any]]] = {}
        self._removed: dict[Key, None] = {}
        self._path = None if path is None else os.path.abspath(os.path.expanduser(path))
        self._open(create=True)

    def _open(self, create: bool) -> None:
        self._temporary = tempfile.mkdtemp(prefix="simindex-") if self._path is None else None
        self.path = os.path.join(self._temporary, "index") if self._temporary else self._path or ""
        self._writes, self._thread = False, threading.get_ident()
        try:
            index = open_index(self.path, "r", self._config)
        except FileNotFoundError:
            if not create:
                raise
            index, self._writes = open_index(self.path, "a", self._config), True
        self._hold(index)
        _alive.add(self)
        _flush_before_forks()

    def _hold(self, index: Index) -> None:
        """Keep an open index as the one of this object. It is closed, and a temporary folder removed, when
        this object goes or the process ends."""
        self._handle, self._process = index, os.getpid()
        self._end = weakref.finalize(self, _close, index, self._temporary, self._process)

    @property
    def _index(self) -> Index:
        if self._process != os.getpid():  # the lock and the temporary folder are the parent's
            self._end.detach()
            self._writes, self._temporary = False, None
            self._hold(open_index(self.path, "r", self._config))
        return self._handle

    def _writer(self) -> Index:
        reader = self._index
        if not self._writes:
            writer = open_index(self.path, "r+", self._config)
            self._end.detach()
            reader.close()
            self._writes = True
            self._hold(writer)
        return self._handle

    def close(self) -> None:
        """Store what is gathered and close the index; a temporary folder is removed. Closing twice is
        allowed."""
        if self._end.alive:
            self.flush()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        self.flush()
        left_out = ("_handle", "_process", "_end", "_added", "_removed", "_temporary", "path", "_writes")
        state = {name: value for name, value in vars(self).items() if name not in left_out}
        if self._path is None:
            state["_items"] = [(key, stored.sketch, stored.metadata) for key, stored in self._index.items()]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        items = state.pop("_items", ())
        vars(self).update(state, _added={}, _removed={})
        self._open(create=self._path is None)
        if items:
            self._index.insert_many(items)

    def _sketch(self, minhash: Any) -> tuple[Sketch, list[Any]]:
        """Return the sketch of a signature and its kind, scheme and seed. Raises ValueError where it cannot
        be compared with the signatures of this LSH, TypeError where it is no signature."""
        if not hasattr(minhash, "hashvalues"):
            raise TypeError(f"minhash: expected a MinHash, found {type(minhash).__name__}")
        values, kind = minhash.hashvalues, _kind_of(minhash)
        if len(values) != self.h:
            raise ValueError(
                f"minhash: expected {self.h} permutations, as the index has; found {len(values)}"
            )
        known = self._known_kind()
        if known not in (None, kind):
            raise ValueError(
                f"minhash: expected the scheme and seed of the stored signatures, {known[0]} and {known[1]}; "
                f"found {kind[0]} and {kind[1]}, which cannot be compared with them"
            )
        if values.ndim == 2:  # of a weighted set: the element and its time
            values = values[:, 0] * np.int64(0x9E3779B1) + values[:, 1]
        rows = mixed(values[: self._config.num_perm].astype(np.uint64)).astype(np.uint8)
        return Sketch.from_rows(rows), kind

    def _known_kind(self) -> list[Any] | None:
        if self._kind is None:
            stored: Record | None = next(iter(self._index.values()), None)
            if stored is not None:
                if not isinstance(stored.metadata, list) or len(stored.metadata) < 2:
                    raise ValueError(
                        f"{self.path}: expected an index that MinHashLSH or MinHashLSHForest has made; found "
                        f"one with other documents, such as {stored.key!r}. Open it with simindex.open"
                    )
                self._kind = stored.metadata[:2]
        return self._kind

    def _add(self, key: Key, sketch: Sketch, metadata: list[Any], new: bool) -> None:
        encode_key(key)
        if new and key in self:
            raise ValueError(f"key: expected one that is not stored yet, found {key!r}")
        self._kind = metadata[:2]
        self._added[key] = sketch, metadata
        self._flush_beyond_room()

    def remove(self, key: Key) -> None:
        """Remove a key, at once or with the next changes that are stored. Raises ValueError where it is not
        stored."""
        if key not in self:
            raise ValueError(f"key: expected a stored one, found {key!r}")
        self._added.pop(key, None)
        if key in self._index:
            self._removed[key] = None
        self._flush_beyond_room()

    def _flush_beyond_room(self) -> None:
        self._thread = threading.get_ident()
        if len(self._added) + len(self._removed) <= self._room:
            return
        try:
            self.flush()
        except BaseException:
            if not self._room:  # the call has failed, and nothing of it is stored later
                self._added.clear()
                self._removed.clear()
            raise

    def flush(self) -> None:
        """Store what is gathered; durable when it returns, where there is a path."""
        if self._removed:
            self._writer().remove_many(self._removed)
            self._removed.clear()
        if len(self._added) == 1:
            ((key, (sketch, metadata)),) = self._added.items()
            self._writer().replace(key, sketch, metadata)
        elif self._added:
            items = ((key, *stored) for key, stored in self._added.items())
            self._writer().insert_many(items, on_conflict="replace")
        self._added.clear()

    def __contains__(self, key: object) -> bool:
        try:
            return key in self._added or (key not in self._removed and key in self._index)
        except TypeError:  # not hashable, so no key
            return False

    def __len__(self) -> int:
        self.flush()
        return len(self._index)

    def __iter__(self) -> Iterator[Key]:
        self.flush()
        return iter(self._index)

    @property
    def keys(self) -> KeysView[Key]:
        """A view of the keys, as a dict's, which shows later changes, too; to iterate over it or ask for its
        length stores first what is gathered."""
        return KeysView(self)


_alive = weakref.WeakSet[StoredSignatures]()


@cache
def _flush_before_forks() -> None:
    os.register_at_fork(before=_flush_all)


def _flush_all() -> None:
    for signatures in list(_alive):
        if signatures._thread == threading.get_ident():  # no other may change it, as a pool's that forks
            signatures.flush()


def _close(index: Index, temporary: str | None, process: int) -> None:
    if os.getpid() != process:  # a forked child: folder and lock are the parent's
        return
    index.close()
    if temporary is not None:
        shutil.rmtree(temporary, ignore_errors=True)


@lru_cache(maxsize=64)
def bands_and_rows(threshold: float, num_perm: int, weights: tuple[float, float]) -> tuple[int, int]:
    """Return the bands b and rows r that datasketch chooses.

    They make the weighted sum of two areas smallest: that under the curve 1 - (1 - s^r)^b below the
    threshold, and that above it over the threshold.

    >>> bands_and_rows(0.9, 128, (0.5, 0.5)), bands_and_rows(0.5, 128, (0.5, 0.5))
    ((5, 25), (25, 5))
    """
    nodes, shares = np.polynomial.legendre.leggauss(min(num_perm // 2 + 1, 512))
    nodes, shares = (nodes[:, None] + 1) / 2, shares / 2
    best = (np.inf, 0, 0)
    for bands in range(1, num_perm + 1):
        rows = np.arange(1, num_perm // bands + 1)
        below = shares @ (1 - (1 - (threshold * nodes) ** rows) ** bands) * threshold
        above = shares @ (1 - (threshold + (1 - threshold) * nodes) ** rows) ** bands * (1 - threshold)
        errors = weights[0] * below + weights[1] * above
        least = int(errors.argmin())
        best = min(best, (float(errors[least]), bands, least + 1))
    return best[1:]


class MinHashLSH(StoredSignatures):
    """Finds the stored signatures whose similarity reaches a threshold: datasketch's class, in a folder.

    A query compares signatures and returns what reaches the threshold, most similar first, where datasketch
    returns whatever shares a band. So it finds what datasketch finds above the threshold, and more: right
    at 0.8 datasketch's bands find 0.40, and this about one half. Where weights or params move the point at
    which datasketch's curve passes one half below the threshold, that is the threshold (`threshold`).

    With a path everything that a returned call has stored is durable; between the beginning and the end of a
    session it is gathered, at most `buffer_size` keys. Without a path it lies in a temporary folder that goes
    with the object. The folder is opened to be read, and for writing at the first change; others may read it
    meanwhile, one process writes. Not to be used by several threads at once. A pickle holds the path, or
    where there is none what is stored.

    Args:
        threshold: Jaccard similarity, 0..1.
        num_perm: of the signatures, 8 or more. Of another number than a multiple of 8 up to 1,024 the first
            so many are stored.
        weights: (of false positives, of false negatives); their sum is 1.
        params: (bands, rows) in place of threshold and weights.
        storage_config: ``None`` or {"type": "dict"}: the folder is the storage.
        prepickle: ``None`` or False: keys are str, bytes or 64-bit ints.
        hashfunc: without effect.
        path: folder of the index, made where there is none; ``None``: a temporary one.

    Attributes:
        b, r, h: bands and rows of datasketch, and `num_perm`.
        threshold: the least estimate of what a query returns.
        path: the folder.

    Raises:
        ValueError: an argument out of range.
        ConfigMismatchError: the folder has signatures of another number of permutations.

    >>> lsh = MinHashLSH(threshold=0.8, num_perm=128)
    >>> lsh.b, lsh.r, lsh.threshold
    (9, 13, 0.8)
    """

    def __init__(
        self,
        threshold: float = 0.9,
        num_perm: int = 128,
        weights: tuple[float, float] = (0.5, 0.5),
        params: tuple[int, int] | None = None,
        storage_config: dict[str, Any] | None = None,
        prepickle: bool | None = None,
        hashfunc: object = None,  # noqa: ARG002 - datasketch's signature
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold: expected 0..1, found {threshold}")
        if min(weights) < 0 or sum(weights) != 1:
            raise ValueError(f"weights: expected two of 0..1 whose sum is 1, found {weights}")
        if storage_config and storage_config.get("type") != "dict":
            raise ValueError(
                f"storage_config: expected none, found {storage_config}: the folder is the storage, path=..."
            )
        if prepickle:
            raise ValueError("prepickle: expected False; keys are str, bytes or int, as pickle.dumps(key) is")
        num_perm = require_int("num_perm", num_perm, 8)
        self.b, self.r = params or bands_and_rows(float(threshold), num_perm, tuple(weights))
        if self.b < 2 or self.r < 1 or self.b * self.r > num_perm:
            raise ValueError(
                f"expected two bands or more, of one row or more, in {num_perm} permutations; found {self.b} "
                f"bands of {self.r} rows"
            )
        half = (1 - 0.5 ** (1 / self.b)) ** (1 / self.r)
        self.threshold = max(half if params else min(float(threshold), half), _LEAST_THRESHOLD)
        self._asked: list[Sketch] = []
        super().__init__(num_perm, path, _ROOM if path is None else 0)

    def __repr__(self) -> str:
        return f"MinHashLSH(threshold={self.threshold:g}, num_perm={self.h}, path={self.path!r})"

    def insert(self, key: Key, minhash: Any, check_duplication: bool = True) -> None:
        """Store a signature under a key; without a path, and in a session, it is gathered first.

        Args:
            key: str, bytes or 64-bit int.
            minhash: a signature of either library, weighted ones included.
            check_duplication: whether a stored key is an error; else it is replaced.

        Raises:
            ValueError: a stored key, or a signature of another length, scheme or seed.
            TypeError: no such key, or no signature.
        """
        sketch, kind = self._sketch(minhash)
        self._add(key, sketch, kind, check_duplication)

    def insertion_session(self, buffer_size: int = 50_000) -> Session:
        """Return a context in which inserts are stored together, `buffer_size` in a commit; at its end, by an
        exception too, what is gathered is stored.

        >>> from simindex.compat.datasketch import MinHash
        >>> lsh, minhashes = MinHashLSH(), [("a", MinHash()), ("b", MinHash())]
        >>> with lsh.insertion_session() as session:
        ...     for key, minhash in minhashes:
        ...         session.insert(key, minhash)
        >>> sorted(lsh.keys)
        ['a', 'b']
        """
        return Session(self, buffer_size)

    def deletion_session(self, buffer_size: int = 50_000) -> Session:
        """Return a context in which removals are made together, `buffer_size` in a commit; at its end, by an
        exception too, what is gathered is stored."""
        return Session(self, buffer_size)

    def query(self, minhash: Any) -> list[Key]:
        """Return the keys of the signatures that are similar enough, most similar first; store first what is
        gathered.

        Raises:
            ValueError: a signature of another length, scheme or seed.
        """
        return [key for key, _ in self.query_with_scores(minhash)]

    def query_with_scores(self, minhash: Any, threshold: float | None = None) -> list[tuple[Key, float]]:
        """Return (key, estimated Jaccard similarity), most similar first; store first what is gathered.

        Args:
            minhash: as in `query`.
            threshold: another one, in (0, 1], for this query.
        """
        sketch, _ = self._sketch(minhash)
        return self._found(sketch, self.threshold if threshold is None else threshold)

    def _found(self, sketch: Sketch, threshold: float) -> list[tuple[Key, float]]:
        self.flush()
        matches = self._index.query(sketch, threshold)
        return [(match.key, match.similarity or 0.0) for match in matches]

    def add_to_query_buffer(self, minhash: Any) -> None:
        """Keep a signature for `collect_query_buffer`. Raises as `query`."""
        self._asked.append(self._sketch(minhash)[0])

    def collect_query_buffer(self) -> list[Key]:
        """Return the keys that every signature of the query buffer finds, in the order of the first, and
        empty the buffer; none of an empty one."""
        asked, self._asked = self._asked, []
        found = [[key for key, _ in self._found(sketch, self.threshold)] for sketch in asked]
        return [key for key in found[0] if all(key in keys for keys in found)] if found else []

    def is_empty(self) -> bool:
        """Return whether nothing is stored."""
        return not len(self)

    def merge(self, other: MinHashLSH, check_overlap: bool = False) -> None:
        """Store all that another index has, at once, and what either has gathered; of a key that both have
        the other's signature stays.

        Args:
            other: of the same num_perm, bands and rows.
            check_overlap: whether a key that both have is an error, and nothing is merged.

        Raises:
            ValueError: other parameters, another scheme or seed, or such a key.
        """
        if not isinstance(other, MinHashLSH) or (self.h, self.b, self.r) != (other.h, other.b, other.r):
            raise ValueError(
                f"merge: expected a MinHashLSH of {self.h}, {self.b} and {self.r}, found {other!r}"
            )
        mine, others = self._known_kind(), other._known_kind()
        if None not in (mine, others) and mine != others:
            raise ValueError(f"merge: expected signatures of one scheme and seed, found {mine} and {others}")
        if check_overlap:
            both = next((key for key in other.keys if key in self), None)
            if both is not None:
                raise ValueError(f"merge: expected no key that both have, found {both!r}")
        self.flush()
        other.flush()
        items = ((key, stored.sketch, stored.metadata) for key, stored in other._index.items())
        self._writer().insert_many(items, on_conflict="replace")

    def get_counts(self) -> list[dict[bytes, int]]:
        """Return for each of the b bands: r stored bytes -> how many signatures have these there.

        Stores what is gathered, and reads everything that is stored. Raises ValueError where the bands reach
        beyond the values that are stored.
        """
        self.flush()
        return self._counts(stored.sketch for stored in self._index.values())

    def get_subset_counts(self, *keys: Key) -> list[dict[bytes, int]]:
        """Return `get_counts` of these keys alone. Raises KeyError where one is not stored."""
        self.flush()
        return self._counts(self._index[key].sketch for key in dict.fromkeys(keys))

    def _counts(self, sketches: Iterable[Sketch]) -> list[dict[bytes, int]]:
        if self.b * self.r > self._config.num_perm:
            raise ValueError(
                f"counts: expected bands within the {self._config.num_perm} values of a signature that are "
                f"stored, found {self.b} bands of {self.r} rows"
            )
        counts: list[Counter[bytes]] = [Counter() for _ in range(self.b)]
        for sketch in sketches:
            assert sketch.rows is not None  # MinHash alone is stored here
            for band, counter in enumerate(counts):
                counter[sketch.rows[band * self.r : (band + 1) * self.r].tobytes()] += 1
        return [dict(counter) for counter in counts]


class Session:
    """A stretch of changes that are stored together, at its end or when `buffer_size` are gathered."""

    def __init__(self, lsh: MinHashLSH, buffer_size: int) -> None:
        buffer_size = require_int("buffer_size", buffer_size, 1)
        self.lsh = lsh
        self._room, lsh._room = lsh._room, buffer_size - 1

    def insert(self, key: Key, minhash: Any, check_duplication: bool = True) -> None:
        """Store a signature, as `MinHashLSH.insert`; durable at the end of the session."""
        self.lsh.insert(key, minhash, check_duplication)

    def remove(self, key: Key) -> None:
        """Remove a key, as `MinHashLSH.remove`; durable at the end of the session."""
        self.lsh.remove(key)

    def close(self) -> None:
        """Store what is gathered, and end the session."""
        self.lsh._room = self._room
        self.lsh.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MinHashLSHForest(StoredSignatures):
    """Finds the k most similar stored signatures: datasketch's class, in a folder.

    Signatures are found when `index` has returned, and durable then, where there is a path. Their hash values
    are kept whole. Everything else is as with `MinHashLSH`.

    Args:
        num_perm: of the signatures, 8 or more.
        l: number of trees of datasketch; without effect.
        path: folder of the index, made where there is none; ``None``: a temporary one.

    >>> from simindex.compat.datasketch import MinHash
    >>> forest, minhash = MinHashLSHForest(), MinHash()
    >>> minhash.update(b"one")
    >>> forest.add("a", minhash)
    >>> forest.index()
    >>> forest.query(minhash, 5)
    ['a']
    """

    def __init__(
        self,
        num_perm: int = 128,
        l: int = 8,  # noqa: E741 - datasketch's name
        *,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        num_perm = require_int("num_perm", num_perm, 8)
        self.l = require_int("l", l, 1, num_perm)
        self.k = num_perm // self.l
        super().__init__(num_perm, path, _ROOM)

    def add(self, key: Key, minhash: Any) -> None:
        """Store a signature under a key, to be found after `index`. Raises as `MinHashLSH.insert`."""
        sketch, kind = self._sketch(minhash)
        self._add(key, sketch, [*kind, minhash.hashvalues.tolist()], True)

    def index(self) -> None:
        """Make all that was added findable, and durable."""
        self.flush()

    def query(self, minhash: Any, k: int) -> list[Key]:
        """Return the keys of the k most similar signatures that can be found, most similar first."""
        return [key for key, _ in self.query_with_scores(minhash, k)]

    def query_with_scores(self, minhash: Any, k: int) -> list[tuple[Key, float]]:
        """Return (key, estimated Jaccard similarity) of what `query` returns."""
        matches = self._index.nearest(self._sketch(minhash)[0], k)
        return [(match.key, match.similarity or 0.0) for match in matches]

    def get_minhash_hashvalues(self, key: Key) -> np.ndarray:
        """Return all hash values of a stored signature, or of one that waits for `index`, in the dtype of its
        scheme (weighted: int64). Raises KeyError where there is none of that key."""
        added = self._added.get(key)
        if added is None and key in self._removed:
            raise KeyError(key)
        scheme, _, values = self._index[key].metadata if added is None else added[1]
        return np.array(values, dtype=SCHEMES[scheme].dtype if scheme in SCHEMES else np.int64)

    def is_empty(self) -> bool:
        """Return whether there is nothing that can be found."""
        return not len(self._index)
