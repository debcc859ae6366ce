"""The characters of unicode.bin against the published data, the running Python and the textbook's classes."""

import hashlib
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from support.texts import codes_of, known

from simindex import textbook
from simindex.sketching import alphabet

CLASSES = bytes(kind & alphabet.CLASS_BITS for kind in alphabet.class_table())
MAKER = Path(__file__).parents[2] / "tools" / "make_characters"
UNICODE_DATA = Path("/usr/share/unicode")
PUBLISHED = UNICODE_DATA / "DerivedNormalizationProps.txt"


def sections_of(file: bytes) -> dict[str, bytes]:
    """The unpacked sections: how well they are packed is zlib's."""
    head, _, packed = file.partition(b"\n")
    found = {}
    for name, length in json.loads(head)["sections"].items():
        found[name], packed = zlib.decompress(packed[:length]), packed[length:]
    return found


@pytest.mark.skipif(
    not (PUBLISHED.exists() and f"-{alphabet.unicode_version()}.txt" in PUBLISHED.read_text()[:60]),
    reason="takes Debian's package unicode-data",
)
def test_the_file_is_what_the_tool_makes_from_the_published_data(tmp_path: Path) -> None:
    subprocess.run([sys.executable, MAKER, UNICODE_DATA, tmp_path / "made"], check=True)
    stored = Path(alphabet.__file__).with_name("unicode.bin").read_bytes()
    assert sections_of((tmp_path / "made").read_bytes()) == sections_of(stored)


def test_spaces_are_what_python_takes_for_white_space() -> None:
    spaces = {code for code, kind in enumerate(CLASSES) if kind == alphabet.SPACE_CLASS}
    assert spaces == {code for code in range(0x110000) if chr(code).isspace()}


def test_textbook_character_classes_equal_those_of_the_file() -> None:
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
    wrong = [hex(code) for code in known() if textbook.character_class(chr(code)) != names[CLASSES[code]]]
    assert wrong == []


def test_foldings_are_the_same_on_every_python() -> None:
    digest = hashlib.sha256(alphabet.fold_table().tobytes()).hexdigest()
    assert digest == "bbeffe84abf42169dbd6193ffb7b0fd8383b34f3b4a094cca742e4369c9276ed"
    folding = {code for code in known() if chr(code).casefold() != chr(code)}
    assert folding == set(alphabet.fold_table()[:, 0].tolist())
    assert folding == {code for code, kind in enumerate(alphabet.class_table()) if kind & 0x80}


def test_each_character_is_normalised_as_the_textbook_has_it() -> None:
    for step in ("fold", "nfkc", "diacritics"):
        wrong = [
            hex(code)
            for code in known()
            if not 0xD800 <= code < 0xE000
            and alphabet.normalized(chr(code), step) != textbook.normalize(chr(code), (step,))
        ]
        assert wrong == [], step


def test_unassigned_code_points_have_no_class_but_the_reserved_pictographs() -> None:
    unassigned = set(range(0x110000)) - codes_of("assigned")
    classed = {code for code, kind in enumerate(CLASSES) if kind and code in unassigned}
    assert {CLASSES[code] for code in classed} == {alphabet.ALONE_CLASS}
    # Unicode Technical Standard 51: reserved for pictographs to come.
    reserved = {*range(0x1F000, 0x1FB00), *range(0x1FC00, 0x1FFFE)}
    assert classed == reserved & unassigned


def test_later_characters_are_left_alone_and_part_what_is_before_and_behind() -> None:
    later = "\U00010d4a"  # assigned in Unicode 16.0, a letter
    assert alphabet.normalized(f"ﬁ{later}\u0301①", "nfkc") == f"fi{later}\u03011"
    assert alphabet.normalized(f"É{later}É", "fold") == f"é{later}é"
