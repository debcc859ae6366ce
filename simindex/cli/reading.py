"""How a command reads its inputs: the options for it, rows in batches, and keys.

`simindex.inputs` reads them.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, ClassVar, TypeVar, get_args

import typer

from simindex.batching import bytes_of_item, in_parts
from simindex.cli import options
from simindex.cli.options import parse_key
from simindex.cli.output import Advance, counted, note
from simindex.format.keys import Key
from simindex.inputs import (
    FORMATS,
    BadRowError,
    Fields,
    InputError,
    Inputs,
    KeyFrom,
    Limits,
    Reading,
    Row,
    Source,
    Tally,
    rows,
    sound,
)
from simindex.sketching.sketch import Sketch

_LOOKED_AT = 1_000


def parse_encoding(text: str) -> str:
    """Return the name of a text encoding."""
    try:
        "".encode(text)
        codecs.getincrementaldecoder(text)
    except (LookupError, ValueError):  # ValueError: a zero byte in the name
        raise typer.BadParameter(f"expected an encoding, like latin-1 or utf-16, found {text!r}") from None
    return text


def parse_delimiter(text: str) -> str:
    """Return a delimiter: one character, or the word tab.

    >>> parse_delimiter(";"), parse_delimiter("tab")
    (';', '\\t')
    """
    delimiter = "\t" if text in ("tab", "\\t") else text
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise typer.BadParameter(f"expected one character, like ';', or tab; found {text!r}")
    return delimiter


KeyOrigin = Annotated[
    KeyFrom | None,
    options.word(
        get_args(KeyFrom),
        "Make a key for rows without one: from the content, so that equal rows are one document; or from the "
        "line, as FILE:LINE.",
    ),
]
Encoding = Annotated[
    str,
    typer.Option(metavar="NAME", parser=parse_encoding, help="Encoding of text, CSV and JSON, like latin-1."),
]


def parse_base(text: str) -> int:
    """Return the base of digits, 16 or 10."""
    if text not in ("10", "16"):
        raise typer.BadParameter(f"expected 16 or 10, found {text!r}")
    return int(text)


def parse_fingerprint(text: str, base: int) -> Sketch:
    """Return the fingerprint that was written on the command line."""
    try:
        return Sketch.from_fingerprint(rows.parse_fingerprint(text, base))
    except ValueError as exc:
        raise typer.BadParameter(f"--fingerprint: {exc}") from None


_FIELDS = {
    "id_field": "id",
    "text_field": "text",
    "key_from": "key_from",
    "fingerprint_field": "fingerprint",
    "fingerprint_base": "fingerprint_base",
    "metadata": "metadata",
    "metadata_field": "metadata_from",
}
"""The fields of `Fields` by the options that set them."""


@dataclass(frozen=True)
class FileOptions:
    """How the rows of files are read."""

    heading: ClassVar = "Inputs"

    id_field: Annotated[str, typer.Option(metavar="NAME", help="The field or column of a row's key.")] = "id"
    text_field: Annotated[
        str,
        typer.Option(metavar="NAME", help="The field or column of its text, or of a list of ready shingles."),
    ] = "text"
    format_: Annotated[
        str | None,
        options.word(tuple(FORMATS), "Format of the inputs (default: by suffix; stdin: jsonl).", "--format"),
    ] = None
    encoding: Encoding = "utf-8"
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR",
            parser=parse_delimiter,
            help="Delimiter of CSV cells, like ';' (default comma; .tsv: tab).",
        ),
    ] = None
    glob: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="In folders, read only files of this name, like '*.py'. May be repeated."
        ),
    ] = None
    hidden: Annotated[
        bool, typer.Option("--hidden", help="In folders, also read hidden files and folders, except .git.")
    ] = False
    max_row: options.MaxRow = Limits.row
    max_ratio: Annotated[
        int,
        options.number(
            "Refuse a row over a quarter of --max-row that unpacks to more than N times its compressed size."
        ),
    ] = Limits.ratio

    @property
    def limits(self) -> Limits:
        """How much of them may be held in memory."""
        return Limits(self.max_row, self.max_ratio)

    def inputs(self, paths: Sequence[str], leave_out: str | None = None, **fields: Any) -> Inputs:
        """Return the inputs at some paths.

        Args:
            leave_out: a file in none of their folders.
            fields: of `Fields`, in place of what the options say.
        """
        reading = Reading(self.format_, self.encoding, self.delimiter, tuple(self.glob or ()), self.hidden)
        given = {field: value for option, value in vars(self).items() if (field := _FIELDS.get(option))}
        return Inputs(
            paths, Fields(**given | fields), reading=reading, limits=self.limits, leave_out=leave_out
        )


@dataclass(frozen=True)
class KeyOptions(FileOptions):
    """Also what stands for a missing key, or for a text."""

    key_from: KeyOrigin = None
    fingerprint_field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read a 64-bit SimHash fingerprint from this field or column instead of a text: an "
            "integer, signed or not, or its digits.",
        ),
    ] = None
    fingerprint_base: Annotated[
        int,
        typer.Option(
            metavar="16|10", parser=parse_base, help="Base of fingerprints that are written as digits."
        ),
    ] = 16


@dataclass(frozen=True)
class ComparedOptions(KeyOptions):
    """The same of rows that are looked up: one without a key has its place."""

    key_from: KeyOrigin = "line"


@dataclass(frozen=True)
class InsertOptions(KeyOptions):
    """Also what is kept of a row beside its text."""

    metadata: Annotated[
        bool, typer.Option("--metadata", help="Keep the other fields of a row as its metadata.")
    ] = False
    metadata_field: Annotated[
        str | None, typer.Option(metavar="NAME", help="Keep the value of this field as a row's metadata.")
    ] = None


def require_ids(paths: Sequence[str], reads: FileOptions) -> None:
    """Refuse an --id-field that no row at the beginning of the first file has.

    A deduplication needs ids for its report alone, so that nothing else would notice a wrong name.
    """
    files = [path for path in paths if os.path.isfile(path)]
    if reads.id_field == Fields.id or not files:
        return
    with_keys = reads.inputs(files[:1])
    first: BadRowError | None = None
    for row in islice(with_keys, _LOOKED_AT):
        if not isinstance(row, BadRowError):
            return
        first = first or row
    if first is not None and first.reason.startswith("expected a key in the field"):
        reason = first.reason.partition(";")[0]
        raise typer.BadParameter(f"--id-field: {reason}, and none of the first {_LOOKED_AT:,} rows has it")


def note_tally(tally: Tally, encoding: str) -> None:
    """Say what was passed over in folders, and which text is not as it was."""
    passed_over = [counted(tally.binary, "binary file")] if tally.binary else []
    if tally.hidden:
        hidden = counted(tally.hidden, "hidden file or folder", "hidden files or folders")
        passed_over.append(f"{hidden}; --hidden takes {'it' if tally.hidden == 1 else 'them'}")
    if passed_over:
        note(f"simindex: left out of folders: {', '.join(passed_over)}")
    if tally.tables:
        files = counted(tally.tables, "file")
        note(
            f"simindex: {files} of folders named as tables or JSON, each read as one text; --format, or a "
            "pattern like 'FOLDER/*.jsonl.gz', reads their rows"
        )
    if tally.records:
        records = counted(tally.records, "record")
        note(f"simindex: left out of web archives: {records} without a page of status 2xx and text")
    if tally.mended:
        what = counted(tally.mended, "text file has", "text files have")
        known = "UTF-8" if encoding == "utf-8" else encoding
        note(f"simindex: {what} bytes that are not {known}, read as U+FFFD; --encoding names another")


Answer = TypeVar("Answer")

_ROWS_A_TIME = 256


def answers(
    inputs: Inputs, ask: Callable[[list[Row]], Iterable[Answer]], advance: Advance | None = None
) -> Iterator[list[tuple[Key, Answer]]]:
    """Yield the keys of rows with what `ask` returns for them, some rows at a time.

    What ends the rows early is raised behind the answers of those before it.
    """
    done = 0
    for part in in_parts(sound(inputs), _ROWS_A_TIME, bytes_of_item, keeps_rest=True):
        yield list(zip([row.key for row in part.values], ask(part.values), strict=True))
        done += len(part.values)
        if advance is not None:
            advance(done, inputs.bytes_read)


Keys = Annotated[
    list[str] | None, typer.Argument(metavar="KEY...", help="Keys; - reads them from stdin, one per line.")
]
KeysFile = Annotated[
    str | None, typer.Option("--input", metavar="FILE", help="A file with one key per line; - for stdin.")
]
IntKeys = Annotated[bool, typer.Option("--int", help="Keys are integers.")]


def given_keys(keys: Sequence[str] | None, file: str | None, int_keys: bool, limits: Limits) -> list[Key]:
    """Return the keys that were asked for, each once, in order.

    Args:
        keys: arguments; "-" stands for the lines of standard input.
        file: with a key a line, or ``None``.
        int_keys: whether they are integers.
        limits: on what is held of a file.
    """
    if not keys and file is None:
        raise typer.BadParameter("expected KEY... or --input")
    wanted: list[Key] = []
    for key in keys or ():
        wanted += _lines_of(Source("-", limits), int_keys) if key == "-" else [parse_key(key, int_keys)]
    if file is not None:
        wanted += _lines_of(Source(file, limits), int_keys)
    return list(dict.fromkeys(wanted))


def _lines_of(source: Source, int_keys: bool) -> list[Key]:
    """Return the keys of a file, a line each; empty lines are passed over."""
    keys: list[Key] = []
    with source.lines() as lines:
        for line in sound(lines):
            # Bytes that are not UTF-8 come out as they do in a file name, and so in a key made of one.
            text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
            if not text:
                continue
            try:
                keys.append(int(text) if int_keys else text)
            except ValueError:
                place = f"{source.name}:{lines.number}"
                raise InputError(place, f"expected an integer, found {text!r:.80}") from None
    return keys
