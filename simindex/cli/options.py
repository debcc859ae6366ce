"""Options: what they read, those that several commands share, and the settings of a new index.

What an option of a new index left out means: the default when the index is created, the stored value when it
is there. So an option given for an existing index is compared with what is stored, and only that one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, get_args

from click import BadParameter

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.cli.command import (
    Declared,
    OneField,
    Parsed,
    argument,
    flag,
    number,
    option,
    share,
    whole,
    word,
)
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
from simindex.inputs import FORMATS, Fields, Inputs, KeyFrom, OnBadRow
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, Method
from simindex.storage.folder import is_index


def _seconds(text: str) -> float:
    """Return the seconds that were written on the command line; BadParameter where they are no finite number
    of 0 or more."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < math.inf:
        raise BadParameter(f"expected a number of seconds, like 30, found {text!r}")
    return found


# ---- which go together ----


def refuse_with(option: str, **others: object) -> None:
    """Raise BadParameter where any of the other options was given together with this one; False and ``None``
    count as not given."""
    for name, value in others.items():
        if value is not None and value is not False:
            raise BadParameter(f"--{name.replace('_', '-')} does not go with --{option}")


def require_of_method(by: str | None, max_distance: int | None, **of_minhash: object) -> None:
    """Raise BadParameter where --max-distance was given without --by simhash, or any of `of_minhash` with it;
    False and ``None`` were not given."""
    if by == "simhash":
        refuse_with("by simhash", **of_minhash)
    elif max_distance is not None:
        raise BadParameter("--max-distance goes with --by simhash")


# ---- shared by commands ----

index_folder = argument("index", "INDEX", "The folder of the index.")
input_paths = argument("inputs", "INPUT...", "Files, folders, or - for stdin.", nargs=-1, required=True)
json_lines = flag("--json", "as_json", help="Print JSON lines.")
json_object = flag("--json", "as_json", help="Print one JSON object.")
json_summary = flag("--json", "as_json", help="Print the summary as one JSON line.")
wait = option(
    "--wait",
    type=Parsed(_seconds),
    metavar="SECONDS",
    default=0.0,
    show_default=False,
    help="Wait up to this long while another process writes to the index (default: not at all).",
)
# No result depends on these two, which tests turn to show so.
batch_size = number("--batch-size", default=DEFAULT_BATCH_SIZE, hidden=True, help="Documents per batch.")
workers = number("--workers", hidden=True, help="Threads that make sketches (default: one per core).")

threshold = share("--threshold", help="Least similarity, above 0 up to 1 (default 0.8).")
limit = number("--limit", help="Show at most N matches.")
first_pairs = number("--limit", help="Show the first N pairs only.")
first_clusters = number("--limit", help="Show the first N clusters only.")
recall = share(
    "--recall",
    metavar="P",
    help="Find this share of the documents whose similarity is right at the threshold (default: about half), "
    "and some less similar ones.",
)
exact = flag("--exact", help="Compare kept shingles: exact where all shingles of both documents are kept.")
by = word(
    "--by",
    words=get_args(Method),
    help="Compare by MinHash or SimHash (default: MinHash, unless the index has none).",
)
max_distance = number(
    "--max-distance",
    least=0,
    metavar="K",
    help="With --by simhash: pairs within K bits (default: the distance of the index).",
)
ignore_common = share(
    "--ignore-common",
    help="Leave out shingles that more than this share of the documents have, like those of templates.",
)
max_candidates = number(
    "--max-candidates",
    default=DEFAULT_MAX_CANDIDATES,
    help="Compare each query with at most N stored documents.",
)


def _where(_ctx: Any, _param: Any, given: Sequence[str]) -> dict[str, list[object]] | None:
    """Return {field: accepted values} of the options FIELD=VALUE: the text, and the value that JSON reads
    from it if it is a number, true, false or null. ``None`` where the option was not given; BadParameter for
    a text without "=" or field."""
    fields: dict[str, list[object]] = {}
    for text in given:
        field, equals, value = text.partition("=")
        if not equals or not field:
            raise BadParameter(f"expected FIELD=VALUE, found {text!r}")
        values = fields.setdefault(field, [])
        values.append(value)
        with suppress(ValueError):
            if not isinstance(found := json.loads(value), str | list | dict):
                values.append(found)
    return fields or None


