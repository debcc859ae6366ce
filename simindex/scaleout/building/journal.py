"""The journal of a build: which of its parts are done, beside the catalog.

Owns the objects that say so. Must not know how a part is done. Invariants: an object is sealed and never
changes; a part is told when all of it is acknowledged; what other jobs have left counts for nothing.

For a catalog at a path it is the folder ``CATALOG.build``, in a store ``CATALOG/build``: one object ``job``,
one a part that is done, and ``lines`` where files are cut.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from typing import Any

import xxhash

from simindex.errors import CorruptIndexError
from simindex.maintenance.stores import MissingObjectError, Objects, open_store
from simindex.remote import is_remote
from simindex.scaleout.building.report import Counts
from simindex.scaleout.errors import UnfinishedBuildError

_JOB = "job"
_DONE = "done"
_LINES = "lines"


class Journal:
    """The journal of one build.

    Args:
        uri: of the catalog.
        sources: digest of what is built; see `digest_of`.
        force: forget an unfinished build of other sources.

    Raises:
        UnfinishedBuildError: a build of other sources is not finished.
        CorruptIndexError: an object does not fit its seal.
        StoreError: the place of the catalog cannot be written.

    Attributes:
        job: 32 hexadecimal digits that name this build, for good.
        done: number of a part -> what became of its rows.
        lines: how many lines each part reads that is some lines of a file, 0 of others; ``None``: nobody has
            counted them.
    """

    def __init__(self, uri: str, sources: str, *, force: bool = False) -> None:
        self._uri = uri
        self._objects = open_store(uri).inside("build") if is_remote(uri) else open_store(f"{uri}.build")
        self.done: dict[int, Counts] = {}
        found = self._read(_JOB)
        if found is not None and found["sources"] != sources:
            if not force:
                raise UnfinishedBuildError(
                    f"{self._objects.uri}: expected a build of these sources, found one of other sources, or "
                    "with other options, that is not finished; call it as before to go on, or with force "
                    "to forget it: what it has stored stays"
                )
            found = None
        if found is None:
            found = self._begin(sources)
        self.job = str(found["job"])
        lines = self._read(_LINES)
        self.lines: list[int] | None = None if lines is None or lines["job"] != self.job else lines["lines"]
        for name in self._objects.sizes(_DONE):
            told = self._read(name)
            if told is not None and told["job"] == self.job:
                self.done[int(told["part"])] = Counts(*told["counts"])

    def _begin(self, sources: str) -> dict[str, Any]:
        self.forget()
        job = {"job": secrets.token_hex(16), "sources": sources}
        if not self._objects.create(_JOB, _sealed(job)):
            raise UnfinishedBuildError(
                f"{self._objects.uri}: somebody began a build at the same moment; try again"
            )
        return job

    def note(self, part: int, counts: Counts) -> None:
        """Take down that a part is done."""
        self._objects.create(
            f"{_DONE}/{part:08}", _sealed({"job": self.job, "part": part, "counts": list(counts)})
        )
        self.done[part] = counts

    def note_lines(self, lines: list[int]) -> None:
        """Take down how many lines each part reads."""
        self._objects.create(_LINES, _sealed({"job": self.job, "lines": lines}))
        self.lines = lines

    def forget(self) -> None:
        """Remove the journal; the job first, without which the rest counts for nothing."""
        self._objects.remove([_JOB])
        self._objects.remove(self._objects.sizes())
        if not is_remote(self._uri):
            with suppress(OSError):
                os.rmdir(os.path.join(self._objects.uri, _DONE))
                os.rmdir(self._objects.uri)

    def _read(self, name: str) -> dict[str, Any] | None:
        return _opened(self._objects, name)


def digest_of(value: Any) -> str:
    """Return the XXH3-128 of the canonical JSON of a value, hexadecimal."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return xxhash.xxh3_128_hexdigest(canonical.encode("ascii"))


def _sealed(content: dict[str, Any]) -> bytes:
    return (json.dumps(content | {"seal": digest_of(content)}) + "\n").encode("ascii")


def _opened(objects: Objects, name: str) -> dict[str, Any] | None:
    try:
        stored = objects.get(name)
    except MissingObjectError:
        return None
    with suppress(ValueError):
        content = json.loads(stored)
        if isinstance(content, dict) and content.pop("seal", None) == digest_of(content):
            return content
    where = objects.uri_of(name)
    raise CorruptIndexError(
        f"{where}: expected the journal of a build that fits its seal, found another one; remove "
        f"{objects.uri} and build anew, which skips what is stored",
        path=where,
    )
