"""The written-down character ranges against the Unicode tables of the running Python."""

import unicodedata

import pytest

from simindex.sketching import alphabet

OTHER_CLASS = 0

# Scripts without spaces between words, by the names of their characters (independent of the ranges).
ALONE_NAMES = (
    "AHOM ", "BOPOMOFO ", "CJK ", "HALFWIDTH KATAKANA", "HENTAIGANA ", "HIRAGANA ", "IDEOGRAPHIC ",
    "KATAKANA", "KHITAN SMALL SCRIPT", "KHMER ", "LAO ", "MASU MARK", "MYANMAR ", "NEW TAI LUE ", "NUSHU ",
    "TAI LE ", "TAI THAM ", "TAI VIET ", "TANGUT ", "THAI ", "VERTICAL IDEOGRAPHIC ", "VERTICAL KANA ",
    "YI SYLLABLE ",
)  # fmt: skip


def expected_class(code: int) -> int:
    char = chr(code)
    category = unicodedata.category(char)
    if (category[0] == "L" or char == "〇") and unicodedata.name(char, "").startswith(ALONE_NAMES):
        return alphabet.ALONE_CLASS
    if category[0] in "LN" or char == "_":
        return alphabet.WORD_CLASS
    if category[0] == "M":
        return alphabet.MARK_CLASS
    return alphabet.SPACE_CLASS if char.isspace() else OTHER_CLASS


def test_classes_equal_unicodedata_for_every_assigned_code_point() -> None:
    table = alphabet.class_table()
    assert len(table) == 0x110000
    wrong = [
        hex(code)
        for first, last in alphabet.ranges(alphabet.ASSIGNED)
        for code in range(first, last + 1)
        if table[code] & ~alphabet.FOLDS_BIT != expected_class(code)
    ]
    assert wrong == []


def test_foldings_equal_casefold_for_every_assigned_code_point() -> None:
    folds = alphabet.folds()
    wrong = [
        hex(code)
        for first, last in alphabet.ranges(alphabet.ASSIGNED)
        for code in range(first, last + 1)
        if folds.get(code, (code,)) != tuple(map(ord, chr(code).casefold()))
    ]
    assert wrong == []


def test_unassigned_code_points_have_no_class_and_no_folding() -> None:
    assigned = bytearray(0x110000)
    for first, last in alphabet.ranges(alphabet.ASSIGNED):
        assigned[first : last + 1] = b"\1" * (last + 1 - first)
    assert [c for c, kind in enumerate(alphabet.class_table()) if kind and not assigned[c]] == []


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="compares with Unicode 14.0 itself")
def test_assigned_ranges_are_those_of_unicode_14() -> None:
    found = {c for first, last in alphabet.ranges(alphabet.ASSIGNED) for c in range(first, last + 1)}
    assert found == {c for c in range(0x110000) if unicodedata.category(chr(c)) != "Cn"}


def test_nfkc_leaves_later_characters_alone() -> None:
    later = "\U0001e08f"  # assigned in Unicode 15.0
    assert alphabet.nfkc(f"ﬁ{later}ﬁ①") == f"fi{later}fi1"
