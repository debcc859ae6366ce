"""The journal of a deduplication: its arguments and how far it is, for resumption.

The folder beside the output: `journal.json`, the sketches, and the report of removed rows where it has no
place of its own. Invariant: the journal is replaced as a whole, after what it speaks of is durable.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import xxhash

from simindex.corpus.outputs.output import replacing, sync
from simindex.errors import Argument, SimIndexError, joined
from simindex.remote import is_remote

_FORMAT = 2
JOURNAL = "journal.json"
_ANEW = (Argument("force", True), " begins the job anew")
_PHASES = ("reading", "storing", "publishing", "done")


class JobError(SimIndexError):
    """A job cannot be begun or resumed; the message says why, and what to do about it."""


@dataclass
class State:
    """How far a job is."""

    phase: str = "reading"  # then "storing" (into an index), "publishing" and "done"
    read: int = 0
    kept: int = 0
    removed: int = 0
    bounded: int = 0
    seconds: float = 0.0
    output: Any = None
    report: Any = None
    documents: int = 0  # rows that were cut into paragraphs
    dropped: int = 0  # those of them of which nothing is left
    rollup: Any = None
    looked: int = 0  # rows that were looked at, where all are before the first is written
    tally: dict[str, int] = field(default_factory=dict)  # of the input; see `inputs.Tally`
    items: int = 0  # of a decontamination
    short_items: int = 0  # those of fewer words than a shingle has
    emptied: list[str] = field(default_factory=list)  # inputs of more than one row of which none stays

    def __post_init__(self) -> None:
        counts = [getattr(self, each.name) for each in fields(self) if each.type == "int"]
        if self.phase not in _PHASES or any(type(count) is not int or count < 0 for count in counts):
            raise ValueError(f"state: expected one of {', '.join(_PHASES)}, and counts; found {self!r:.200}")


def digest_of(job: dict[str, Any]) -> str:
    """Return the digest of a job, or of what its journal holds, and of the format of journals: 32 hexadecimal
    digits."""
    return xxhash.xxh3_128_hexdigest(json.dumps([_FORMAT, job], sort_keys=True).encode())


class Journal:
    """The journal of a job in a folder; `durable` is the state that a later process finds."""

    def __init__(self, folder: str, job: dict[str, Any]) -> None:
        self.folder, self._path = folder, os.path.join(folder, JOURNAL)
        # Where the reports of removed rows, unless it is given a place, and of documents are.
        self.removed_path = os.path.join(folder, "removed.jsonl")
        self.documents_path = os.path.join(folder, "documents.jsonl")
        self.job = json.loads(json.dumps(job))
        self.state, self.durable = State(), State()

    def begin(self, *, force: bool) -> bool:
        """Take up the state of this job's journal, and return True. Where there is none, or with `force`,
        delete the folder, make it anew with a new journal, and return False. JobError: the folder has other
        files but no journal, with `force`, too; or, without it, the journal is damaged or another job's."""
        try:
            found: dict[str, Any] | None = read_journal(self._path)
        except FileNotFoundError:
            found = None
            there = set(os.listdir(self.folder)) if os.path.isdir(self.folder) else set()
            if others := sorted(there - {JOURNAL + ".partial"}):
                found_there = f"found a folder with {others!s:.100}"
                remedy = "; move it away, or choose another output"
                raise JobError(f"{self.folder}: expected a journal, {found_there}{remedy}") from None
        except JobError:
            if not force:
                raise
            found = None
        if found is not None and not force:
            if found["job"] != self.job:
                raise JobError(*_another(self.folder, found, self.job))
            self.state, self.durable = State(**found["state"]), State(**found["state"])
            return True
        if os.path.exists(self.folder):
            shutil.rmtree(self.folder)
        os.makedirs(self.folder)
        self.write()
        return False

    def is_there(self) -> bool:
        """Return whether the file of the journal exists: its folder may have been removed."""
        return os.path.exists(self._path)

    def write(self) -> None:
        """Replace the file of the journal by one with the present state, durably; `durable` is a copy of
        that."""
        content = {"job": self.job, "state": asdict(self.state)}
        sealed = {"format": _FORMAT, "digest": digest_of(content)} | content
        with replacing(self._path) as file:
            file.write(json.dumps(sealed).encode())
        self.durable = replace(self.state)
        sync(self.folder)

    def drop(self) -> None:
        """Delete the job's folder: the journal and every file beside it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def drop_work(self) -> None:
        """Delete what is in the folder, but for the journal and its two reports."""
        for entry in list(os.scandir(self.folder)):
            if entry.is_dir():
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.path not in (self.removed_path, self.documents_path, self._path):
                os.remove(entry.path)


def read_journal(path: str) -> dict[str, Any]:
    """Return {"job", "state"} from the journal's file at `path`. Raises FileNotFoundError, and JobError where
    it is damaged or of another format."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        found: dict[str, Any] = json.loads(content)
        if type(found["format"]) is int and found["format"] != _FORMAT:
            raise JobError(f"{path}: expected a journal of this version; ", *_ANEW)
        kept = {"job": found["job"], "state": found["state"]}
        if found["digest"] != digest_of(kept):
            raise ValueError("the digest fits no such job and state")
        State(**kept["state"])
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise JobError(f"{path}: the journal is damaged ({exc!s:.100}); ", *_ANEW) from exc
    return kept


