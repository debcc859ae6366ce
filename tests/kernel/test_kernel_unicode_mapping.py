"""Normalisation in the kernel against the textbook and against Unicode's own tests."""

import bz2
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.texts import any_texts

from simindex import CharShingles, _kernel, textbook
from simindex.sketching import alphabet
from simindex.sketching.shingles import shingles_of

EXTRACT = Path(__file__).parents[1] / "data" / "normalization.txt"
WHOLE = Path("/usr/share/unicode/NormalizationTest.txt.bz2")

# Marks of many classes, what they stand on, and what joins, drops or parts them.
_MARKS = (
    "\u0301\u0300\u0323\u0327\u0308\u0345\u0345\u034f\u00ad\u05b4\u064e\u0f71\u0f72\u0f75\u093c\u094d\u3099"
)
_BASES = "aEeoαΑωΩᾳᾼêᄀ가\u1161\u11a8\u0dd9\u0dcf\u0dcaカｶ\uff9eが क\u0344ﷺ㌀ﬁẞ… ͺ"
marked = st.text(st.sampled_from(_MARKS + _BASES), max_size=12)


@settings(max_examples=600)
@given(st.sampled_from(["fold", "nfkc", "diacritics"]), marked | any_texts)
@example("fold", "α\u0345\u00ad\u0301")
@example("fold", "E\u0332\u0301")
@example("nfkc", "é\u0323")
def test_a_text_is_normalised_as_its_twin_has_it(step: alphabet.Mapping, text: str) -> None:
    found = _kernel.normalized(alphabet.mapping(step), text)
    assert found == textbook.normalize(text, (step,))
    assert _kernel.normalized(alphabet.mapping(step), found) == found


@settings(max_examples=300)
@given(marked)
def test_a_text_folded_as_it_is_cut_is_the_folded_text(text: str) -> None:
    """The cutting folds most texts on its way, and turns to `normalized` where it sees that it cannot."""
    for prefix in ("", "Straße ½ ", "x" * 70):
        characters = shingles_of(prefix + text, CharShingles(1, ("fold",)))
        assert "".join(characters) == textbook.normalize(prefix + text, ("fold",))


def classes_of(lines: Iterable[str]) -> Iterator[list[str]]:
    """Source, NFC, NFD, NFKC and NFKD of each line of NormalizationTest."""
    for line in lines:
        if line[:1] not in ("", "#", "@"):
            yield ["".join(chr(int(c, 16)) for c in column.split()) for column in line.split(";")[:5]]


def wrong_in(lines: Iterable[list[str]]) -> list[str]:
    def is_wrong(forms: list[str]) -> bool:
        folded = {alphabet.normalized(form, "fold") for form in forms}
        compatible = {alphabet.normalized(form, "nfkc") for form in forms}
        bare = {alphabet.normalized(form, "diacritics") for form in forms[:3]}
        return len(folded) > 1 or len(bare) > 1 or compatible != {forms[3]}

    return [ascii(forms) for forms in lines if is_wrong(forms)]


def test_equal_lines_of_unicodes_test_are_equal() -> None:
    lines = list(classes_of(EXTRACT.read_text(encoding="utf-8").splitlines()))
    assert len(lines) == 1_222
    assert wrong_in(lines) == []


@pytest.mark.skipif(not WHOLE.exists(), reason="takes Debian's package unicode-data")
def test_equal_lines_of_unicodes_whole_test_are_equal() -> None:
    head, *rest = bz2.decompress(WHOLE.read_bytes()).decode().splitlines()
    if f"-{alphabet.unicode_version()}.txt" not in head:
        pytest.skip(f"of another Unicode version: {head}")
    lines = list(classes_of(rest))
    assert len(lines) == 19_074
    assert wrong_in(lines) == []


@pytest.mark.parametrize(
    "piece", ["\u0301\u0323", "\u0345\u0301", "\u0345\u00ad", "\u0301\u034f", "\u1161", "\u0dcf"]
)
def test_a_class_of_reordered_marks_takes_linear_time(piece: str) -> None:
    """Where the time is the square of the length, 100,000 marks take minutes."""
    found = alphabet.normalized("E" + piece * 50_000, "fold")
    assert alphabet.normalized(found, "fold") == found
    assert len(found) <= 100_001
