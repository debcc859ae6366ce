"""Power cuts: every call of a process that changes files is recorded, and played back up to some moment, with
what was not yet synced lost, reordered or torn.

Owns the model of a file system, which promises less than POSIX file systems that people use do:
* a write is durable when its file was synced behind it, or when the file was opened with O_DSYNC; before
  that, any part of the writes may be on the disk, in sectors of 512 bytes, whatever their order;
* a length is as a write: it may be lost, and a file may be longer than what was written of it, with zeros
  there;
* a new name, a rename or a removal is durable when the folder was synced; before that, the first of them may
  be durable, or any;
* what was under way in the moment of the cut may be there in part.
One assumption: a sector is written whole or not at all. (LMDB's meta page holds its 106 bytes within one.)

Must be run with faults.c (`faults`).
"""

from __future__ import annotations

import random
import shutil
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from attacks import faults, script
from attacks.children import RIGHT, WRONG, run_child
from attacks.faults import Entry
from attacks.script import State, Step
from simindex import Layout

STATES = 50
"""States made of one recording."""

_STEPS = 45
_SECTOR = 512
_SECONDS = 120.0
_BEGUN, _ENDED = 0, 1


class Cut(NamedTuple):
    """What became of an index after a power cut.

    Attributes:
        recording: number of the recording; `only` repeats it.
        at: number of the last call that had begun.
        kept: what was kept of what was not synced: "none", "all", "some", "torn".
    """

    recording: int
    at: int
    kept: str
    under_way: str
    outcome: str
    why: str


# ---- the file system ----


