"""The written-down character ranges against the Unicode tables of the running Python, and the textbook's
classes against them."""

import hashlib
import unicodedata

import pytest
from support.texts import codes_of

from simindex import textbook
from simindex.sketching import alphabet


def test_spaces_are_what_python_takes_for_white_space() -> None:
    table = alphabet.class_table()
    spaces = {code for code, kind in enumerate(table) if kind & ~alphabet.FOLDS_BIT == alphabet.SPACE_CLASS}
    assert spaces == {code for code in range(0x110000) if chr(code).isspace()}


def test_textbook_character_classes_equal_the_written_ranges() -> None:
    names = {
        0: "other",
        alphabet.WORD_CLASS: "word",
        alphabet.ALONE_CLASS: "alone",
        alphabet.MARK_CLASS: "mark",
        alphabet.SPACE_CLASS: "other",
        alphabet.FLAG_CLASS: "flag",
        alphabet.MODIFIER_CLASS: "modifier",
        alphabet.SELECTOR_CLASS: "selector",
    }
    table = alphabet.class_table()
    wrong = [
        hex(code)
        for code in codes_of(alphabet.assigned())
        if textbook.character_class(chr(code)) != names[table[code] & ~alphabet.FOLDS_BIT]
    ]
    assert wrong == []


def test_foldings_are_those_of_unicode_14_on_every_python() -> None:
    digest = hashlib.sha256(alphabet.fold_table().tobytes()).hexdigest()
    assert digest == "bbeffe84abf42169dbd6193ffb7b0fd8383b34f3b4a094cca742e4369c9276ed"
    folding = {code for code in codes_of(alphabet.assigned()) if chr(code).casefold() != chr(code)}
    assert folding == alphabet.folds().keys()


def test_unassigned_code_points_have_no_folding_and_no_class_but_the_reserved_pictographs() -> None:
    unassigned = set(range(0x110000)) - codes_of(alphabet.assigned())
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
    assert codes_of(alphabet.assigned()) == {
        c for c in range(0x110000) if unicodedata.category(chr(c)) != "Cn"
    }


def test_nfkc_leaves_later_characters_alone() -> None:
    later = "\U0001e08f"  # assigned in Unicode 15.0
    assert alphabet.nfkc(f"ﬁ{later}ﬁ①") == f"fi{later}fi1"
