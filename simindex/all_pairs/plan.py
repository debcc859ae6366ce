"""Plan of a pair search: the tables to walk, the prefix lengths, the cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from simindex import _kernel
from simindex.all_pairs.tables import EVERY_KEY
from simindex.checks import plain_number, require_ignorable, require_int, require_word
from simindex.errors import Argument, ArgumentValueError
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.formulas.match_odds import band_plan, estimate_cut, exact_plan
from simindex.queries.scheme import Scheme
from simindex.queries.search import FingerprintQuery, Method, query_by, require_keeping, require_one_measure
from simindex.sketching.permutations import FINGERPRINT_BITS
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

Copies = Literal["first", "all"]
"""Which documents of equal sketches take part."""

DEFAULT_MAX_RUN = 1_000
DEFAULT_CLUSTER_LIMIT = 10_000
"""Members of one cluster that is asked for."""

DEFAULT_MEMORY_BYTES = 64 << 20
_MIN_MEMORY_BYTES = 1 << 20

_ENTRY_BYTES = 48
"""Of memory that an entry takes while it is merged with those of other segments and compared."""


@dataclass(frozen=True)
class PairPlan:
    """Which pairs to find in an index, and how."""

    method: Method
    first_table: int
    bits: tuple[int, ...]  # of the prefix of each table
    masks: np.ndarray  # uint64, which bits of a table's band word, or of the fingerprint, make the prefix
    threshold: float = 0.0  # of the similarity, in (0, 1]; of MinHash
    cut: float = 0.0  # least estimate that is returned where it is no exact one
    min_agree: int = 0  # agreeing rows of a candidate, at least
    max_distance: int = FINGERPRINT_BITS  # bits in which a candidate differs, at most; by rows for a star
    kept: bool = False  # whether kept shingles are compared
    copies: Copies = "all"
    max_run: int = DEFAULT_MAX_RUN  # documents of one prefix that are compared all with all
    capacity: int = DEFAULT_MEMORY_BYTES // _ENTRY_BYTES  # entries that are in memory at a time
    ignore_common: float | None = None  # shingles that more of the documents have are left out

    @property
    def halves(self) -> int:
        """HAS_ bits of the parts of a sketch (signature, fingerprint) that a row needs to match any other."""
        by_bits = self.max_distance < FINGERPRINT_BITS
        return HAS_SIGNATURE * (self.method == "minhash") | HAS_FINGERPRINT * by_bits

    @property
    def is_by_chance(self) -> bool:
        """Whether prefixes are so short that very many documents share them by chance."""
        return self.method == "minhash" and min(self.bits) < LEAST_PREFIX_BITS

    def of_whole_words(self) -> PairPlan:
        """Return the plan by which documents of long runs are compared further, those of equal band words.

        A template makes runs too long; those of its pages that share the rest, too, stand side by side in
        them. The tables are those of this plan, then each of them again.
        """
        count, whole = len(self.bits), np.uint64(2**FINGERPRINT_BITS - 1)
        masks = np.concatenate([self.masks, np.full(count, whole)])
        bits = self.bits + (FINGERPRINT_BITS,) * count
        return replace(self, bits=bits, masks=masks, max_run=min(self.max_run, _MOST_OF_A_WORD))


LEAST_PREFIX_BITS = 24
"""Shorter prefixes are shared by chance: by one row in 16 million of this length, and by half of them where
rows are so many."""

_MOST_OF_A_WORD = 32
"""Documents of one band word that are compared all with all where runs of its prefix are too long. Of 10,000
twins among 100,000 pages of one template 21 are in no other run, and all in those of up to 16."""


def plan_pairs(
    scheme: Scheme,
    threshold: float,
    by: Method | None,
    max_distance: int | None,
    recall: float | None,
    exact: bool,
    has_texts: bool,
    copies: Copies,
    max_run: int,
    memory_bytes: int,
    call: str = "pairs",
    ignore_common: float | None = None,
) -> PairPlan:
    """Return what the arguments of `Index.pairs` ask for; with `ignore_common` and without texts it is exact,
    too. Raises TypeError and ValueError as `pairs` does. `call`: the public name, for messages."""
    config = scheme.config
    threshold, recall = plain_number(threshold), plain_number(recall)
    query = query_by(config, 1, call, by, threshold, max_distance, None, recall, exact)
    require_one_measure(call, query)
    if ignore_common is not None:
        require_ignorable(ignore_common)
        if isinstance(query, FingerprintQuery):
            raise ValueError(f"{call}: ignore_common is MinHash's, and this compares by SimHash")
        if not has_texts:
            require_keeping(config, Argument("ignore_common"), ", or give the texts")
        exact = exact or not has_texts
    require_word("copies", copies, get_args(Copies))
    memory_bytes = require_int("memory_bytes", memory_bytes, _MIN_MEMORY_BYTES)
    capacity = memory_bytes // _ENTRY_BYTES
    max_run = require_int(
        "max_run", max_run, _kernel.REPRESENTATIVES, capacity // 2, remark=" in this memory_bytes"
    )
    if isinstance(query, FingerprintQuery):
        if has_texts:
            raise ValueError(
                f"{call}: texts is MinHash's, and this compares by SimHash, which is exact itself"
            )
        plan = _by_fingerprints(scheme, query.max_distance)
    else:
        if exact and has_texts:
            either = (Argument("exact", True), ", which compares kept shingles, or texts")
            raise ArgumentValueError(None, either, "both")
        if exact:
            require_keeping(config, Argument("exact", True), ", or give the texts")
        plan = _by_rows(scheme, threshold, recall, exact, has_texts)
    return replace(plan, copies=copies, max_run=max_run, capacity=capacity, ignore_common=ignore_common)


def _by_rows(scheme: Scheme, threshold: float, recall: float | None, kept: bool, texts: bool) -> PairPlan:
    """Return what finds pairs of at least a similarity, cut as by a `BandQuery`, an exact one where `kept`
    shingles or `texts` are compared."""
    num_perm, bands = scheme.config.num_perm, scheme.tables.bands
    bits, min_agree = (exact_plan if kept or texts else band_plan)(threshold, num_perm, recall)
    whole = 2**FINGERPRINT_BITS - 1
    return PairPlan(
        "minhash",
        FIRST_BAND_TABLE,
        (bits,) * bands,
        np.full(bands, whole - (whole >> bits), dtype=np.uint64),
        threshold,
        estimate_cut(threshold, num_perm, recall),
        min_agree,
        kept=kept,
    )


def _by_fingerprints(scheme: Scheme, max_distance: int) -> PairPlan:
    """Return what finds all pairs within a Hamming distance; the masks are of bits of an unpermuted
    fingerprint."""
    plan = scheme.plan
    single = np.uint64(1) << np.arange(FINGERPRINT_BITS, dtype=np.uint64)
    masks = [
        np.bitwise_or.reduce(single[permuted >> np.uint64(FINGERPRINT_BITS - bits) != 0])
        for permuted, bits in zip(plan.permute(single), plan.prefix_bits, strict=True)
    ]
    first, masks_of = scheme.tables.first_permutation, np.array(masks, dtype=np.uint64)
    return PairPlan("simhash", first, plan.prefix_bits, masks_of, max_distance=max_distance)


def bounds_of(index: int, count: int, bits: int) -> tuple[int, int]:
    """Return the first key and the exclusive end (2^64 of the last) of the `index`-th of `count` ranges, cut
    where prefixes of `bits` bits change; both are equal where there are too few prefixes for this range.

    >>> [hex(key) for key in bounds_of(1, 3, 8)]
    ['0x5500000000000000', '0xaa00000000000000']
    """
    free = 64 - bits
    return (index * EVERY_KEY // count >> free << free), ((index + 1) * EVERY_KEY // count >> free << free)


HandsOn = Literal["pairs", "each pair once", "forest"]


@dataclass(frozen=True)
class WalkPlan:
    """What is compared in so many ranges of the tables, and what each hands on: pairs, some of which another
    range has, too; each pair from one range only; or only so many of its pairs as hold the same documents
    together."""

    plan: PairPlan
    scheme: Scheme
    count: int
    hands_on: HandsOn = "pairs"

    @property
    def tables(self) -> range:
        """The tables of the method, from 0."""
        return range(len(self.plan.bits))

    def bounds(self, table: int, index: int) -> tuple[int, int]:
        """Return the first key and the exclusive end of the `index`-th range of a table; see `bounds_of`."""
        return bounds_of(index, self.count, self.plan.bits[table])
