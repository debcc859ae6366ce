"""Count pairs, similarities and clusters for the report, and for `simindex stats`: of an index, or of a job.

Of an index a duplicate is a document that is similar to one that was stored before it, and clusters are the
components of the pairs. Of a finished deduplication, which its journal knows, each cluster is a star: a kept
document, or one of another index, or an item of `decontaminate`, and the rows that were removed because they
are like it, or hold it.
"""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from simindex.all_pairs.edges import Forest, edges_between
from simindex.all_pairs.pair import Pair
from simindex.all_pairs.pairs import Pairs
from simindex.config import Config
from simindex.corpus.dedup import journal as journals
from simindex.corpus.dedup.paragraphs import Cut
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.index import Index
from simindex.inputs import Source, sound
from simindex.jsonable import key_of

_AT_ONCE = 100_000
_BOUNDED = "{:,} groups of documents with one prefix were not compared all with all; pairs may be missing."
_MOST_STEPS = 60
_STEP_PERCENT = 2


Name = Key | tuple[Key, str | None, int]
"""Of a member; see `Member.name`."""


class Member(NamedTuple):
    """A document of a cluster."""

    key: Key
    like: int | None = None  # the place among the members of the earlier one that it is most like, or None
    similarity: float | None = None  # to that one; None without MinHash
    distance: int | None = None  # to that one, in bits; None without SimHash
    place: tuple[str | None, int] | None = None  # of a row of a job: its input, and the row there

    @property
    def name(self) -> Name:
        """What its text is known by: its key, with its place where it has one, for ids may repeat."""
        return self.key if self.place is None else (self.key, *self.place)


class Cluster(NamedTuple):
    """Documents that are similar to one another, directly or by others."""

    size: int
    members: list[Member]  # the first of them, in the order of storing


class Names(NamedTuple):
    """What a page calls its figures."""

    title: str
    one: tuple[str, str]  # a document that is a duplicate or holds an item, and a cluster
    later: str  # all of those documents
    clusters: str
    pairs: str
    histogram: str
    fresh: str


_DUPLICATES = Names(
    *("Near duplicates", ("duplicate", "cluster"), "duplicates of an earlier one"),
    *("clusters", "similar pairs", "Similarities of pairs", "new"),
)
_CONTAMINATION = Names(
    *("Contamination", ("contaminated document", "item"), "documents that hold an item"),
    *("items found", "items in documents", "Shares of items in documents", "clean"),
)


@dataclass(frozen=True)
class Overview:
    """What a report shows of an index or a job."""

    source: str  # its path
    measure: str  # a sentence on when documents are similar
    by_similarity: bool  # whether by similarity, and not by distance
    config: Config  # how texts are cut into shingles
    documents: int
    duplicates: int  # those that are similar to an earlier one
    num_clusters: int  # how many there are; `clusters` may be fewer
    num_pairs: int  # copies of one sketch are paired with the first of them only
    histogram: list[tuple[str, int]]  # (label, pairs), the most similar last
    fresh: list[float]  # the share that are no duplicates, in equal parts of the order of storing
    clusters: list[Cluster]  # the largest first, then by their first members
    notes: list[str]
    names: Names = _DUPLICATES
    inputs: Sequence[str] = ()  # the files that a job has read
    cut: Cut | None = None  # how a job cut texts into paragraphs, if that is what it compared

    @property
    def noun(self) -> str:
        """What was compared."""
        return "document" if self.cut is None else "paragraph"

    @property
    def members(self) -> list[Member]:
        """All members that are listed."""
        return [member for cluster in self.clusters for member in cluster.members]


