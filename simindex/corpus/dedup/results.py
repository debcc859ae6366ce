"""Results of a deduplication: the verdict on a row, `Removed`, and `DedupReport`."""

from __future__ import annotations

from typing import Any, NamedTuple

from simindex.corpus.entries import Place
from simindex.corpus.shared_passages import Explanation
from simindex.format.keys import Key
from simindex.jsonable import plain


class Verdict(NamedTuple):
    """Why a row goes: the kept document that is most like it; see `Removed`."""

    duplicate_of: Key
    kept_place: Place
    similarity: float | None
    distance: int | None
    exact: bool
    standard_error: float | None
    cluster: int | None
    common_left_out: int | None = None
    in_kept: float | None = None


NumberedVerdict = tuple[int, Verdict | None]
"""Number of a row, and its verdict; ``None``: it stays, though not all was looked at."""


class DedupReport(NamedTuple):
    """What `deduplicate` did, in rows.

    Attributes:
        read: rows of the input.
        kept: rows that stay.
        removed: rows that are like a kept one, each compared with it.
        bounded: kept rows for which a limit on candidates was hit: something may be like them that was not
            looked at. A bound may keep too much; it never removes.
        seconds: of work, those before an interruption included.
        missed: expected share of the rows right at the threshold that stay, 0..1, for they are not found:
            about one half where estimates are cut at the threshold, fewer above it (`tuning`), 0.01 at most
            with `exact` unless `recall` says otherwise, 0 by SimHash. Expected over pairs: rows of one family
            of copies are found or missed together, so the share in one collection varies more than that of
            as many independent rows.
        emptied: the inputs of more than one row of which none stays.
    """

    read: int
    kept: int
    removed: int
    bounded: int
    seconds: float
    missed: float = 0.0
    emptied: tuple[str, ...] = ()


class KeptRow(NamedTuple):
    """A row as a callable sink is given it: its id, its document, its fields."""

    key: Key
    document: Any
    metadata: Any


class AnnotatedRow(NamedTuple):
    """A row as a callable sink is given it with mode="annotate"."""

    key: Key
    document: Any
    metadata: Any
    duplicate_of: Key | None
    similarity: float | None
    cluster: int | None
    explanation: dict[str, Any] | None = None


class SeenRow(NamedTuple):
    """A row as a callable sink is given it with mode="annotate" and level="paragraph"."""

    key: Key
    document: Any
    metadata: Any
    seen_share: float
    seen: list[dict[str, Any]]


class CheckedRow(NamedTuple):
    """A row as a callable sink of `decontaminate` is given it with mode="annotate"."""

    key: Key
    document: Any
    metadata: Any
    contamination: float
    items: list[dict[str, Any]]


class Removed(NamedTuple):
    """A row that is not kept, and because of which.

    Attributes:
        key: its id; where it has none, ``input:row``.
        place: where it is.
        duplicate_of: the id of the kept document that is most like it.
        kept_place: where that is; its input is the path of the index for a document of `against` or `into`.
        similarity: of the two: Jaccard, an estimate unless `exact`; ``None`` where compared by SimHash.
        distance: of their fingerprints, in bits; ``None`` where there are none.
        exact: whether the similarity is exact.
        standard_error: of the similarity.
        cluster: the number in the input, from 0, of the kept row; ``None`` for a document of an index.
        number: its own number in the whole input, from 0.
        span: of a paragraph: where it begins and ends in the text of its document, in code points.
        explanation: with explain=True the passages that the two share, this one being `a`; ``None`` where the
            kept one's text is not at hand.
        explains: whether that was asked for.
        common_left_out: how many shingles of the two were left out by `ignore_common`, 0 where they are
            equal; ``None`` where it was not asked for.
        in_kept: which share of its shingles the kept document has, as exact as the similarity; ``None``
            where `in_kept` was not asked for.
        source: with `keep_per` the values of its fields, which are those of the kept document, too.
    """

    key: Key
    place: Place
    duplicate_of: Key
    kept_place: Place
    similarity: float | None
    distance: int | None
    exact: bool
    standard_error: float | None
    cluster: int | None
    number: int
    span: tuple[int, int] | None = None
    explanation: Explanation | None = None
    explains: bool = False
    common_left_out: int | None = None
    in_kept: float | None = None
    source: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row's line of the report of removed rows, with JSON's types: the dict of `removed_row`,
        and "explanation" where one was asked for."""
        found = removed_row(self.key, self.place, self, self.number, self.span, self.source)
        return found | self.explained() if self.explains else found

    def explained(self) -> dict[str, Any]:
        """Return the explanation as a dict of one member, "explanation", ``None`` where there is none; an
        empty dict where none was asked for."""
        if not self.explains:
            return {}
        return {"explanation": None if self.explanation is None else self.explanation.to_dict()}


def removed_row(
    key: Key,
    place: Place,
    verdict: Verdict | Removed,
    number: int,
    span: tuple[int, int] | None = None,
    source: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the report line of a removed row as a dict, without its explanation; the fields are described at
    `Removed`. `number`: the row's index in the whole input; `span`: begin and end of a paragraph. A
    paragraph, its span, common shingles, `in_kept` and a source are members only where they are given."""
    kept = verdict.kept_place
    found = {
        "id": plain(key),
        "input": place.input,
        "row": place.row,
        "duplicate_of": plain(verdict.duplicate_of),
        "kept_input": kept.input,
        "kept_row": kept.row,
        "similarity": verdict.similarity,
        "distance": verdict.distance,
        "exact": verdict.exact,
        "standard_error": verdict.standard_error,
        "cluster": verdict.cluster,
        "number": number,
    }
    if place.paragraph is not None:
        found["paragraph"], found["kept_paragraph"] = place.paragraph, kept.paragraph
    if span is not None:
        found["span"] = list(span)
    if verdict.common_left_out is not None:
        found["common_left_out"] = verdict.common_left_out
    if verdict.in_kept is not None:
        found["in_kept"] = verdict.in_kept
    if source is not None:
        found["source"] = source
    return found
