"""Choose what is put into a page, and how much of it: a browser has the whole page in memory.

The page of passages shows a text beside each stored document that some of it stands in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from simindex.config import Config
from simindex.corpus.report.overview import Bounds, Cluster, Member, Overview
from simindex.corpus.report.page import page_of
from simindex.corpus.report.text_forms import shared_form
from simindex.corpus.shared_passages import shingles_to_explain
from simindex.format.keys import Key
from simindex.index import Index
from simindex.jsonable import plain
from simindex.queries.passages import StoredPassage, StoredPassages

_MOST_METADATA = 300  # characters of it that are shown


def report_of(
    overview: Overview, texts: Mapping[Any, str] | None, bounds: Bounds, index: Index | None = None
) -> str:
    """Return the page on an index or a job, HTML.

    Args:
        texts: of members, by `Member.name`; ``None``: the page says that it was given none.
        index: adds the metadata of its documents, where there are some.
    """
    notes = list(overview.notes)
    if overview.num_clusters > len(overview.clusters):
        notes.append(
            f"The largest {len(overview.clusters):,} of {overview.num_clusters:,} clusters are listed."
        )
    names, noun = overview.names, overview.noun
    share = 100 * overview.duplicates / max(overview.documents, 1)
    figures = [
        (f"{noun}s", f"{overview.documents:,}"),
        (names.later, f"{overview.duplicates:,}"),
        ("share of these", f"{share:.1f} %"),
        (names.clusters, f"{overview.num_clusters:,}"),
        (names.pairs, f"{overview.num_pairs:,}"),
    ]
    return page_of(
        {
            "title": names.title,
            "source": overview.source,
            "measure": overview.measure,
            "notes": notes,
            "noun": noun,
            "figures": figures,
            "histogram_title": names.histogram if overview.by_similarity else "Distances of pairs",
            "histogram": overview.histogram,
            "fresh_title": f"Share of {names.fresh} {noun}s along the input",
            "fresh": [round(share, 4) for share in overview.fresh],
            "clusters_title": f"{names.clusters.capitalize()}, the largest first",
            "column": "similarity",
            "with_texts": texts is not None,
            "clusters": _values_of(overview.clusters, overview.config, texts or {}, bounds, index),
        }
    )


def _values_of(
    clusters: Iterable[Cluster],
    config: Config,
    texts: Mapping[Any, str],
    bounds: Bounds,
    index: Index | None,
) -> list[dict[str, Any]]:
    """Return what page.js reads of clusters: {"size", "members"}, a member with "form" if its text is shown
    and "cut", its whole length, if only the beginning is. `texts`: by `Member.name`; once all that are shown
    have `bounds.texts` characters, no further one is."""
    room = bounds.texts
    shingles = shingles_to_explain(config)
    found = []
    for cluster in clusters:
        members = [_member(index, member) for member in cluster.members]
        fitting = []
        for shown, member in zip(members, cluster.members, strict=True):
            if member.name in texts:
                room -= min(len(texts[member.name]), bounds.text)
                if room < 0:
                    break
                fitting.append((shown, texts[member.name]))
        forms = shared_form([text[: bounds.text] for _, text in fitting], shingles)
        for (shown, text), form in zip(fitting, forms, strict=True):
            shown["form"] = form
            if len(text) > bounds.text:
                shown["cut"] = len(text)
        found.append({"size": cluster.size, "members": members})
    return found


def _member(index: Index | None, member: Member) -> dict[str, Any]:
    figures = [] if member.similarity is None else [f"{member.similarity:.3f}"]
    if member.distance is not None:
        figures.append(f"{member.distance} bit{'s'[: member.distance != 1]}")
    found = {"key": str(member.key), "like": member.like, "figures": ", ".join(figures)}
    record = None if index is None else index.get(member.key)
    metadata = None if record is None else record.metadata
    return found if metadata is None else found | {"metadata": _shown(metadata)}


def _shown(metadata: Any) -> str:
    try:
        return json.dumps(plain(metadata), ensure_ascii=False)[:_MOST_METADATA]
    except RecursionError:
        return "(nested too deep to show)"


def page_of_passages(
    index: Index, name: str, text: str, found: StoredPassages, texts: Mapping[Key, str]
) -> str:
    """Return the page on the passages that were found of a text, HTML; of more than 99 documents the first.

    Args:
        name: of the text.
        texts: of the stored documents that have passages, by key; one that is missing is listed without.
    """
    by_key: dict[Key, list[StoredPassage]] = {}
    for passage in found:
        by_key.setdefault(passage.key, []).append(passage)
    own = Member(name, origin=(None, 0))  # a stored document may have this key, too
    shown = [own, *map(Member, by_key)][: Bounds.members]
    bounds = Bounds(text=Bounds.texts)
    clusters = [Cluster(len(by_key) + 1, shown)] if found else []
    values = _values_of(clusters, index.config, {own.name: text, **texts}, bounds, index)
    for cluster in values:
        cluster["members"][0] |= {"metadata": None, "figures": "the text"}
        for member, passages in zip(cluster["members"][1:], by_key.values(), strict=False):
            longest = f"{passages[0].words:,} words"  # it is the first
            several = f"{len(passages):,} passages, the longest of {longest}"
            member["figures"] = longest if len(passages) == 1 else several
    return page_of(
        {
            "title": "Passages",
            "source": index.path,
            "measure": f"what {name} has in common with stored documents",
            "notes": ["A limit on candidates was hit, so passages may be missing."] * found.truncated,
            "noun": "text",
            "figures": [
                ("passages", f"{len(found):,}"),
                ("documents that have some", f"{len(by_key):,}"),
                ("words of the longest", f"{found[0].words if found else 0:,}"),
            ],
            "histogram": [],
            "clusters_title": "The text and the documents",
            "column": "passages",
            "with_texts": True,
            "least": min((passage.words for passage in found), default=1),
            "clusters": values,
        }
    )
