"""The making of sketches against its plain-Python twins in textbook.py, bit for bit."""

import numpy as np
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.texts import any_texts, normalize_steps, uint64s

from simindex import _kernel, textbook
from simindex.config import CharShingles, Config, Shingles, SimHashConfig, WordShingles
from simindex.sketching.hash_family import round_multipliers, row_coefficients
from simindex.sketching.shingles import ready_hashes, shingle_hashes, shingles_of
from simindex.sketching.sketch import Sketch
from simindex.sketching.sketcher import Sketcher

sizes = st.integers(1, 12)


def textbook_shingles(text: str, shingles: Shingles) -> list[str]:
    normal = textbook.normalize(text, shingles.normalize)
    if isinstance(shingles, WordShingles):
        return textbook.word_shingles(textbook.words(normal), shingles.size)
    return textbook.character_shingles(normal, shingles.size)


def textbook_sketch(text: str, config: Config) -> tuple[list[int] | None, int | None]:
    """(words or None, fingerprint or None), from the definitions alone."""
    words = fingerprint = None
    signature = [textbook.shingle_hash(s, config.hash_seed) for s in textbook_shingles(text, config.shingles)]
    if config.num_perm and signature:
        rows = textbook.similarity_rows(signature, config.num_perm, config.hash_seed)
        words = textbook.band_words(textbook.row_values(rows))
    if config.simhash:
        features = textbook_shingles(text, config.simhash.shingles)
        if features:
            fingerprint = textbook.simhash([textbook.shingle_hash(s, config.hash_seed) for s in features])
    return words, fingerprint


def found_sketch(sketch: Sketch) -> tuple[list[int] | None, int | None]:
    return None if sketch.words is None else [int(w) for w in sketch.words], sketch.fingerprint


@settings(max_examples=400)
@given(any_texts, sizes, normalize_steps)
@example("", 3, ())
@example("\x00", 1, ("casefold",))
@example("a\x00b \x00", 2, ("whitespace",))
@example("x" * 63 + " " + "Y" * 64 + "z", 1, ("casefold",))
@example("กินข้าว 好好 かな", 2, ("casefold",))
def test_word_shingles_equal_their_twin(text: str, size: int, normalize: tuple[str, ...]) -> None:
    shingles = WordShingles(size, normalize)
    assert shingles_of(text, shingles) == textbook_shingles(text, shingles)


@settings(max_examples=400)
@given(any_texts, sizes, normalize_steps)
@example(" \t a \x85 b\x1c ", 1, ("whitespace",))
@example("\u0345ŉß", 2, ("casefold",))
def test_character_shingles_equal_their_twin(text: str, size: int, normalize: tuple[str, ...]) -> None:
    shingles = CharShingles(size, normalize)
    assert shingles_of(text, shingles) == textbook_shingles(text, shingles)


@given(any_texts)
def test_ascii_text_gives_the_same_words_on_the_general_path(text: str) -> None:
    """A non-ASCII word in front sends the same text down the general path."""
    ascii_text = text.encode("ascii", "ignore").decode()
    for shingles in (WordShingles(1), WordShingles(1, ())):
        assert shingles_of("é " + ascii_text, shingles)[1:] == shingles_of(ascii_text, shingles)


@settings(max_examples=150)
@given(any_texts, st.sampled_from([0, 8, 64, 72, 128]), st.integers(0, 2**64 - 1), st.data())
def test_sketch_equals_its_twin(text: str, num_perm: int, seed: int, data: st.DataObject) -> None:
    kinds = st.builds(WordShingles, sizes, normalize_steps) | st.builds(CharShingles, sizes, normalize_steps)
    simhash = data.draw(st.none() | st.builds(SimHashConfig, shingles=kinds)) if num_perm else SimHashConfig()
    config = Config(data.draw(kinds), num_perm, simhash, 0, seed)
    assert found_sketch(Sketcher(config).sketch(text)) == textbook_sketch(text, config)


def test_sketch_of_a_megabyte_equals_its_twin() -> None:
    words = [f"w{i * 7919 % 30011}" for i in range(155_000)]
    text = " ".join(words) + " Ende é"
    assert len(text) > 1_000_000
    config = Config(num_perm=16)
    assert found_sketch(Sketcher(config).sketch(text)) == textbook_sketch(text, config)


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_xxh64_equals_the_xxhash_package(data: bytes, seed: int) -> None:
    assert _kernel.xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


any_shingles = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=8), st.binary(max_size=40), st.integers()
)


