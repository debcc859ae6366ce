"""`passages`: planted quotes, against the longest common runs of words by brute force."""

import random
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simindex
from simindex import CharShingles, Config, Index, WordShingles, textbook

CHOICE = random.Random(5)
WORDS = [f"w{n}" for n in range(3000)]
QUOTE = ["the", "ferry", "to", "the", "island", "leaves", "at", "nine", "and", "comes", "back", "at", "noon"]


def some(count: int) -> list[str]:
    return CHOICE.choices(WORDS, k=count)


def made(path: Path, texts: dict[str, str], containment: int = 1, **settings: object) -> Index:
    config = Config(num_perm=16, simhash=None, containment=containment, **settings)  # type: ignore[arg-type]
    index = simindex.open(path / "index", config=config)
    index.insert_many(texts.items())
    return index


def words(text: str) -> list[str]:
    return textbook.words(text.lower())


def longest(a: list[str], b: list[str]) -> int:
    """Words of the longest run that two texts have in common, by brute force."""
    best, before = 0, [0] * (len(b) + 1)
    for one in a:
        row = [0] * (len(b) + 1)
        for index, other in enumerate(b):
            row[index + 1] = before[index] + 1 if one == other else 0
        best, before = max(best, *row), row
    return best


def test_planted_quotes_are_found_where_they_stand(tmp_path: Path) -> None:
    own = some(30)
    texts: dict[Any, str] = {}
    lengths = {}
    for n in range(30):
        source = some(200)
        texts[f"page {n}"] = " ".join(source)
        lengths[f"page {n}"] = length = CHOICE.randrange(8, 60)
        own += [*source[40 : 40 + length], *some(9)]
    edited = [*some(20), *own[5:25], "edited", *own[26:29], *some(20)]
    texts |= {"edited": " ".join(edited), "copy": texts["page 3"], "none": "...", "empty": ""}
    text = ", ".join(own).upper()
    with made(tmp_path, texts) as index:
        found = index.passages(text, texts=texts)
        sampled = index.passages(text)
    assert found.missed == 0.0
    assert not found.truncated
    best: dict[Any, int] = {}
    for passage in found:
        assert passage.exact
        piece = words(text[passage.start : passage.end])
        assert len(piece) == passage.words >= 8
        assert piece == words(texts[passage.key][passage.stored_start : passage.stored_end])
        best.setdefault(passage.key, passage.words)
    judged = {key: longest(words(text), words(stored)) for key, stored in texts.items()}
    assert best == {key: length for key, length in judged.items() if length >= 8}
    assert best.items() >= (lengths | {"edited": 20, "copy": best["page 3"]}).items()
    assert [one.words for one in found] == sorted((one.words for one in found), reverse=True)
    # Every shingle is sampled: the same pieces of the text without the texts.
    assert {(p.key, p.start, p.end) for p in sampled} >= {(p.key, p.start, p.end) for p in found}
    assert not any(one.exact or one.stored_start is not None for one in sampled)


def runs(letters: list[str]) -> list[tuple[str, ...]]:
    """The shingles of two letters; of one letter there is one."""
    return list(pairwise(letters)) if len(letters) != 1 else [(letters[0],)]


LETTERS = st.lists(st.sampled_from("abcd"), max_size=25)


