"""The making of sketches against its plain-Python twins in textbook.py, bit for bit."""

import numpy as np
import pytest
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.texts import any_texts, normalize_steps, textbook_hashes, textbook_shingles, uint64s

from simindex import Sketch, Sketcher, _kernel, textbook
from simindex.config import CharShingles, Config, SimHashConfig, WordShingles
from simindex.sketching import alphabet
from simindex.sketching.hash_family import round_multipliers, row_coefficients
from simindex.sketching.shingles import ready_hashes, shingle_hashes, shingle_hashes_of, shingles_of

pytestmark = pytest.mark.usefixtures("each_variant")

sizes = st.integers(1, 12)


def textbook_sketch(text: str, config: Config) -> tuple[list[int] | None, int | None]:
    """(words or None, fingerprint or None), from the definitions alone."""
    words = fingerprint = None
    signature = textbook_hashes(text, config.shingles, config.hash_seed)
    if config.num_perm and signature:
        rows = textbook.similarity_rows(signature, config.num_perm, config.hash_seed)
        words = textbook.band_words(textbook.row_values(rows))
    if config.simhash:
        features = textbook_hashes(text, config.simhash.shingles, config.hash_seed)
        if features:
            fingerprint = textbook.simhash(features)
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


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_xxh64_equals_the_xxhash_package(data: bytes, seed: int) -> None:
    assert _kernel.xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


any_shingles = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=12), st.binary(max_size=60), st.integers()
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
@given(st.lists(uint64s, min_size=1, max_size=700), st.sampled_from([0, 8, 128, 136, 320]))
@example([0], 128)
@example(list(range(600)), 128)
def test_sketch_of_hashes_equals_its_twin(hashes: list[int], num_perm: int) -> None:
    """Hashes that are no hashes, too: small integers leave rows to be filled whose rounds come late."""
    sketcher = Sketcher(Config(num_perm=num_perm, seed=7))
    words, fingerprints, present = np.zeros(num_perm // 8, "u8"), np.zeros(1, "u8"), np.zeros(1, "u1")
    num_shingles = np.zeros(1, "u4")
    made = words, fingerprints, present, num_shingles
    _kernel.sketch_hashes(sketcher._plan, sketcher._functions, np.array(hashes, "u8"), *made)
    assert int(num_shingles[0]) == (textbook.estimated_size(hashes, 7) if num_perm else 0)
    rows = textbook.similarity_rows(hashes, num_perm, 7) if num_perm else []
    assert words.tolist() == textbook.band_words(textbook.row_values(rows))
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


@settings(max_examples=200)
@given(st.sampled_from([WordShingles, CharShingles]), st.integers(1, 12), st.lists(any_texts), uint64s)
def test_shingle_hashes_equal_their_twin(
    kind: type[WordShingles], size: int, texts: list[str], seed: int
) -> None:
    shingles = kind(size)
    expected = [textbook_hashes(text, shingles, seed) for text in texts]
    assert [shingle_hashes(text, shingles, seed).tolist() for text in texts] == expected
    hashes, counts = shingle_hashes_of(texts, shingles, seed)
    assert (hashes.tolist(), counts.tolist()) == (
        [h for some in expected for h in some],
        [*map(len, expected)],
    )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 255, 1024])
@pytest.mark.parametrize(
    "count", [1, 127, 128, 1023, 1024, 1025, 1026, 1027, 1028, 2047, 2048, 2049, 2050, 5120, 7000]
)
def test_sketch_of_words_in_any_number_of_blocks_equals_that_of_their_hashes(size: int, count: int) -> None:
    text = " ".join(f"w{n * n % 977}" for n in range(count))
    words = [textbook.folded_hash(f"w{n * n % 977}".encode(), 1) for n in range(count)]
    hashes = shingle_hashes(text, WordShingles(size), 1).tolist()
    for at in {0, len(hashes) // 2, len(hashes) - 1}:
        run = b"".join(word.to_bytes(8, "little") for word in words[at : at + size])
        assert hashes[at] == (textbook.folded_hash(run, 1) if min(size, count) > 1 else words[at])
    sketch = Sketcher(Config(WordShingles(size), num_perm=8)).sketch(text)
    rows = textbook.row_values(textbook.similarity_rows(hashes, 8, 1))
    assert found_sketch(sketch) == (textbook.band_words(rows), textbook.simhash(words))


@pytest.mark.parametrize("size", [0, 1025, 2**32, 2**64 - 1])
def test_a_size_that_no_shingle_has_is_refused(size: int) -> None:
    classes, folds = alphabet.class_table(), alphabet.fold_table()
    with pytest.raises(ValueError, match=r"size: expected 1\.\.1024"):
        _kernel.shingles(0, size, 1, 1, classes, folds, b"", "a b")
    with pytest.raises(ValueError, match=r"size: expected 1\.\.1024"):
        _kernel.hash_texts(0, size, 1, 1, classes, folds, b"", ["a b"], 1, bytearray(4))
    plan = np.array([0, 1, 1, 1, 0, size, 1, 1, 1, 1, 8], np.uint64)
    with pytest.raises(ValueError, match=r"plan: expected a size of 1\.\.1024"):
        _kernel.sketch_hashes(
            plan, bytes(24 + 64), np.zeros(1, "u8"), bytearray(8), bytearray(8), bytearray(1), bytearray(4)
        )
