"""The page of passages: a text beside each stored document that some of it stands in."""

from __future__ import annotations

from collections.abc import Mapping

from simindex.corpus.report.overview import Cluster, Member
from simindex.corpus.report.page import page_of
from simindex.corpus.report.report import Bounds, subject_of, values_of
from simindex.format.keys import Key
from simindex.index import Index
from simindex.queries.passages import StoredPassage, StoredPassages


def page_of_passages(
    index: Index, name: str, text: str, found: StoredPassages, texts: Mapping[Key, str]
) -> str:
    """Return the page.

    Args:
        name: of the text.
        found: exact passages.
        texts: of the stored documents that have some. Those that the page has no room for are listed alone.
    """
    by_key: dict[Key, list[StoredPassage]] = {}
    for passage in found:
        by_key.setdefault(passage.key, []).append(passage)
    own = Member(name, place=(None, 0))  # a stored document may have this key, too
    shown = [own, *map(Member, by_key)][: Bounds.members]
    bounds = Bounds(text=Bounds.texts)
    clusters = [Cluster(len(by_key) + 1, shown)] if found else []
    values = values_of(clusters, subject_of(index, 1.0), {own.name: text, **texts}, bounds)
    for cluster in values:
        cluster["members"][0] |= {"metadata": None, "figures": "the text"}
        for member, passages in zip(cluster["members"][1:], by_key.values(), strict=False):
            member["figures"] = _figures(passages)
    return page_of(
        {
            "title": "Passages",
            "source": index.path,
            "measure": f"what {name} has in common with stored documents",
            "notes": ["A limit on candidates was hit, so passages may be missing."]
            if found.truncated
            else [],
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


def _figures(passages: list[StoredPassage]) -> str:
    """Return how many a document has, for people; the longest is the first."""
    longest = f"{passages[0].words:,} words"
    return longest if len(passages) == 1 else f"{len(passages):,} passages, the longest of {longest}"