def overview_of(index: Index, threshold: float, most_clusters: int, most_members: int) -> Overview:
    """Return the figures and clusters that the page of an index shows. Memory: all keys, 4 bytes a document,
    some 200 bytes a duplicate."""
    keys, by_similarity = list(index), bool(index.config.num_perm)
    places = {key: place for place, key in enumerate(keys)}
    nearest: dict[int, tuple[tuple[float, int], int, Pair]] = {}
    histogram: Counter[int] = Counter()
    forest, pairs = Forest(len(keys)), _pairs_of(index, threshold)
    # What was stored since is not in the page.
    placed = ((places[p.a], places[p.b], p) for p in pairs if p.a in places and p.b in places)
    while some := list(islice(placed, _AT_ONCE)):
        forest.join(edges_between(*np.array([ends[:2] for ends in some]).T))
        for a, b, pair in some:
            histogram[step_of(pair.similarity, pair.distance)] += 1
            likeness = -1.0 if pair.similarity is None else pair.similarity, -(pair.distance or 0)
            if max(a, b) not in nearest or likeness > nearest[max(a, b)][0]:
                nearest[max(a, b)] = likeness, min(a, b), pair
    groups, parts = list[list[int]](), list[int]()
    for members, is_last in forest.groups():
        parts += members.tolist()
        if is_last:
            groups.append(parts)
            parts = []

    def cluster(group: list[int]) -> Cluster:
        numbers = {place: number for number, place in enumerate(group[:most_members])}
        members = [Member(keys[place]) for place in numbers]
        for place, number in numbers.items():
            if place in nearest:
                _, earlier, pair = nearest[place]
                members[number] = Member(keys[place], numbers.get(earlier), pair.similarity, pair.distance)
        return Cluster(len(group), members)

    measure = "fingerprints within the distance that the index was built for"
    if by_similarity:
        measure = f"similarity of {threshold:g} or more, estimated from signatures"
    how = index.path, measure, by_similarity, index.config
    return Overview(
        *how,
        documents=len(keys),
        duplicates=len(nearest),
        num_clusters=len(groups),
        num_pairs=sum(histogram.values()),
        histogram=labelled(histogram, by_similarity, threshold, _max_distance(index)),
        fresh=fresh_shares(len(keys), nearest),
        clusters=list(map(cluster, sorted(groups, key=lambda g: (-len(g), g[0]))[:most_clusters])),
        notes=[_BOUNDED.format(pairs.bounded.runs)] if pairs.bounded.runs else [],
    )


def _pairs_of(index: Index, threshold: float) -> Pairs:
    if index.config.num_perm:
        return index.pairs(threshold, copies="first")
    return index.pairs(copies="first")


def step_of(similarity: float | None, distance: int | None) -> int:
    """Return the bar of the histogram: hundredths of similarity rounded down, or bits of distance."""
    if similarity is None:
        return distance or 0
    return int(similarity * 100 + 1e-9) // _STEP_PERCENT * _STEP_PERCENT


def _max_distance(index: Index) -> int:
    return 0 if index.config.simhash is None else index.config.simhash.max_distance


def labelled(
    histogram: Counter[int], by_similarity: bool, threshold: float, most: int
) -> list[tuple[str, int]]:
    """Return the bars with their labels: from the threshold on, or from `most` bits down."""
    if not by_similarity:
        return [(f"{step} bits", histogram[step]) for step in range(most, -1, -1)]
    first = min(min(histogram, default=100), int(threshold * 100)) // _STEP_PERCENT * _STEP_PERCENT
    return [(f"{step / 100:.2f}", histogram[step]) for step in range(first, 101, _STEP_PERCENT)]