@given(a=LETTERS, b=LETTERS)
def test_passages_hold_every_shared_shingle(
    tmp_path_factory: pytest.TempPathFactory, a: list[str], b: list[str]
) -> None:
    text, stored = " ".join(a), ". ".join(b)
    with made(tmp_path_factory.mktemp("passages"), {"b": stored}, shingles=WordShingles(2)) as index:
        found = index.passages(text, texts={"b": stored}, min_words=1)
    pairs = set(runs(b))
    own = runs(a)
    covered = {n for one in found for n in range(one.start // 2, (one.end + 1) // 2)}
    assert covered == {m for n, pair in enumerate(own) if pair in pairs for m in range(n, n + len(pair))}
    for one in found:
        assert words(text[one.start : one.end]) == words(stored[one.stored_start : one.stored_end])


def test_a_sample_misses_passages_as_often_as_it_says(tmp_path: Path) -> None:
    """Of 400 passages of 10 shingles each 0.263 are missed at m = 8; five standard errors are 0.11."""
    quotes = {str(n): " ".join(f"q{n}x{k}" for k in range(12)) for n in range(400)}
    texts = {key: " ".join([*some(20), quote, *some(20)]) for key, quote in quotes.items()}
    with made(tmp_path, texts, containment=8) as index:
        answers = {key: index.passages(quote, texts=texts, min_words=12) for key, quote in quotes.items()}
        estimates = {key: index.passages(quote, min_words=12) for key, quote in quotes.items()}
    assert answers["0"].missed == pytest.approx((7 / 8) ** 10)
    missed = [key for key, found in answers.items() if not found]
    assert abs(len(missed) / 400 - answers["0"].missed) < 0.11
    for key, found in answers.items():
        assert bool(estimates[key]) == bool(found)
        assert [(one.key, one.words) for one in found] == ([] if key in missed else [(key, 12)])
        for estimate in estimates[key]:
            assert found[0].start <= estimate.start < estimate.end <= found[0].end


def test_places_are_those_of_the_texts_as_they_are(tmp_path: Path) -> None:
    texts = {"ß": "Zu ẞ😀:  DIE STRASSE führt\n\tzum ﬁnster-hohen ΤΈΛΟΣ!"}
    text = "… sie sagt: „die straße führt zum finster hohen τέλος“ 👍🏽"
    with made(tmp_path, texts) as index:
        (found,) = index.passages(text, texts=texts.get, min_words=4)
        assert text[found.start : found.end].startswith("die straße führt zum")
        assert texts["ß"][found.stored_start : found.stored_end].startswith("DIE STRASSE führt\n\tzum")
    with made(tmp_path / "chars", texts, shingles=CharShingles(5)) as index:
        found = index.passages(text, texts=texts)[0]
        assert texts["ß"][found.stored_start : found.stored_end].strip().startswith("DIE STRASSE")


def test_short_and_empty_texts(tmp_path: Path) -> None:
    texts = {"short": "of two", "quoted": " ".join([*QUOTE, "x", *QUOTE])}
    with made(tmp_path, texts) as index:
        assert index.passages("", texts=texts) == index.passages("...") == []
        assert [(p.key, p.words) for p in index.passages("Of two!", texts=texts)] == [("short", 2)]
        repeated = index.passages(" ".join(QUOTE), texts=texts)
        assert [(p.start, p.stored_start) for p in repeated] == [(0, 0), (0, texts["quoted"].index("x") + 2)]
        assert len(index.passages(" ".join(QUOTE), texts=texts, limit=1)) == 1
        index.remove("quoted")
        assert not index.passages(" ".join(QUOTE), texts=texts)


def test_the_limit_on_candidates_is_told(tmp_path: Path) -> None:
    texts = {str(n): " ".join([*QUOTE, f"and{n}"]) for n in range(40)}
    with made(tmp_path, texts):
        pass
    with simindex.open(tmp_path / "index", "r", max_candidates=5) as index:
        assert index.passages(" ".join(QUOTE)).truncated
    with simindex.open(tmp_path / "index", "r") as index:
        assert len(index.passages(" ".join(QUOTE))) == 40


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "plain") as index, pytest.raises(ValueError, match=r"containment=1"):
        index.passages("a text")
    with made(tmp_path, {"a": " ".join(QUOTE)}) as index:
        with pytest.raises(TypeError, match="only a text has places"):
            index.passages({"a", "b"})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="only a text has places"):
            index.passages(" ".join(QUOTE), texts={"a": {"ready"}})
        with pytest.raises(KeyError, match="found none of 'a'"):
            index.passages(" ".join(QUOTE), texts={})
        with pytest.raises(ValueError, match="min_words"):
            index.passages("a", min_words=0)


@pytest.mark.parametrize(("share", "is_common"), [(0.28, True), (0.29, False), (0.3, False)])
def test_shingles_of_just_the_share_are_not_common(tmp_path: Path, share: float, is_common: bool) -> None:
    """29 of 100 documents are 0.29 of them; the product of floats is 28.999999999999996."""
    texts = {str(n): " ".join([*(QUOTE if n < 29 else []), f"own {n}"]) for n in range(100)}
    with made(tmp_path, texts) as index:
        quote = " ".join(QUOTE)
        assert [(p.start, p.end) for p in index.common_passages(quote, share)] == [
            (0, len(quote))
        ] * is_common
        found = index.query_containment(quote, 0.5, direction="in_stored", ignore_common=share)
        assert len(found) == (0 if is_common else 29)


@given(st.integers(0, 1_000))
def test_common_passages_are_the_runs_of_shingles_that_many_texts_have(seed: int) -> None:
    chance = random.Random(seed)
    template = chance.choices(WORDS, k=12)
    texts = {}
    for number in range(9):
        words = chance.choices(WORDS, k=chance.randint(0, 9))
        at = chance.randint(0, len(words))
        texts[str(number)] = " ".join([*words[:at], *(template if number < 6 else []), *words[at:]])
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), texts) as index:
        for number in range(9):
            text = texts[str(number)]
            found = [(text[p.start : p.end], p.documents) for p in index.common_passages(text, 0.5)]
            assert found == ([(" ".join(template), 6)] if number < 6 else [])
            assert index.common_passages(text, 0.9) == []
        for share in (0, 1):
            with pytest.raises(ValueError, match="share: expected a share between 0 and 1"):
                index.common_passages("a", share)
