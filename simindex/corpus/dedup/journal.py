"""The journal of a job: what it is, and how far it is.

Owns the folder beside the output: `journal.json`, the working index or the sketches, and the report of
removed rows where it has no place of its own. Invariant: the journal is replaced as a whole, after what it
speaks of is durable.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from typing import Any

import xxhash

from simindex.corpus.outputs.frames import replacing, sync_folder
from simindex.errors import SimIndexError
from simindex.inputs.remote import is_remote

_FORMAT = 1
_NAME = "journal.json"


class JobError(SimIndexError):
    """A job cannot be begun or gone on with; the message says why, and what to do about it."""


@dataclass
class State:
    """How far a job is.

    Attributes:
        phase: "reading", "storing" (into an index), "publishing" or "done".
        read, kept, removed, bounded: rows so far, as in `DedupReport`.
        seconds: of work so far.
        documents, dropped: rows that were cut into paragraphs, and those of which nothing is left.
        output, report, rollup: marks of the files.
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


def digest_of(job: dict[str, Any]) -> str:
    """Return what tells a job from others, hexadecimal."""
    return xxhash.xxh3_128_hexdigest(json.dumps([_FORMAT, job], sort_keys=True).encode())


class Journal:
    """The journal in a folder.

    Args:
        folder: its path; beside an output it is that of `folder_beside`.
        job: what the job is: arguments and inputs, as JSON has them.

    Attributes:
        state: how far the job is.
        durable: what is written of it: how far a later process finds it.
    """

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
        """Take up what is there, or begin anew. Returns whether there was something.

        Raises:
            JobError: the journal is another job's.
        """
        found = self._found()
        if found is not None and not force:
            if found["digest"] != self._digest():
                raise JobError(self._another(found))
            self.state, self.durable = State(**found["state"]), State(**found["state"])
            return True
        if os.path.exists(self.folder):
            shutil.rmtree(self.folder)
        os.makedirs(self.folder)
        self.write()
        return False

    def write(self) -> None:
        """Make the state durable."""
        content = {
            "format": _FORMAT,
            "digest": self._digest(),
            "job": self.job,
            "state": asdict(self.state),
        }
        path = os.path.join(self.folder, _NAME)
        with replacing(path) as file:
            file.write(json.dumps(content).encode())
        self.durable = State(**content["state"])
        sync_folder(self.folder)

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

    def _digest(self) -> str:
        return digest_of(self.job)

    def _found(self) -> dict[str, Any] | None:
        path = os.path.join(self.folder, _NAME)
        try:
            with open(path, encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            if os.path.isdir(self.folder) and os.listdir(self.folder):
                self._require_own_folder()
            return None
        except ValueError as exc:
            raise JobError(
                f"{path}: expected a journal, found {exc}; --force (force=True) begins anew"
            ) from exc
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise JobError(f"{path}: expected a journal of this version; --force (force=True) begins anew")
        return found

    def _require_own_folder(self) -> None:
        others = set(os.listdir(self.folder)) - {_NAME + ".partial"}
        if others:
            raise JobError(f"{self.folder}: expected a journal, found a folder with {sorted(others)!s:.100}")

    def _another(self, found: dict[str, Any]) -> str:
        differing = [
            f"{name}: {_short(found['job'].get(name))} there, {_short(self.job.get(name))} now"
            for name in {**found["job"], **self.job}
            if found["job"].get(name) != self.job.get(name)
        ]
        return (
            f"{self.folder}: expected the journal of this job, found another one's ({'; '.join(differing)}); "
            "give it another output, or begin anew with --force (force=True), which gives up what was done"
        )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."


def folder_beside(output: str) -> str:
    """Return where the journal of an output is: beside it, or in the working folder where it is remote.

    >>> folder_beside("out/a.jsonl"), folder_beside("s3://crawl/a.jsonl")
    ('out/a.jsonl.dedup', 'a.jsonl.dedup')
    """
    path = output.rstrip("/")
    return (os.path.basename(path) if is_remote(path) else path) + ".dedup"
