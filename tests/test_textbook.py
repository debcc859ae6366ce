"""The textbook against every worked example of the five source documents, and against other definitions.

Where a document prints a figure that its own method does not give, the test says which and pins both.
"""

import math
import re
from fractions import Fraction
from itertools import combinations, count, islice, pairwise, permutations

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import textbook
from simindex.sketching import alphabet

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)

UINT64 = st.integers(0, 2**64 - 1)
ALL_STEPS = ("nfkc", "casefold", "whitespace")

# The matrix of the MinHash example (seeds 000, 003 and 004): seven shingles, four documents.
SEVEN_ROWS = ["1010", "1001", "0101", "0101", "0101", "1010", "1010"]
# The matrix of the row-hashing example (seeds 003 and 004): S1={a,d}, S2={c}, S3={b,d,e}, S4={a,c,d}.
FIVE_ROWS = ["1001", "0010", "0101", "1011", "0010"]
BUMP = "a bump on the log in the hole in the bottom of the sea"
FROG = "a frog on the bump on the log in the hole in the bottom of the sea"
DRIVES = "your mother drives you in the car"
RUSSIA = "In mother Russia, car drives you!"
# Number, fingerprint, its bits and the printed distance to the row before (seed 004, unsorted).
EIGHT_FINGERPRINTS = [
    (1, 37586, "1001001011010010", None),
    (2, 50086, "1100001110100110", 7),
    (3, 2648, "0000101001011000", 11),
    (4, 934, "0000001110100110", 9),
    (5, 40957, "1001111111111101", 9),
    (6, 2650, "0000101001011010", 9),
    (7, 64475, "1111101111011011", 11),
    (8, 40955, "1001111111111011", 4),
]


def matrix(rows):
    return [[int(bit) for bit in row] for row in rows]


def column_similarity(rows, a, b):
    sets = textbook.columns(matrix(rows))
    return textbook.jaccard(sets[a], sets[b])


def cut(text):
    return textbook.words(textbook.normalize(text, ALL_STEPS))


def as_int32(value):
    return (value + 2**31) % 2**32 - 2**31


# --- Shingles -------------------------------------------------------------------------------------


def test_textbook_normalize_applies_the_steps_in_one_order():
    assert textbook.normalize("Ⅳ\u3000ﬁN", ("whitespace", "casefold", "nfkc")) == "iv fin"
    assert textbook.normalize("Ⅳ", ("casefold",)) == "ⅳ"
    assert textbook.normalize("  a\t\x1f\u2003b\n", ("whitespace",)) == "a b"
    assert textbook.normalize(" A ", ()) == " A "


def test_textbook_normalize_replaces_lone_surrogates_without_any_step():
    assert textbook.normalize("a\ud800\udfffb", ()) == "a\ufffd\ufffdb"


def test_textbook_normalize_refuses_an_unknown_step():
    with pytest.raises(ValueError, match="lower"):
        textbook.normalize("a", ("lower",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" -\u0301 ", []),
        ("snake_case x² 12", ["snake_case", "x²", "12"]),
        ("e\u0301a-\u0301b", ["e\u0301a", "b"]),
        ("日本語abc", ["日", "本", "語", "abc"]),
        ("abc日\u3099\u0301x", ["abc", "日\u3099\u0301", "x"]),
        ("กำขี่", ["ก", "ำ", "ขี่"]),
        ("〇々ー한국어", ["〇", "々", "ー", "한국어"]),
        ("a日\u0301\u0301-\u0301", ["a", "日\u0301\u0301"]),
    ],
)
def test_textbook_words_are_cut_by_character_class(text, expected):
    assert textbook.words(text) == expected


def test_textbook_character_classes_equal_the_written_ranges():
    names = {
        0: "other",
        alphabet.WORD_CLASS: "word",
        alphabet.ALONE_CLASS: "alone",
        alphabet.MARK_CLASS: "mark",
        alphabet.SPACE_CLASS: "other",
    }
    table = alphabet.class_table()
    wrong = [
        hex(code)
        for first, last in alphabet.ranges(alphabet.ASSIGNED)
        for code in range(first, last + 1)
        if textbook.character_class(chr(code)) != names[table[code] & ~alphabet.FOLDS_BIT]
    ]
    assert wrong == []


