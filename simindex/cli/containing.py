"""What holds what, as a table or as JSON lines: of `simindex query --contained` and `simindex find`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, get_args

from simindex.cli import options
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, figure, note, plain_metadata, print_json, print_table, shown_key
from simindex.format.keys import Key
from simindex.index import Index
from simindex.jsonable import plain
from simindex.queries.containment import ContainmentMatch, ContainmentMatches, Direction

Directions = Annotated[
    Direction,
    options.word(
        get_args(Direction),
        "Which share must reach the threshold: that of the query in the stored document (in_stored), that of "
        "the stored document in the query (in_query), or either.",
    ),
]

_COLUMNS = ("key", "in stored", "in query", "error", "relation")


def require_samples(index: Index, exact: bool) -> None:
    """Raise CommandError, naming the options of `insert`, unless the index can be searched so."""
    if not index.config.containment:
        raise CommandError(f"{index.path}: this needs an index built with --containment 8")
    if exact and not index.config.keep_shingles:
        raise CommandError(f"{index.path}: --exact needs an index built with --keep-shingles")


def print_contained(
    results: Iterable[Sequence[tuple[Key | None, ContainmentMatches]]], as_json: bool
) -> None:
    """Print the matches of queries as they come, some queries at a time, and at the end what is uncertain.

    Of a query that has no key the matches stand alone.
    """
    totals = _Totals()
    header = True
    for found in results:
        for key, matches in found:
            totals.add(matches)
            for match in matches if as_json else ():
                plain_metadata(match.key, match.metadata)  # says of which key it is that it cannot be written
                of_query = {} if key is None else {"query": plain(key)}
                print_json(of_query | match.to_dict() | {"truncated": matches.truncated})
        shown = [(key, _figures(match)) for key, matches in found for match in matches]
        if not shown or as_json:
            continue
        if shown[0][0] is None:
            print_table(_COLUMNS, [figures for _, figures in shown])
        else:
            rows = [(shown_key(key), *figures) for key, figures in shown if key is not None]
            print_table(("query", *_COLUMNS), rows, left=2, header=header)
            header = False
    totals.note()


def _figures(match: ContainmentMatch) -> tuple[str, ...]:
    error = "exact" if match.exact else figure(match.standard_error, 3)
    shares = figure(match.in_stored, 3), figure(match.in_query, 3)
    return (
        shown_key(match.key),
        *shares,
        error,
        match.relation + (" (candidate)" if match.is_candidate else ""),
    )


class _Totals:
    """What may be missing of all matches, and what is not decided."""

    def __init__(self) -> None:
        self._queries = self._without = self._candidates = 0
        self._recall = 1.0
        self._has_shingles = self._is_truncated = False

    def add(self, matches: ContainmentMatches) -> None:
        self._queries += 1
        self._without += not matches
        if matches.num_shingles:
            self._has_shingles, self._recall = True, min(self._recall, matches.expected_recall)
        self._candidates += sum(match.is_candidate for match in matches)
        self._is_truncated |= matches.truncated

    def note(self) -> None:
        """Print what there is to say."""
        if self._without:
            queries = counted(self._queries, "query", "queries")
            note(f"simindex: no match for {self._without:,} of {queries}")
        if self._has_shingles:
            chance = f"{self._recall:.3f}"
            note(f"simindex: a document that holds so much is met with a chance of {chance} or more")
        if self._candidates:
            matches = counted(self._candidates, "match", "matches")
            note(f"simindex: {matches} that an estimate does not decide")
        if self._is_truncated:
            note("simindex: truncated: what very many documents share was left out; raise --max-candidates")
