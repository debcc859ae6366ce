"""Pages on promises and reliability name tests that are there; each pitfall is handled, or a limit."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
RELIABILITY = (DOCS / "reliability.md").read_text()


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_promise_names_a_test_that_is_there() -> None:
    promises = (DOCS / "promises.md").read_text().partition("\n## Mutants\n")[0]
    rows = [line for line in promises.splitlines() if line.startswith("* ")]
    assert rows
    for row in rows:
        named = re.fullmatch(r"\* .+\. `([\w/]+\.py)::(test_\w+)`: .+\.", row)
        assert named, row
        assert named[2] in functions_of(named[1]), row


def test_every_pitfall_is_handled_with_a_test_or_is_a_limit() -> None:
    pitfalls = RELIABILITY.split("## LMDB's pitfalls, one by one")[1].split("\n## ")[0]
    rows = [line for line in pitfalls.splitlines() if line.startswith("* ")]
    assert len(rows) == 13 + 14 + 26
    for row in rows:
        handled = re.fullmatch(r"\* \*\*.+?\.\*\* .{11,} `[\w/]+\.py::test_\w+`", row)
        assert handled or re.fullmatch(r"\* \*\*.+?\.\*\* \*\*Limit\*\*: .{11,}", row), row


def test_tests_that_the_page_on_reliability_names_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", RELIABILITY)
    assert named
    assert not [(file, name) for file, name in named if name not in functions_of(file)]
