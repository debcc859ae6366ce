"""Read the journal of a finished deduplication for the report.

Each cluster is a star: a kept document, or one of another index, or an item of `decontaminate`, and the rows
that were removed because they are like it, or hold it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from simindex.config import Config
from simindex.corpus.dedup import journal as journals
from simindex.corpus.dedup.paragraphs import Cut
from simindex.corpus.report.overview import Cluster, Member, Overview, fresh_shares, labelled, step_of
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.inputs import Source, sound
from simindex.jsonable import key_of

_NAME = "journal.json"


def is_journal(path: str) -> bool:
    """Return whether a folder is that of a journal, ``OUTPUT.dedup``."""
    return os.path.isfile(os.path.join(path, _NAME))


@dataclass
class Finished:
    """A finished job."""

    folder: str
    config: Config
    threshold: float  # least similarity of a removed row
    by_similarity: bool  # whether it compared by MinHash
    removed_path: str
    inputs: list[str]  # the files that it has read
    cut: Cut | None  # how texts were cut into paragraphs, if that is what was compared
    of_items: bool  # whether it looked for items in rows, and not for duplicates
    state: dict[str, Any]  # the counts of the job, as its journal has them

    @property
    def noun(self) -> str:
        """What was compared."""
        return "document" if self.cut is None else "paragraph"


def read_journal(folder: str) -> Finished:
    """Return the job of a journal."""
    path = os.path.join(folder, _NAME)
    found = journals.read_journal(path)
    try:
        job, state = found["job"], found["state"]
        config = Config.from_dict(job["config"])
        removed = job["outputs"][1] or journals.Journal(folder, {}).removed_path
        by_similarity = bool(config.num_perm) and job["by"] != "simhash"
        of_items = job.get("call") == "decontaminate"
        inputs = [path for path, *_ in job["inputs"]]
        cut = None if job["paragraphs"] is None else Cut(*job["paragraphs"])
    except (KeyError, TypeError, IndexError, ValueError) as exc:
        raise SimIndexError(f"{path}: expected the journal of a deduplication, found another file") from exc
    if state["phase"] != "done":
        raise SimIndexError(
            f"{folder}: expected a finished job, found one that is {state['phase']}; "
            "start simindex dedup again with the same arguments"
        )
    return Finished(folder, config, job["threshold"], by_similarity, removed, inputs, cut, of_items, state)


class _Like(NamedTuple):
    """What a row that goes is like, or an item that it holds."""

    kept: Key
    place: tuple[str | None, int]
    similarity: float | None
    distance: int | None


def _likes(row: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], _Like]]:
    """Yield what identifies the kept row of a removed one, or each item that it holds, and how like it is."""
    if "items" not in row:
        place, key = (row["kept_input"], row["kept_row"]), row["duplicate_of"]
        yield (*place, json.dumps(key)), _Like(key_of(key), place, row["similarity"], row["distance"])
    for item in row.get("items", ()):
        place, key = (item["item_input"], item["item_row"]), item["item"]
        yield (*place, json.dumps(key)), _Like(key_of(key), place, item["share"], None)


@dataclass
class _Star:
    """A kept document and how many were removed because of it; the first of them are members."""

    members: list[Member]
    size: int = 1


def overview_of_journal(job: Finished, most_clusters: int, most_members: int) -> Overview:
    """Return what there is to show of a job; memory is some 100 bytes a removed row and 200 a cluster.

    Raises:
        BadRowError: a line of the report of removed rows is none.
        OSError: it cannot be opened.
    """
    stars: dict[tuple[Any, ...], _Star] = {}
    histogram: Counter[int] = Counter()
    removed: list[int] = []
    with Source(job.removed_path).lines() as lines:
        for line in sound(lines):
            row = json.loads(line)
            removed.append(row["number"])
            for place, like in _likes(row):
                star = stars.get(place)
                if star is None:
                    star = stars[place] = _Star([Member(like.kept, place=like.place)])
                star.size += 1
                similarity = like.similarity if job.by_similarity else None
                histogram[step_of(similarity, like.distance)] += 1
                if len(star.members) < most_members:
                    of_row = row["input"], row["row"]
                    star.members.append(Member(key_of(row["id"]), 0, like.similarity, like.distance, of_row))
    documents = int(job.state["read"])
    largest = sorted(stars.values(), key=lambda star: -star.size)[:most_clusters]
    bounded = int(job.state["bounded"])
    kept = "rows" if job.cut is None else "paragraphs"
    note = f"For {bounded:,} kept {kept} a limit on candidates was hit, so they may have duplicates still."
    return Overview(
        documents=documents,
        duplicates=int(job.state["removed"]),
        num_clusters=len(stars),
        num_pairs=sum(histogram.values()),
        histogram=labelled(histogram, job.by_similarity, job.threshold, max(histogram, default=0)),
        fresh=fresh_shares(documents, removed),
        clusters=[Cluster(star.size, star.members) for star in largest],
        notes=[note] if bounded else [],
    )
