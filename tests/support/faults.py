"""Faults on purpose: steps inside an index that are watched, changed or broken off, and bounds that are small
for a test, so that kills and damage reach every place. The tables say where a step or a bound lies today."""

import importlib
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import Any

import pytest

STEPS = {
    "begin to read": "storage.store:Store._begin_read",
    "look whether the file is marked": "storage.store:Store._begin",
    "open the newest data file": "storage.store:Store._open_environment",
    "find the data file": "storage.store:data_file",
    "commit": "storage.store:Store.commit",
    "take note of a commit": "changes.merges:Merges.note_stored",
    "merge entries": "segments.merge:_kernel.merge",
    "merge small segments": "segments.merge:_kernel.merge_whole",
    "copy sketches": "segments.merge:_kernel.copy_sketches",
    "commit the first state": "storage.store:Store.initialise",
    "rename": "maintenance.work_folder:os.rename",
    "sync a folder": "maintenance.work_folder:sync_folder",
    "one try of a commit": "storage.store:Store._commit",
    "lengthen the file": "storage.store:Store._lengthen_file",
    "finish a new file": "storage.replacement:NewFile.finish",
    "let go of read pages": "storage.environment:ReadTransaction.let_go",
    "read a segment": "queries.view:Reader.load",
    "read a record": "queries.view:decode_record",
    "read a record that was found": "queries.view:decode_found",
    "warm the tables": "segments.directory:Directory.warm",
    "search by rows": "queries.search:BandQuery.find",
    "search a prefix of rows": "queries.search:search_bands",
    "plan a search": "queries.search:band_plan",
    "choose blocks of fingerprints": "sketching.permutations:choose_blocks",
    "sort edges": "all_pairs.clusters:SortedEdges",
    "prepare": "changes.session:Writer.prepare",
    "commit of the writer": "changes.session:Writer.commit",
    "look for a new document alone": "changes.if_new:Batch._matches_alone",
    "end a step of a deduplication": "corpus.dedup.job:Job.advance",
    "sketch rows": "corpus.dedup.steps:DedupSteps._sketch",
    "keep the sketches of rows": "corpus.dedup.sketches:SketchFiles.add",
    "ask other indexes": "corpus.dedup.other_indexes:_matches",
    "write the verdicts": "corpus.dedup.steps:write_verdicts",
    "plan the candidates": "corpus.dedup.steps:plan_of_query",
    "batches of rows": "corpus.dedup.rows:rows_by_columns",
    "find that a disk is full": "storage.lmdb_file:_cannot_grow",
    "prove the entrance": "storage.check_at_open:prove_entrance",
    "open the databases": "storage.store:databases_of",
    "open the databases of a new file": "storage.lmdb_file:databases_of",
    "give a file to the owner of the old one": "storage.replacement:_keep_owner",
    "verify pairs": "all_pairs.ranges:verified",
    "choose a packer": "corpus.outputs.lines:packer",
    "values of a part of Parquet": "inputs.formats.parquet:_values",
}
"""Step -> where its function lies."""

