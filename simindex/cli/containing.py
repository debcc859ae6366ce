"""What holds what, as a table or as JSON lines: of `simindex query --contained` and `simindex find`."""

from __future__ import annotations

from collections.abc import Sequence
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


def print_contained(found: Sequence[tuple[Key | None, ContainmentMatches]], as_json: bool) -> None:
    """Print the matches of some queries. Of one that has no key the matches stand alone."""
    rows = [(key, match) for key, matches in found for match in matches]
    if as_json:
        for key, matches in found:
            for match in matches:
                plain_metadata(match.key, match.metadata)  # says of which key it is that it cannot be written
                of_query = {} if key is None else {"query": plain(key)}
                print_json(of_query | match.to_dict() | {"truncated": matches.truncated})
    elif rows and found[0][0] is None:
        print_table(_COLUMNS, [_figures(match) for _, match in rows])
    elif rows:
        table = [(shown_key(key), *_figures(match)) for key, match in rows if key is not None]
        print_table(("query", *_COLUMNS), table, left=2)
    _note_what_is_uncertain(found)


def _figures(match: ContainmentMatch) -> tuple[str, ...]:
    error = "exact" if match.exact else figure(match.standard_error, 3)
    shares = figure(match.in_stored, 3), figure(match.in_query, 3)
    return (
        shown_key(match.key),
        *shares,
        error,
        match.relation + (" (candidate)" if match.is_candidate else ""),
    )


def _note_what_is_uncertain(found: Sequence[tuple[Key | None, ContainmentMatches]]) -> None:
    """Say what may be missing, and what is not decided."""
    without = sum(not matches for _, matches in found)
    if without:
        note(f"simindex: no match for {without:,} of {counted(len(found), 'query', 'queries')}")
    recalls = [matches.expected_recall for _, matches in found if matches.num_shingles]
    if recalls:
        note(f"simindex: a document that holds so much is met with a chance of {min(recalls):.3f} or more")
    candidates = sum(match.is_candidate for _, matches in found for match in matches)
    if candidates:
        note(f"simindex: {counted(candidates, 'match', 'matches')} that an estimate does not decide")
    if any(matches.truncated for _, matches in found):
        note("simindex: truncated: what very many documents share was left out; raise --max-candidates")
