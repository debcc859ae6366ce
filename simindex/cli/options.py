"""Types of options: what they read, and those that several commands share, with their help.

Options of a new index stand in `creation`, beside what they mean.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer

from simindex.cli.command import word
from simindex.format.keys import Key
from simindex.index import Index
from simindex.queries.search import Method

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
SkipBadRows = Annotated[
    bool,
    typer.Option(
        rich_help_panel="Inputs", help="Report, count and skip bad rows instead of stopping at the first."
    ),
]
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


def missing_key(index: Index, key: Key) -> str:
    """Return what to say of a key that is not in the index, and of its twin that is."""
    text = f"{index.path}: key {key!r} is not in the index"
    if isinstance(key, str) and re.fullmatch(r"-?\d{1,20}", key, re.ASCII) and int(key) in index:
        return f"{text}, but the integer {int(key)} is; --int takes keys as integers"
    if isinstance(key, int) and str(key) in index:
        return f"{text}, but the text '{key}' is; without --int keys are texts"
    return text


# ---- many machines ----

Uri = Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog of the index.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The Ray cluster; default: RAY_ADDRESS, one that runs on this machine, or a new one.",
    ),
]
Places = Annotated[
    list[str],
    typer.Option(
        metavar="RESOURCE=FOLDER",
        help="A node, by the name of its resource, and the folder on its disk; several times.",
    ),
]


def places_of(given: list[str]) -> dict[str, str]:
    """Return resource -> folder of what was typed.

    >>> places_of(["simindex:a=/nvme/a"])
    {'simindex:a': '/nvme/a'}
    """
    places = {}
    for one in given:
        resource, _, folder = one.partition("=")
        if not resource or not folder:
            raise typer.BadParameter(f"expected RESOURCE=FOLDER, found {one!r}", param_hint="'--place'")
        places[resource] = folder
    return places
