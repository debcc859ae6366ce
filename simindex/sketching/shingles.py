"""Cut documents into shingles: normalise, cut, hash.

The cutting itself is in the kernel, its definition in `textbook`. Invariant: insert and query pass through
the same functions, so their normalisation is equal.

Source: w-shingling, Broder 1997; seeds on shingles and bags of shingles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from simindex import _kernel
from simindex.config import Shingles, WordShingles
from simindex.errors import ArgumentTypeError
from simindex.sketching import alphabet
from simindex.sketching.document import shingles_in
from simindex.sketching.normalization import folds_case, kernel_folds, prepare, steps_before
from simindex.sketching.sketch import Sketch


def cutting_fields(shingles: Shingles) -> tuple[int, int, int, int]:
    """Return (kind, size, fold, collapse) as the kernel takes them.

    kind 0: words, 1: characters; fold 2: "fold", 1: "casefold", 0: neither; collapse 0 or 1.
    """
    return (
        0 if isinstance(shingles, WordShingles) else 1,
        shingles.size,
        2 if kernel_folds(shingles) else int(folds_case(shingles)),
        int("whitespace" in shingles.normalize),
    )


@cache  # asked for with every single text
def kernel_tables(shingles: Shingles) -> tuple[bytes, np.ndarray, bytes]:
    """Return (classes, folds, mapping) as the kernel takes them; the mapping is empty where it needs none."""
    by = alphabet.mapping("fold") if kernel_folds(shingles) else b""
    return alphabet.class_table(), alphabet.fold_table(), by


def shingles_of(text: str, shingles: Shingles) -> list[str]:
    """Return the shingles of a text in order, repeats included, for people: sketching makes no strings.

    A text of fewer tokens than a shingle has is one shingle of all of them; one without any has none.

    >>> shingles_of("The cat sat. The cat sat!", WordShingles(3))
    ['the cat sat', 'cat sat the', 'sat the cat', 'the cat sat']
    """
    how = *cutting_fields(shingles), *kernel_tables(shingles)
    return [shingle.decode() for shingle in _kernel.shingles(*how, prepare(text, shingles))]


def shingle_hashes(text: str, shingles: Shingles, seed: int) -> np.ndarray:
    """Return the hash of every shingle of a text of at most 1 GiB: uint64, in order, repeats included."""
    return shingle_hashes_of([text], shingles, seed)[0]


def shingle_hashes_of(texts: list[str], shingles: Shingles, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes of the shingles of many texts, one text behind another: uint64, in order, repeats
    included; and how many each text has: uint32."""
    how = *cutting_fields(shingles), *kernel_tables(shingles)
    prepared = [prepare(text, shingles) for text in texts] if steps_before(shingles) else texts
    counts = np.empty(len(texts), dtype=np.uint32)
    hashes = _kernel.hash_texts(*how, prepared, seed, counts)
    return np.frombuffer(hashes, dtype=np.uint64), counts


def ready_hashes(shingles: Iterable[str | bytes | int], seed: int) -> np.ndarray:
    """Return the hashes of ready shingles: uint64, in the order of iteration.

    A str is hashed as its UTF-8, with U+FFFD for lone surrogates, an int as its decimal digits. Raises
    TypeError for an element that is no str, bytes or int; True and False are none.
    """
    return np.frombuffer(_kernel.hash_ready(shingles, seed), dtype=np.uint64)


def document_hashes(document: Any, shingles: Shingles, seed: int) -> np.ndarray:
    """Return the hashes of the shingles of a document, a str or ready shingles: uint64, repeats included; of
    a mapping those of `weighted_hashes`, without the weights. Raises as `shingles_in`, and ArgumentTypeError
    for a Sketch."""
    if isinstance(document, Sketch):
        raise ArgumentTypeError("document", "a text or ready shingles", "a Sketch, which has neither")
    if isinstance(document, str):
        return shingle_hashes(document, shingles, seed)
    if isinstance(document, Mapping):
        return weighted_hashes(document, seed)[0]
    return ready_hashes(shingles_in(document, shingles), seed)


def weighted_hashes(weighted: Mapping[Any, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (hashes, weights) of weighted shingles, ordered by hash and weight; weight 0 is left out.

    uint64 and float64. The order makes the sums of a fingerprint the same, to the last bit, whatever that of
    the mapping. Raises ArgumentTypeError for weights that are no numbers, ValueError for one that is
    negative, infinite or NaN."""
    hashes = ready_hashes(weighted.keys(), seed)
    values = list(weighted.values())
    try:
        weights = np.array(values)
    except ValueError:  # lists, which make no array
        weights = np.fromiter(values, dtype=object)
    if weights.ndim != 1 or weights.dtype.kind not in "iufb":
        wrong = [one for one in weighted if not isinstance(weighted[one], int | float | np.number)]
        found = f"{type(weighted[wrong[0]]).__name__} for {wrong[0]!r:.40}" if wrong else weights.dtype
        raise ArgumentTypeError("weights", "numbers", found, "of a record, hand over the text")
    weights = weights.astype(np.float64)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("weights: expected finite numbers of 0 or more")
    order = np.lexsort((weights, hashes))
    order = order[weights[order] > 0]
    return np.ascontiguousarray(hashes[order]), np.ascontiguousarray(weights[order])
