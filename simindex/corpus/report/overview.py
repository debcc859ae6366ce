"""What a report shows of an index or of a job: figures, clusters, and what a page calls them.

Frozen values; `index_overview` and `job_overview` make them, and `report` and the command show them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simindex.config import Config
from simindex.corpus.dedup.paragraphs import Cut
from simindex.format.keys import Key

Name = Key | tuple[Key, str | None, int]
"""Of a member; see `Member.name`."""


@dataclass(frozen=True)
class Bounds:
    """How much is put into a report."""

    clusters: int = 10_000  # listed, the largest
    members: int = 100  # listed of each
    text: int = 20_000  # characters of each text
    texts: int = 20_000_000  # characters of all texts; the largest clusters are given theirs first


class Member(NamedTuple):
    """A document of a cluster."""

    key: Key
    like: int | None = None  # the index in the cluster's members of the earlier one that it is most like
    similarity: float | None = None  # to that one; None without MinHash
    distance: int | None = None  # to that one, in bits; None without SimHash
    origin: tuple[str | None, int] | None = None  # of a row of a job: its input, and its number there

    @property
    def name(self) -> Name:
        """What its text is found by: the key, or (key, input, row number) of a row of a job, where several
        rows may have one key."""
        return self.key if self.origin is None else (self.key, *self.origin)


class Cluster(NamedTuple):
    """Documents that are similar to one another, directly or by others."""

    size: int  # of all; `members` may be fewer
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


DUPLICATES = Names(
    *("Near duplicates", ("duplicate", "cluster"), "duplicates of an earlier one"),
    *("clusters", "similar pairs", "Similarities of pairs", "new"),
)
CONTAMINATION = Names(
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
    fresh: list[float]  # the share that are no duplicates, in up to 60 equal parts of the order of storing
    clusters: list[Cluster]  # the largest first, then by their first members
    notes: list[str]
    names: Names = DUPLICATES
    inputs: Sequence[str] = ()  # the files that a job has read
    cut: Cut | None = None  # how a job cut texts into paragraphs, if that is what it compared

    @property
    def noun(self) -> str:
        """What was compared: "document" or "paragraph"."""
        return "document" if self.cut is None else "paragraph"

    @property
    def members(self) -> list[Member]:
        """The listed members of all listed clusters."""
        return [member for cluster in self.clusters for member in cluster.members]
