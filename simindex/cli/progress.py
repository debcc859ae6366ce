"""The progress bar of a long insert, on stderr, when that is a terminal; nothing otherwise.

Owns its looks. Remaining time follows the bytes of the input whose documents are stored, for nobody knows
the number of documents beforehand. Must not know where documents come from or go to.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int, int], None]
"""Called with how far the work is: documents stored and bytes read for them, or bytes done and in all."""


def _ignore(_documents: int, _bytes: int) -> None:
    return None


def shows_progress() -> bool:
    """Return whether there is somebody to look at a bar."""
    return sys.stderr.isatty()


@contextmanager
def insert_bar(total_bytes: int | None) -> Iterator[Advance]:
    """Show the bar for the length of the block.

    Args:
        total_bytes: of the input; ``None`` when unknown, as with a pipe: then no time remains to be told.
    """
    if not shows_progress():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [
        TextColumn("{task.fields[documents]:,} documents"),
        TextColumn("{task.fields[rate]:,.0f} documents/s"),
        BarColumn(),
        TimeElapsedColumn(),
    ]
    if total_bytes is not None:
        columns += [TextColumn("remaining"), TimeRemainingColumn()]
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task("", total=total_bytes, documents=0, rate=0.0)
    began = time.monotonic()

    def advance(documents: int, num_bytes: int) -> None:
        rate = documents / max(time.monotonic() - began, 1e-9)
        bar.update(task, completed=num_bytes, documents=documents, rate=rate)

    with bar:
        yield advance


@contextmanager
def bytes_bar() -> Iterator[Advance]:
    """Show a bar of bytes done out of all bytes for the length of the block."""
    if not shows_progress():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (DownloadColumn(), TransferSpeedColumn(), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task("", total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)