@PROPERTY
@given(st.text(st.one_of(st.sampled_from("ab_1 -日カ한ก\u0301\u0e34\u3099"), st.characters())))
def test_textbook_words_equal_a_regular_expression_over_classes(text):
    classes = "".join(textbook.character_class(char)[0] for char in text)
    runs = re.finditer("am*|w[wm]*", classes)
    assert textbook.words(text) == [text[run.start() : run.end()] for run in runs]


def test_textbook_shingles_of_abcab_are_those_of_seeds_000_and_003():
    assert textbook.character_shingles("abcab", 2) == ["ab", "bc", "ca", "ab"]
    assert set(textbook.character_shingles("abcab", 2)) == {"ab", "bc", "ca"}


def test_textbook_shingles_of_abcdabd_are_those_of_seed_004():
    assert set(textbook.character_shingles("abcdabd", 2)) == {"ab", "bc", "cd", "da", "bd"}


def test_textbook_shingles_of_sample_document_are_those_of_seed_001():
    printed = "sam amp mpl ple le_ e_d _do doc ocu cum ume men ent"  # the space shown as _
    shingles = textbook.character_shingles("sample document", 3)
    assert " ".join(shingle.replace(" ", "_") for shingle in shingles) == printed


def test_textbook_shingles_of_one_character_cannot_tell_the_pangram_from_the_alphabet():
    alphabet_text, pangram = "abcdefghijklmnopqrstuvwxyz ", "the quick brown fox jumps over the lazy dog"
    assert set(textbook.character_shingles(alphabet_text, 1)) == set(textbook.character_shingles(pangram, 1))


def test_textbook_short_texts_are_one_shingle_and_empty_ones_none():
    assert textbook.word_shingles(["a", "b"], 3) == ["a b"]
    assert textbook.character_shingles("ab", 9) == ["ab"]
    assert textbook.word_shingles([], 3) == textbook.character_shingles("", 3) == []
    with pytest.raises(ValueError, match="size"):
        textbook.word_shingles(["a"], 0)


# --- Jaccard similarity ---------------------------------------------------------------------------


def test_textbook_jaccard_of_eight_elements_with_three_shared_is_three_eighths():
    assert textbook.jaccard(set("abcdef"), set("defgh")) == 3 / 8  # drawn in seeds 003 and 004


def test_textbook_jaccard_of_bit_vectors_10111_and_10011_is_three_quarters():
    assert column_similarity(["11", "00", "10", "11", "11"], 0, 1) == 3 / 4  # seed 000


def test_textbook_jaccard_of_the_boolean_matrix_of_seed_000_is_three_sixths():
    rows = ["1110", "1101", "0101", "0001", "1001", "1110", "1010"]
    assert column_similarity(rows, 0, 1) == 3 / 6


def test_textbook_jaccard_of_the_six_rows_of_seed_003_is_two_fifths():
    assert column_similarity(["01", "10", "11", "00", "11", "01"], 0, 1) == 2 / 5


def test_textbook_jaccard_of_the_matrix_of_seed_002_is_not_the_printed_two_fifths():
    # The seed prints 2/5 beside a matrix of five rows and three columns, no two of which are that alike. The
    # figure belongs to the six rows of seed 003, which the table seems to have lost.
    rows = ["010", "111", "000", "111", "011"]
    found = [column_similarity(rows, a, b) for a, b in combinations(range(3), 2)]
    assert found == [2 / 4, 2 / 3, 3 / 4]


def test_textbook_jaccard_with_an_empty_set_is_zero():
    assert textbook.jaccard({1}, set()) == textbook.jaccard(set(), set()) == 0.0


def test_textbook_bags_of_words_are_those_of_seed_004():
    assert set(cut(BUMP)) == {"a", "in", "of", "on", "the", "log", "sea", "bump", "hole", "bottom"}
    assert textbook.jaccard(set(cut(DRIVES)), set(cut(RUSSIA))) == 5 / 8


def test_textbook_word_shingles_have_the_similarities_of_seed_004():
    def similarity(text_a, text_b):
        return textbook.jaccard(*(set(textbook.word_shingles(cut(text), 3)) for text in (text_a, text_b)))

    assert similarity(DRIVES, RUSSIA) == 0
    assert similarity(BUMP, FROG) == 11 / 16


