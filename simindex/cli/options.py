"""Options: types of them, what they read, and those that several commands share, with their help.

What an option of a new index left out means: the default when the index is created, the stored value when it
is there. So an option given for an existing index is compared with what is stored, and only that one.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, get_args

import typer

from simindex.cli.command import word
from simindex.cli.output import report_skipped, unlisted
from simindex.config import (
    NORMALIZE_STEPS,
    CharShingles,
    Config,
    Shingles,
    SimHashConfig,
    WordShingles,
    require_equal,
)
from simindex.format.keys import Key
from simindex.index import Index
from simindex.index import open as open_index
from simindex.inputs import FORMATS, Fields, Inputs, KeyFrom, Limits, OnBadRow, Reading
from simindex.queries.search import Method
from simindex.storage.folder import is_index

# ---- numbers ----


def whole(least: int = 0) -> Callable[[str], int]:
    """Return what reads an integer of at least so much from the command line."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[-+]?[0-9]{1,25}", text.strip()) or int(text) < least:
            raise typer.BadParameter(f"expected an integer of at least {least}, found {text!r}")
        return int(text)

    return parse


def share(text: str) -> float:
    """Return the number between 0 and 1 that was written on the command line; its range is the library's."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"expected a number from 0 to 1, like 0.8 for 80 %, found {text!r}"
        ) from None


def seconds(text: str) -> float:
    """Return the seconds that were written on the command line."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise typer.BadParameter(f"expected a number of seconds, like 30, found {text!r}")
    return found


def size(text: str) -> int:
    """Return the bytes of a size that was written on the command line.

    >>> size("256MiB"), size("1 gib"), size("100kB"), size("5")
    (268435456, 1073741824, 100000, 5)
    """
    match = re.fullmatch(r"(\d{1,18}) *(?:([kmgt])(i?))?b?", text.strip().lower(), re.ASCII)
    if match is None or not int(match[1]):
        raise typer.BadParameter(f"expected a size of 1 byte or more, like 256MiB, found {text!r}")
    unit: int = (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " ")
    return int(match[1]) * unit


def number(help_: str = "", least: int = 1, *names: str, panel: str | None = None) -> Any:
    """Return an option that takes an integer of at least so much."""
    return typer.Option(*names, metavar="N", parser=whole(least), rich_help_panel=panel, help=help_)


def fraction(help_: str = "", metavar: str = "S") -> Any:
    """Return an option that takes a number between 0 and 1."""
    return typer.Option(metavar=metavar, parser=share, help=help_)


AtLeast0 = Annotated[int, number("", 0)]
AtLeast1 = Annotated[int, number()]
Share = Annotated[float, fraction()]

# ---- which go together ----


def refuse_with(option: str, **others: object) -> None:
    """Raise BadParameter where one of some other options was given, too; False and ``None`` were not."""
    for name, value in others.items():
        if value is not None and value is not False:
            raise typer.BadParameter(f"--{name.replace('_', '-')} does not go with --{option}")


def require_of_method(by: str | None, max_distance: int | None, **of_minhash: object) -> None:
    """Raise BadParameter where an option is the other method's; False and ``None`` were not given."""
    if by == "simhash":
        refuse_with("by simhash", **of_minhash)
    elif max_distance is not None:
        raise typer.BadParameter("--max-distance goes with --by simhash")


# ---- shared by commands ----

IndexFolder = Annotated[str, typer.Argument(metavar="INDEX", help="The folder of the index.")]
JsonLines = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
JsonObject = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonSummary = Annotated[bool, typer.Option("--json", help="Print the summary as one JSON line.")]

InputPaths = Annotated[list[str], typer.Argument(metavar="INPUT...", help="Files, folders, or - for stdin.")]
MaxRow = Annotated[
    int,
    typer.Option(
        metavar="SIZE",
        parser=size,
        show_default=False,
        help="Refuse a longer line, cell or text file, a .zst with a larger window, and a page of a .warc "
        "over a 32nd of it (default 256MiB).",
    ),
]

