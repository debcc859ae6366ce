"""`check`: the state of an index, told by a process that may die of it.

Owns the call and what becomes of the answer. Must not read the index itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from simindex.checks import local_path, require_callable
from simindex.errors import SimIndexError
from simindex.maintenance.check_report import CheckReport, Problem
from simindex.maintenance.checker import run_check
from simindex.maintenance.subprocess_call import ChildDiedError, run
from simindex.storage.folder import require_place

Level = Literal["full", "quick"]


def check(
    path: str | os.PathLike[str],
    level: Level = "full",
    *,
    progress: Callable[[int, int], object] | None = None,
) -> CheckReport:
    """Tell whether an index is all right, without dying of it.

    A process of its own reads one state of the index, the newest commit, past LMDB: whatever lies in the
    file, the caller gets a report. Others may read and write meanwhile; space that a writer frees is not used
    again until the end.

    "full" reads every byte in use. It proves that each page of the file is used once or is free; that every
    value fits its seal; that records, removal marks, groups of copies and ages agree with one another and
    with the counts of the manifest; that each document is in the tables that its record and its sketch say,
    and nothing else is; that filters and bitmaps are those of their tables. "quick" reads the pages of LMDB's
    trees, the header, the manifest, marks and groups, and the places and lengths of all values: not what is
    in records, tables and sketches. It finds a file that was cut short, lost or swapped pages and missing
    values, not damaged ones.

    Args:
        path: its folder.
        level: "full" or "quick".
        progress: called as ``progress(done, total)`` with bytes.

    Raises:
        FileNotFoundError: there is no index.
        FormatError: the path holds something else, links or pipes in the place of files.

    >>> import simindex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, simindex.open(folder + "/i") as index:
    ...     index.insert("a", "the quick brown fox jumps over the lazy dog")
    ...     simindex.check(folder + "/i").ok
    True
    """
    if level not in ("full", "quick"):
        raise ValueError(f'level: expected "full" or "quick", found {level!r}')
    require_callable("progress", progress)
    folder = str(Path(local_path(path)))
    problems: list[Problem] = []
    figures: dict[str, Any] = {}
    began = time.monotonic()

    def told(message: Any) -> None:
        if "problem" in message:
            problems.append(_problem(message["problem"]))
        elif progress is not None:
            progress(*message["progress"])

    require_place(Path(folder), "r")
    try:
        figures = run(run_check, folder, level, told=told)
    except ChildDiedError as exc:
        problems.append(Problem("process", str(exc)))
    except SimIndexError as exc:
        problems.append(Problem("file", str(exc)))
    figures["num_problems"] = max(len(problems), figures.get("num_problems", 0))
    seconds = time.monotonic() - began
    return CheckReport(folder, level, tuple(problems), **figures, seconds=seconds)


def _problem(fields: dict[str, Any]) -> Problem:
    """Return a problem that came through a pipe, where a tuple is a list."""
    numbers = fields["numbers"] and tuple(fields["numbers"])
    return Problem(**{**fields, "numbers": numbers, "documents": tuple(fields["documents"])})