def test_textbook_boolean_matrices_are_those_of_seeds_003_and_004():
    five = textbook.boolean_matrix([set("ad"), set("c"), set("bde"), set("acd")], "abcde")
    seven = textbook.boolean_matrix([set("pquv"), set("rst"), set("puv"), set("qrst")], "pqrstuv")
    assert five == matrix(FIVE_ROWS)
    assert seven == matrix(SEVEN_ROWS)


@PROPERTY
@given(st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=5))
def test_textbook_columns_undo_the_boolean_matrix(sets):
    assert textbook.columns(textbook.boolean_matrix(sets, range(10))) == sets


# --- MinHash by permutations and by row hashing ---------------------------------------------------


@pytest.mark.parametrize(
    ("places", "signatures"),
    [
        # Seeds 000 and 004; the signature matrix is printed.
        (["2376154", "4213675", "3472615"], [[2, 1, 2, 1], [2, 1, 4, 1], [1, 2, 1, 2]]),
        # Seed 003 prints only the similarities of this one.
        (["1376254", "4213675", "3476125"], [[1, 2, 1, 2], [2, 1, 4, 1], [2, 1, 2, 1]]),
    ],
)
def test_textbook_permutation_signatures_are_those_of_seeds_000_003_and_004(places, signatures):
    seven = matrix(SEVEN_ROWS)
    found = [textbook.permutation_minhash(seven, [int(place) for place in row]) for row in places]
    assert found == signatures
    documents = list(zip(*found, strict=True))
    for a, b, columns, rows in ((0, 2, 0.75, 0.67), (1, 3, 0.75, 1.0), (0, 1, 0, 0), (2, 3, 0, 0)):
        assert column_similarity(SEVEN_ROWS, a, b) == columns
        assert round(textbook.signature_agreement(documents[a], documents[b]), 2) == rows


def test_textbook_first_rows_are_the_stored_row_indexes_of_seed_004():
    printed = [[1, 5, 1, 5], [2, 3, 1, 3], [6, 4, 6, 4]]
    for places, indexes in zip(["2376154", "4213675", "3472615"], printed, strict=True):
        order = sorted(range(7), key=places.__getitem__)
        assert [row + 1 for row in textbook.first_rows(matrix(SEVEN_ROWS), order)] == indexes


def test_textbook_first_rows_in_the_order_beadc_are_those_of_seed_004():
    found = textbook.first_rows(matrix(FIVE_ROWS), ["abcde".index(letter) for letter in "beadc"])
    assert ["abcde"[row] for row in found] == ["a", "c", "b", "a"]


def test_textbook_first_rows_are_the_signatures_of_seed_002():
    rows = ["101", "011", "100", "101", "010"]
    orders = ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 3, 4, 0, 1])  # printed from 1: (12345) (54321) (34512)
    found = [[row + 1 for row in textbook.first_rows(matrix(rows), order)] for order in orders]
    assert found == [[1, 2, 1], [4, 5, 4], [3, 5, 4]]
    documents = list(zip(*found, strict=True))
    for a, b, columns, agreement in ((0, 1, 0, 0), (0, 2, 0.5, 0.67), (1, 2, 0.25, 0)):
        assert column_similarity(rows, a, b) == columns
        assert round(textbook.signature_agreement(documents[a], documents[b]), 2) == agreement


def test_textbook_empty_columns_have_no_first_row():
    assert textbook.permutation_minhash([[0, 1]], [1]) == [math.inf, 1]
    assert textbook.first_rows([[0, 1]], [0]) == [None, 0]


def test_textbook_slots_of_h_and_g_are_those_of_seeds_002_and_003():
    inf = math.inf
    steps = textbook.row_hashing(
        matrix(["10", "01", "11", "10", "01"]), [lambda x: x % 5, lambda x: (2 * x + 1) % 5], first_row=1
    )
    assert list(steps) == [
        [[1, inf], [3, inf]],
        [[1, 2], [3, 0]],
        [[1, 2], [2, 0]],
        [[1, 2], [2, 0]],
        [[1, 0], [2, 0]],
    ]


