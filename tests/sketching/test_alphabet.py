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

# Pictographs that are no symbols by category (emoji-data.txt 14.0, Extended_Pictographic, from U+2190 on).
PICTOGRAPHS = "\u3030\u303d"


def is_symbol(code: int) -> bool:
    category = unicodedata.category(chr(code))
    draws_lines, other_form = 0x2500 <= code <= 0x259F, 0xFE00 <= code <= 0xFFFF
    is_one = category in ("So", "Sm") or chr(code) in PICTOGRAPHS
    return code >= 0x2190 and is_one and not draws_lines and not other_form


def expected_class(code: int) -> int:
    char = chr(code)
    category = unicodedata.category(char)
    if 0x1F1E6 <= code <= 0x1F1FF:
        return alphabet.FLAG_CLASS
    if code == 0x20E3 or 0x1F3FB <= code <= 0x1F3FF:
        return alphabet.MODIFIER_CLASS
    if code in (0xFE0E, 0xFE0F):
        return alphabet.SELECTOR_CLASS
    if 0xE0020 <= code <= 0xE007F:
        return alphabet.MARK_CLASS
    if is_symbol(code):
        return alphabet.ALONE_CLASS
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


def codes_of(text: str) -> set[int]:
    return {code for first, last in alphabet.ranges(text) for code in range(first, last + 1)}


def test_unassigned_code_points_have_no_folding_and_no_class_but_the_reserved_pictographs() -> None:
    unassigned = set(range(0x110000)) - codes_of(alphabet.ASSIGNED)
    classed = {c for c, kind in enumerate(alphabet.class_table()) if kind and c in unassigned}
    assert {alphabet.class_table()[code] for code in classed} == {alphabet.ALONE_CLASS}
    # Unicode Technical Standard 51, version 14.0: reserved for pictographs to come.
    reserved = {*range(0x1F000, 0x1FB00), *range(0x1FC00, 0x1FFFE)}
    assert classed == reserved & unassigned


def test_no_code_point_is_in_two_classes() -> None:
    sets = [codes_of(text) for _, text in alphabet._CLASSES]
    assert sum(map(len, sets)) == len(set().union(*sets))


@pytest.mark.skipif(unicodedata.unidata_version != "14.0.0", reason="compares with Unicode 14.0 itself")
def test_assigned_ranges_are_those_of_unicode_14() -> None:
    found = {c for first, last in alphabet.ranges(alphabet.ASSIGNED) for c in range(first, last + 1)}
    assert found == {c for c in range(0x110000) if unicodedata.category(chr(c)) != "Cn"}


def test_nfkc_leaves_later_characters_alone() -> None:
    later = "\U0001e08f"  # assigned in Unicode 15.0
    assert alphabet.nfkc(f"ﬁ{later}ﬁ①") == f"fi{later}fi1"
