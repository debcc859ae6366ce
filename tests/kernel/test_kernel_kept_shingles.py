"""Kept shingles against their plain-Python twins: the textbook's selection, docs/format.md's packed form."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.texts import any_texts, normalize_steps, textbook_hashes, uint64s

from simindex import CharShingles, Config, SimHashConfig, Sketcher, WordShingles, _kernel, textbook

BITS = 38

values = st.one_of(st.integers(0, 2**BITS - 1), st.integers(0, 40), st.integers(2**BITS - 40, 2**BITS - 1))
ascending = st.one_of(
    st.sets(values, max_size=300).map(sorted),
    st.builds(
        lambda step, count: list(range(0, step * count, step)), st.integers(1, 2**28), st.integers(0, 500)
    ),
)


def packed_twin(hashes: list[int]) -> bytes:
    """The packed form as docs/format.md has it, bit for bit as text."""
    last = hashes[-1] if hashes else 0

    def bits(low_bits: int) -> int:
        return len(hashes) * low_bits + (last >> low_bits)

    low_bits = min(range(BITS + 1), key=lambda low_bits: (bits(low_bits), low_bits))
    low = "".join(f"{value % 2**low_bits:0{low_bits}b}"[::-1] if low_bits else "" for value in hashes)
    unary, before = "", 0
    for value in hashes:
        unary += "0" * ((value >> low_bits) - before) + "1"
        before = value >> low_bits

    def as_bytes(digits: str) -> bytes:
        return int("0" + digits[::-1], 2).to_bytes(-(-len(digits) // 8), "little")

    return bytes([low_bits]) + len(hashes).to_bytes(3, "little") + as_bytes(low) + as_bytes(unary)


def packed(hashes: list[int]) -> bytes:
    return _kernel.pack_kept(np.array(hashes, "u8"))


def unpacked(data: bytes) -> list[int]:
    return list(np.frombuffer(_kernel.unpack_kept(data), "u8").tolist())


hash_lists = st.one_of(
    st.lists(uint64s, max_size=700),
    # Many of one bucket, and many equal ones: what even spreading does not have.
    st.lists(st.integers(0, 5000).map(lambda x: x << 26), max_size=700),
    st.builds(
        lambda step, count: [i * step << 26 for i in range(count)][::-1],
        st.integers(1, 3),
        st.integers(0, 3000),
    ),
    st.builds(
        lambda seed: np.random.default_rng(seed).integers(0, 2**64, 3000, "u8").tolist(),
        st.integers(0, 2**32),
    ),
)


@settings(max_examples=200, deadline=None)
@given(hash_lists, st.sampled_from([1, 2, 7, 16, 100, 256, 1023, 1025, 1_000_000]))
@example([], 5)
def test_smallest_hashes_equal_their_twin(hashes: list[int], keep: int) -> None:
    found = np.frombuffer(_kernel.smallest_hashes(np.array(hashes, "u8"), keep), "u8").tolist()
    assert found == textbook.bottom_hashes(hashes, keep)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(any_texts, max_size=6),
    st.sampled_from([1, 3, 40, 1_000_000]),
    st.builds(WordShingles, st.integers(1, 4), normalize_steps)
    | st.builds(CharShingles, st.integers(1, 9), normalize_steps),
    st.sampled_from([(8, False), (64, True)]),
    st.builds(WordShingles, st.integers(1, 2), normalize_steps),
)
def test_kept_hashes_of_texts_equal_those_of_their_shingles(
    texts: list[str],
    keep: int,
    shingles: WordShingles | CharShingles,
    methods: tuple[int, bool],
    features: WordShingles,
) -> None:
    num_perm, has_simhash = methods
    config = Config(
        shingles, num_perm, SimHashConfig(shingles=features) if has_simhash else None, keep, seed=3
    )
    batch = Sketcher(config).sketch_many([*texts, ["a", "b"]] if len(texts) % 2 else texts)
    plain = Sketcher(Config(shingles, num_perm, config.simhash, 0, seed=3)).sketch_many(texts)
    assert batch.kept is not None
    for index, text in enumerate(texts):
        hashes = textbook_hashes(text, shingles, 3)
        kept = batch.kept[index]
        assert kept is not None
        assert kept.dtype == np.uint64
        assert not kept.flags.writeable
        assert kept.tolist() == textbook.bottom_hashes(hashes, keep)
        assert batch.words[index].tolist() == plain.words[index].tolist()
        assert batch.present[index] == plain.present[index]
        assert batch.fingerprints[index] == plain.fingerprints[index]


def test_kept_hashes_of_a_long_text_equal_those_of_its_shingles() -> None:
    text = " ".join(f"w{i * 7919 % 30011}" for i in range(20_000))
    hashes = textbook_hashes(text, WordShingles(2), 1)
    for keep in (1, 300, 5_000, 1_000_000):
        kept = Sketcher(Config(WordShingles(2), 8, keep_shingles=keep)).sketch(text).kept
        assert kept is not None
        assert kept.tolist() == textbook.bottom_hashes(hashes, keep)


@settings(max_examples=300)
@given(ascending)
@example([0])
@example([2**BITS - 1])
@example(list(range(2**BITS - 300, 2**BITS)))
def test_packed_form_equals_its_twin_and_comes_back(hashes: list[int]) -> None:
    data = packed(hashes)
    assert data == packed_twin(hashes)
    assert unpacked(data) == hashes


@pytest.mark.parametrize("count", [1, 10, 137, 1_000, 100_000])
def test_packed_form_is_as_short_as_promised(count: int) -> None:
    """Within 0.6 bits a hash of the least that any form of so many evenly spread values needs."""
    hashes = np.unique(np.random.default_rng(count).integers(0, 2**BITS, count))
    least = np.log2(2**BITS / count) + np.log2(np.e)
    assert len(packed(hashes.tolist())) * 8 <= 32 + 16 + count * (least + 0.6)


with_a_head = st.builds(
    lambda low_bits, count, rest: bytes([low_bits, count, 0, 0]) + rest,
    st.integers(0, 40),
    st.integers(0, 20),
    st.binary(max_size=60),
)


@settings(max_examples=300)
@given(st.binary(max_size=60) | with_a_head)
def test_other_bytes_are_refused_or_whole(data: bytes) -> None:
    try:
        found = unpacked(data)
    except ValueError:
        return
    # A bit that fills up a byte of the low part says nothing.
    assert found == sorted(set(found))
    assert len(packed_twin(found)) == len(data)


@settings(max_examples=200)
@given(ascending.filter(bool), st.data())
def test_packed_form_that_was_changed_is_never_read_behind_its_end(
    hashes: list[int], data: st.DataObject
) -> None:
    whole = packed(hashes)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]
    for crafted in (whole[:at], whole + b"\0", whole + b"\1", changed):
        try:
            found = unpacked(crafted)
        except ValueError:
            continue
        assert found == sorted(set(found))
        assert all(value < 2**BITS for value in found)
    for shorter in (whole[:at], whole + b"\0"):
        with pytest.raises(ValueError, match="expected the bytes of pack_kept"):
            unpacked(shorter)


@pytest.mark.parametrize("hashes", [[2**BITS], [3, 3], [4, 3], [0, 1, 2**64 - 1]])
def test_values_that_do_not_ascend_below_the_limit_are_refused(hashes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"expected ascending hashes below 2\*\*38"):
        packed(hashes)


@given(ascending, ascending)
def test_number_of_common_values_equals_that_of_the_sets(a: list[int], b: list[int]) -> None:
    assert _kernel.num_common(np.array(a, "u8"), np.array(b, "u8")) == len(set(a) & set(b))
