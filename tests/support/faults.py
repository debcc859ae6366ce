"""Faults on purpose: steps inside an index that are counted or broken off, and jobs that cut output often, so
that kills and damage reach every place of it."""

from typing import Any

import pytest

from simindex.changes.writer import Writer
from simindex.corpus.dedup import decisions, writer_loop
from simindex.storage.store import Store

STEPS: dict[str, tuple[type, str]] = {
    "begin to read": (Store, "_begin_read"),
    "prepare": (Writer, "prepare"),
    "commit of the writer": (Writer, "commit"),
    "commit": (Store, "commit"),
}


def broken_off(
    patch: pytest.MonkeyPatch,
    step: str,
    at: int = 0,
    error: BaseException | None = None,
    *,
    is_done: bool = False,
) -> list[None]:
    """Let one of `STEPS` raise an error in its n-th run, before it or behind it; or count its runs alone.

    Returns:
        A list that grows by one item a run.
    """
    owner, name = STEPS[step]
    call, runs = getattr(owner, name), list[None]()

    def broken(*arguments: Any, **options: Any) -> Any:
        runs.append(None)
        is_last = error is not None and len(runs) == at
        result = call(*arguments, **options) if is_done or not is_last else None
        if error is not None and is_last:
            raise error
        return result

    patch.setattr(owner, name, broken)
    return runs


def small_frames(patch: pytest.MonkeyPatch, num_bytes: int) -> None:
    """Let a deduplication cut its output after so many bytes, and write its journal at each cut."""
    patch.setattr(writer_loop, "FRAME_BYTES", num_bytes)
    for module in (writer_loop, decisions):
        patch.setattr(module, "_SECONDS_A_MARK", 0.0)
