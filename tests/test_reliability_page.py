"""The page on reliability: each pitfall is handled, with a test that is there, or a limit with a sentence."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text()
PITFALLS = PAGE.split("## LMDB's pitfalls, one by one")[1].split("\n## ")[0]
ROWS = [line for line in PITFALLS.splitlines() if line.startswith("* ")]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)))


def test_every_pitfall_is_handled_with_a_test_or_is_a_limit() -> None:
    assert len(ROWS) == 13 + 14 + 26
    for row in ROWS:
        handled = re.fullmatch(r"\* \*\*.+?\.\*\* .{11,} `[\w/]+\.py::test_\w+`", row)
        assert handled or re.fullmatch(r"\* \*\*.+?\.\*\* \*\*Limit\*\*: .{11,}", row), row


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_tests_that_the_page_names_are_there(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text())
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert not [name for named, name in NAMED if named == file and name not in there]
