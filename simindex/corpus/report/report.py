"""Collect the data of the report from an index or a finished job.

What is put into the page and how much of it: the page is opened by a browser, in memory whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from simindex.config import Config
from simindex.corpus.explain import shingles_to_explain
from simindex.corpus.report.common_passages import shared_form
from simindex.corpus.report.job_files import Finished
from simindex.corpus.report.overview import Cluster, Member, Overview
from simindex.corpus.report.page import page_of
from simindex.format.keys import Key
from simindex.index import Index
from simindex.jsonable import plain

_MOST_METADATA = 300  # characters of it that are shown


@dataclass(frozen=True)
class Bounds:
    """How much is put into a report."""

    clusters: int = 10_000  # listed, the largest
    members: int = 100  # listed of each
    text: int = 20_000  # characters of each text
    texts: int = 20_000_000  # characters of all texts; the largest clusters are given theirs first


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
    title="Near duplicates",
    one=("duplicate", "cluster"),
    later="duplicates of an earlier one",
    clusters="clusters",
    pairs="similar pairs",
    histogram="Similarities of pairs",
    fresh="new",
)
_CONTAMINATION = Names(
    title="Contamination",
    one=("contaminated document", "item"),
    later="documents that hold an item",
    clusters="items found",
    pairs="items in documents",
    histogram="Shares of items in documents",
    fresh="clean",
)


class Subject(NamedTuple):
    """What a report is on."""

    source: str  # what it is called
    measure: str  # a sentence on when documents are similar
    by_similarity: bool  # whether by similarity, and not by distance
    config: Config  # how texts are cut
    metadata_of: Callable[[Key], Any]  # gives the metadata of a key, or None
    noun: str = "document"  # what one of them is called
    names: Names = _DUPLICATES


def subject_of(index: Index, threshold: float) -> Subject:
    """Return what to say of an index."""
    by_similarity = bool(index.config.num_perm)
    estimated = f"similarity of {threshold:g} or more, estimated from signatures"
    measure = estimated if by_similarity else "fingerprints within the distance that the index was built for"
    return Subject(index.path, measure, by_similarity, index.config, lambda key: _metadata(index, key))


def _metadata(index: Index, key: Key) -> Any:
    record = index.get(key)
    return None if record is None else record.metadata


def subject_of_job(job: Finished) -> Subject:
    """Return what to say of a finished job."""
    names, measure = _DUPLICATES, f"removed by a similarity of {job.threshold:g} or more to a kept {job.noun}"
    if not job.by_similarity:
        measure = f"removed by the distance of fingerprints to a kept {job.noun}"
    if job.of_items:
        names = _CONTAMINATION
        measure = f"an item of which {job.threshold:g} or more of the shingles are in a document"
    return Subject(job.folder, measure, job.by_similarity, job.config, lambda _key: None, job.noun, names)


def report_of(subject: Subject, overview: Overview, texts: Mapping[Any, str] | None, bounds: Bounds) -> str:
    """Return the page on an index or a job; `texts` of members by `Member.name`; ``None``: none at hand."""
    notes = list(overview.notes)
    if overview.num_clusters > len(overview.clusters):
        notes.append(
            f"The largest {len(overview.clusters):,} of {overview.num_clusters:,} clusters are listed."
        )
    names, noun = subject.names, subject.noun
    share = 100 * overview.duplicates / max(overview.documents, 1)
    figures = [
        (f"{noun}s", f"{overview.documents:,}"),
        (names.later, f"{overview.duplicates:,}"),
        ("share of these", f"{share:.1f} %"),
        (names.clusters, f"{overview.num_clusters:,}"),
        (names.pairs, f"{overview.num_pairs:,}"),
    ]
    of_pairs = names.histogram if subject.by_similarity else "Distances of pairs"
    return page_of(
        {
            "title": names.title,
            "source": subject.source,
            "measure": subject.measure,
            "notes": notes,
            "noun": noun,
            "figures": figures,
            "histogram_title": of_pairs,
            "histogram": overview.histogram,
            "fresh_title": f"Share of {names.fresh} {noun}s along the input",
            "fresh": [round(share, 4) for share in overview.fresh],
            "clusters_title": f"{names.clusters.capitalize()}, the largest first",
            "column": "similarity",
            "with_texts": texts is not None,
            "clusters": values_of(overview.clusters, subject, texts or {}, bounds),
        }
    )


def values_of(
    clusters: Iterable[Cluster], subject: Subject, texts: Mapping[Any, str], bounds: Bounds
) -> list[dict[str, Any]]:
    """Return what page.js reads of clusters; `texts` by `Member.name`."""
    room = bounds.texts
    shingles = shingles_to_explain(subject.config)
    found = []
    for cluster in clusters:
        members = [_member(subject, member) for member in cluster.members]
        fitting = []
        for place, member in enumerate(cluster.members):
            if member.name in texts:
                room -= min(len(texts[member.name]), bounds.text)
                if room < 0:
                    break
                fitting.append((place, texts[member.name]))
        forms = shared_form([text[: bounds.text] for _, text in fitting], shingles)
        for (place, text), form in zip(fitting, forms, strict=True):
            members[place]["form"] = form
            if len(text) > bounds.text:
                members[place]["cut"] = len(text)
        found.append({"size": cluster.size, "members": members})
    return found


def _member(subject: Subject, member: Member) -> dict[str, Any]:
    metadata = subject.metadata_of(member.key)
    return {
        "key": str(member.key),
        "like": member.like,
        "figures": _figures(member),
    } | ({} if metadata is None else {"metadata": _shown(metadata)})


def _figures(member: Member) -> str:
    """Return how similar a member is to the one that it is like."""
    found = [] if member.similarity is None else [f"{member.similarity:.3f}"]
    if member.distance is not None:
        found.append("1 bit" if member.distance == 1 else f"{member.distance} bits")
    return ", ".join(found)


def _shown(metadata: Any) -> str:
    try:
        return json.dumps(plain(metadata), ensure_ascii=False)[:_MOST_METADATA]
    except RecursionError:
        return "(nested too deep to show)"


def members_of(overview: Overview) -> list[Member]:
    """Return all members that are listed."""
    return [member for cluster in overview.clusters for member in cluster.members]