where = option(
    "--where",
    multiple=True,
    callback=_where,
    metavar="FIELD=VALUE",
    help="Only stored documents whose metadata has this value; repeat a field for several values, name "
    "another one to require both.",
)
address = option(
    "--address",
    metavar="HOST:PORT",
    help="The Ray cluster; default: RAY_ADDRESS, one that runs on this machine, or a new one.",
)


def inputs_of(name: str, help_: str, metavar: str = "INPUT") -> Declared:
    """Declare an option that names inputs, and may be repeated."""
    return option(name, multiple=True, metavar=metavar, help=help_)


# ---- keys ----


def parse_int(text: str) -> int:
    """Return the integer that a text writes. Raises ValueError where it is none, or has underscores, which
    only Python's own literals take."""
    if "_" in text:
        raise ValueError(text)
    return int(text)


def parse_key(text: str, int_keys: bool) -> Key:
    """Return the key that was written on the command line: a str, or with --int an integer. BadParameter
    where it is no integer then; whether the index takes it as a key is not checked."""
    if not int_keys:
        return text
    try:
        return parse_int(text)
    except ValueError:
        raise BadParameter(f"--int: expected an integer, found {text!r}") from None


def stored_key(index: Index, key: Key) -> Key:
    """Return the key that a line of `simindex list` stands for, where it is stored; else the line."""
    if isinstance(key, str) and (found := unlisted(key)) != key and found in index:
        return found
    return key


def missing_key(index: Index, key: Key) -> str:
    """Return the message for a key that is not in the index; where the integer or the text of the same digits
    is, the message names it and the use of --int."""
    text = f"{index.path}: key {key!r} is not in the index"
    if isinstance(key, str) and re.fullmatch(r"-?\d{1,20}", key, re.ASCII) and int(key) in index:
        return f"{text}, but the integer {int(key)} is; --int takes keys as integers"
    if isinstance(key, int) and str(key) in index:
        return f"{text}, but the text '{key}' is; without --int keys are texts"
    return text


# ---- how files are read ----


def parse_base(text: str) -> int:
    """Return the base of digits, 16 or 10; BadParameter for another text."""
    if text not in ("10", "16"):
        raise BadParameter(f"expected 16 or 10, found {text!r}")
    return int(text)


_key_from = word(
    "--key-from",
    words=get_args(KeyFrom),
    help="Make a key for rows without one: from the content, so that equal rows are one document; or from "
    "the line, as FILE:LINE.",
)

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

    id_field: str = option(
        "--id-field", cls=OneField, default="id", help="The field or column of a row's key."
    ).field()
    text_field: str = option(
        "--text-field",
        cls=OneField,
        default="text",
        help="The field or column of its text, or of a list of ready shingles.",
    ).field()
    format_: str | None = word(
        "--format",
        "format_",
        words=tuple(FORMATS),
        help="Format of the inputs (default: by suffix; stdin: jsonl).",
    ).field()
    skip_bad_rows: bool = flag(
        "--skip-bad-rows",
        help="Report, count and skip bad rows, and files that cannot be read on, instead of stopping at the "
        "first.",
    ).field()

    def inputs(
        self,
        paths: Sequence[str],
        leave_out: str | None = None,
        on_bad_row: OnBadRow | None = None,
        **fields: Any,
    ) -> Inputs:
        """Return the inputs at some paths but the folder `leave_out`; `fields` are of `Fields`, in place of
        what the options say. A bad row is given to `on_bad_row`, else reported with --skip-bad-rows, else
        raised."""
        given = {_FIELDS[option]: value for option, value in vars(self).items() if option in _FIELDS}
        if on_bad_row is None and self.skip_bad_rows:
            on_bad_row = report_skipped()
        return Inputs(
            paths, Fields(**given | fields), format=self.format_, leave_out=leave_out, on_bad_row=on_bad_row
        )

    def require_defaults(self, goes_with: str, but: str | None = None) -> None:
        """Raise BadParameter where one of these options, `but` aside, is not its default; called where no
        file is read, so that it would have no effect. `goes_with`: what it has an effect with."""
        for each in fields(self):
            if each.name != but and getattr(self, each.name) != each.default:
                raise BadParameter(f"{each.metadata['option'].names[0]} goes with {goes_with}")


@dataclass(frozen=True)
class KeyOptions(FileOptions):
    """Also what stands for a missing key."""

    key_from: str | None = _key_from.field()


@dataclass(frozen=True)
class LineOptions(KeyOptions):
    """Input options of commands that store nothing; a row without an id is called FILE:LINE."""

    key_from: str | None = _key_from.but(default="line").field()


