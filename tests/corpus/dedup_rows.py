"""Made-up corpora with near duplicates, and what a star must keep of them."""

import random
from pathlib import Path

import orjson

import simindex

WORDS = [f"word{number}" for number in range(2_000)]


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of 60 words; every third or so is an earlier one with a few words changed."""
    dice = random.Random(seed)
    found: list[str] = []
    for _ in range(count):
        if found and dice.random() < 0.35:
            words = dice.choice(found).split()
            for _ in range(dice.randrange(3)):
                words[dice.randrange(len(words))] = dice.choice(WORDS)
        else:
            words = dice.choices(WORDS, k=60)
        found.append(" ".join(words))
    return found


def lines(documents: list[str]) -> list[bytes]:
    """A line of JSON each, with a field more, and spaces that nobody else would write."""
    return [
        b'{"id" : %d,  "more":[%d], "text":%s}\n' % (number, number % 7, orjson.dumps(text))
        for number, text in enumerate(documents)
    ]


def write_lines(path: Path, documents: list[str]) -> list[bytes]:
    """Write them to a file, and give the lines."""
    found = lines(documents)
    path.write_bytes(b"".join(found))
    return found


def kept_by_index(path: Path, documents: list[str], threshold: float = 0.8) -> list[int]:
    """The places that `insert_many_if_new` keeps."""
    with simindex.open(path, "x") as index:
        index.insert_many_if_new(enumerate(documents), threshold)
        return [int(key) for key in index]
