"""The page on promises names tests that are there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "promises.md").read_text()
ROWS = [line for line in PAGE.partition("\n## Mutants\n")[0].splitlines() if line.startswith("* ")]


def test_every_promise_names_a_test_that_is_there() -> None:
    assert ROWS
    for row in ROWS:
        named = re.fullmatch(r"\* .+\. `([\w/]+\.py)::(test_\w+)`: .+\.", row)
        assert named, row
        tree = ast.parse((TESTS / named[1]).read_text())
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert named[2] in there, row
