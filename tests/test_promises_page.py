"""Pages on promises, reliability and limits name tests that are there; each pitfall is handled, or a limit,
and each limit of the code stands there with its figure."""

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import simindex
from simindex.all_pairs.plan import DEFAULT_CLUSTER_LIMIT, DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES
from simindex.changes.documents import INSERT_BATCH
from simindex.format.keys import MAX_KEY_BYTES
from simindex.format.layout import MAX_SPAN, MAX_SPAN_WITH_SHINGLES
from simindex.format.meta import MAX_NUMBER
from simindex.format.records import MAX_METADATA_BYTES, MAX_METADATA_DEPTH
from simindex.inputs import Limits
from simindex.queries.search import DEFAULT_MAX_CANDIDATES
from simindex.storage.lmdb_file import MAX_MAP_BYTES, MAX_READERS

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
RELIABILITY = (DOCS / "reliability.md").read_text()


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_names_a_test_that_is_there() -> None:
    promises = (DOCS / "promises.md").read_text().partition("\n## What the promises rest on\n")[0]
    rows = [line for line in promises.splitlines() if line.startswith("* ")]
    assert len(rows) == 5
    for row in rows:
        named = re.fullmatch(r"\* .+\. `([\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        assert named[2] in functions_of(named[1]), row


def test_every_pitfall_is_handled_with_a_test_or_is_a_limit() -> None:
    pitfalls = RELIABILITY.split("## LMDB's pitfalls, one by one")[1].split("\n## ")[0]
    rows = [line for line in pitfalls.splitlines() if line.startswith("* ")]
    assert len(rows) == 10 + 14 + 26
    for row in rows:
        handled = re.fullmatch(r"\* \*\*.+?\.\*\* .{11,} `[\w/]+\.py::test_\w+`", row)
        assert handled or re.fullmatch(r"\* \*\*.+?\.\*\* \*\*Limit\*\*: .{11,}", row), row


def test_tests_that_the_page_on_reliability_names_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", RELIABILITY)
    assert named
    assert not [(file, name) for file, name in named if name not in functions_of(file)]


# ---- limits ----


ROOT = Path(__file__).parents[1]
WHOLE_PAGE = (ROOT / "docs" / "limits.md").read_text()
MEASURED = re.compile(r"^## (Platforms|Weeks of small changes).*?(?=^## )", re.M | re.S)  # no limits
PAGE = MEASURED.sub("", WHOLE_PAGE)
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]

FIGURES = {
    "MAX_KEY_BYTES": (MAX_KEY_BYTES, "65,536"),
    "MAX_METADATA_BYTES": (MAX_METADATA_BYTES, "1 GiB"),
    "MAX_METADATA_DEPTH": (MAX_METADATA_DEPTH, "1,023"),
    "INSERT_BATCH": (INSERT_BATCH, "16,000"),
    "MAX_MAP_BYTES": (MAX_MAP_BYTES, "16 TiB"),
    "MAX_READERS": (MAX_READERS, "1,024"),
    "MAX_NUMBER": (MAX_NUMBER, "2^63 - 1"),
    "MAX_SPAN": (MAX_SPAN, "2^32 - 1"),
    "MAX_SPAN_WITH_SHINGLES": (MAX_SPAN_WITH_SHINGLES, "2^26"),
    "DEFAULT_MAX_CANDIDATES": (DEFAULT_MAX_CANDIDATES, "65,536"),
    "DEFAULT_MAX_RUN": (DEFAULT_MAX_RUN, "1,000"),
    "DEFAULT_MEMORY_BYTES": (DEFAULT_MEMORY_BYTES, "64 MiB"),
    "DEFAULT_CLUSTER_LIMIT": (DEFAULT_CLUSTER_LIMIT, "10,000"),
}
UNITS = {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def value_of(figure: str) -> int:
    """A figure as it is written: 65,536, 1 GiB, 2^32 - 1."""
    if "^" in figure:
        base, power, less = map(int, [*re.findall(r"\d+", figure), 0][:3])
        return int(base**power - less)
    number, _, unit = figure.partition(" ")
    return int(number.replace(",", "")) * UNITS.get(unit, 1)


@pytest.mark.parametrize("name", FIGURES)
def test_limit_stands_on_the_page_with_its_figure(name: str) -> None:
    value, figure = FIGURES[name]
    assert value_of(figure) == value
    (row,) = [row for row in ROWS if f"`{name}`" in row]
    assert figure in row


def test_longest_row_of_an_input_stands_on_the_page() -> None:
    (row,) = [row for row in ROWS if "a row of CSV" in row]
    assert f"{Limits().row // 2**20} MiB" in row


def test_options_that_bound_something_stand_on_the_page() -> None:
    calls = [simindex.open, simindex.Config, *vars(simindex.Index).values(), simindex.Index.pairs]
    options = {name for call in calls if callable(call) for name in inspect.signature(call).parameters}
    bounding = {name for name in options if name.startswith("max_") and name != "max_distance"}
    assert {"max_bytes", "max_candidates", "max_run"} <= bounding
    bounding |= {"batch_size", "memory_bytes", "limit", "keep_shingles", "num_perm"}
    assert not [name for name in bounding if f"`{name}`" not in PAGE]


def test_tests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`(tests/[\w/.]*)`", PAGE))
    assert len(named) > 15
    assert not [name for name in named if not (ROOT / name).exists()]


def test_every_row_names_a_test() -> None:
    rows = [row for row in ROWS if not row.startswith("| what")]
    assert len(rows) > 20
    assert not [row for row in rows if "`tests/" not in row]
