"""What differs between two databases is found, and no more than that."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import CorruptIndexError
from simindex.maintenance.backup_folder import difference

Entries = dict[bytes, bytes]
names = st.integers(0, 30).map(lambda n: b"%03d" % n)
entries = st.dictionaries(names, st.sampled_from([b"a", b"b"]), max_size=25)


def parts(found: Entries, size: int) -> Iterator[list[tuple[bytes, bytes]]]:
    items = sorted(found.items())
    return (items[first : first + size] for first in range(0, len(items), size))


@given(entries, entries, st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_difference_makes_one_the_other(
    index: Entries, other: Entries, alike: bool, one: int, two: int
) -> None:
    backup = {**index, **dict(list(other.items())[:2])} if alike else other
    found = difference("documents", parts(index, one), parts(backup, two))
    assert bool(found) == (index != backup)
    made = {key: value for key, value in backup.items() if key not in found.removed}
    assert len(made) == len(backup) - len(found.removed)
    assert all(made.get(key) != index[key] for key in found.changed)
    made.update((key, index[key]) for key in found.changed)
    if found.tail is not None:
        last = found.tail
        assert not made or max(made) < last
        made.update((key, value) for key, value in index.items() if key >= last)
    assert made == index


@pytest.mark.parametrize("size", [1, 2, 6])
def test_walk_in_a_circle_ends(size: int) -> None:
    """Pages of a tree that lead back have no end."""
    items = [(b"%d" % n, b"v") for n in range(6)]

    def circle() -> Iterator[list[tuple[bytes, bytes]]]:
        while True:
            yield from (items[first : first + size] for first in range(0, 6, size))

    with pytest.raises(CorruptIndexError, match="documents: expected ascending keys"):
        difference("documents", circle(), circle())