def fresh_shares(num_documents: int, later: Iterable[int]) -> list[float]:
    """Cut the input into equal parts and return the share of each that are not duplicates. `later`: the
    numbers of the duplicates."""
    num_steps = min(_MOST_STEPS, num_documents)
    edges = [step * num_documents // max(num_steps, 1) for step in range(num_steps + 1)]
    places = np.fromiter(later, dtype=np.int64)
    old, _ = np.histogram(places, bins=edges) if num_steps else (np.zeros(0), None)
    return [1 - int(count) / (edges[step + 1] - edges[step]) for step, count in enumerate(old)]


_NAME = "journal.json"


def is_journal(path: str) -> bool:
    """Return whether a folder is that of a journal, ``OUTPUT.dedup``."""
    return os.path.isfile(os.path.join(path, _NAME))


def _likes(row: dict[str, Any]) -> Iterator[tuple[Member, float | None, int | None]]:
    """Yield the kept row of a removed one, or each item that it holds, and how like it is."""
    if "items" not in row:
        place = row["kept_input"], row["kept_row"]
        yield Member(key_of(row["duplicate_of"]), place=place), row["similarity"], row["distance"]
    for item in row.get("items", ()):
        place = item["item_input"], item["item_row"]
        yield Member(key_of(item["item"]), place=place), item["share"], None


def overview_of_journal(folder: str, most_clusters: int, most_members: int) -> Overview:
    """Return the figures and clusters that the page of a finished job shows; memory is some 100 bytes a
    removed row and 200 a cluster."""
    path = os.path.join(folder, _NAME)
    found = journals.read_journal(path)
    job, state = found["job"], found["state"]
    try:
        config, threshold = Config.from_dict(job["config"]), job["threshold"]
        removed_path = job["outputs"][1] or journals.Journal(folder, {}).removed_path
        by_similarity = bool(config.num_perm) and job["by"] != "simhash"
        inputs = [path for path, *_ in job["inputs"]]
        cut = None if job["paragraphs"] is None else Cut(*job["paragraphs"])
    except (KeyError, TypeError, IndexError, ValueError) as exc:
        raise SimIndexError(f"{path}: expected the journal of a deduplication, found another file") from exc
    if state["phase"] != "done":
        raise SimIndexError(
            f"{folder}: expected a finished job, found one that is {state['phase']}; "
            "start simindex dedup again with the same arguments"
        )
    stars, sizes = dict[Name, list[Member]](), Counter[Name]()
    histogram, removed = Counter[int](), list[int]()
    with Source(removed_path).lines() as lines:
        for row in map(json.loads, sound(lines)):
            removed.append(row["number"])
            for kept, similarity, distance in _likes(row):
                sizes[kept.name] += 1
                histogram[step_of(similarity if by_similarity else None, distance)] += 1
                members = stars.setdefault(kept.name, [kept])
                if len(members) < most_members:
                    of_row = row["input"], row["row"]
                    members.append(Member(key_of(row["id"]), 0, similarity, distance, of_row))
    noun, kept_rows = ("document", "rows") if cut is None else ("paragraph", "paragraphs")
    measure = f"removed by the distance of fingerprints to a kept {noun}"
    if by_similarity:
        measure = f"removed by a similarity of {threshold:g} or more to a kept {noun}"
    if of_items := job.get("call") == "decontaminate":
        measure = f"an item of which {threshold:g} or more of the shingles are in a document"
    documents, bounded = int(state["read"]), int(state["bounded"])
    note = (
        f"For {bounded:,} kept {kept_rows} a limit on candidates was hit, so they may have duplicates still."
    )
    largest = sorted(stars, key=lambda name: -sizes[name])[:most_clusters]
    how = folder, measure, by_similarity, config
    return Overview(
        *how,
        documents=documents,
        duplicates=int(state["removed"]),
        num_clusters=len(stars),
        num_pairs=sum(histogram.values()),
        histogram=labelled(histogram, by_similarity, threshold, max(histogram, default=0)),
        fresh=fresh_shares(documents, removed),
        clusters=[Cluster(sizes[name] + 1, stars[name]) for name in largest],
        notes=[note] if bounded else [],
        names=_CONTAMINATION if of_items else _DUPLICATES,
        inputs=inputs,
        cut=cut,
    )


_AGES = 20

Bars = list[tuple[str, int]]
"""Label and count of each bar, in order."""


class Histograms(NamedTuple):
    """What is stored, in bars."""

    similarities: Bars  # pairs by similarity, or by distance without MinHash, copies with the first of them
    buckets: Bars  # buckets by the number of sketches in them: 1, 2 to 3, 4 to 7 and so on
    ages: Bars  # documents by the time of their last touch or insert, in equal stretches of time, UTC


def histograms_of(index: Index, threshold: float) -> Histograms:
    """Return the histograms of an index, with pairs from the threshold on. Cost: that of `Index.pairs`, and
    one reading of all records."""
    with _pairs_of(index, threshold) as pairs:
        sizes = pairs.bucket_sizes()
        steps = Counter(step_of(pair.similarity, pair.distance) for pair in pairs)
    by_similarity = bool(index.config.num_perm)
    similarities = labelled(steps, by_similarity, threshold, _max_distance(index))
    return Histograms(similarities, _by_powers(sizes), _ages(index))


def _by_powers(sizes: Counter[int]) -> Bars:
    bars: Counter[int] = Counter()
    for size, count in sizes.items():
        bars[size.bit_length() - 1] += count
    return [
        (f"{1 << power}-{(2 << power) - 1}" if power else "1", bars[power])
        for power in range(max(bars, default=-1) + 1)
    ]


def _ages(index: Index) -> Bars:
    seconds = array("d", (record.seen_at.timestamp() for record in index.values()))
    if not seconds:
        return []
    counts, edges = np.histogram(seconds, bins=_AGES if min(seconds) < max(seconds) else 1)
    begins = (datetime.fromtimestamp(edge, UTC) for edge in edges.tolist())
    return [
        (f"{begin:%Y-%m-%d %H:%M:%S}", count) for begin, count in zip(begins, counts.tolist(), strict=False)
    ]
