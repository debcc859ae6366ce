"""corpus.explain: the similarity is exact, the passages are where the shared shingles are."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import any_texts, normalize_steps, textbook_shingles

from simindex import CharShingles, Config, SimHashConfig, WordShingles, textbook
from simindex.corpus import Explanation, Passage, explain

configs = st.one_of(
    st.builds(WordShingles, st.integers(1, 4), normalize_steps),
    st.builds(CharShingles, st.integers(1, 5), normalize_steps),
).map(lambda shingles: Config(shingles=shingles))

# Two texts of the same pieces: most of Hypothesis' own would share nothing.
_PIECES = st.sampled_from(
    [
        "the ferry ",
        "leaves at nine. ",
        "Maß ",
        "ﬁne ",
        "日本語",
        "e\u0301",
        "กำขี่",
        "🇩🇪🇫🇷",
        "❤\ufe0f",
        "\t\n",
        "x²",
    ]
)
related = st.lists(st.one_of(_PIECES, any_texts), max_size=12).map("".join)


@given(related, related, configs)
def test_similarity_is_that_of_the_sets_of_shingles(a: str, b: str, config: Config) -> None:
    found = explain(a, b, config)
    shingles = (textbook_shingles(text, config.shingles) for text in (a, b))
    assert found.similarity == textbook.jaccard(*shingles)
    assert bool(found.passages) == (found.similarity > 0)


@given(related, related, configs)
def test_passages_lie_in_the_texts_and_share_shingles(a: str, b: str, config: Config) -> None:
    found = explain(a, b, config)
    assert found.passages == sorted(found.passages)
    for start_a, end_a, start_b, end_b in found.passages:
        assert 0 <= start_a < end_a <= len(a)
        assert 0 <= start_b < end_b <= len(b)
        common = set(textbook_shingles(a, config.shingles)) & set(textbook_shingles(b, config.shingles))
        # White space is cut away at the ends of a passage: of " of " only "of" is left.
        for piece in (a[start_a:end_a], b[start_b:end_b]):
            inside = textbook_shingles(piece, type(config.shingles)(1, config.shingles.normalize))
            joined = (" " if isinstance(config.shingles, WordShingles) else "").join(inside)
            assert any(shingle.strip() in joined for shingle in common)


@given(related, related, configs)
def test_shares_are_those_of_the_words_in_shared_shingles(a: str, b: str, config: Config) -> None:
    found = explain(a, b, config)
    for text, other, share in ((a, b, found.share_a), (b, a, found.share_b)):
        single = type(config.shingles)(1, config.shingles.normalize)
        num_tokens, shared = (
            len(textbook_shingles(text, single)),
            set(textbook_shingles(other, config.shingles)),
        )
        covered = {
            index + step
            for index, shingle in enumerate(textbook_shingles(text, config.shingles))
            if shingle in shared
            for step in range(min(config.shingles.size, num_tokens))
        }
        assert share == (len(covered) / num_tokens if num_tokens else 0.0)


def test_equal_texts_are_one_passage() -> None:
    text = "the cat sat on the mat, and the cat sat on it"
    assert explain(text, text) == Explanation(1.0, [Passage(0, 45, 0, 45)], 1.0, 1.0)


def test_an_edit_parts_a_text_in_two_passages() -> None:
    a = "one two three four five six seven"
    b = "ONE  two three FOUR - six seven eight, five six seven"
    found = explain(a, b, Config(shingles=WordShingles(2)))
    pieces = [(a[p.start_a : p.end_a], b[p.start_b : p.end_b]) for p in found.passages]
    assert pieces == [("one two three four", "ONE  two three FOUR"), ("five six seven", "five six seven"),
                      ("six seven", "six seven")]  # fmt: skip
    assert found.share_a == 1.0
    assert found.share_b == 9 / 10


def runs(a: str, b: str) -> list[tuple[int, int, int]]:
    """(first in a, first in b, length) of the passages of texts of single letters, counted in words."""
    found = explain(" ".join(a), " ".join(b), Config(shingles=WordShingles(1)))
    return [(p.start_a // 2, p.start_b // 2, (p.end_a - p.start_a + 1) // 2) for p in found.passages]


@given(st.text("abcdef", max_size=40), st.text("abcdef", max_size=40))
def test_passages_are_equal_and_end_where_the_texts_differ(a: str, b: str) -> None:
    found = runs(a, b)
    assert len(set(found)) == len(found)
    for in_a, in_b, length in found:
        end_a, end_b = in_a + length, in_b + length
        assert a[in_a:end_a] == b[in_b:end_b]
        assert end_a == len(a) or end_b == len(b) or a[end_a] != b[end_b]
        assert in_a == 0 or in_b == 0 or a[in_a - 1] != b[in_b - 1]


def test_longest_of_several_occurrences_is_a_passage() -> None:
    assert runs("abaxb", "abaxb") == [(0, 0, 5)]
    assert runs("abc", "axabyabc") == [(0, 0, 1), (0, 2, 2), (0, 5, 3)]
    assert runs("abcd", "abcxbcd") == [(0, 0, 3), (1, 4, 3)], "a passage reaches back over the one before"
    assert len(runs("a" * 50_000, "a" * 20_000)) <= 4


def test_text_that_is_shorter_than_a_shingle_is_one() -> None:
    assert explain("A b", "a b") == Explanation(1.0, [Passage(0, 3, 0, 3)], 1.0, 1.0)
    assert explain("a b", "a b c").similarity == 0.0


def test_index_without_minhash_is_explained_by_the_shingles_of_simhash() -> None:
    config = Config(num_perm=0, simhash=SimHashConfig(shingles=WordShingles(1)))
    assert explain("a b", "b c", config).similarity == pytest.approx(1 / 3)


@pytest.mark.parametrize("document", [{"a", "b"}, b"text", None, 5])
def test_what_is_no_text_has_no_places(document: object) -> None:
    with pytest.raises(TypeError, match="explain: b: expected a str, found"):
        explain("a", document)  # type: ignore[arg-type]


def test_long_texts_of_few_words_come_to_an_end() -> None:
    words = random.Random(5).choices("ab", k=30_000)
    found = explain(" ".join(words), " ".join(reversed(words)))
    assert found.similarity == 1.0
    assert found.share_a == found.share_b == 1.0
