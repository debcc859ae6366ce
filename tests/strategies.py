"""Hypothesis strategies: texts that a crawler would not send on purpose, and documents."""

import math
import re

from hypothesis import strategies as st

from simindex.sketching import alphabet

_LATER = re.compile(
    "[^"
    + "".join(f"{re.escape(chr(a))}-{re.escape(chr(b))}" for a, b in alphabet.ranges(alphabet.ASSIGNED))
    + "]"
)

# Characters whose cutting or folding has a rule of its own.
_TRICKY = (
    "aZ_9 \t\n\x00\x1c\x85\xa0ßſİŉΐᾶﬁǅ\u0301\u0345้ัก好かカー〇Ａ①½²\ud800\udfff\u200d\ufeff"
    "\U0001f600\U0001e900𝔘❤\ufe0f\ufe0e\U0001f3fd\u20e3🇩🇪→─\U000e0067"
)

characters = st.one_of(
    st.sampled_from(_TRICKY),
    st.characters(max_codepoint=127),
    st.characters(exclude_categories=[]),
)

# Python's own tables decide in the textbook, so texts keep to characters of Unicode 14.0.
texts = st.text(characters, max_size=60).map(lambda text: _LATER.sub("?", text))
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=300)
any_texts = st.one_of(texts, ascii_texts)
normalize_steps = st.lists(st.sampled_from(["nfkc", "casefold", "whitespace"]), unique=True).map(tuple)
uint64s = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3), st.integers(2**64 - 3, 2**64 - 1))

SHARED_TABLES = 256
"""More permutation tables than that are searched in a process of their own; see test_search.
"""

# (k, m): the greatest distance, and the number of blocks.
permutation_plans = (
    st.integers(0, 8)
    .flatmap(lambda k: st.tuples(st.just(k), st.integers(k + 1, k + 6)))
    .filter(lambda plan: math.comb(plan[1], plan[0]) <= SHARED_TABLES)
)

external_keys = st.text(max_size=40) | st.binary(max_size=40) | st.integers(-(2**63), 2**64 - 1)
metadata_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
numbers = st.integers(0, 2**63 - 1)
