"""`simindex query`: the stored documents that are similar to a text, a file, many rows, or a stored one.

Owns the form of the results. Must not change an index: it is opened with "r".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from simindex import Index, Match, Matches
from simindex.cli import options, reading
from simindex.cli.batches import Batches
from simindex.cli.creation import open_for_reading
from simindex.cli.output import counted, json_key, note, plain_metadata, print_json, print_table, shown_key
from simindex.cli.progress import Advance, shows_progress, work_bar
from simindex.cli.searching import Search
from simindex.format.keys import Key
from simindex.inputs import Inputs, read_text, tidy_path
from simindex.queries.search import DEFAULT_MAX_CANDIDATES

_ROWS_A_TIME = 256
_TRUNCATED = "matches may be missing, for the limit on candidates was hit; raise --max-candidates"
_SOURCES = {
    "text": "TEXT",
    "file": "--file",
    "input_": "--input",
    "key": "--key",
    "fingerprint": "--fingerprint",
}
_COLUMNS = ("key", "similarity", "distance")


_Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The text to compare with; - for that of stdin.")
]
_File = Annotated[
    str | None, typer.Option(metavar="FILE", help="Compare with the text of this file; - for stdin.")
]
_Input = Annotated[
    str | None,
    typer.Option("--input", metavar="FILE", help="Compare with each row of this file; inputs as of insert."),
]
_Key = Annotated[str | None, typer.Option(metavar="KEY", help="Compare with this stored document.")]
_IntKey = Annotated[bool, typer.Option("--int", help="--key is an integer.")]
_Fingerprint = Annotated[
    str | None,
    typer.Option(metavar="DIGITS", help="Compare with this SimHash fingerprint; searches as --simhash."),
]
_Others = Annotated[
    bool,
    typer.Option(
        "--others",
        help="With --file or --input: leave out the stored document of the same key: the file itself.",
    ),
]
_IdField = Annotated[str, typer.Option(metavar="NAME", help="With --input: the field of a row's key.")]
_TextField = Annotated[str, typer.Option(metavar="NAME", help="With --input: the field of its text.")]
_KeyFrom = Annotated[
    options.KeySource,
    options.word_option(
        options.KeySource, "With --input: what stands for a row without a key, as with insert."
    ),
]

EXAMPLES = r"""
simindex query news.simindex "the ferry leaves at nine" --threshold 0.5
simindex query news.simindex --file page.txt --nearest 3 --json
simindex query news.simindex --input news.jsonl --others
"""


def run(
    index: options.IndexFolder,
    text: _Text = None,
    file: _File = None,
    input_: _Input = None,
    key: _Key = None,
    int_keys: _IntKey = False,
    fingerprint: _Fingerprint = None,
    others: _Others = False,
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
    fingerprint_field: reading.FingerprintField = None,
    fingerprint_base: reading.FingerprintBase = 16,
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

    JSON lines: one a match, {"key", "similarity", "distance", "metadata", "exact", "standard_error",
    "truncated"}; with --input one a row, {"query", "matches", "truncated"}. A key of bytes is
    {"bytes": BASE64}. "truncated" is true when --max-candidates was hit, so that matches may be missing.
    """
    given = locals()
    asked = _only_one(given)
    if int_keys and key is None:
        raise typer.BadParameter("--int goes with --key")
    if others and asked not in ("--file", "--input"):
        raise typer.BadParameter("--others goes with --file or --input; --key always leaves the document out")
    by_fingerprint = simhash or fingerprint is not None or fingerprint_field is not None
    search = Search(threshold, limit, recall, exact, nearest, by_fingerprint, max_distance)
    how, limits, fields = reading.how_to_read(given), options.limits(given), reading.fields(given)
    inputs = None if input_ is None else Inputs([input_], fields, reading=how, limits=limits)
    wanted = None if fingerprint is None else reading.parse_fingerprint(fingerprint, fingerprint_base)
    with open_for_reading(index, max_candidates) as stored:
        search.require(stored)
        if inputs is not None:
            _print_many(stored, search, inputs, others, as_json)
            reading.tell(inputs.tally, encoding)
            return
        if key is not None:
            matches = search.of_stored(stored, options.parse_key(key, int_keys))
        else:
            path = file or ("-" if text == "-" else None)
            document = wanted or (text if path is None else read_text(path, limits, encoding)) or ""
            own_keys = [tidy_path(file)] if others and file is not None else None
            matches = search.of_documents(stored, [document], own_keys)[0]
    _print_one(matches, as_json)


def _only_one(given: Mapping[str, Any]) -> str:
    """Return the name of the one thing to compare with that is among the options."""
    names = {
        "text": "TEXT",
        "file": "--file",
        "input_": "--input",
        "key": "--key",
        "fingerprint": "--fingerprint",
    }
    found = [shown for name, shown in names.items() if given[name] is not None]
    if len(found) != 1:
        told = " and ".join(found) or "none"
        raise typer.BadParameter(f"expected one of {', '.join(names.values())}; found {told}")
    return found[0]


def _results(
    stored: Index, search: Search, inputs: Inputs, others: bool, advance: Advance
) -> Iterator[list[tuple[Key, Matches]]]:
    """Yield the matches of the rows, some rows at a time; a bad row ends them, after those before it."""
    batches, done = Batches(inputs, _ROWS_A_TIME), 0
    for rows in batches:
        keys = [row.key for row in rows]
        found = search.of_documents(stored, [row.document for row in rows], keys if others else None)
        yield list(zip(keys, found, strict=True))
        done += len(rows)
        advance(done, inputs.bytes_read)
    if batches.failure is not None:
        raise batches.failure


def _figures(match: Match) -> tuple[str, str, str]:
    similarity = "-" if match.similarity is None else f"{match.similarity:.3f}"
    return shown_key(match.key), similarity, "-" if match.distance is None else str(match.distance)


def _json(match: Match) -> dict[str, object]:
    plain_metadata(match.key, match.metadata)  # says of which key it is that it cannot be written
    return match.to_dict()


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


def _print_many(stored: Index, search: Search, inputs: Inputs, others: bool, as_json: bool) -> None:
    total_bytes = inputs.total_bytes() if shows_progress() else None
    with work_bar("rows", total_bytes, prints_results=True) as advance:
        _print_each(_results(stored, search, inputs, others, advance), as_json)


def _print_each(results: Iterator[list[tuple[Key, Matches]]], as_json: bool) -> None:
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