def test_textbook_slots_of_four_columns_are_those_of_seeds_003_and_004():
    inf = math.inf
    functions = [lambda x: (x + 1) % 5, lambda x: (3 * x + 1) % 5]
    assert [[function(x) for x in range(5)] for function in functions] == [[1, 2, 3, 4, 0], [1, 4, 2, 0, 3]]
    steps = list(textbook.row_hashing(matrix(FIVE_ROWS), functions))
    assert steps == [
        [[1, inf, inf, 1], [1, inf, inf, 1]],
        [[1, inf, 2, 1], [1, inf, 4, 1]],
        [[1, 3, 2, 1], [1, 2, 4, 1]],
        [[1, 3, 2, 1], [0, 2, 0, 0]],
        [[1, 3, 0, 1], [0, 2, 0, 0]],
    ]
    documents = list(zip(*steps[-1], strict=True))
    for b, true, estimate in ((3, 2 / 3, 1), (2, 1 / 4, 1 / 2), (1, 0, 0)):
        assert column_similarity(FIVE_ROWS, 0, b) == true
        assert textbook.signature_agreement(documents[0], documents[b]) == estimate


def test_textbook_minhash_agrees_in_exactly_the_jaccard_share_of_all_permutations():
    five = matrix(FIVE_ROWS)
    signatures = [textbook.permutation_minhash(five, places) for places in permutations(range(5))]
    sets = textbook.columns(five)
    for a, b in combinations(range(4), 2):
        agreeing = sum(signature[a] == signature[b] for signature in signatures)
        assert Fraction(agreeing, 120) == Fraction(len(sets[a] & sets[b]), len(sets[a] | sets[b]))


@PROPERTY
@given(st.data())
def test_textbook_row_hashing_by_a_permutation_equals_the_permutation(data):
    rows = data.draw(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=8))
    places = data.draw(st.permutations(range(len(rows))))
    *_, [slots] = textbook.row_hashing(rows, [places.__getitem__])
    assert slots == textbook.permutation_minhash(rows, places)
    order = sorted(range(len(rows)), key=places.__getitem__)
    assert slots == [math.inf if row is None else places[row] for row in textbook.first_rows(rows, order)]


# --- Hash functions -------------------------------------------------------------------------------


@PROPERTY
@given(st.binary(max_size=200), UINT64)
def test_textbook_xxh64_equals_the_reference_package(data, seed):
    assert textbook.xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


@pytest.mark.parametrize("length", [0, 1, 3, 4, 7, 8, 31, 32, 33, 44, 63, 64, 71, 100])
def test_textbook_xxh64_equals_the_reference_package_at_every_tail(length):
    data = bytes(range(200, 200 - length, -1))
    for seed in (0, 1, 2**64 - 1):
        assert textbook.xxh64(data, seed) == xxhash.xxh64_intdigest(data, seed)


def test_textbook_shingle_hash_is_that_of_utf8_bytes():
    assert textbook.shingle_hash("три слова", 7) == xxhash.xxh64_intdigest("три слова".encode(), 7)
    assert textbook.shingle_hash("a\udc80", 7) == textbook.shingle_hash("a\ufffd", 7)
    assert textbook.shingle_hash(b"\x80", 7) == xxhash.xxh64_intdigest(b"\x80", 7)


def test_textbook_djb2a_of_he_is_5861128():
    assert textbook.djb2a(b"he") == 5861128  # seed 001
    assert textbook.djb2a(b"") == 5381
    assert textbook.djb2a(b"shingle") < 2**32


SEED_001_FUNCTIONS = [  # a, b and the printed value at djb2a("he")
    (-1460590454, 747279288, 480357896),
    (-1334692577, -539670452, 1614176836),
    (-501340078, -143413999, 543325601),
    (-435906689, -805361287, -1459947919),
    (749770455, -1541468361, 197787375),
    (-249298484, -338966450, -1314960722),
    (635996137, 90530340, 1201186924),
    (1369061647, -58898435, 1044615541),
    (-803104915, 442009989, -789411859),
    (-1559981388, -486785452, -145694732),
]


def test_textbook_universal_hash_shows_where_seed_001_overflowed():
    # Printed are the products wrapped to 32 signed bits: no wrapped value reaches p, so `mod p` did nothing.
    x, p = textbook.djb2a(b"he"), 999999999989
    for a, b, printed in SEED_001_FUNCTIONS:
        assert as_int32(a * x + b) == printed
        exact = textbook.universal_hash(x, a, b, p, p)
        assert 0 <= exact < p
        assert exact != printed