class File:
    """A file's bytes on the disk, and the calls that may not be there yet."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []
        """(offset, bytes), or (length, None)."""

    def sync(self) -> None:
        for offset, data in self.pending:
            _apply(self.durable, offset, data)
        self.pending = []

    def after_cut(self, kept: str, chance: random.Random) -> bytearray:
        """Return what may be found, with none, all, some or torn parts of the pending calls."""
        found = bytearray(self.durable)
        share = chance.random()
        for offset, data in self.pending if kept != "none" else []:
            if kept != "all" and data is not None and chance.random() < 0.3:
                _apply(found, max(len(found), offset + len(data)), None)  # longer, but nothing written there
            if kept == "all" or (kept == "some" and chance.random() < share):
                _apply(found, offset, data)
            elif kept == "torn" and data is not None:
                for begin in range(0, len(data), _SECTOR):
                    if chance.random() < share:
                        _apply(found, offset + begin, data[begin : begin + _SECTOR])
        return found


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is not None:
        content[offset : offset + len(data)] = data


class Disk:
    """Files and names, as they are to processes, and as they may be found after a cut."""

    def __init__(self, root: str, is_lying: bool) -> None:
        self._root = root
        self._is_lying = is_lying
        """Whether a sync makes nothing durable: for a test of this harness."""
        self._files: dict[int, File] = {}
        """By inode: the file that has it now."""
        self._names: dict[str, File | None] = {}
        """Path -> file; ``None``: a folder."""
        self._durable: dict[str, File | None] = {}
        self._pending: list[tuple[str, str, File | None]] = []
        """Calls about names: (old path, new path, file); "" for neither."""

    def play(self, entry: Entry) -> None:
        """Take one call for done, though perhaps not for durable."""
        kind, path, second = entry.kind, entry.data.decode(errors="replace"), entry.second.decode()
        if self._is_lying:
            if kind == faults.SYNC:
                return
            entry = entry._replace(flags=entry.flags & ~faults.IS_DURABLE)
        if kind == faults.OPEN and entry.flags & faults.IS_CREATED:
            self._files[entry.inode] = file = File()
            self._name("", path, file)
        elif kind == faults.OPEN:
            self._files[entry.inode].pending.append((0, None))
        elif kind == faults.WRITE:
            self._files[entry.inode].pending.append((entry.offset, entry.data))
            if entry.flags & faults.IS_DURABLE:
                self._files[entry.inode].sync()
        elif kind == faults.TRUNCATE:
            self._files[entry.inode].pending.append((entry.offset, None))
        elif kind == faults.SYNC and entry.flags & faults.IS_FOLDER:
            self._sync_folder(path)
        elif kind == faults.SYNC:
            self._files[entry.inode].sync()
        elif kind == faults.MKDIR:
            self._name("", path, None)
        elif kind == faults.UNLINK:
            self._name(path, "", None)
        elif kind == faults.RENAME:
            self._name(path, second, self._names[path])

    def _name(self, old: str, new: str, file: File | None) -> None:
        call = old, new, file
        _rename(self._names, *call)
        self._pending.append(call)

    def _sync_folder(self, folder: str) -> None:
        rest = []
        for call in self._pending:
            if folder in {name.rpartition("/")[0] for name in call[:2] if name}:
                _rename(self._durable, *call)
            else:
                rest.append(call)
        self._pending = rest

    def write_out(self, target: Path, kept: str, chance: random.Random) -> None:
        """Make the folder that may be found after a cut."""
        names = dict(self._durable)
        how = kept if kept != "torn" else chance.choice(["none", "all", "first", "some"])
        first = chance.randrange(len(self._pending) + 1)
        for index, call in enumerate(self._pending):
            is_first = index < first
            if how == "all" or (how == "first" and is_first) or (how == "some" and chance.random() < 0.5):
                _rename(names, *call)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for path in sorted(names):
            found, file = target / path.removeprefix(self._root + "/"), names[path]
            if not found.parent.is_dir():
                continue  # a file in a folder that is not there
            if file is None:
                found.mkdir(exist_ok=True)
            else:
                found.write_bytes(file.after_cut(kept, chance))


def _rename(names: dict[str, File | None], old: str, new: str, file: File | None) -> None:
    if old:
        names.pop(old, None)
    if new:
        names[new] = file


# ---- recordings ----


def cut_many(
    folder: Path, seed: int, states: int, only: int | None = None, is_lying: bool = False
) -> list[Cut]:
    """Record processes, and make so many states of them; returns what became of each."""
    numbers = range((states + STATES - 1) // STATES) if only is None else [only]
    return [cut for number in numbers for cut in _cut(folder, seed, number, is_lying)]


def _cut(folder: Path, seed: int, recording: int, is_lying: bool) -> list[Cut]:
    """Record one process, and make `STATES` states."""
    name = f"power {seed} {recording}"
    chance = random.Random(name)
    layout = chance.choice(script.LAYOUTS)
    live, log, found = folder / "live", folder / "log", folder / "found"
    shutil.rmtree(live, ignore_errors=True)
    live.mkdir()
    end, why = run_child(partial(_record, live, log, layout, name), _SECONDS)
    if end is not None:
        raise RuntimeError(f"recording {recording} ended with {end}: {why}")
    entries = list(faults.entries_of(log))
    steps = list(islice(script.steps(random.Random(name), {}), _STEPS))
    moments = sorted(chance.choices(range(1, len(entries) + 1), k=STATES))
    disk, begun, ended, played = Disk(str(live), is_lying), 0, 0, 0
    cuts = []
    for moment in moments:
        for entry in entries[played:moment]:
            if entry.kind == faults.MARK:
                begun, ended = begun + (entry.inode == _BEGUN), ended + (entry.inode == _ENDED)
            else:
                disk.play(entry)
        played = moment
        kept = chance.choice(["none", "all", "some", "some", "torn", "torn"])
        disk.write_out(found, kept, chance)
        cuts.append(_judged(recording, moment, kept, found / "index", layout, steps, begun, ended))
    return cuts


def _judged(
    recording: int,
    moment: int,
    kept: str,
    path: Path,
    layout: Layout,
    steps: list[Step],
    begun: int,
    ended: int,
) -> Cut:
    """Open what was found, and compare it with what was acknowledged."""
    step = steps[begun - 1] if begun > ended else None
    name = step.name if step else ("opening" if not ended else "")
    before: State = steps[ended - 1].after if ended else {}
    end, found = run_child(partial(_look, path, layout, ended), _SECONDS)
    if end is not None or isinstance(found, str):
        return Cut(recording, moment, kept, name, end or WRONG, str(found))
    is_right = found == before or (step is not None and script.is_between(before, step, found))
    why = "" if is_right else script.difference(before, found)
    return Cut(recording, moment, kept, name, RIGHT if is_right else WRONG, why)


def _record(live: Path, log: Path, layout: Layout, name: str) -> None:
    with open(log, "wb") as file:
        faults.watch(live)
        faults.log_to(file.fileno())
        with script.open_index(live / "index", layout) as index:
            for step in islice(script.steps(random.Random(name), {}), _STEPS):
                faults.mark(_BEGUN)
                with script.at_time(step.time):
                    step.call(index)
                faults.mark(_ENDED)
        faults.log_to(-1)


def _look(path: Path, layout: Layout, acknowledged: int) -> State | str:
    """Return what a writer finds, and goes on with; or what is wrong."""
    try:
        if acknowledged:
            with script.open_index(path, layout, "r") as index:
                found = script.held_by(index)
        with script.open_index(path, layout) as index:
            if not acknowledged:
                found = script.held_by(index)
            index.insert(-1, ["afterwards"])
            index.compact()
            if set(index) != {*found, -1}:
                return "a compaction after the cut lost or made documents"
        return found
    except Exception as error:
        return f"{type(error).__name__}: {error}"
