"""Passages: the longest runs of a text that stand in stored documents, and where.

The sampled shingles of the text, and no others, are looked up in the table of sampled shingles. Each document
that is met is compared with the text shingle by shingle where its own text is at hand. Invariant: a passage
of n distinct shingles is missed only where none of them is sampled, whose chance is (1 - 1/m)^n, or where
`truncated` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simindex.checks import require_int
from simindex.config import Config
from simindex.errors import ArgumentTypeError
from simindex.format.chunks import shingle_keys
from simindex.format.keys import Key
from simindex.jsonable import fields_of
from simindex.queries.containment import indices_of_rarest, meeting_probability, require_samples
from simindex.queries.matches import Results
from simindex.queries.view import EVERY, View
from simindex.sketching.common_runs import CommonRun, ShingleRow, common_runs
from simindex.sketching.document import Texts, document_under
from simindex.sketching.sample import mixed_hashes, sample_top
from simindex.sketching.shingles import document_hashes
from simindex.sketching.spans import ShingleNumbers, Tokens, shingle_numbers, tokens_of


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A piece of the text that stands in a stored document, too.

    Attributes:
        key: of the stored document.
        start: where the piece begins in the text, in code points: `text[start:end]`.
        end: where it ends there, exclusive.
        stored_start: where it begins in the stored document's text; ``None`` without that.
        stored_end: where it ends there, exclusive; ``None`` without that text.
        words: its length in words, in characters with `CharShingles`.
        exact: whether it was compared with the stored text. Otherwise it spans sampled shingles of the text
            alone: it may begin earlier and end later, and what lies between them may differ.
    """

    key: Key
    start: int
    end: int
    stored_start: int | None
    stored_end: int | None
    words: int
    exact: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in their order, as values that JSON has; see `Match.to_dict`."""
        return fields_of(self)


class StoredPassages(Results[StoredPassage]):
    """The passages of one text, longest first; a slice is `StoredPassages`, too.

    Attributes:
        truncated: True when a limit on candidates was hit, so that passages may be missing.
        missed: chance that a passage of the fewest words that count is missed, all its shingles distinct.
    """

    __slots__ = ("missed", "truncated")

    def __init__(
        self, passages: Iterable[StoredPassage] = (), truncated: bool = False, missed: float = 0.0
    ) -> None:
        super().__init__(passages)
        self.truncated, self.missed = truncated, missed

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return `StoredPassage.to_dict` of each; the attributes of the list are not in it."""
        return [passage.to_dict() for passage in self]


class CommonPassage(NamedTuple):
    """A piece of a text whose sampled shingles many stored documents have; see `Index.common_passages`.

    Attributes:
        start: where it begins in the text, in code points: `text[start:end]`.
        end: where it ends there, exclusive.
        documents: how many stored documents have the least common of its sampled shingles.
    """

    start: int
    end: int
    documents: int


def common_passages(view: View, text: str, share: float) -> list[CommonPassage]:
    """Return the pieces of a text that its common sampled shingles in a row span, in order. Common is what
    more than that share of the stored documents have, and more than one."""
    config, found = view.scheme.config, list[CommonPassage]()
    _require_text("text", text)
    own = tokens_of(text, config.shingles, {})
    sampled, hashes = _sampled(config, text)
    counts = view.count_shingles(shingle_keys(hashes))
    for first, stop in _runs((counts / max(view.num_documents, 1) > share) & (counts > 1)):
        start, end, _ = own.span(sampled[first], sampled[stop - 1] + 1 - sampled[first])
        found.append(CommonPassage(start, end, int(counts[first:stop].min())))
    return found


