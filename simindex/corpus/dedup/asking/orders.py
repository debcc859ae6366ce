"""Keep orders other than the input's: the rows are read twice, and decided in between.

Owns what an order means, and the file that the rows wait in: their sketches with what they are ordered by,
sorted by SQLite, which does that in files where memory does not do. Invariant: rows that an order does not
tell apart stand in the order of the input. Each step may be broken off at any time and gone on with.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np

from simindex.changes.documents import prepared_batches
from simindex.config import Config
from simindex.corpus.dedup.asking.star import Star
from simindex.corpus.dedup.entries import Entry, label_of
from simindex.corpus.dedup.results import Decided, Verdict
from simindex.corpus.dedup.sorting.orders import Keep, rank_of, require_ranked
from simindex.corpus.sqlite_file import SqliteFile
from simindex.jsonable import plain
from simindex.queries.matches import Match
from simindex.sketching.sketch import Sketch
from simindex.sketching.sketcher import Sketcher

_FILE = "order.sqlite"
_HALF = 1 << 63  # SQLite's integers have a sign

_TABLES = """
create table if not exists rows (number integer primary key, rank, label text,
    words blob, fingerprint integer, kept blob, origin blob);
create table if not exists verdicts (number integer primary key, bounded integer, told text);
create table if not exists steps (name text primary key);
"""

_LOOKED_UP = 4_096  # rows that are fetched at a time


def num_waiting(folder: str) -> int:
    """Return how many rows wait in the folder of a job to be ordered."""
    path = os.path.join(folder, _FILE)
    if not os.path.exists(path):
        return 0
    with closing(sqlite3.connect(path)) as db:
        (count,) = db.execute("select count(*) from rows").fetchone()
    return int(count)


class Ordered:
    """The rows of a job, in keep order.

    Args:
        folder: of the job; the file that they wait in is there.
        keep: the order.
        config: of their sketches.
    """

    def __init__(self, folder: str, keep: Keep, config: Config) -> None:
        self._db = SqliteFile(os.path.join(folder, _FILE))
        self._db.executescript(_TABLES)
        self._keep, self._rank, self._config = keep, rank_of(keep), config

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    # ---- the first reading ----

    def fill(self, entries: Iterable[Entry], batch_size: int, workers: int | None) -> None:
        """Take the rows that are not there yet."""
        if self._is_done("filled"):
            return
        (there,) = self._one("select count(*) from rows")
        ranks: list[Any] = []
        labels: list[str] = []

        def items() -> Iterator[tuple[int, Any]]:
            for entry in islice(entries, there, None):
                ranks.append(self._rank(entry))
                labels.append(label_of(entry))
                yield entry.number, entry.document

        for documents in prepared_batches(items(), Sketcher(self._config), batch_size, workers):
            count = len(documents)
            with self._change():
                self._db.executemany(
                    "insert into rows values (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (number, rank, label, *_stored(sketch))
                        for number, rank, label, sketch in zip(
                            documents.keys, ranks[:count], labels[:count], documents.sketches, strict=True
                        )
                    ],
                )
            del ranks[:count], labels[:count]
        require_ranked(self._keep, *self._one("select count(rank), count(*) from rows"))
        with self._change():
            self._db.execute("create index if not exists by_rank on rows (rank desc, number)")
            self._db.execute("insert into steps values ('filled')")

    # ---- the decision ----

    def decide(self, star: Star, batch_size: int) -> None:
        """Decide the rows that are not decided yet, in keep order."""
        if self._is_done("decided"):
            return
        (done,) = self._one("select count(*) from verdicts")
        (kept,) = self._one("select count(*) from verdicts where told is null")
        star.forget((number for (number,) in self._in_order("number", done)), kept)
        rows = (
            (number, _sketch(self._config, stored), label)
            for number, label, *stored in self._in_order(
                "number, label, words, fingerprint, kept, origin", done
            )
        )
        numbers: list[int] = []

        def items() -> Iterator[tuple[int, Any, Any]]:
            for row in rows:
                numbers.append(row[0])
                yield row

        for verdicts, bounded in star.decide(items(), batch_size, 1):
            with self._change():
                self._db.executemany(
                    "insert into verdicts values (?, ?, ?)",
                    [
                        (numbers[place], place in bounded, None if verdict is None else _told(verdict))
                        for place, verdict in enumerate(verdicts)
                    ],
                )
            del numbers[: len(verdicts)]
        with self._change():
            self._db.execute("insert into steps values ('decided')")

    # ---- the second reading ----

    def decided(self, entries: Iterable[Entry], batch_size: int) -> Iterator[tuple[list[Entry], Decided]]:
        """Yield rows with what became of them, in the order of the input."""
        iterator = iter(entries)
        while part := list(islice(iterator, batch_size)):
            found = self._db.execute(
                "select bounded, told from verdicts where number between ? and ? order by number",
                (part[0].number, part[-1].number),
            ).fetchall()
            verdicts = [None if told is None else _verdict(told) for _, told in found]
            yield part, Decided(verdicts, {place for place, (bounded, _) in enumerate(found) if bounded})

    # ---- the file ----

    def _in_order(self, columns: str, done: int) -> Iterator[Any]:
        statement = f"select {columns} from rows order by rank desc, number limit -1 offset ?"
        cursor = self._db.execute(statement, (done,))
        while rows := cursor.fetchmany(_LOOKED_UP):
            yield from rows

    def _one(self, statement: str) -> Any:
        return self._db.execute(statement).fetchone()

    def _is_done(self, step: str) -> bool:
        return self._db.execute("select 1 from steps where name = ?", (step,)).fetchone() is not None

    def _change(self) -> _Change:
        return _Change(self._db)


class _Change:
    """A transaction: all of it or nothing."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("begin")

    def __exit__(self, kind: object, *_: object) -> None:
        if self._db.in_transaction:  # a full disk has ended it
            self._db.execute("commit" if kind is None else "rollback")


def _stored(sketch: Sketch) -> tuple[Any, ...]:
    words = None if sketch.words is None else sketch.words.tobytes()
    kept = None if sketch.kept is None else sketch.kept.tobytes()
    fingerprint = None if sketch.fingerprint is None else sketch.fingerprint - _HALF
    return words, fingerprint, kept, sketch.origin


def _sketch(config: Config, stored: list[Any]) -> Sketch:
    words, fingerprint, kept, origin = stored
    return Sketch(
        config.num_perm,
        None if words is None else np.frombuffer(words, dtype=np.uint64),
        None if fingerprint is None else fingerprint + _HALF,
        None if kept is None else np.frombuffer(kept, dtype=np.uint32),
        origin,
    )


def _told(verdict: Verdict) -> str:
    match, other = verdict
    label = match.metadata if other is None else None
    figures = match.similarity, match.distance, match.exact, match.standard_error
    return json.dumps([plain(match.key), label, *figures, other])


def _verdict(told: str) -> Verdict:
    key, label, similarity, distance, exact, error, other = json.loads(told)
    return Verdict(Match(_bytes_or(key), similarity, distance, label, exact, error), other)


def _bytes_or(key: Any) -> Any:
    return base64.b64decode(key["bytes"]) if isinstance(key, dict) else key