_RUNNING = "Running"
"""A heading of the help: options that change no result."""

BatchSize = Annotated[int, number("Documents per batch; insert commits after each batch.", panel=_RUNNING)]
Workers = Annotated[int | None, number("Threads that make sketches (default: one per core).", panel=_RUNNING)]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        parser=seconds,
        show_default=False,
        help="Wait up to this long while another process writes to the index (default: not at all).",
    ),
]

Threshold = Annotated[float | None, fraction("Least similarity, above 0 up to 1 (default 0.8).")]
Limit = Annotated[int | None, number("Show at most N matches.")]
Recall = Annotated[
    float | None,
    fraction(
        "Find this share of the documents whose similarity is right at the threshold (default: about half), "
        "and some less similar ones.",
        metavar="P",
    ),
]
Exact = Annotated[
    bool, typer.Option(help="Compare kept shingles: exact where all shingles of both documents are kept.")
]
By = Annotated[
    Method | None,
    word(get_args(Method), "Compare by MinHash or SimHash (default: MinHash, unless the index has none)."),
]
MaxCandidates = Annotated[int, number("Compare each query with at most N stored documents.")]
FirstPairs = Annotated[int | None, number("Show the first N pairs only.")]
FirstClusters = Annotated[int | None, number("Show the first N clusters only.")]

# ---- keys ----


def parse_key(text: str, int_keys: bool) -> Key:
    """Return the key that was written on the command line: a str, or with --int an integer."""
    if not int_keys:
        return text
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"--int: expected an integer, found {text!r}") from None


def stored_key(index: Index, key: Key) -> Key:
    """Return the key that a line of `simindex list` stands for, where it is stored; else the line."""
    if isinstance(key, str) and (found := unlisted(key)) != key and found in index:
        return found
    return key


def missing_key(index: Index, key: Key) -> str:
    """Return what to say of a key that is not in the index, and of its twin that is."""
    text = f"{index.path}: key {key!r} is not in the index"
    if isinstance(key, str) and re.fullmatch(r"-?\d{1,20}", key, re.ASCII) and int(key) in index:
        return f"{text}, but the integer {int(key)} is; --int takes keys as integers"
    if isinstance(key, int) and str(key) in index:
        return f"{text}, but the text '{key}' is; without --int keys are texts"
    return text


# ---- many machines ----

Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster; default: RAY_ADDRESS, one that runs on this machine, or a new one.",
    ),
]

# ---- how files are read ----


def parse_encoding(text: str) -> str:
    """Return the name of a text encoding."""
    try:
        "".encode(text)
        codecs.getincrementaldecoder(text)
    except (LookupError, ValueError):  # ValueError: a zero byte in the name
        raise typer.BadParameter(f"expected an encoding, like latin-1 or utf-16, found {text!r}") from None
    return text


def parse_delimiter(text: str) -> str:
    """Return a delimiter: one character, or the word tab."""
    delimiter = "\t" if text in ("tab", "\\t") else text
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise typer.BadParameter(f"expected one character, like ';', or tab; found {text!r}")
    return delimiter


def parse_base(text: str) -> int:
    """Return the base of digits, 16 or 10."""
    if text not in ("10", "16"):
        raise typer.BadParameter(f"expected 16 or 10, found {text!r}")
    return int(text)


