"""`scaleout.deduplicate`: its arguments, and what it promises. Must not do the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_callable, require_int
from simindex.config import Config
from simindex.corpus.dedup.output_files import Mode, Sink
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.dedup.sorting.orders import Keep
from simindex.inputs import BadRowError
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES
from simindex.queries.search import Method
from simindex.scaleout.dedup.job import ScaledJob
from simindex.scaleout.dedup.nodes import Nodes
from simindex.scaleout.dedup.parts import PART_OF_FILE
from simindex.scaleout.dedup.workers import Step, told_nobody
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.hosts.actors import ray_module, start
from simindex.tuning.curve import DEFAULT_THRESHOLD

_ON_ONE_MACHINE = {"against": None, "into": None, "level": "document", "explain": False, "exact": False}
"""What one machine keeps and many do not -> its usual value."""

_OF_THE_JOB = (
    *("keep", "mode", "recall", "by", "max_distance", "config", "removed", "batch_size", "progress"),
    *("on_removed", "on_bad_row", "journal", "force", "memory_bytes", "max_run", "part_bytes"),
)
"""Arguments that are handed on as they are."""


def deduplicate(
    sources: Any,
    sink: Sink | None,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    keep: Keep = "first",
    mode: Mode = "remove",
    recall: float | None = None,
    by: Method | None = None,
    max_distance: int | None = None,
    config: Config | None = None,
    removed: str | os.PathLike[str] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    part_bytes: int = PART_OF_FILE,
    work: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] | None = None,
    on_step: Step | None = None,
    on_removed: Callable[[Removed], object] | None = None,
    on_bad_row: Callable[[BadRowError], object] | None = None,
    journal: str | os.PathLike[str] | None = None,
    force: bool = False,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
    **others: Any,
) -> DedupReport:
    """Write a corpus without its near duplicates, found by all nodes of a Ray cluster.

    The output is what `simindex.corpus.deduplicate` writes, byte for byte, and so is the report of removed
    rows, but where a limit on candidates was hit there or here (`DedupReport.bounded`). The sketches of
    each part of the input are sorted on the disk of the node that read it; ranges of band words are compared
    by tasks; the calling process decides who stays. The input is read once more then, and written by
    the nodes where they see the output, a file of JSON lines that is not packed; by the calling process else.

    What dies is done again: a worker's part or range by Ray, what a lost node held by the others. The calling
    process itself goes on as on one machine when it is called again: by the journal beside the output.

    Args:
        sources: paths of files that every node can read, as in `simindex.corpus.deduplicate`.
        sink, threshold, keep, mode, recall, by, max_distance, config, removed, batch_size, progress,
            on_removed, on_bad_row, journal, force: as there. `progress` is called while the output is
            written. With `on_bad_row` a bad row is passed over; it is reported in the second reading.
        max_run: documents of one prefix that workers compare two by two; those of longer runs are compared by
            the calling process with what stays, as on one machine: slower, and the same result.
        memory_bytes: of buffers of each worker, and of edges in the calling process, which has 4 bytes a row
            beside (12 with another order than "first" or "newest"), and 8 a row that is stored as a copy.
        part_bytes: bytes of lines that are one part; other files than plain .jsonl are a part each.
        work: folder on each node's own disk for what it works with, some hundred bytes a row; default: that
            of temporary files. It is removed at the end.
        on_step: called as ``on_step(name, done, total)`` with parts and ranges that are done.
        address, ray: of Ray; see `simindex.scaleout.open`.
        others: `against`, `into`, `level`, `explain` and `exact` are refused, for one machine alone keeps
            them.

    Returns:
        DedupReport(read, kept, removed, bounded, seconds, missed).

    Raises:
        UnsupportedError: an option that one machine alone keeps; an iterable or standard input.
        MissingPackageError: Ray is not installed.
        JobError, InputError, BadRowError, OSError: as `simindex.corpus.deduplicate`; an input that cannot be
            read ends the job before anything is written.
        ScaleOutError: nodes are gone and nobody took over.
    """
    given = locals()
    for name, value in others.items():
        if name not in _ON_ONE_MACHINE:
            raise TypeError(f"deduplicate() got an unexpected keyword argument {name!r}")
        if value != _ON_ONE_MACHINE[name]:
            raise UnsupportedError(
                f"scaleout.deduplicate: expected a job without {name}=, which many machines do not keep; "
                "simindex.corpus.deduplicate does, on one"
            )
    require_callable("on_step", on_step)
    require_int("part_bytes", part_bytes, 1)
    started = list[bool]()

    def nodes(digest: str) -> Nodes:
        started.append(start(address, ray))
        return Nodes(digest, None if work is None else os.fspath(work))

    job = ScaledJob(
        sources,
        sink,
        threshold,
        nodes=nodes,
        step=on_step or told_nobody,
        **{name: given[name] for name in _OF_THE_JOB},
    )
    try:
        return job.run()
    finally:
        if any(started):
            ray_module().shutdown()
