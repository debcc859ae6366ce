"""Texts and files that tests of inputs and commands share."""

import importlib.util
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from simindex.inputs import BadRowError, Row

FOX = "the quick brown fox jumps over the lazy dog near the river bank in the early morning"
FOX_TOO = "the quick brown fox jumps over the lazy dog near the river bank in the early evening"
SHIP = "a ship left the harbour at dawn with forty sailors and a cargo of salt for the islands"
ROWS: list[dict[str, object]] = [
    {"id": "fox", "text": FOX},
    {"id": "fox too", "text": FOX_TOO},
    {"id": 7, "text": SHIP},
]


def json_lines(rows: Iterable[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def make_folder(root: Path) -> None:
    for name in ("b/z.py", "b/a.py", "a.txt", "c.py", "b.d/e.py"):
        path = root / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {SHIP}")
    (root / "tree" / "loop").symlink_to(root / "tree", target_is_directory=True)
    (root / "tree" / "link.py").symlink_to(root / "tree" / "c.py")
    (root / "tree" / "broken").symlink_to(root / "nowhere")


def good(rows: Iterable[Row | BadRowError]) -> list[Row]:
    """The rows of an input of which none is bad."""
    found = list(rows)
    assert all(isinstance(row, Row) for row in found)
    return cast("list[Row]", found)


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def zstd() -> Any:
    """The module that packs and unpacks .zst; a test that asks for it is skipped where it is missing."""
    return pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
