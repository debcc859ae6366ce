"""The compiled loops over buffers; contracts in kernel.h, what differs from them in bind_*.c."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from typing_extensions import Buffer

_Array = np.ndarray | Buffer

TABLE_BLOCK: int
WORDS_BLOCK: int
SHORT_DOC_ID_BITS: int
PAGE_BYTES: int
PAGE_HEAD: int
MIN_BITMAP_BITS: int
LINE_WORDS: int
FILTER_SLACK: int
KEPT_BITS: int
ROUNDS: int
SAMPLE_FLOOR: int
BLOCK_ROWS: int
REPRESENTATIVES: int
CUT_CANDIDATES: int
CUT_BUCKET: int
STRUCT_BYTES: dict[str, int]

class Damage(Exception):  # noqa: N818 - the kernel's own, never seen by users
    """A seal failed, or entries are in no order: (segment index, table index, chunk, block)."""

class MatchSlots:
    __slots__: tuple[str, ...]
    _found: Any
    _asked: Any

_M = TypeVar("_M", bound=MatchSlots)

def use_variant(wanted: int, /) -> int: ...
def normalized(mapping: _Array, text: str, /) -> str: ...
def sketch_texts(
    plan: _Array,
    functions: _Array,
    classes: _Array,
    folds: _Array,
    mapping: _Array,
    texts: Sequence[str],
    words: _Array,
    fingerprints: _Array,
    present: _Array,
    num_shingles: _Array,
    keep: int,
    kept_counts: _Array,
    one_in: int,
    sample_counts: _Array,
    /,
) -> tuple[bytes, bytes]: ...
def sketch_hashes(
    plan: _Array,
    functions: _Array,
    hashes: _Array,
    words: _Array,
    fingerprint: _Array,
    present: _Array,
    num_shingles: _Array,
    /,
) -> None: ...
def take_items(
    iterator: Iterator[object],
    size: int,
    room: int,
    text_bytes: Callable[[str], int],
    bytes_of: Callable[[Any], int],
    /,
) -> tuple[list[Any], list[Any], list[Any], set[type], int]: ...
def pack_keys(
    keys: list[Any], encode_key: Callable[[object], bytes], ends: _Array, hashes: _Array, /
) -> bytes: ...
def pack_records(
    doc_ids: _Array,
    keys: bytes,
    key_ends: _Array,
    metadata: bytes,
    metadata_ends: _Array,
    kept: bytes,
    kept_ends: _Array,
    inserted_at: _Array,
    halves: _Array,
    num_sampled: _Array,
    leaders: _Array,
    seen_at: _Array,
    /,
) -> tuple[list[bytes], list[bytes]]: ...
def smallest_hashes(hashes: _Array, keep: int, /) -> bytes: ...
def sample_hashes(hashes: _Array, one_in: int, counts: _Array, /) -> bytes: ...
def pack_kept(kept: _Array, /) -> bytes: ...
def unpack_kept(packed: Buffer, /) -> bytes: ...
def num_common(a: _Array, b: _Array, /) -> int: ...
def shingles(
    kind: int,
    size: int,
    fold: int,
    collapse: int,
    classes: _Array,
    folds: _Array,
    mapping: _Array,
    text: str,
    /,
) -> list[bytes]: ...
def hash_texts(
    kind: int,
    size: int,
    fold: int,
    collapse: int,
    classes: _Array,
    folds: _Array,
    mapping: _Array,
    texts: Sequence[str],
    seed: int,
    counts: _Array,
    /,
) -> bytes: ...
def word_spans(fold: int, classes: _Array, folds: _Array, mapping: _Array, text: str, /) -> bytes | None: ...
def hash_ready(shingles: Iterable[str | bytes | int], seed: int, /) -> bytes: ...
def xxh64(data: Buffer, seed: int, /) -> int: ...
def xxh64_each(rows: _Array, width: int, seed: int, hashes: _Array, /) -> None: ...
def weighted_simhash(hashes: _Array, weights: _Array, /) -> int: ...
def agreement(left: _Array, right: _Array, /) -> int: ...
def permute(fingerprints: _Array, widths: _Array, orders: _Array, permuted: _Array, /) -> None: ...
def sort_tables(keys: _Array, count: int, out_keys: _Array, out_doc_ids: _Array | None, /) -> None: ...
def address(buffer: _Array, /) -> int: ...
def seal_words(words: _Array, seed: int, /) -> bytes: ...
def fill_pages(
    keys: _Array,
    fingerprints: _Array | None,
    doc_ids: _Array | None,
    words_per_key: int,
    rows: int,
    page_bytes: int,
    seed: int,
    /,
) -> bytes: ...
def page_seals(value: _Array, page_bytes: int, seed: int, /) -> bytes: ...
def query_bands(
    directory: _Array,
    words: _Array,
    fingerprints: _Array,
    present: _Array,
    first_table: int,
    bits: int,
    min_agree: int,
    max_candidates: int,
    with_fingerprints: int,
    most_in_bucket: int,
    own_first: int,
    is_one_enough: int,
    truncated: _Array,
    /,
) -> bytes: ...
def query_fingerprints(
    directory: _Array,
    words: _Array,
    fingerprints: _Array,
    present: _Array,
    permuted: _Array,
    bits: _Array,
    first_table: int,
    max_distance: int,
    max_candidates: int,
    max_scan: int,
    truncated: _Array,
    scanned: _Array,
    /,
) -> bytes: ...
def find_keys(directory: _Array, table: int, keys: _Array, most: int, by_doc_id: bool, /) -> bytes: ...
def count_keys(directory: _Array, table: int, keys: _Array, counts: _Array, /) -> None: ...
def find_equal(
    directory: _Array,
    table: int,
    keys: _Array,
    next_keys: _Array | None,
    words: _Array,
    fingerprints: _Array,
    most: int,
    /,
) -> bytes: ...
def fill_bitmaps(tables: _Array, /) -> None: ...
def set_bitmap(keys: _Array, bitmap: _Array, /) -> None: ...
def add_to_filter(keys: _Array, bits: int, chunk: int, num_chunks: int, lines: _Array, /) -> int: ...
def expect_missing_pages() -> None: ...
def pages_missing() -> bool: ...
def missing_pages(address: int, num_bytes: int, /) -> int: ...
def stream_ahead(address: int, num_bytes: int, /) -> None: ...
def ask_for_pages(addresses: _Array, /) -> None: ...
def let_go(base: int, map_bytes: int, descriptor: int, address: int, num_bytes: int, /) -> bool: ...
def read_sketches(directory: _Array, doc_ids: _Array, words: _Array, fingerprints: _Array, /) -> int: ...
def merge(
    directory: _Array, sources: _Array, dead: _Array | None, keys: _Array, doc_ids: _Array, /
) -> int: ...
def copy_sketches(
    directory: _Array,
    segment: int,
    position: int,
    offset: int,
    dead: _Array | None,
    words: _Array,
    doc_ids: _Array,
    fingerprints: _Array,
    /,
) -> tuple[int, int]: ...
def merge_whole(
    directory: _Array,
    sources: _Array,
    first_of_sketches: int,
    dead_documents: _Array | None,
    dead_sketches: _Array | None,
    value: _Array,
    counts: _Array,
    /,
) -> int: ...
def find_pairs(
    directory: _Array,
    offsets: _Array,
    masks: _Array,
    how: _Array,
    keys: _Array,
    ranks: _Array,
    cursor: _Array,
    long_firsts: _Array,
    longs: _Array,
    found: _Array,
    /,
) -> tuple[int, int]: ...
def find_copies(
    directory: _Array,
    offsets: _Array,
    masks: _Array,
    how: _Array,
    keys: _Array,
    ranks: _Array,
    cursor: _Array,
    slots: _Array,
    used: _Array,
    found: _Array,
    /,
) -> int: ...
def read_nodes(
    octets: _Array,
    page_bytes: int,
    pages: _Array,
    are_leaves: bool,
    integer_keys: bool,
    is_sound: _Array,
    nodes: _Array,
    /,
) -> int: ...
def make_matches(kind: type[_M], keys: list[Any], found: list[Any], asked: object, /) -> list[_M]: ...
def find_values(
    base: int,
    num_pages: int,
    page_bytes: int,
    root: int,
    depth: int,
    first: bytes,
    keys: _Array,
    addresses: _Array,
    lengths: _Array,
    is_large: _Array,
    /,
) -> int: ...
def sound_entries(
    base: int, num_pages: int, page_bytes: int, root: int, depth: int, first: bytes, most: int, /
) -> int: ...
def find_records(
    base: int, num_pages: int, page_bytes: int, root: int, depth: int, rows: _Array, /
) -> tuple[list[bytes | None], int, bytes]: ...
def is_in_place(base: int, page_bytes: int, value: _Array, /) -> bool: ...
def join_edges(links: _Array, edges: _Array, /) -> int: ...
def assign_stars(links: _Array, edges: _Array, /) -> int: ...
def make_circles(links: _Array, /) -> None: ...
def next_members(links: _Array, cursor: _Array, members: _Array, /) -> int: ...
def count_held(
    firsts: _Array,
    doc_ids: _Array,
    lists: _Array,
    ends: _Array,
    least: _Array,
    found: _Array,
    /,
) -> int: ...
def find_runs(
    firsts: _Array,
    doc_ids: _Array,
    lists: _Array,
    ends: _Array,
    num_documents: int,
    held: _Array,
    runs: _Array,
    /,
) -> int: ...
