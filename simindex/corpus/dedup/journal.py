"""The journal of a deduplication: its arguments and how far it is, for resumption.

The folder beside the output: `journal.json`, the sketches, and the report of removed rows where it has no
place of its own. Invariant: the journal is replaced as a whole, after what it speaks of is durable.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import Any

import xxhash

from simindex.corpus.outputs.output import replacing, sync
from simindex.errors import SimIndexError
from simindex.remote import is_remote

_FORMAT = 2
_NAME = "journal.json"
_PHASES = ("reading", "storing", "publishing", "done")


class JobError(SimIndexError):
    """A job cannot be begun or resumed; the message says why, and what to do about it."""


@dataclass
class State:
    """How far a job is.

    Attributes:
        phase: "reading", "storing" (into an index), "publishing" or "done".
        documents, dropped: rows that were cut into paragraphs, and those of which nothing is left.
        looked: rows that were looked at, where all are before the first is written.
    """

    phase: str = "reading"
    read: int = 0
    kept: int = 0
    removed: int = 0
    bounded: int = 0
    seconds: float = 0.0
    output: Any = None
    report: Any = None
    documents: int = 0
    dropped: int = 0
    rollup: Any = None
    looked: int = 0

    def __post_init__(self) -> None:
        counts = (self.read, self.kept, self.removed, self.bounded, self.documents, self.dropped, self.looked)
        if self.phase not in _PHASES or any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"state: expected one of {', '.join(_PHASES)}, and counts; found {self!r:.200}")


def digest_of(job: dict[str, Any]) -> str:
    """Return the digest of a job, hexadecimal."""
    return xxhash.xxh3_128_hexdigest(json.dumps([_FORMAT, job], sort_keys=True).encode())


class Journal:
    """The journal of a job in a folder; `durable` is the state that a later process finds."""

    def __init__(self, folder: str, job: dict[str, Any]) -> None:
        self.folder = folder
        self.job = json.loads(json.dumps(job))
        self.state = State()
        self.durable = State()

    @property
    def removed_path(self) -> str:
        """Where the report of removed rows is, unless it is given a place."""
        return os.path.join(self.folder, "removed.jsonl")

    @property
    def documents_path(self) -> str:
        """Where the report of documents is, whose paragraphs are compared."""
        return os.path.join(self.folder, "documents.jsonl")

    def begin(self, *, force: bool) -> bool:
        """Take up what is there, or begin anew. Returns whether there was something."""
        found = self._found(force=force)
        if found is not None and not force:
            if found["job"] != self.job:
                raise JobError(_another(self.folder, found, self.job))
            self.state, self.durable = State(**found["state"]), State(**found["state"])
            return True
        if os.path.exists(self.folder):
            shutil.rmtree(self.folder)
        os.makedirs(self.folder)
        self.write()
        return False

    def write(self) -> None:
        """Make the state durable."""
        state = asdict(self.state)
        content = {"job": self.job, "state": state}
        sealed = {"format": _FORMAT, "digest": digest_of(content)} | content
        path = os.path.join(self.folder, _NAME)
        with replacing(path) as file:
            file.write(json.dumps(sealed).encode())
        self.durable = State(**state)
        sync(self.folder)

    def drop(self) -> None:
        """Remove it, with all that the job has in its folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def drop_work(self) -> None:
        """Remove what the job needed while it worked."""
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            elif path not in (self.removed_path, self.documents_path, os.path.join(self.folder, _NAME)):
                os.remove(path)

    def _found(self, *, force: bool) -> dict[str, Any] | None:
        path = os.path.join(self.folder, _NAME)
        try:
            return read_journal(path)
        except FileNotFoundError:
            if os.path.isdir(self.folder) and os.listdir(self.folder):
                self._require_own_folder()
            return None
        except JobError:
            if force:
                return None
            raise

    def _require_own_folder(self) -> None:
        others = set(os.listdir(self.folder)) - {_NAME + ".partial"}
        if others:
            raise JobError(f"{self.folder}: expected a journal, found a folder with {sorted(others)!s:.100}")


def read_journal(path: str) -> dict[str, Any]:
    """Return what a journal holds: "job" and "state".

    Raises:
        FileNotFoundError: there is none.
        JobError: it is damaged, or of another version.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        found: dict[str, Any] = json.loads(content)
        if type(found["format"]) is int and found["format"] != _FORMAT:
            raise JobError(f"{path}: expected a journal of this version; force=True begins the job anew")
        kept = {"job": found["job"], "state": found["state"]}
        if found["digest"] != digest_of(kept):
            raise ValueError("the digest fits no such job and state")
        State(**kept["state"])
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise JobError(
            f"{path}: the journal is damaged ({exc!s:.100}); force=True begins the job anew"
        ) from exc
    return kept


def _another(folder: str, found: dict[str, Any], job: dict[str, Any]) -> str:
    """Return how the job of a journal differs from the one that was asked for."""
    there: list[str] = []
    now: list[str] = []
    others: list[str] = []
    for name in sorted({**found["job"], **job}, key=("inputs", "reading", "config").__contains__):
        before, after = found["job"].get(name), job.get(name)
        if before == after or (name == "config" and there):
            continue  # a configuration that follows from the other arguments says nothing more
        if name in ("inputs", "reading", "config"):
            others.append(_changed(name, before, after))
        elif name == "against" and _argument(name, before) == _argument(name, after):
            others.append(f"with {_argument(name, before)}, which has changed since, or was read otherwise")
        else:
            there.append(_argument(name, before))
            now.append(_argument(name, after))
    output = folder.removesuffix(".dedup")
    made = "made" if found["state"]["phase"] == "done" else "begun"
    differing = [f"with {', '.join(there)}, and you ask for {', '.join(now)}"] if there else []
    return (
        f"{output} was {made} {'; '.join([*differing, *others])}. Choose another output, or discard this one "
        "with force=True"
    )


def _argument(name: str, value: Any) -> str:
    """Return an argument of `deduplicate` as a call has it."""
    if name == "outputs":
        return f"removed={value[1]!r}"
    if name == "paragraphs":
        return (
            "level='document'"
            if value is None
            else f"level='paragraph', split={value[0]!r}, min_words={value[1]}"
        )
    if name == "against" and isinstance(value, dict):  # the items of a decontamination
        return ", ".join(f"against={path!r}" for path, *_ in value["inputs"])
    if name == "against":
        return (
            ", ".join(f"against={path!r} (of {count:,} documents)" for path, count in value) or "against=None"
        )
    return f"{name}={value!r}"


def _changed(name: str, before: Any, after: Any) -> str:
    """Return what is other about the inputs, how they are read, or the configuration."""
    if name != "inputs":
        names = ", ".join(key for key in {**before, **after} if before.get(key) != after.get(key))
        return (
            f"with another config ({names})"
            if name == "config"
            else f"from rows that were read otherwise ({names})"
        )
    known = {entry[0] for entry in before}
    changed = [entry[0] for entry in after if entry[0] in known and entry not in before]
    if changed:
        return f"from inputs that have changed since: {', '.join(changed)!s:.200}"
    return f"from other inputs: {', '.join(entry[0] for entry in before)!s:.200}"


def folder_beside(output: str) -> str:
    """Return where the journal of an output is: beside it, or in the working folder where it is remote.

    >>> folder_beside("out/a.jsonl"), folder_beside("s3://crawl/a.jsonl")
    ('out/a.jsonl.dedup', 'a.jsonl.dedup')
    """
    path = output.rstrip("/")
    return (os.path.basename(path) if is_remote(path) else path) + ".dedup"