Encoding = Annotated[
    str,
    typer.Option(metavar="NAME", parser=parse_encoding, help="Encoding of text, CSV and JSON, like latin-1."),
]

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
    """How the rows of files are read.

    Options:
        id_field NAME: The field or column of a row's key.
        text_field NAME: The field or column of its text, or of a list of ready shingles.
        format_: Format of the inputs (default: by suffix; stdin: jsonl).
        delimiter CHAR: Delimiter of CSV cells, like ';' (default comma; .tsv: tab).
        glob PATTERN: In folders, read only files of this name, like '*.py'. May be repeated.
        hidden: In folders, also read hidden files and folders, except .git.
        skip_bad_rows: Report, count and skip bad rows, and files that cannot be read on, instead of stopping
            at the first.
    """

    heading: ClassVar = "Inputs"

    id_field: str = "id"
    text_field: str = "text"
    format_: Annotated[str, word(tuple(FORMATS))] | None = None
    encoding: Encoding = "utf-8"
    delimiter: Annotated[str, typer.Option(parser=parse_delimiter)] | None = None
    glob: list[str] | None = None
    hidden: bool = False
    skip_bad_rows: bool = False
    max_row: MaxRow = Limits.row

    @property
    def limits(self) -> Limits:
        """How much of them may be held in memory."""
        return Limits(self.max_row)

    def inputs(
        self,
        paths: Sequence[str],
        leave_out: str | None = None,
        on_bad_row: OnBadRow | None = None,
        **fields: Any,
    ) -> Inputs:
        """Return the inputs at some paths; `fields` are of `Fields`, in place of what the options say, and
        `on_bad_row` in place of what reports bad rows."""
        reading = Reading(self.format_, self.encoding, self.delimiter, tuple(self.glob or ()), self.hidden)
        given = {_FIELDS[option]: value for option, value in vars(self).items() if option in _FIELDS}
        if on_bad_row is None and self.skip_bad_rows:
            on_bad_row = report_skipped()
        how: dict[str, Any] = {"reading": reading, "limits": self.limits, "on_bad_row": on_bad_row}
        return Inputs(paths, Fields(**given | fields), leave_out=leave_out, **how)


@dataclass(frozen=True)
class KeyOptions(FileOptions):
    """Also what stands for a missing key, or for a text.

    Options:
        key_from: Make a key for rows without one: from the content, so that equal rows are one document; or
            from the line, as FILE:LINE.
        fingerprint_field NAME: Read a 64-bit SimHash fingerprint from this field or column instead of a text:
            an integer, signed or not, or its digits.
        fingerprint_base 16|10: Base of fingerprints that are written as digits.
    """

    key_from: KeyFrom | None = None
    fingerprint_field: str | None = None
    fingerprint_base: Annotated[int, typer.Option(parser=parse_base)] = 16


@dataclass(frozen=True)
class ComparedOptions(KeyOptions):
    """The same of rows that are looked up: one without a key has its place."""

    key_from: KeyFrom | None = "line"


@dataclass(frozen=True)
class InsertOptions(KeyOptions):
    """Also what is kept of a row beside its text.

    Options:
        metadata: Keep the other fields of a row as its metadata.
        metadata_field NAME: Keep the value of this field as a row's metadata.
    """

    metadata: bool = False
    metadata_field: str | None = None


# ---- a new index ----


def seed_of(text: str) -> int | str:
    """Return the seed that was written on the command line: an integer, or "random"."""
    try:
        return text if text == "random" else whole()(text)
    except typer.BadParameter:
        raise typer.BadParameter(f'expected "random" or an integer of at least 0, found {text!r}') from None


@dataclass(frozen=True)
class ShingleOptions:
    """How texts are cut; ``None``: not given.

    Options:
        words N: Shingles of N words (default 3).
        chars N: Shingles of N characters.
        short_texts: The settings for titles, questions, records, notes: texts of three to forty words.
    """

    heading: ClassVar = "Options"
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (
        ("words", "chars"),
        ("short_texts", "words"),
        ("short_texts", "chars"),
    )

    words: AtLeast1 | None = None
    chars: AtLeast1 | None = None
    short_texts: bool = False
    normalize: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS",
            help=f"Steps of normalisation out of '{' '.join(NORMALIZE_STEPS)}'; or none (default: the last "
            "two).",
        ),
    ] = None

    def __post_init__(self) -> None:
        for pair in self.exclusive:
            if self.given.issuperset(pair):
                first, second = (f"--{name.replace('_', '-')}" for name in pair)
                raise typer.BadParameter(f"{first} and {second} exclude each other")

    @cached_property
    def given(self) -> set[str]:
        """The names of those that were given: 0 is a value, ``None`` and False are none."""
        return {name for name, value in vars(self).items() if value is not None and value is not False}

    def shingles(self, base: Shingles) -> Shingles:
        """Return `base` with what was given in place of its values."""
        if self.short_texts:
            base = Config.short_texts().shingles
        if self.words is not None:
            base = WordShingles(self.words, base.normalize)
        if self.chars is not None:
            base = CharShingles(self.chars, base.normalize)
        return self._normalized(base)

    def _normalized(self, shingles: Shingles) -> Shingles:
        if self.normalize is None:
            return shingles
        steps = tuple(self.normalize.replace(",", " ").split())
        return type(shingles)(shingles.size, () if steps == ("none",) else steps)