def test_textbook_universal_hash_fills_thirteen_buckets_evenly():
    # Seed 001 prints 25 buckets from -12 to 12: remainders of wrapped, hence also negative products, and the
    # two halves of bucket 0 together. The definition gives 13 buckets, each within 2 of 100,000 / 13.
    a, b, _ = SEED_001_FUNCTIONS[0]
    remainders = [math.fmod(as_int32(a * x + b), 13) for x in range(1, 100_001)]
    assert [remainders.count(bucket) for bucket in (0, 5, 10, -7, -12)] == [7704, 3861, 3854, 3840, 3839]
    exact = [textbook.universal_hash(x, a, b, 999999999989, 13) for x in range(1, 100_001)]
    assert {exact.count(bucket) for bucket in range(13)} == {7691, 7692, 7693, 7694}


def test_textbook_splitmix64_draws_the_published_values():
    assert list(islice(textbook.splitmix64(1234567), 5)) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [hex(draw) for draw in islice(textbook.splitmix64(0), 3)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


# --- Signatures of the contract -------------------------------------------------------------------


def test_textbook_row_coefficients_are_two_draws_a_row():
    draws = textbook.splitmix64(9)
    expected = [((next(draws) >> 32) | 1, next(draws) >> 32) for _ in range(16)]
    assert textbook.row_coefficients(16, 9) == expected
    assert textbook.row_coefficients(8, 9) == expected[:8]
    assert all(a % 2 and a < 2**32 and b < 2**32 for a, b in expected)


@PROPERTY
@given(st.lists(UINT64, min_size=1, max_size=20), st.lists(UINT64, min_size=1, max_size=20))
def test_textbook_minhash_of_a_union_is_the_lesser_of_each_row(hashes_a, hashes_b):
    coefficients = textbook.row_coefficients(8, 1)
    rows_a, rows_b, both = (
        textbook.minhash_rows(hashes, coefficients) for hashes in (hashes_a, hashes_b, hashes_a + hashes_b)
    )
    assert both == [min(a, b) for a, b in zip(rows_a, rows_b, strict=True)]
    assert textbook.minhash_rows([x % 2**32 for x in hashes_a], coefficients) == rows_a


@PROPERTY
@given(UINT64, st.integers(0, 2**32 - 1))
def test_textbook_rows_of_one_hash_can_be_undone(seed, x):
    for a, b in textbook.row_coefficients(8, seed):  # an odd a is invertible: the row is a permutation
        [row] = textbook.minhash_rows([x], [(a, b)])
        assert (row - b) * pow(a, -1, 2**32) % 2**32 == x


def test_textbook_no_hashes_have_no_signature_and_no_fingerprint():
    for function in (lambda: textbook.minhash_rows([], [(1, 0)]), lambda: textbook.simhash([])):
        with pytest.raises(ValueError, match="found none"):
            function()
    with pytest.raises(ValueError, match="found none"):
        textbook.weighted_simhash([])


@PROPERTY
@given(st.lists(st.integers(0, 255), min_size=8, max_size=8), st.integers(1, 8), UINT64)
def test_textbook_band_words_share_eight_bits_for_every_first_row_that_agrees(rows, agreeing, other):
    other_rows = rows[:agreeing] + list(other.to_bytes(8, "big"))[agreeing:]
    [word], [other_word] = textbook.band_words(rows), textbook.band_words(other_rows)
    assert word >> 8 * (8 - agreeing) == other_word >> 8 * (8 - agreeing)
    assert list(word.to_bytes(8, "big")) == rows


def test_textbook_band_words_come_in_eights():
    assert len(textbook.band_words(textbook.row_values(range(300, 428)))) == 16
    with pytest.raises(ValueError, match="multiple of 8"):
        textbook.band_words([1] * 9)


@pytest.mark.parametrize(("agreeing", "expected"), [(128, 1.0), (64, 127 / 255), (1, 1 / 255), (0, 0.0)])
def test_textbook_estimated_jaccard_takes_off_chance_agreement(agreeing, expected):
    rows_a, rows_b = [0] * 128, [0] * agreeing + [1] * (128 - agreeing)
    assert textbook.estimated_jaccard(rows_a, rows_b) == pytest.approx(expected, abs=1e-15)


def test_textbook_signatures_of_two_lengths_cannot_be_compared():
    for rows_a, rows_b in (([1], [1, 2]), ([], [])):
        with pytest.raises(ValueError, match="equally many"):
            textbook.signature_agreement(rows_a, rows_b)


@PROPERTY
@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(1, 40))
def test_textbook_kept_jaccard_needs_only_the_kept_hashes(set_a, set_b, n):
    kept_a, kept_b = textbook.bottom_hashes(set_a, n), textbook.bottom_hashes(set_b, n)
    found = textbook.kept_jaccard(kept_a, kept_b, n)
    if len(set_a) < n and len(set_b) < n:
        assert found == textbook.jaccard(set_a, set_b)
    else:
        assert found == sum(x in set_a and x in set_b for x in sorted(set_a | set_b)[:n]) / n