@dataclass(frozen=True)
class FingerprintOptions(KeyOptions):
    """Also what stands for a text."""

    fingerprint_field: str | None = option(
        "--fingerprint-field",
        cls=OneField,
        help="Read a 64-bit SimHash fingerprint from this field or column instead of a text: an integer, "
        "signed or not, or its digits.",
    ).field()
    fingerprint_base: int = option(
        "--fingerprint-base",
        type=Parsed(parse_base),
        metavar="16|10",
        default=16,
        help="Base of fingerprints that are written as digits.",
    ).field()

    def inputs(self, *args: Any, **how: Any) -> Inputs:
        """Return the inputs as `FileOptions.inputs` does. Raises BadParameter for a --fingerprint-base other
        than the default without --fingerprint-field, for no fingerprint is read then."""
        if self.fingerprint_field is None and self.fingerprint_base != Fields.fingerprint_base:
            raise BadParameter("--fingerprint-base goes with --fingerprint-field where rows are read")
        return super().inputs(*args, **how)


@dataclass(frozen=True)
class ComparedOptions(FingerprintOptions):
    """Input options of commands that compare sketches; a row without an id is called FILE:LINE."""

    key_from: str | None = _key_from.but(default="line").field()


@dataclass(frozen=True)
class InsertOptions(FingerprintOptions):
    """Also what is kept of a row beside its text."""

    metadata: bool = flag("--metadata", help="Keep the other fields of a row as its metadata.").field()
    metadata_field: str | None = option(
        "--metadata-field", cls=OneField, help="Keep the value of this field as a row's metadata."
    ).field()


# ---- a new index ----


def seed_of(text: str) -> int | str:
    """Return the seed that was written on the command line: an integer of 0 or more, or "random";
    BadParameter for another text."""
    try:
        return text if text == "random" else whole()(text)
    except BadParameter:
        raise BadParameter(f'expected "random" or an integer of at least 0, found {text!r}') from None


@dataclass(frozen=True)
class ShingleOptions:
    """How texts are cut; ``None``: not given."""

    heading: ClassVar = "Options"
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = (
        ("words", "chars"),
        ("short_texts", "words"),
        ("short_texts", "chars"),
    )

    words: int | None = number("--words", help="Shingles of N words (default 3).").field()
    chars: int | None = number("--chars", help="Shingles of N characters.").field()
    short_texts: bool = flag(
        "--short-texts",
        help="The settings for titles, questions, records, notes: texts of three to forty words.",
    ).field()
    normalize: str | None = option(
        "--normalize",
        metavar="STEPS",
        help=f"Steps of normalisation out of '{' '.join(NORMALIZE_STEPS)}'; or none "
        f"(default: '{' '.join(WordShingles().normalize)}').",
    ).field()

    def __post_init__(self) -> None:
        for pair in self.exclusive:
            if self.given.issuperset(pair):
                first, second = (f"--{name.replace('_', '-')}" for name in pair)
                raise BadParameter(f"{first} and {second} exclude each other")

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
    """Also what sketches are like; ``None`` or False: not given."""

    heading: ClassVar = "Sketches"

    num_perm: int | None = number("--num-perm", least=0, help="MinHash rows (default 128).").field()


@dataclass(frozen=True)
class CreationOptions(SketchOptions):
    """What a new index is like; ``None`` or False: not given."""

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

    seed: int | str | None = option(
        "--seed",
        type=Parsed(seed_of),
        metavar="N|random",
        help="Seed of the hash functions (default 1); random: one that cannot be guessed.",
    ).field()
    max_distance: int | None = number(
        "--max-distance",
        least=0,
        help="Distance in bits up to which SimHash search finds everything (default 3).",
    ).field()
    no_minhash: bool = flag("--no-minhash", help="Store no MinHash rows.").field()
    no_simhash: bool = flag("--no-simhash", help="Store no SimHash fingerprint.").field()
    keep_shingles: int | None = number(
        "--keep-shingles",
        least=0,
        help="Keep N shingle hashes of each document, for query --exact (default 0).",
    ).field()
    containment: int | None = number(
        "--containment",
        least=0,
        help="Sample one in N shingles, for find and passages: 1, 2, 4 .. 64 (default 0: none).",
    ).field()

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
    """Open an index for writing, created with these options if it is missing. Raises ConfigMismatchError
    where an option contradicts the settings of one that is there."""
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
