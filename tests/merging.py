"""An index whose small commits keep merges of many chunks under way, and what must hold of it always."""

from collections.abc import Container, Iterable

from simindex import Config, Index, Layout
from simindex.format.keys import segment_of

SMALL = Config(num_perm=16)
LAYOUT = Layout(2, 8, 400)
BATCHES = 14
BATCH = 5


def document(number: int) -> list[str]:
    return [f"{number} {letter}" for letter in "abcde"]


def keys_of(batch: int) -> range:
    return range(batch * BATCH, (batch + 1) * BATCH)


def check(index: Index, batches: Iterable[int], removed: Container[int] = ()) -> None:
    """Everything is there and found, and no chunk lies about that nobody will use."""
    expected = [key for batch in batches for key in keys_of(batch) if key not in removed]
    assert list(index) == expected
    for key, matches in zip(expected, index.query_many(map(document, expected), 0.9), strict=True):
        assert [match.key for match in matches] == [key]
    writer = index._session.writer()
    with index._store.reading() as txn:
        found = {segment_of(key) for key, _ in txn.items("segments")}
    live = {shape.id for shape in writer.manifest.segments}
    assert live <= found <= live | {merge.entry.id for merge in writer.merges.under_way}


def insert(index: Index, batch: int) -> None:
    index.insert_many([(key, document(key)) for key in keys_of(batch)], batch_size=BATCH, workers=1)