def test_textbook_bottom_hashes_are_distinct_low_halves():
    assert textbook.bottom_hashes([2**40 + 3, 3, 2**63, 9], 3) == [0, 3, 9]


def test_textbook_brute_force_finds_the_like_sets_of_seed_003():
    sets = {"C1": set("pquv"), "C2": set("rst"), "C3": set("puv"), "C4": set("qrst")}
    assert textbook.brute_force_pairs(sets, 0.75) == [("C1", "C3", 0.75), ("C2", "C4", 0.75)]
    assert textbook.brute_force_matches(set("puv"), sets, 0.5) == [("C3", 1.0), ("C1", 0.75)]


# --- Banding --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("threshold", "bands"), [(0.5, 23), (0.6, 18), (0.7, 14), (0.8, 10), (0.9, 6), (0.95, 4), (0.99, 2)]
)
def test_textbook_pick_bands_is_the_list_of_seed_001(threshold, bands):
    assert textbook.pick_bands(threshold, 100) == bands


def test_textbook_pick_bands_of_one_is_one_band():
    # Seed 001 prints pickBands(.99999999999999999, 100) = 1, because that literal is the double 1.0. In exact
    # arithmetic the target 1e-15 is above 1 ln 1 = 0 and the answer is 2, as for the next double below 1.
    assert float("0.99999999999999999") == 1.0
    assert textbook.pick_bands(1.0, 100) == 1
    assert textbook.pick_bands(math.nextafter(1.0, 0.0), 100) == 2


def test_textbook_pick_bands_needs_a_threshold_above_zero():
    for threshold in (0.0, -0.5, 1.5, math.nan):
        with pytest.raises(ValueError, match="threshold"):
            textbook.pick_bands(threshold, 100)


def test_textbook_bands_of_seed_001_have_four_rows_at_a_half():
    # The seed speaks of "4 buckets to compare" at 0.5 and 50 at 0.99: those are the rows a band, for
    # there are 23 and 2 buckets.
    signature = list(range(100))
    for threshold, buckets, rows in ((0.5, 23, 4), (0.99, 2, 50)):
        bands = textbook.pick_bands(threshold, 100)
        assert len(textbook.band_hashes(signature, bands)) == buckets == bands
        assert len(signature) // bands == rows


def test_textbook_band_hashes_are_djb2a_of_the_dotted_rows():
    assert textbook.band_hashes([7, -2, 30, 4, 5], 2) == [textbook.djb2a(b"7.-2"), textbook.djb2a(b"30.4")]


@pytest.mark.parametrize(("bands", "rows"), [(0, 2), (2, 0), (3, 2)])
def test_textbook_bands_must_fit_the_signature(bands, rows):
    with pytest.raises(ValueError, match="bands"):
        textbook.band_buckets([1, 2, 3, 4, 5], bands, rows)


@PROPERTY
@given(st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), max_size=8), st.sampled_from([1, 2, 3]))
def test_textbook_candidate_pairs_equal_a_comparison_of_all_pairs(signatures, rows):
    bands = 6 // rows
    expected = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(signatures), 2)
        if any(a[k * rows : (k + 1) * rows] == b[k * rows : (k + 1) * rows] for k in range(bands))
    ]
    assert textbook.candidate_pairs(signatures, bands, rows) == expected


