"""Documents in batches, each unlike any of another name, and what an index holds after some of them."""

from typing import Any

from simindex import Config, Index, Layout

SMALL = Config(num_perm=64)
TINY_LAYOUT = Layout(2, 64, 4096)
BATCH = 30

Held = dict[Any, list[str]]
"""Key -> document: what an index holds."""


def label(*name: object) -> str:
    return "-".join(map(str, name))


def document(*name: object) -> list[str]:
    """Ready shingles of a document unlike any of another name."""
    return [label(*name, letter) for letter in "abcde"]


def batch(*name: object, size: int = BATCH) -> list[tuple[Any, list[str]]]:
    """(key, document) of each document of a batch."""
    return [(label(*name, place), document(*name, place)) for place in range(size)]


def assert_holds(index: Index, documents: Held) -> None:
    """The index has exactly these documents (key -> document), and finds each by its text and by its key."""
    assert len(index) == len(documents)
    assert set(index) == documents.keys()
    for (key, _), matches in zip(
        documents.items(), index.query_many(list(documents.values()), 0.9), strict=True
    ):
        assert [(match.key, match.similarity) for match in matches] == [(key, 1.0)]
        assert index[key].key == key


def removed_by(name: object, number: int) -> list[str]:
    return [key for key, _ in batch(name, number - 2)[::3]] if number >= 2 else []


def after_one_more(before: Held, name: object, number: int) -> Held:
    """What the index holds when a batch has been committed on top of `before`."""
    gone = set(removed_by(name, number))
    return {key: text for key, text in (before | dict(batch(name, number))).items() if key not in gone}


def after_batches(before: Held, name: object, count: int) -> Held:
    """What the index holds when `count` batches of a name have been committed on top of `before`."""
    for number in range(count):
        before = after_one_more(before, name, number)
    return before
