"""`simindex query`: the stored documents that are similar to a text, a file, many rows, or a stored one.

Owns the choice of search and the form of its results. Must not change an index: it is opened with "r".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from simindex import Index, Match, Matches
from simindex.cli import options, reading
from simindex.cli.batches import Batches
from simindex.cli.creation import is_given, open_for_reading
from simindex.cli.failures import CommandError
from simindex.cli.output import counted, json_key, note, print_json, print_table, shown_key
from simindex.format.keys import Key
from simindex.inputs import Fields, Inputs, read_text
from simindex.queries.search import DEFAULT_MAX_CANDIDATES
from simindex.sketching.document import Document

_ROWS_A_TIME = 256
_TRUNCATED = "matches may be missing, for the limit on candidates was hit; raise --max-candidates"
_COLUMNS = ("key", "similarity", "distance")


@dataclass(frozen=True)
class _Search:
    """What to search for: by similarity, the nearest, or by fingerprint. ``None`` or False: not given.

    Raises:
        typer.BadParameter: options of different searches.
    """

    threshold: float | None
    limit: int | None
    recall: float | None
    exact: bool
    nearest: int | None
    simhash: bool
    max_distance: int | None

    def __post_init__(self) -> None:
        if self.max_distance is not None and not self.simhash:
            raise typer.BadParameter("--max-distance goes with --simhash")
        if self.simhash:
            self._refuse("simhash", "threshold", "recall", "exact", "nearest")
        elif self.nearest is not None:
            self._refuse("nearest", "threshold", "limit", "exact")

    def _refuse(self, option: str, *others: str) -> None:
        for other in others:
            if is_given(getattr(self, other)):
                raise typer.BadParameter(f"--{other} does not go with --{option}")

    def require(self, index: Index) -> None:
        """Raise CommandError, naming the options of `insert`, unless the index can be searched so."""
        if self.simhash:
            if index.config.simhash is None:
                raise CommandError(
                    f"{index.path}: --simhash needs an index that was not built with --no-simhash"
                )
        elif not index.config.num_perm:
            raise CommandError(
                f"{index.path}: built with --no-minhash; it can be queried with --simhash only"
            )
        elif self.exact and not index.config.keep_shingles:
            raise CommandError(f"{index.path}: --exact needs an index built with --keep-shingles")

    def of_documents(self, index: Index, documents: Sequence[Document]) -> list[Matches]:
        """Return the matches of each document."""
        return self._run(index, documents, 0)

    def of_stored(self, index: Index, key: Key) -> Matches:
        """Return the matches of a stored document, without itself."""
        if key not in index:
            raise CommandError(f"{index.path}: key {key!r} is not in the index")
        if self.simhash or self.nearest is not None:
            return self._without_itself(index, key)
        return index.query_key(key, **self._by_similarity())

    def _without_itself(self, index: Index, key: Key) -> Matches:
        """Return the matches of a stored document in the searches that have no call for stored keys."""
        found = self._run(index, [index[key].sketch], 1)[0]
        others = [match for match in found if match.key != key]
        return Matches(others[: self.limit if self.simhash else self.nearest], found.truncated)

    def _by_similarity(self) -> dict[str, Any]:
        options: dict[str, Any] = {"limit": self.limit, "exact": self.exact}
        if self.threshold is not None:
            options["threshold"] = self.threshold
        if self.recall is not None:
            options["recall"] = self.recall
        return options

    def _run(self, index: Index, documents: Sequence[Document], more: int) -> list[Matches]:
        if self.simhash:
            room = None if self.limit is None else self.limit + more
            return index.query_simhash_many(documents, self.max_distance, limit=room)
        if self.nearest is not None:
            k = self.nearest + more
            return [index.nearest(document, k, recall=self.recall) for document in documents]
        return index.query_many(documents, **self._by_similarity())


_Text = Annotated[str | None, typer.Argument(metavar="TEXT", help="The text to compare with.")]
_File = Annotated[
    str | None, typer.Option(metavar="FILE", help="Compare with the text of this file; - for stdin.")
]
_Input = Annotated[
    str | None,
    typer.Option("--input", metavar="FILE", help="Compare with each row of this file; inputs as of insert."),
]
_Key = Annotated[str | None, typer.Option(metavar="KEY", help="Compare with this stored document.")]
_IntKey = Annotated[bool, typer.Option("--int", help="--key is an integer.")]
_IdField = Annotated[str, typer.Option(metavar="NAME", help="With --input: the field of a row's key.")]
_TextField = Annotated[str, typer.Option(metavar="NAME", help="With --input: the field of its text.")]
_KeyFrom = Annotated[
    options.KeySource,
    typer.Option(help="With --input: what stands for a row without a key, as with insert."),
]


def run(
    index: options.IndexFolder,
    text: _Text = None,
    file: _File = None,
    input_: _Input = None,
    key: _Key = None,
    int_keys: _IntKey = False,
    threshold: options.Threshold = None,
    limit: options.Limit = None,
    recall: options.Recall = None,
    exact: options.Exact = False,
    nearest: options.Nearest = None,
    simhash: options.SimHash = False,
    max_distance: options.WithinDistance = None,
    max_candidates: options.MaxCandidates = DEFAULT_MAX_CANDIDATES,
    id_field: _IdField = "id",
    text_field: _TextField = "text",
    key_from: _KeyFrom = options.KeySource.line,
    glob: options.Globs = None,
    hidden: reading.Hidden = False,
    format_: reading.Format = None,
    encoding: reading.Encoding = "utf-8",
    delimiter: reading.Delimiter = None,
    max_line: options.MaxLine = None,
    max_cell: options.MaxCell = None,
    max_document: options.MaxDocument = None,
    max_window: options.MaxWindow = None,
    max_ratio: options.MaxRatio = None,
    as_json: options.JsonLines = False,
) -> None:
    """Find the stored documents that are nearly the same.

    JSON lines: one a match, {"key", "similarity", "distance", "truncated"}; with --input one a row,
    {"query", "matches", "truncated"}. A key of bytes is {"bytes": BASE64}. "truncated" is true when
    --max-candidates was hit, so that matches may be missing.
    """
    sources = [value for value in (text, file, input_, key) if value is not None]
    if len(sources) != 1:
        raise typer.BadParameter(
            f"expected one of TEXT, --file, --input, --key; found {len(sources) or 'none'}"
        )
    if int_keys and key is None:
        raise typer.BadParameter("--int goes with --key")
    search = _Search(threshold, limit, recall, exact, nearest, simhash, max_distance)
    limits = options.limits(
        line=max_line, cell=max_cell, document=max_document, window=max_window, ratio=max_ratio
    )
    how = reading.reading(format_, encoding, delimiter, glob, hidden)
    fields = Fields(id_field, text_field, key_from=key_from.value)
    inputs = None if input_ is None else Inputs([input_], fields, reading=how, limits=limits)
    with open_for_reading(index, max_candidates) as stored:
        search.require(stored)
        if inputs is not None:
            _print_many(_results(stored, search, inputs), as_json)
            reading.tell(inputs.tally, encoding)
            return
        if key is not None:
            matches = search.of_stored(stored, options.parse_key(key, int_keys))
        else:
            document = (text or "") if file is None else read_text(file, limits, encoding)
            matches = search.of_documents(stored, [document])[0]
    _print_one(matches, as_json)


def _results(stored: Index, search: _Search, inputs: Inputs) -> Iterator[list[tuple[Key, Matches]]]:
    """Yield the matches of the rows, some rows at a time; a bad row ends them, after those before it."""
    batches = Batches(inputs, _ROWS_A_TIME)
    for rows in batches:
        found = search.of_documents(stored, [row.document for row in rows])
        yield list(zip((row.key for row in rows), found, strict=True))
    if batches.failure is not None:
        raise batches.failure


def _figures(match: Match) -> tuple[str, str, str]:
    similarity = "-" if match.similarity is None else f"{match.similarity:.3f}"
    return shown_key(match.key), similarity, "-" if match.distance is None else str(match.distance)


def _json(match: Match) -> dict[str, object]:
    return {"key": json_key(match.key), "similarity": match.similarity, "distance": match.distance}


def _print_one(matches: Matches, as_json: bool) -> None:
    if as_json:
        for match in matches:
            print_json(_json(match) | {"truncated": matches.truncated})
    elif matches:
        print_table(_COLUMNS, [_figures(match) for match in matches])
    if not matches:
        note("simindex: no match")
    if matches.truncated:
        note(f"simindex: truncated: {_TRUNCATED}")


def _print_many(results: Iterator[list[tuple[Key, Matches]]], as_json: bool) -> None:
    num_rows = without_match = truncated = 0
    header = True
    for some in results:
        num_rows += len(some)
        without_match += sum(not matches for _, matches in some)
        truncated += sum(matches.truncated for _, matches in some)
        if as_json:
            for key, matches in some:
                found = {"matches": [_json(match) for match in matches], "truncated": matches.truncated}
                print_json({"query": json_key(key)} | found)
            continue
        rows = [(shown_key(key), *_figures(match)) for key, matches in some for match in matches]
        if rows:
            print_table(("query", *_COLUMNS), rows, left=2, header=header)
            header = False
    if without_match:
        note(f"simindex: no match for {without_match:,} of {counted(num_rows, 'row')}")
    if truncated:
        note(f"simindex: truncated, {truncated:,} of {counted(num_rows, 'row')}: {_TRUNCATED}")
