"""An index over Ray of one node, which the program starts itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rays import one_node

import simindex
from simindex import scaleout


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with one_node():
        yield


TEXTS = [f"the quick brown fox {n} jumps over the lazy dog {n // 2} near the river bank" for n in range(200)]


def test_documents_go_in_and_are_found(tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "catalog", partitions=3) as index:
        items = [(f"key {n}", text, {"n": n}) for n, text in enumerate(TEXTS)]
        assert index.insert_many(items, batch_size=64) == (200, 0, 0)
    with scaleout.open(tmp_path / "catalog") as index, simindex.open(tmp_path / "one") as one:
        assert len(index) == 200
        one.insert_many(items)
        for found, expected in zip(index.query_many(TEXTS), one.query_many(TEXTS), strict=True):
            assert set(map(repr, found)) == set(map(repr, expected))
            assert [match.similarity for match in found] == [match.similarity for match in expected]
