"""A closed index that has one of everything, to be broken, and what an index answers or raises."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import simindex
from simindex import Config, CorruptIndexError, FormatError, Index, Layout, SimHashConfig

CONFIG = Config(num_perm=16, simhash=SimHashConfig(3, 4))

Answers = dict[str, Any]


def text(number: int) -> str:
    return f"the text {number} of the word {number * 7} and the word {number * 11} in the collection"


def make_index(path: Path, layout: Layout) -> Path:
    """Store segments, copies, removed documents and leaders, empty documents, and ages; close the index."""
    with simindex.open(path, "x", CONFIG, layout=layout, map_bytes=1 << 20) as stored:
        stored.insert_many(((n, text(n), {"n": n}) for n in range(90)), batch_size=40)
        stored.insert_many((f"copy {n}", text(n)) for n in range(12))
        stored.insert_many([("empty", "..."), (b"bytes", "a text of its own with enough words")])
        stored.remove_many([0, 1, "copy 1", "copy 2", 3, 50, 60])
        stored.touch(5, 6, 70)
    return path


def outcome(path: Path, answers: Callable[[Index], Answers]) -> Answers | Exception:
    """What the index answers, or the error that it raises."""
    try:
        with simindex.open(path, "r") as index:
            return answers(index)
    except (CorruptIndexError, FormatError) as error:
        return error
