"""Collect the data of the report from an index or a finished job, and texts from inputs: an index has none.

What is put into the page and how much of it: the page is opened by a browser, in memory whole. The page of
passages shows a text beside each stored document that some of it stands in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from simindex.config import Config
from simindex.corpus.dedup.paragraphs import Split, paragraph_key, spans_of
from simindex.corpus.report.overview import Cluster, Finished, Member, Name, Overview
from simindex.corpus.report.page import page_of, shared_form
from simindex.corpus.shared_passages import shingles_to_explain
from simindex.format.keys import Key
from simindex.index import Index
from simindex.inputs import BadRowError, Inputs, Row, sound
from simindex.jsonable import plain
from simindex.queries.passages import StoredPassage, StoredPassages

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
    *("Near duplicates", ("duplicate", "cluster"), "duplicates of an earlier one"),
    *("clusters", "similar pairs", "Similarities of pairs", "new"),
)
_CONTAMINATION = Names(
    *("Contamination", ("contaminated document", "item"), "documents that hold an item"),
    *("items found", "items in documents", "Shares of items in documents", "clean"),
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
    measure = "fingerprints within the distance that the index was built for"
    if by_similarity := bool(index.config.num_perm):
        measure = f"similarity of {threshold:g} or more, estimated from signatures"

    def metadata_of(key: Key) -> Any:
        record = index.get(key)
        return None if record is None else record.metadata

    return Subject(index.path, measure, by_similarity, index.config, metadata_of)


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
    figures = [] if member.similarity is None else [f"{member.similarity:.3f}"]
    if member.distance is not None:
        figures.append(f"{member.distance} bit{'s'[: member.distance != 1]}")
    found = {"key": str(member.key), "like": member.like, "figures": ", ".join(figures)}
    metadata = subject.metadata_of(member.key)
    return found if metadata is None else found | {"metadata": _shown(metadata)}


def _shown(metadata: Any) -> str:
    try:
        return json.dumps(plain(metadata), ensure_ascii=False)[:_MOST_METADATA]
    except RecursionError:
        return "(nested too deep to show)"


def members_of(overview: Overview) -> list[Member]:
    """Return all members that are listed."""
    return [member for cluster in overview.clusters for member in cluster.members]


def texts_of(rows: Iterable[Row | BadRowError], keys: Collection[Key]) -> dict[Key, str]:
    """Return the texts of the rows with these keys, of several with one key the first; raise bad rows."""
    wanted = set(keys)
    found: dict[Key, str] = {}
    if not wanted:
        return found
    for row in sound(rows):
        if isinstance(row.document, str) and row.key in wanted:
            found[row.key] = row.document
            wanted.remove(row.key)
            if not wanted:
                break
    return found


def texts_of_job(inputs: Inputs, job: Finished, members: Collection[Member]) -> dict[Name, str]:
    """Return the texts of members of a job, by their names, as `texts_of` reads them.

    A member has the text of its key and place. Where its input is now elsewhere the file's name counts; what
    is of none of the files that are read, as a document of an index, has the first text of its key that is of
    no file of the job.
    """
    missing, keys = {member.name for member in members}, {member.key for member in members}
    named = {os.path.basename(member.place[0]) for member in members if member.place and member.place[0]}
    named |= set(map(os.path.basename, job.inputs))
    found: dict[Name, str] = {}
    for key, text, file, number in _placed(inputs, None if job.cut is None else job.cut.split, keys):
        if not missing:
            break
        if key in keys:
            name = os.path.basename(file)
            found.setdefault((key, file, number), text)
            found.setdefault((key, name, number) if name in named else key, text)
            missing.discard((key, file, number))
    texts: dict[Name, str] = {}
    for member in members:
        path, row = member.place or (None, 0)
        known: list[Name] = [member.name, (member.key, os.path.basename(path or ""), row), member.key]
        texts.update((member.name, found[name]) for name in reversed(known) if name in found)
    return texts


def _placed(
    inputs: Inputs, split: Split | None, keys: Collection[Key]
) -> Iterator[tuple[Key, str, str, int]]:
    """Yield (key, text, input, row) of texts; where they were split of the paragraphs of documents that one
    of the keys is of."""
    wanted = set() if split is None else set(map(_document_of, keys))
    for some in inputs.columns():
        for path, row, key, text in zip(some.names, some.numbers, some.keys, some.documents, strict=True):
            if isinstance(text, str) and split is None:
                yield key, text, path, row
            elif isinstance(text, str) and split and _document_of(paragraph_key(key, 1)) in wanted:
                for place, (start, end) in enumerate(spans_of(text, split), 1):
                    yield paragraph_key(key, place), text[start:end].strip(), path, row
        if some.error is not None:
            raise some.error


def _document_of(paragraph: Key) -> str | bytes:
    if isinstance(paragraph, bytes):
        return paragraph.rpartition(b"#")[0]
    return str(paragraph).rpartition("#")[0]


def page_of_passages(
    index: Index, name: str, text: str, found: StoredPassages, texts: Mapping[Key, str]
) -> str:
    """Return the page on exact passages of a text; `texts` are those of the stored documents that have
    some."""
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