def test_textbook_candidate_probabilities_are_the_table_of_seed_003():
    table = {0.2: 0.006, 0.3: 0.047, 0.4: 0.186, 0.5: 0.470, 0.6: 0.802, 0.7: 0.975}
    for similarity, printed in table.items():
        assert round(textbook.candidate_probability(similarity, b=20, r=5), 3) == printed
    assert round(textbook.candidate_probability(0.8, b=20, r=5), 4) == 0.9996


def test_textbook_false_negatives_at_four_fifths_are_one_in_three_thousand():
    # Seed 003 prints .00035, the value of (1 - 0.328)**20; without that rounding it is .00036.
    assert round(0.8**5, 3) == 0.328
    assert round((1 - 0.328) ** 20, 5) == 0.00035
    missed = 1 - textbook.candidate_probability(0.8, b=20, r=5)
    assert round(missed, 5) == 0.00036
    assert 1 / 3000 < missed < 1 / 2800


def test_textbook_fifteen_bands_have_fewer_candidates_than_twenty():
    for similarity in (0.2, 0.5, 0.8):  # fewer false positives, more false negatives: seed 003
        fifteen, twenty = (textbook.candidate_probability(similarity, b, 5) for b in (15, 20))
        assert fifteen < twenty


# --- SimHash --------------------------------------------------------------------------------------


SEED_004_INPUTS = ["10111011", "00101110", "01100011", "01000010", "11110011", "10011100", "00001011"]


def test_textbook_simhash_counters_are_those_of_seed_004_but_for_one():
    # The seed prints -1 -1 1 -1 1 -3 6 1. Seven inputs cannot add up to 6; six ones and a zero make 5.
    counters = textbook.simhash_counters([int(bits, 2) for bits in SEED_004_INPUTS], bits=8)
    assert counters[::-1] == [-1, -1, 1, -1, 1, -3, 5, 1]


def test_textbook_simhash_is_the_result_of_seed_004():
    fingerprint = textbook.simhash([int(bits, 2) for bits in SEED_004_INPUTS], bits=8)
    assert f"{fingerprint:08b}" == "00101011"
    assert textbook.hamming(fingerprint, 0b00111011) == 1


def test_textbook_simhash_sets_a_bit_at_a_tie():
    assert textbook.simhash([0b10, 0b01], bits=2) == 0b11
    assert textbook.weighted_simhash([(0b10, 0.5), (0b01, 0.5)], bits=2) == 0b11


@PROPERTY
@given(st.lists(UINT64, min_size=1, max_size=20))
def test_textbook_simhash_sets_the_bits_that_half_of_the_hashes_have(hashes):
    expected = sum(1 << j for j in range(64) if 2 * sum(value >> j & 1 for value in hashes) >= len(hashes))
    assert textbook.simhash(hashes) == expected
    assert textbook.weighted_simhash((value, 1.0) for value in hashes) == expected


@PROPERTY
@given(st.data())
def test_textbook_weighted_simhash_does_not_depend_on_the_order(data):
    entries = data.draw(st.lists(st.tuples(UINT64, st.floats(-1e9, 1e9)), min_size=1, max_size=12))
    shuffled = data.draw(st.permutations(entries))
    assert textbook.weighted_simhash(shuffled) == textbook.weighted_simhash(entries)


@PROPERTY
@given(st.lists(st.tuples(UINT64, st.integers(1, 5)), min_size=1, max_size=8))
def test_textbook_weighted_simhash_of_counts_repeats_the_feature(entries):
    repeated = [value for value, weight in entries for _ in range(weight)]
    assert textbook.weighted_simhash(entries) == textbook.simhash(repeated)


def test_textbook_eight_fingerprints_of_seed_004_have_these_distances():
    # Unsorted, the seed prints 11 between numbers 6 and 7; the printed bits differ in 7 places.
    _, fingerprints, binary, (_, *printed) = zip(*EIGHT_FINGERPRINTS, strict=True)
    assert [f"{fingerprint:016b}" for fingerprint in fingerprints] == list(binary)
    assert printed == [7, 11, 9, 9, 9, 11, 4]
    assert [textbook.hamming(a, b) for a, b in pairwise(fingerprints)] == [7, 11, 9, 9, 9, 7, 4]


