"""Texts, documents and files that tests share, and Hypothesis strategies for them."""

import importlib.util
import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from gzip import decompress as gunzip
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from simindex import Config, Index, Layout, WordShingles, textbook
from simindex.config import NORMALIZE_STEPS, Shingles
from simindex.inputs import BadRowError, InputError, Inputs, Row
from simindex.sketching import alphabet

# ---- samples ----

FOX = "the quick brown fox jumps over the lazy dog near the river bank in the early morning"
FOX_TOO = "the quick brown fox jumps over the lazy dog near the river bank in the early evening"
SHIP = "a ship left the harbour at dawn with forty sailors and a cargo of salt for the islands"
ROWS: list[dict[str, object]] = [
    {"id": "fox", "text": FOX},
    {"id": "fox too", "text": FOX_TOO},
    {"id": 7, "text": SHIP},
]


def json_lines(rows: Iterable[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def rows_of(path: Path | str) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, plain or .gz."""
    data = Path(path).read_bytes()
    return [json.loads(line) for line in (gunzip(data) if str(path).endswith(".gz") else data).splitlines()]


def make_folder(root: Path) -> None:
    for name in ("b/z.py", "b/a.py", "a.txt", "c.py", "b.d/e.py"):
        path = root / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {SHIP}")
    (root / "tree" / "loop").symlink_to(root / "tree", target_is_directory=True)
    (root / "tree" / "link.py").symlink_to(root / "tree" / "c.py")
    (root / "tree" / "broken").symlink_to(root / "nowhere")


def rows_and_bad(paths: list[str], *arguments: Any, **options: Any) -> list[Row | BadRowError]:
    """The rows of inputs, and in their turn what is none; of inputs that have nothing else, too."""
    found: list[Row | BadRowError] = []
    with suppress(InputError):  # which is said of these
        for row in Inputs(paths, *arguments, **options, on_bad_row=found.append):
            found.append(row)
    return found


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def zstd() -> Any:
    """The module that packs and unpacks .zst; a test that asks for it is skipped where it is missing."""
    return pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


def textbook_shingles(text: str, shingles: Shingles) -> list[str]:
    """The shingles of a text by their definitions alone."""
    normal = textbook.normalize(text, shingles.normalize)
    if isinstance(shingles, WordShingles):
        return textbook.word_shingles(textbook.words(normal), shingles.size)
    return textbook.character_shingles(normal, shingles.size)


def textbook_hashes(text: str, shingles: Shingles, seed: int) -> list[int]:
    """The hashes of the shingles of a text by their definitions alone."""
    hash_of = textbook.word_shingle_hash if isinstance(shingles, WordShingles) else textbook.shingle_hash
    return [hash_of(shingle, seed) for shingle in textbook_shingles(text, shingles)]


# ---- strategies ----


def codes_of(name: str) -> set[int]:
    """The code points of the ranges of `alphabet`."""
    return {code for first, last in alphabet.ranges(name) for code in range(first, last + 1)}


@cache
def known() -> list[int]:
    """The code points that Unicode has both in `alphabet` and in the running Python."""
    return sorted(code for code in codes_of("assigned") if unicodedata.category(chr(code)) != "Cn")


@cache
def _unknown() -> re.Pattern[str]:
    return re.compile(f"[^{alphabet.inside_brackets(alphabet.as_ranges(known()))}]")


# Characters whose cutting or folding has a rule of its own.
_TRICKY = (
    "aZ_9 \t\n\x00\x1c\x85\xa0ßſİŉΐᾶﬁǅ\u0301\u0345้ัก好かカー〇Ａ①½²\ud800\udfff\u200d\ufeff"
    "\u00ad\u034f\u0344\u0323\u1161\u11a8ᄀᾳᾼﾞｶﷺ㌀…，½\u0dd9\u0dcf\u0dca\u0f75\u05b4ê"
    "\U0001f600\U0001e900𝔘❤\ufe0f\ufe0e\U0001f3fd\u20e3🇩🇪→─\U000e0067"
)

characters = st.one_of(
    st.sampled_from(_TRICKY),
    st.characters(max_codepoint=127),
    st.characters(exclude_categories=[]),
)

# Python's own tables decide in the textbook.
texts = st.text(characters, max_size=60).map(lambda text: _unknown().sub("?", text))
ascii_texts = st.text(st.characters(max_codepoint=127), max_size=300)

# What the steps of normalisation look for, in pieces and in disorder.
_PIECES = (
    "<p>", "</p>", "<b", ">", "<", "<!--", "<!-->", "-->", "<script", "</script", "<style>",
    "</STYLE>", "<ſcript>", "&", "&lt;", "&amp;", "&eacute;", "&#x26;", "&#60;", "&#128;",
    "&#xd800;", "&nvlt;", "&no;", "&#;", ";", "/*", "*/", "//", "://", "#!", "#", "--", "'", '"',
    "\\", "$", ")", "_", "1", "2.5", ",", ".", "٣", "e", "é", "\u0301", "İ", "が", "\u3099", "ø",
    "й", "أ", "a", "ab", " ", "\t", "\n", "\r",
)  # fmt: skip
marked_up = st.lists(st.sampled_from(_PIECES), max_size=14).map("".join)
any_texts = st.one_of(texts, ascii_texts, marked_up)
normalize_steps = st.lists(st.sampled_from(NORMALIZE_STEPS), unique=True).map(tuple)
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


# ---- batches ----

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
    return [(label(*name, index), document(*name, index)) for index in range(size)]


def assert_holds(index: Index, documents: Held) -> None:
    """The index has exactly these documents (key -> document), and finds each by its text and by its key."""
    assert len(index) == len(documents)
    assert set(index) == documents.keys()
    for (key, _), matches in zip(
        documents.items(), index.query_many(list(documents.values()), 0.9), strict=True
    ):
        assert [(match.key, match.similarity) for match in matches] == [(key, 1.0)]
        assert index[key].key == key


def template_pages(count: int, seed: int) -> tuple[dict[int, str], dict[int, int]]:
    """Pages of 30 words of their own and a template, and which of them are like an earlier one: in every
    second of these a word differs. Three more are nothing but template."""
    chance = Random(seed)
    words = [f"word{number}" for number in range(3_000)]
    template = " ".join(chance.choices(words, k=150))
    pages, twins, own = dict[int, str](), dict[int, int](), list[str]()
    for page in range(count):
        if page % 10 == 9:
            twins[page] = page - 1
            own = [*own[:15], "changed", *own[16:]] if page % 20 == 9 else own
        else:
            own = chance.choices(words, k=30)
        pages[page] = f"{' '.join(own)} {template}"
    return pages | dict.fromkeys(range(count, count + 3), template), twins | {
        count + 1: count,
        count + 2: count,
    }
