"""A part of the input -> a partition of its own: the sketches of its rows, in order, known by their number.

Owns when a partition is complete: it has its name only then. Must not know other parts. Invariant: what is
made depends on the part alone, so it may be made again, by whomever.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from typing import Any, NamedTuple

import numpy as np

from simindex.config import Config
from simindex.corpus.dedup.rows import rows_by_columns
from simindex.corpus.dedup.sorting.orders import Keep, rank_of
from simindex.corpus.dedup.sorting.second_pass import InputPart, PartEntries
from simindex.corpus.dedup.sorting.sketches import Names, SketchFiles, sketch_rows
from simindex.inputs import Inputs
from simindex.pairs.walk_plan import scheme_of_config
from simindex.scaleout.dedup.partition import SketchTables, write_tables
from simindex.sketching.sketcher import Sketcher

_BATCH = 16_384
"""Rows that are sketched together, at most."""

RANKS = ".ranks"
"""Behind the name of a partition: what its rows are ordered by."""


class Making(NamedTuple):
    """How partitions are made of parts.

    Attributes:
        inputs: the whole input.
        config: of the partitions.
        compares: the half of a sketch that is compared.
        keep: the keep order.
        takes_bad_rows: whether a row that is none is passed over.
    """

    inputs: Inputs
    config: Config
    compares: int
    keep: Keep
    takes_bad_rows: bool

    @property
    def ranks_rows(self) -> bool:
        """Whether the keep order asks something of each row."""
        return self.keep not in ("first", "newest")


def make_partition(making: Making, part: InputPart, folder: str) -> None:
    """Make the partition of a part, unless it is there.

    Args:
        folder: of the partition; it comes into being complete.

    Raises:
        BadRowError, InputError: of the part.
    """
    if os.path.isdir(folder):
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    beside = f"{folder}.{uuid.uuid4().hex}.partial"
    try:
        ranks = _fill(making, part, beside)
        if making.ranks_rows:
            with open(f"{beside}{RANKS}", "w", encoding="utf-8") as file:
                json.dump(ranks, file)
            os.replace(f"{beside}{RANKS}", f"{folder}{RANKS}")
        try:
            os.rename(beside, folder)
        except OSError:
            if not os.path.isdir(folder):  # another worker was asked for the same, and was faster
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def ranks_of(folder: str) -> list[Any]:
    """Return what the rows of a partition are ordered by."""
    with open(folder + RANKS, encoding="utf-8") as file:
        found: list[Any] = json.load(file)
    return found


def tables_of(making: Making, folder: str) -> SketchTables:
    """Return a partition that is there, open to be read."""
    return SketchTables(folder, scheme_of_config(making.config), making.compares)


def _fill(making: Making, part: InputPart, folder: str) -> list[Any]:
    sketcher, rank = Sketcher(making.config), rank_of(making.keep) if making.ranks_rows else None
    entries = PartEntries(making.inputs, part, takes_bad_rows=making.takes_bad_rows)
    ranks: list[Any] = []
    fingerprints = [np.empty(0, dtype=np.uint64)]
    files = SketchFiles(folder, making.config.bands)
    try:
        for rows in rows_by_columns(entries, _BATCH, 0):
            if not len(rows):
                continue
            sketches = sketch_rows(sketcher, rows, making.compares)
            files.add(sketches.words, sketches.present, Names.of(rows))
            fingerprints.append(sketches.fingerprints)
            if rank is not None:
                ranks += map(rank, rows)
        files.sync({}, is_durable=False)
    finally:
        files.close()
    scheme = scheme_of_config(making.config)
    write_tables(folder, files, np.concatenate(fingerprints), scheme, making.compares)
    return ranks
