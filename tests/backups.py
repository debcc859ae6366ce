"""What backups are compared by: everything that an index stores and its manifest names."""

from pathlib import Path

from stored_values import stored_values

from simindex import Layout
from simindex.format.keys import segment_of
from simindex.format.manifest import decode_manifest
from simindex.format.replies import DONE_KEYS

TINY = Layout(3, 8, 400)

Content = dict[tuple[str, bytes], bytes]


def content_of(path: Path) -> Content:
    """(database, key) -> value of a closed index, without what no manifest names."""
    found = {(database, key): value for database, key, value in stored_values(path)}
    live = {entry.id for entry in decode_manifest(found["meta", b"manifest"]).segments}
    return {
        (database, key): value
        for (database, key), value in found.items()
        if (database != "segments" or segment_of(key) in live)
        and (database != "meta" or key in {b"config", b"manifest"} | DONE_KEYS)
    }


def texts(first: int, count: int) -> list[tuple[int, str, dict[str, int]]]:
    """Documents of a few words each, with their numbers as keys and in their metadata."""
    return [
        (n, f"document {n} says {n * n} words and {n % 7} more than {n + 1}", {"n": n})
        for n in range(first, first + count)
    ]