@dataclass(frozen=True)
class SketchOptions(ShingleOptions):
    """Also what sketches are like; ``None`` or False: not given.

    Options:
        num_perm N: MinHash rows (default 128).
        seed N|random: Seed of the hash functions (default 1); random: one that cannot be guessed.
    """

    heading: ClassVar = "Sketches"

    num_perm: AtLeast0 | None = None
    seed: Annotated[int, typer.Option(parser=seed_of)] | None = None


@dataclass(frozen=True)
class CreationOptions(SketchOptions):
    """What a new index is like; ``None`` or False: not given.

    Options:
        max_distance N: Distance in bits up to which SimHash search finds everything (default 3).
        no_minhash: Store no MinHash rows.
        no_simhash: Store no SimHash fingerprint.
        keep_shingles N: Keep N shingle hashes of each document, for query --exact (default 0).
        containment N: Sample one in N shingles, for find, passages, query --contained: 1, 2, 4 .. 64 (default
            0: none).
    """

    heading: ClassVar = "New index"
    exclusive: ClassVar = (
        *ShingleOptions.exclusive,
        ("no_simhash", "max_distance"),
        ("no_minhash", "num_perm"),
        ("no_minhash", "keep_shingles"),
        ("no_minhash", "containment"),
        ("no_minhash", "short_texts"),
        ("no_minhash", "no_simhash"),
    )

    max_distance: AtLeast0 | None = None
    no_minhash: bool = False
    no_simhash: bool = False
    keep_shingles: AtLeast0 | None = None
    containment: AtLeast0 | None = None

    def config(self, base: Config) -> Config:
        """Return `base` with what was given in place of its values."""
        if self.short_texts:
            short = Config.short_texts()
            base = replace(base, simhash=short.simhash, keep_shingles=short.keep_shingles)
        names = self.given & {"num_perm", "keep_shingles", "containment", "seed"}
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.no_minhash:
            given |= {"num_perm": 0, "keep_shingles": 0, "containment": 0}
        shingles, simhash = self.shingles(base.shingles), self._simhash(base)
        return replace(base, **given, shingles=shingles, simhash=simhash)

    def _simhash(self, base: Config) -> SimHashConfig | None:
        if self.no_simhash or (base.simhash is None and self.max_distance is None):
            return None
        simhash = with_distance(base.simhash or SimHashConfig(), self.max_distance)
        return replace(simhash, shingles=self._normalized(simhash.shingles))


def with_distance(simhash: SimHashConfig, max_distance: int | None) -> SimHashConfig:
    """Return settings of another distance, with as many blocks as it takes; ``None``: the same ones."""
    if max_distance in (None, simhash.max_distance):
        return simhash
    return replace(simhash, max_distance=max_distance, blocks=None)


def open_for_insert(path: str, options: CreationOptions, wait: float = 0.0) -> Index:
    """Open an index for writing, created with these options if it is missing."""
    is_new = not is_index(path)
    config = options.config(Config()) if is_new and options.given else None
    index = open_index(path, "a", config, timeout=wait)
    try:
        if not is_new and options.given:
            require_equal(index.config, options.config(index.config))
    except BaseException:
        index.close()
        raise
    return index