def test_textbook_sorted_fingerprints_of_seed_004_have_the_printed_distances():
    number_of = {fingerprint: number for number, fingerprint, _, _ in EIGHT_FINGERPRINTS}
    found = [(number_of[f], distance) for f, distance in textbook.sorted_neighbours(number_of)]
    assert found == [(4, None), (3, 9), (6, 1), (1, 5), (8, 6), (5, 2), (2, 9), (7, 9)]
    assert textbook.sorted_neighbours([]) == []


# --- Permutation tables ---------------------------------------------------------------------------


def test_textbook_permutation_orders_are_the_six_lists_of_seed_004():
    orders = textbook.permutation_orders(4, 2)
    assert ["".join("ABCD"[block] for block in order) for order in orders] == [
        "ABCD",
        "ACDB",
        "ADBC",
        "BCAD",
        "BDAC",
        "CDAB",
    ]


@PROPERTY
@given(st.integers(1, 10), st.data())
def test_textbook_permutation_orders_hold_every_choice_of_leading_blocks_once(num_blocks, data):
    max_distance = data.draw(st.integers(0, num_blocks - 1))
    orders = textbook.permutation_orders(num_blocks, max_distance)
    leading = [order[: num_blocks - max_distance] for order in orders]
    assert leading == list(combinations(range(num_blocks), num_blocks - max_distance))
    assert all(sorted(order) == list(range(num_blocks)) for order in orders)


def test_textbook_permutation_orders_need_a_leading_block():
    for num_blocks, max_distance in ((4, 4), (4, -1)):
        with pytest.raises(ValueError, match="max_distance"):
            textbook.permutation_orders(num_blocks, max_distance)


@PROPERTY
@given(st.integers(1, 64), st.data())
def test_textbook_blocks_differ_by_one_bit_at_most(bits, data):
    widths = textbook.blocks(bits, data.draw(st.integers(1, bits)))
    assert sum(widths) == bits
    assert widths == sorted(widths, reverse=True)
    assert widths[0] - widths[-1] <= 1


def test_textbook_blocks_cannot_outnumber_the_bits():
    with pytest.raises(ValueError, match="num_blocks"):
        textbook.blocks(4, 5)


@PROPERTY
@given(UINT64, st.integers(1, 10).flatmap(lambda m: st.permutations(range(m))))
def test_textbook_restore_undoes_permute(fingerprint, order):
    widths = textbook.blocks(64, len(order))
    permuted = textbook.permute(fingerprint, widths, order)
    assert textbook.restore(permuted, widths, order) == fingerprint
    assert permuted.bit_count() == fingerprint.bit_count()
    digits = f"{fingerprint:064b}"
    parts = [digits[sum(widths[:block]) : sum(widths[: block + 1])] for block in range(len(order))]
    assert f"{permuted:064b}" == "".join(parts[block] for block in order)


@settings(PROPERTY, max_examples=60)
@given(st.sampled_from([8, 16, 64]), st.integers(0, 4), st.integers(1, 4), st.data())
def test_textbook_permutation_tables_equal_brute_force(bits, max_distance, more_blocks, data):
    query = data.draw(st.integers(0, 2**bits - 1))
    flips = st.sets(st.integers(0, bits - 1), max_size=max_distance + 2)
    near_query = flips.map(lambda places: query ^ sum(1 << place for place in places))
    fingerprints = data.draw(st.lists(near_query | st.integers(0, 2**bits - 1), max_size=20))
    tables = textbook.PermutationTables(fingerprints, max_distance + more_blocks, max_distance, bits)
    distances = sorted(zip((textbook.hamming(query, f) for f in fingerprints), count(), strict=False))
    assert tables.near(query) == [match for match in distances if match[0] <= max_distance]


def test_textbook_permutation_tables_find_the_near_pairs_of_seed_004():
    fingerprints = [fingerprint for _, fingerprint, _, _ in EIGHT_FINGERPRINTS]
    tables = textbook.PermutationTables(fingerprints, num_blocks=4, max_distance=2, bits=16)
    assert len(tables.tables) == math.comb(4, 2) == 6
    pairs = {
        (number + 1, other + 1)
        for number, fingerprint in enumerate(fingerprints)
        for _, other in tables.near(fingerprint)
        if number < other
    }
    assert pairs == {(2, 4), (3, 6), (5, 8)}
