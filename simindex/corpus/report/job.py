"""An index, and texts where they are at hand -> the data of the page.

Owns what is put into the page and how much of it: the page is opened by a browser, in memory whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simindex.corpus.explain import shingles_to_explain
from simindex.corpus.report.overview import Member, Overview
from simindex.corpus.report.page import page_of
from simindex.corpus.report.shared import shared_form
from simindex.format.keys import Key
from simindex.index import Index
from simindex.plain import plain

_MOST_METADATA = 300  # characters of it that are shown


@dataclass(frozen=True)
class Bounds:
    """How much is put into a report.

    Attributes:
        clusters: listed, the largest.
        members: listed of each.
        text: characters of each text.
        texts: characters of all texts; the largest clusters are given theirs first.
    """

    clusters: int = 10_000
    members: int = 100
    text: int = 20_000
    texts: int = 20_000_000


def report_of(
    index: Index, overview: Overview, threshold: float, texts: Mapping[Key, str] | None, bounds: Bounds
) -> str:
    """Return the page on an index.

    Args:
        index: open; the metadata of members is read from it.
        overview: of the same index.
        threshold: that it was made with.
        texts: those of members, by key; None where none are at hand.
        bounds: how much is put into the page.
    """
    by_similarity = bool(index.config.num_perm)
    notes = []
    if overview.bounded:
        notes.append(
            f"{overview.bounded:,} groups of documents with one prefix were too large to compare all with "
            "all, so pairs may be missing."
        )
    if overview.num_clusters > len(overview.clusters):
        notes.append(
            f"The largest {len(overview.clusters):,} of {overview.num_clusters:,} clusters are listed."
        )
    return page_of(
        {
            "source": index.path,
            "measure": f"similarity of {threshold:g} or more, estimated from signatures"
            if by_similarity
            else "fingerprints within the distance that the index was built for",
            "notes": notes,
            "documents": overview.documents,
            "duplicates": overview.duplicates,
            "num_clusters": overview.num_clusters,
            "num_pairs": overview.num_pairs,
            "histogram_title": "Similarities of pairs" if by_similarity else "Distances of pairs",
            "histogram": overview.histogram,
            "fresh": [round(share, 4) for share in overview.fresh],
            "with_texts": texts is not None,
            "clusters": _clusters(index, overview, texts or {}, bounds),
        }
    )


def _clusters(
    index: Index, overview: Overview, texts: Mapping[Key, str], bounds: Bounds
) -> list[dict[str, Any]]:
    room = bounds.texts
    found = []
    for cluster in overview.clusters:
        members = [_member(index, member) for member in cluster.members]
        given = [
            (place, texts[member.key]) for place, member in enumerate(cluster.members) if member.key in texts
        ]
        fitting = []
        for place, text in given:
            room -= min(len(text), bounds.text)
            if room < 0:
                break
            fitting.append((place, text))
        forms = shared_form([text[: bounds.text] for _, text in fitting], shingles_to_explain(index.config))
        for (place, text), form in zip(fitting, forms, strict=True):
            members[place]["form"] = form
            if len(text) > bounds.text:
                members[place]["cut"] = len(text)
        found.append({"size": cluster.size, "members": members})
    return found


def _member(index: Index, member: Member) -> dict[str, Any]:
    record = index.get(member.key)
    metadata = None if record is None else record.metadata
    return {
        "key": member.key if isinstance(member.key, str) else str(member.key),
        "like": member.like,
        "similarity": None if member.similarity is None else round(member.similarity, 4),
        "distance": member.distance,
    } | ({} if metadata is None else {"metadata": _shown(metadata)})


def _shown(metadata: Any) -> str:
    try:
        return json.dumps(plain(metadata), ensure_ascii=False)[:_MOST_METADATA]
    except RecursionError:
        return "(nested too deep to show)"


def keys_of(overview: Overview) -> list[Key]:
    """Return the keys of all members that are listed."""
    return [member.key for cluster in overview.clusters for member in cluster.members]
