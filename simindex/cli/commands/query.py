"""`simindex query`: the stored documents that are similar to a text, a file, many rows, or a stored one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from click import BadParameter

from simindex.cli import options, reading
from simindex.cli.command import argument, command, flag, number, option, takes
from simindex.cli.failures import CommandError
from simindex.cli.options import missing_key
from simindex.cli.output import (
    counted,
    figure,
    note,
    note_tally,
    plain_metadata,
    print_json,
    print_table,
    shown_key,
    work_bar,
)
from simindex.config import Config
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.index import open as open_index
from simindex.inputs import Inputs, Row, read_text, tidy_path
from simindex.jsonable import plain
from simindex.queries.matches import Match, Matches
from simindex.queries.where import Where
from simindex.sketching.document import Document
from simindex.sketching.sketcher import Sketcher

_TRUNCATED = "matches may be missing, for the limit on candidates was hit; raise --max-candidates"
_SOURCES = {
    "text": "TEXT",
    "file": "--file",
    "input_": "--input",
    "key": "--key",
    "fingerprint": "--fingerprint",
}
_COLUMNS = ("key", "similarity", "distance")

_Explained = tuple[Any, tuple[str, str]]
"""What a match shares with the query (`corpus.Explanation`), and the two texts."""


@dataclass(frozen=True)
class Asked:
    """What is compared with; ``None`` or False: not given."""

    text: str | None = argument(
        "text", "TEXT", "The text to compare with; - reads it from stdin.", required=False
    ).field()
    file: str | None = option(
        "--file", metavar="FILE", help="Compare with the text of this file; - for stdin."
    ).field()
    input_: str | None = option(
        "--input",
        "input_",
        metavar="FILE",
        help="Compare with each row of this file, read as insert reads it.",
    ).field()
    key: str | None = option("--key", metavar="KEY", help="Compare with this stored document.").field()
    int_keys: bool = flag("--int", "int_keys", help="--key is an integer.").field()
    fingerprint: str | None = option(
        "--fingerprint",
        metavar="DIGITS",
        help="Compare with this SimHash fingerprint, as --simhash does.",
    ).field()
    others: bool = flag(
        "--others",
        help="With --file or --input: leave out the stored document of the same key, the file itself.",
    ).field()

    def __post_init__(self) -> None:
        if self.int_keys and self.key is None:
            raise BadParameter("--int goes with --key")
        if self.others and self.by_option not in ("--file", "--input"):
            raise BadParameter("--others goes with --file or --input; --key always leaves the document out")

    @property
    def by_option(self) -> str:
        """The name of the one option that was given, or TEXT; BadParameter where none was, or several."""
        found = [shown for name, shown in _SOURCES.items() if getattr(self, name) is not None]
        if len(found) != 1:
            options_found = " and ".join(found) or "none"
            raise BadParameter(f"expected one of {', '.join(_SOURCES.values())}; found {options_found}")
        return found[0]

    def read_text(self) -> Any:
        """Return the text that is compared with: the argument TEXT, that of --file, or of standard input."""
        path = self.file or ("-" if self.text == "-" else None)
        return self.text if path is None else read_text(path)

    def note_other_meaning(self, index: Index) -> None:
        """Print a note if the argument TEXT is the name of a file, or a stored key; called where it matched
        nothing."""
        text = self.text
        if text is None or text == "-":
            return
        if os.path.isfile(text):
            note(f"simindex: TEXT is the name of a file; --file {shlex.quote(text)} compares with its text")
            return
        with suppress(ValueError):  # a text may be no key, as a long one
            if text in index:
                note(f"simindex: TEXT is a stored key; --key {shlex.quote(text)} compares with its document")


@dataclass(frozen=True)
class Search:
    """What to search for: by similarity, the nearest, or by fingerprint. ``None`` or False: not given."""

    threshold: float | None = options.threshold.but(
        help="Least similarity of a match, above 0 up to 1 (default 0.8; with --nearest: none)."
    ).field()
    limit: int | None = options.limit.field()
    recall: float | None = options.recall.field()
    exact: bool = options.exact.field()
    nearest: int | None = number(
        "--nearest", metavar="K", help="Show the K most similar; with --threshold only those above."
    ).field()
    simhash: bool = flag("--simhash", help="Search by fingerprint: all within a Hamming distance.").field()
    max_distance: int | None = options.max_distance.but(
        help="With --simhash: the distance in bits (default: that of the index). Else show only matches "
        "whose fingerprints also differ in at most K bits.",
    ).field()
    where: Where | None = options.where.field()  # noqa: RUF009 - a field, as those before

    def require_consistent(self) -> None:
        """Raise BadParameter for options that do not go together."""
        if self.simhash:
            options.refuse_with("simhash", threshold=self.threshold, recall=self.recall, exact=self.exact)
        if self.nearest is not None:
            options.refuse_with("nearest", limit=self.limit, exact=self.exact)
            if not self.simhash:
                options.refuse_with("nearest", max_distance=self.max_distance)

    def of_documents(
        self, index: Index, documents: Sequence[Document], own_keys: Sequence[Key] | None = None
    ) -> list[Matches]:
        """Return the matches of each document; with `own_keys`, one for each, without the stored document of
        that key."""
        more = 0 if own_keys is None else 1
        room = None if self._room is None else self._room + more
        if self.simhash:
            found: Sequence[Matches] = index.query_simhash_many(
                documents, self.max_distance, limit=room, where=self.where
            )
        elif self.nearest is not None:
            how: dict[str, Any] = {name: getattr(self, name) for name in ("threshold", "recall", "where")}
            found = [index.nearest(document, self.nearest + more, **how) for document in documents]
        else:
            found = index.query_many(documents, self.least, room, **self._more)
        if own_keys is None:
            return list(found)
        return [
            Matches([match for match in matches if match.key != key][: self._room], matches.truncated)
            for key, matches in zip(own_keys, found, strict=True)
        ]

    def of_stored(self, index: Index, key: Key) -> Matches:
        """Return the matches of a stored document, without itself. Raises CommandError where the key is not
        stored."""
        if key not in index:
            raise CommandError(missing_key(index, key))
        if self.simhash:
            return index.query_key(
                key, limit=self._room, by="simhash", max_distance=self.max_distance, where=self.where
            )
        if self.nearest is not None:
            return self.of_documents(index, [index[key].sketch], [key])[0]
        return index.query_key(key, self.least, self.limit, **self._more)

    def why_none(self, index: Index, document: Any) -> str:
        """Return the end of a sentence that begins with "no match": the reason, or how similar the nearest
        document is; "" where neither is known. `document`: a text, a Sketch or, in a tuple, a stored key."""
        if not len(index):
            return ": the index holds no documents"
        if isinstance(document, str):
            sketch = Sketcher(index.config).sketch(document)
            by_simhash = self.simhash or not index.config.num_perm
            if (sketch.fingerprint if by_simhash else sketch.words) is None:
                return ": the text has no shingles, like one without a letter, digit or symbol"
        if self.simhash:
            built_for = 0 if index.config.simhash is None else index.config.simhash.max_distance
            bits = built_for if self.max_distance is None else self.max_distance
            return f" within {counted(bits, 'bit')} of its fingerprint"
        if self.nearest is not None:
            return ""
        if self.max_distance is not None:
            return f" of {self.least:g} or more within {counted(self.max_distance, 'bit')}"
        closest = replace(self, threshold=None, limit=None, recall=None, exact=False, nearest=1)
        found = (
            closest.of_stored(index, document[0])
            if isinstance(document, tuple)
            else closest.of_documents(index, [document])[0]
        )
        # What is less than three errors above zero is as good as nothing.
        if not found or (found[0].similarity or 0.0) <= 3 * (found[0].standard_error or 0.0):
            return ""
        return (
            f" of {self.least:g} or more; the most similar document found has {found[0].similarity:.3f}: "
            "--threshold asks for less, --nearest for those"
        )

    @property
    def least(self) -> float:
        """The least similarity of a match: the threshold, or its default."""
        return DEFAULT_THRESHOLD if self.threshold is None else self.threshold

    @property
    def _more(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("max_distance", "recall", "exact", "where")}

    @property
    def _room(self) -> int | None:
        return self.limit if self.nearest is None else self.nearest


@command(
    "query",
    """