@given(st.lists(any_shingles), uint64s)
@example([0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**64 - 1, 10**40], 1)
def test_ready_hashes_equal_their_twin(shingles: list[str | bytes | int], seed: int) -> None:
    assert ready_hashes(shingles, seed).tolist() == [textbook.shingle_hash(s, seed) for s in shingles]


@given(st.sampled_from([8, 16, 128, 1024]), uint64s)
@settings(max_examples=30)
def test_row_coefficients_equal_their_twin(num_perm: int, seed: int) -> None:
    assert list(zip(*row_coefficients(num_perm, seed).tolist(), strict=True)) == textbook.row_coefficients(
        num_perm, seed
    )
    assert round_multipliers(num_perm, seed).tolist() == textbook.round_multipliers(num_perm, seed)


@settings(max_examples=60)
@given(st.lists(uint64s, min_size=1, max_size=700), st.sampled_from([8, 128, 136, 320]))
@example([0], 128)
@example(list(range(600)), 128)
def test_rows_of_hashes_equal_their_twin(hashes: list[int], num_perm: int) -> None:
    """Hashes that are no hashes, too: small integers leave rows to be filled whose rounds come late."""
    sketcher = Sketcher(Config(num_perm=num_perm, simhash=None, seed=7))
    words, fingerprints, present = np.zeros((1, num_perm // 8), "u8"), np.zeros(1, "u8"), np.zeros(1, "u1")
    _kernel.sketch_hashes(
        sketcher._whole.plan, sketcher._functions, np.array(hashes, "u8"), words, fingerprints, present
    )
    rows = textbook.similarity_rows(hashes, num_perm, 7)
    assert words[0].tolist() == textbook.band_words(textbook.row_values(rows))


@settings(max_examples=60)
@given(st.lists(uint64s, min_size=1, max_size=700))
def test_simhash_equals_its_twin(hashes: list[int]) -> None:
    config = Config(num_perm=0)
    sketcher = Sketcher(config)
    words, fingerprints, present = np.zeros((1, 0), "u8"), np.zeros(1, "u8"), np.zeros(1, "u1")
    _kernel.sketch_hashes(
        sketcher._whole.plan,
        sketcher._functions,
        np.array(hashes, "u8"),
        words,
        fingerprints,
        present,
    )
    assert int(fingerprints[0]) == textbook.simhash(hashes)


@given(st.lists(st.tuples(uint64s, st.floats(0.001, 1e6)), min_size=1, max_size=50))
def test_weighted_simhash_equals_its_twin(weighted: list[tuple[int, float]]) -> None:
    ordered = sorted(weighted)
    hashes, weights = np.array([h for h, _ in ordered], "u8"), np.array([w for _, w in ordered], "f8")
    assert _kernel.weighted_simhash(hashes, weights) == textbook.weighted_simhash(weighted)


@given(st.integers(1, 128), st.data())
@settings(max_examples=60)
def test_agreement_equals_its_twin(bands: int, data: st.DataObject) -> None:
    rows = st.lists(st.integers(0, 3), min_size=8 * bands, max_size=8 * bands)
    left, right = data.draw(rows), data.draw(rows)
    words = [np.array(textbook.band_words(r), "u8") for r in (left, right)]
    assert _kernel.agreement(*words) == sum(a == b for a, b in zip(left, right, strict=True))


@given(st.lists(uint64s, min_size=1, max_size=5), st.integers(0, 8), st.integers(1, 6))
@settings(max_examples=60)
def test_permuted_blocks_equal_their_twin(fingerprints: list[int], max_distance: int, more: int) -> None:
    num_blocks = max_distance + more
    widths = textbook.blocks(64, num_blocks)
    orders = textbook.permutation_orders(num_blocks, max_distance)[:256]
    permuted = np.zeros((len(orders), len(fingerprints)), "u8")
    _kernel.permute(
        np.array(fingerprints, "u8"), bytes(widths), bytes(b for o in orders for b in o), permuted
    )
    expected = [[textbook.permute(f, widths, order) for f in fingerprints] for order in orders]
    assert permuted.tolist() == expected


def test_shingle_hashes_are_xxh64_of_utf8() -> None:
    hashes = shingle_hashes("Grüße aus Köln heute", WordShingles(3), 7)
    expected = ["grüsse aus köln", "aus köln heute"]
    assert hashes.tolist() == [xxhash.xxh64_intdigest(s.encode(), 7) for s in expected]