def passages(
    view: View, text: str, texts: Texts | None, min_words: int, limit: int | None, max_candidates: int
) -> StoredPassages:
    """Return the pieces of a text, of `min_words` or more, or of all its words where it has fewer, that stand
    in stored documents, longest first, up to the limit; see `Index.passages`."""
    config, names = view.scheme.config, dict[str, int]()
    require_samples(config)
    _require_text("text", text)
    min_words = require_int("min_words", min_words, 1)
    if limit is not None:
        limit = require_int("limit", limit, 1)
    own = tokens_of(text, config.shingles, names)
    least = min(min_words, len(own.numbers))
    met_by = meeting_probability(max(1, least - own.size + 1), config.containment)
    found = StoredPassages((), False, 1.0 - met_by)

    sampled, hashes = _sampled(config, text)
    distinct, inverse = np.unique(hashes, return_inverse=True)
    keys = shingle_keys(distinct)
    asked = indices_of_rarest(view, keys, max_candidates)
    table = view.scheme.tables.shingle_table
    met = view.directory.find_entries(table, np.ascontiguousarray(keys[asked]), EVERY)
    doc_ids, owners, hits = np.unique(met["doc_id"], return_inverse=True, return_counts=True)
    best = np.sort(np.argsort(-hits, kind="stable")[:max_candidates])
    found.truncated = len(asked) < len(keys) or len(best) < len(doc_ids)
    by_owner = np.split(asked[met["query"]][np.argsort(owners, kind="stable")], np.cumsum(hits)[:-1])
    runs_with = _comparing(own)
    for index, record in view.all_with(doc_ids[best]):
        if texts is None:
            found += _estimated(record.key, own, sampled, np.isin(inverse, by_owner[best[index]]), least)
            continue
        stored = document_under(texts, record.key)
        _require_text(f"texts: {record.key!r}", stored)
        other = tokens_of(stored, config.shingles, names)
        found += _compared(record.key, own, other, runs_with(other), least)
    found.sort(key=lambda passage: (-passage.words, passage.start))  # stable: then in stored order
    del found[limit or len(found) :]
    return found


def _sampled(config: Config, text: str) -> tuple[list[int], np.ndarray]:
    """Return the indices of a text's sampled shingles among all its shingles, in order and repeats included,
    and their mixed hashes, uint64."""
    hashes = mixed_hashes(document_hashes(text, config.shingles, config.hash_seed))
    indices = np.flatnonzero(hashes <= np.uint64(sample_top(config.containment)))
    return indices.tolist(), hashes[indices]


def _runs(are: np.ndarray) -> list[list[int]]:
    """Return [first, exclusive end] of each run of True in an array of bool."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], are, [False]]).astype(np.int8)))
    runs: list[list[int]] = edges.reshape(-1, 2).tolist()
    return runs


def _comparing(own: Tokens) -> Callable[[Tokens], list[CommonRun]]:
    """Return a function that gives the runs that `own` has in common with another text; its own part is done
    once."""
    tokens, size = own.numbers, own.size
    if len(tokens) < size:  # it is one run, of fewer tokens
        return lambda other: common_runs(*map(ShingleRow, shingle_numbers([tokens, other.numbers], size)))
    numbers = ShingleNumbers(tokens, size)
    row = ShingleRow(numbers.own)

    def runs_with(other: Tokens) -> list[CommonRun]:
        is_shorter = len(other.numbers) < size  # such a one is a run that no longer text has
        return [] if is_shorter else common_runs(row, ShingleRow(numbers.of(other.numbers)))

    return runs_with


def _compared(
    key: Key, own: Tokens, other: Tokens, runs: Iterable[CommonRun], least: int
) -> Iterator[StoredPassage]:
    """Yield the runs that two texts have in common, of at least so many words."""
    for run in runs:
        start, end, words = own.span(run.first_a, run.length)
        if words >= least:
            stored_start, stored_end, _ = other.span(run.first_b, run.length)
            yield StoredPassage(key, start, end, stored_start, stored_end, words, True)


def _estimated(
    key: Key, own: Tokens, sampled: list[int], are_met: np.ndarray, least: int
) -> Iterator[StoredPassage]:
    """Yield pieces of the text that span sampled shingles in a row that the document has, where the common
    part, up to the next sampled shingles that it lacks, may have `least` words."""
    num_shingles = max(1, len(own.numbers) - own.size + 1)
    for first, stop in _runs(are_met):
        before = sampled[first - 1] if first else -1
        end = sampled[stop] if stop < len(sampled) else num_shingles
        *_, most = own.span(before + 1, end - before - 1)
        if most >= least:
            start, end, words = own.span(sampled[first], sampled[stop - 1] + 1 - sampled[first])
            yield StoredPassage(key, start, end, None, None, words, False)


def _require_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise ArgumentTypeError(name, "a str", type(text).__name__, "only a text has places")