simindex query news.simindex "the ferry leaves at nine" --threshold 0.5
simindex query news.simindex --file page.txt --nearest 3 --json
simindex query news.simindex --input news.jsonl --others
simindex query news.simindex --file page.txt --explain news.jsonl
""",
)
@options.index_folder
@takes("asked", Asked)
@takes("search", Search)
@options.max_candidates
@takes("reads", options.ComparedOptions)
@options.inputs_of(
    "--explain",
    "With TEXT, --file or --key: show the passages that each match shares. The stored texts come from INPUT, "
    "by key, read as insert reads it. May be repeated.",
)
@options.json_lines
def query(
    index: str,
    asked: Asked,
    search: Search,
    max_candidates: int,
    reads: options.ComparedOptions,
    explain: tuple[str, ...],
    as_json: bool,
) -> None:
    """Find the stored documents that are similar to a text. In place of TEXT: a file, each row of a file, a
    stored document, or a fingerprint.

    --json prints one line per match, {"key", "similarity", "distance", "metadata", "exact", "standard_error",
    "truncated"}; with --input one per row, {"query", "matches", "truncated"}. A key of bytes is {"bytes":
    BASE64}. "truncated" is true when --max-candidates was hit, so that matches may be missing. --explain adds
    "explanation" to a match: what `simindex explain` prints, a being the query; or null. For documents that
    contain the text see `simindex find`.
    """
    if explain and asked.by_option not in ("TEXT", "--file", "--key"):
        raise BadParameter(f"--explain goes with TEXT, --file or --key, not with {asked.by_option}")
    if asked.input_ is None and not explain:
        used = None if asked.fingerprint is None else "fingerprint_base"
        reads.require_defaults("--input or --explain", used)
    if asked.by_option == "--fingerprint" or reads.fingerprint_field is not None:
        search = replace(search, simhash=True)
    search.require_consistent()
    inputs = None if asked.input_ is None else reads.inputs([asked.input_])
    stored_texts = reads.inputs(explain) if explain else None
    with open_index(index, "r", max_candidates=max_candidates) as stored:
        if inputs is not None:
            _print_many(stored, search, inputs, asked.others, as_json)
            note_tally(inputs.tally)
            return
        document, matches = _one(stored, search, asked, reads)
        why_none = "" if matches or asked.others else search.why_none(stored, document)
        if not matches:
            asked.note_other_meaning(stored)
    explained = None if stored_texts is None else _explained(stored.config, document, matches, stored_texts)
    _print_one(matches, as_json, explained)
    if not matches:
        note(f"simindex: no match{why_none}")


def _one(stored: Index, search: Search, asked: Asked, reads: options.ComparedOptions) -> tuple[Any, Matches]:
    """Return (what is compared with, its matches): a text, a fingerprint as a Sketch, or, of a stored
    document, its key in a tuple."""
    if asked.key is not None:
        key = options.parse_key(asked.key, asked.int_keys)
        return (key,), search.of_stored(stored, key)
    if asked.fingerprint is not None:
        document: Any = reading.parse_fingerprint(asked.fingerprint, reads.fingerprint_base)
    else:
        document = asked.read_text()
    own_keys = [tidy_path(asked.file)] if asked.others and asked.file is not None else None
    return document, search.of_documents(stored, [document], own_keys)[0]


def _explained(config: Config, document: Any, matches: Matches, rows: Inputs) -> list[_Explained | None]:
    """Return what each match shares with the document, and (text of the document, text of the match); None
    where the rows lack one. `document`: a text, or the key of a stored one, in a tuple."""
    from simindex.corpus import explain
    from simindex.corpus.report.texts import texts_of

    own = list(document) if isinstance(document, tuple) else []
    texts = texts_of(rows, [match.key for match in matches] + own)
    text = texts.get(own[0]) if own else document
    others = [texts.get(match.key) for match in matches]
    return [
        None if text is None or other is None else (explain(text, other, config), (text, other))
        for other in others
    ]


def _figures(match: Match) -> tuple[str, str, str]:
    return shown_key(match.key), figure(match.similarity, 3), figure(match.distance)


def _json(match: Match) -> dict[str, object]:
    plain_metadata(match.key, match.metadata)  # says of which key it is that it cannot be written
    return match.to_dict()


def _print_one(matches: Matches, as_json: bool, explained: list[_Explained | None] | None) -> None:
    if as_json:
        for index, match in enumerate(matches):
            line = _json(match) | {"truncated": matches.truncated}
            if explained is not None:
                found = explained[index]
                line["explanation"] = None if found is None else found[0].to_dict()
            print_json(line)
    elif matches:
        print_table(_COLUMNS, [_figures(match) for match in matches])
        for match, found in zip(matches, explained or [], strict=False):
            from simindex.cli.commands.explain import print_explanation

            print()
            name = shown_key(match.key)
            if found is None:
                note(f"simindex: {name}: no text to explain it by; --explain INPUT takes one")
            else:
                print_explanation(found[0], ("query", name), found[1])
    if matches.truncated:
        note(f"simindex: truncated: {_TRUNCATED}")


def _print_many(stored: Index, search: Search, inputs: Inputs, others: bool, as_json: bool) -> None:
    def ask(rows: list[Row]) -> list[Matches]:
        keys = [row.key for row in rows] if others else None
        return search.of_documents(stored, [row.document for row in rows], keys)

    num_rows = without_match = truncated = 0
    header = True
    with work_bar("rows", inputs.total_bytes, prints_results=True) as advance:
        for some in reading.answers(inputs, ask, advance):
            num_rows += len(some)
            without_match += sum(not matches for _, matches in some)
            truncated += sum(matches.truncated for _, matches in some)
            if as_json:
                for key, matches in some:
                    found = {"matches": [_json(match) for match in matches], "truncated": matches.truncated}
                    print_json({"query": plain(key)} | found)
            elif rows := [(shown_key(key), *_figures(match)) for key, matches in some for match in matches]:
                print_table(("query", *_COLUMNS), rows, left=2, header=header)
                header = False
    if without_match:
        note(f"simindex: no match for {without_match:,} of {counted(num_rows, 'row')}")
    if truncated:
        note(f"simindex: truncated, {truncated:,} of {counted(num_rows, 'row')}: {_TRUNCATED}")