BOUNDS = {
    "bytes of a row": "inputs.source:ROW_BYTES",
    "bytes of a part of Parquet": "inputs.formats.parquet:PART_BYTES",
    "new documents that are compared all with all": "changes.if_new:MOST_ALIKE",
    "documents of a bucket": "changes.if_new:MOST_IN_BUCKET",
    "sketches of a scope compared before tables are looked at": "queries.candidates:_WORTH_A_LOOK",
    "bytes of a batch": "batching:PART_BYTES",
    "bytes of batches ahead": "batching:AHEAD_BYTES",
    "bytes of a step of a compaction": "changes.compaction:_STEP_BYTES",
    "segments of a merge": "changes.merges:MAX_SOURCES",
    "documents of a run of ages": "format.records:RUN_DOCUMENTS",
    "changes of a commit that wait": "changes.write_behind:_MOST_CHANGES",
    "bytes of metadata": "format.records:MAX_METADATA_BYTES",
    "members of a cluster in memory": "all_pairs.clusters:_MEMBERS_AT_ONCE",
    "entries whose sketches are in memory": "all_pairs.ranges:BLOCK",
    "edges of equal documents in memory": "all_pairs.ranges:PAIRS",
    "bytes of a frame": "corpus.dedup.writer_loop:FRAME_BYTES",
    "rows of a frame": "corpus.dedup.writer_loop:FRAME_ROWS",
    "seconds between journals of kept rows": "corpus.dedup.writer_loop:_SECONDS_A_MARK",
    "seconds between journals of decisions": "corpus.dedup.steps:_SECONDS_A_MARK",
    "rows of a job": "corpus.dedup.steps:MOST_NUMBERS",
    "rows that other indexes are asked for": "corpus.dedup.other_indexes:_ROWS_TOGETHER",
    "bytes of a batch of rows": "corpus.dedup.rows:PART_BYTES",
    "bytes of a part of a backup": "maintenance.backup_parts:PART_BYTES",
    "documents of a commit of a new index": "maintenance.new_index:BATCH",
    "documents of a commit of a repair": "maintenance.repair:BATCH",
    "readers of a file": "storage.lmdb_file:MAX_READERS",
    "seconds between looks for a new file": "storage.store:_LOOK_AGAIN_SECONDS",
    "seconds that a fork waits": "storage.environment:FORK_WAIT_SECONDS",
    "seconds between looks for dead readers": "storage.store:_READER_CHECK_SECONDS",
}
"""Bound -> where it lies."""


def _found(where: str) -> tuple[Any, str]:
    """The module or class that has a name, and the name."""
    module, _, path = where.partition(":")
    owner, _, name = path.rpartition(".")
    return resolve_name(f"simindex.{module}:{owner}") if owner else importlib.import_module(
        f"simindex.{module}"
    ), name


def set_bound(patch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """Let one of `BOUNDS` have another value."""
    patch.setattr(*_found(BOUNDS[name]), value)


@contextmanager
def bound(name: str, value: float) -> Iterator[None]:
    """Let one of `BOUNDS` have another value meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        set_bound(patch, name, value)
        yield


def around(patch: pytest.MonkeyPatch, step: str, change: Callable[..., Any]) -> None:
    """Let one of `STEPS` run as `change(step, *arguments)` says, which is given the step itself."""
    owner, name = _found(STEPS[step])
    call = getattr(owner, name)

    def changed(*arguments: Any, **options: Any) -> Any:
        return change(call, *arguments, **options)

    patch.setattr(owner, name, changed)


def die_at(call: int, *steps: str) -> None:
    """Let this process end at the n-th run of any of these of `STEPS`: before it where n is even."""
    count = itertools.count()

    def dying(step: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        is_last = next(count) == call // 2
        if is_last and call % 2 == 0:
            os._exit(9)
        result = step(*arguments, **options)
        if is_last:
            os._exit(9)
        return result

    for step in steps:
        around(pytest.MonkeyPatch(), step, dying)


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
    runs = list[None]()

    def broken(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        runs.append(None)
        is_last = error is not None and len(runs) == at
        result = call(*arguments, **options) if is_done or not is_last else None
        if error is not None and is_last:
            raise error
        return result

    around(patch, step, broken)
    return runs


def stopping_at(rows: int) -> Callable[[int], None]:
    """Return a `progress` that interrupts a job once so many rows are done."""

    def progress(done: int) -> None:
        if done >= rows:
            raise KeyboardInterrupt

    return progress


def small_frames(patch: pytest.MonkeyPatch, num_bytes: int) -> None:
    """Let a deduplication cut its output after so many bytes, and write its journal at each cut."""
    set_bound(patch, "bytes of a frame", num_bytes)
    for of in ("kept rows", "decisions"):
        set_bound(patch, f"seconds between journals of {of}", 0.0)