def _another(folder: str, found: dict[str, Any], job: dict[str, Any]) -> tuple[object, ...]:
    """Return how the job of a journal differs from the one that was asked for, as parts of a message."""
    there, now, others = list[object](), list[object](), list[object]()
    arguments, asked = _arguments(found["job"]), _arguments(job)
    for name in sorted({**arguments, **asked}, key=("inputs", "reading", "config").__contains__):
        before: Any = arguments.get(name)
        after: Any = asked.get(name)
        if before == after or (name == "config" and there):
            continue  # a configuration that follows from the other arguments says nothing more
        if name == "inputs":
            paths = [path for path, *_ in before]
            changed = ", ".join(each[0] for each in after if each[0] in paths and each not in before)
            what = (
                f"inputs that have changed since: {changed}"
                if changed
                else f"other inputs: {', '.join(paths)}"
            )
            others.append(f"from {what:.250}")
        elif name in ("reading", "config"):
            what = "with another config" if name == "config" else "from rows that were read otherwise"
            names = ", ".join(key for key in {**before, **after} if before.get(key) != after.get(key))
            others.append(f"{what} ({names})")
        elif (was := _argument(name, before)) == _argument(name, after):  # an index, or items
            others.append(("with ", was, ", which has changed since, or was read otherwise"))
        else:
            there.append(was)
            now.append(_argument(name, after))
    if there:
        others.insert(0, ("with ", joined(", ", there), ", and you ask for ", joined(", ", now)))
    made = "made" if found["state"]["phase"] == "done" else "begun"
    remedy = (". Choose another output, or discard this one with ", Argument("force", True))
    return f"{folder.removesuffix('.dedup')} was {made} ", joined("; ", others), remedy


def _arguments(job: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a job's dict that has the two paths in "outputs" as "sink" and "removed", and ``None``
    as "outputs"."""
    return {**dict(zip(("sink", "removed"), job["outputs"], strict=True)), **job, "outputs": None}


def _argument(name: str, value: Any) -> object:
    """Return a part of a message that shows an argument of `deduplicate` with its value, as the call takes it
    (level="paragraph"); of indexes and items the paths, of indexes with their numbers of documents."""
    if name == "paragraphs" and value is None:
        return Argument("level", "document")
    if name == "paragraphs":
        split, min_words = value
        cut = f" (of {min_words:,} words or more, split at each {split})"
        return joined("", (Argument("level", "paragraph"), cut))
    if name == "keep_per" and value:
        return joined(", ", (Argument(name, field) for field in value))
    if name != "against" or not value:
        return Argument(name, value or None)
    if isinstance(value, dict):  # the items of a decontamination
        return joined(", ", (Argument(name, path) for path, *_ in value["inputs"]))
    return joined(", ", ((Argument(name, path), f" (of {count:,} documents)") for path, count in value))


def folder_beside(output: str) -> str:
    """Return where the journal of an output is: beside it, or in the working folder where it is remote.

    >>> folder_beside("out/a.jsonl"), folder_beside("s3://crawl/a.jsonl")
    ('out/a.jsonl.dedup', 'a.jsonl.dedup')
    """
    path = output.rstrip("/")
    return (os.path.basename(path) if is_remote(path) else path) + ".dedup"
