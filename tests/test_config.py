"""Config and other settings: their ranges; and the form of a Config as JSON."""

# mypy: disable-error-code="arg-type,list-item"
# (wrong types are handed in on purpose)

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import normalize_steps

import simindex
from simindex import CharShingles, Config, Layout, SimHashConfig, Sketch, WordShingles, tuning

OF_ROWS = partial(Sketch.from_rows, range(64))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Config(num_perm=100),
            ValueError,
            "num_perm: expected a multiple of 8 in 0..1024, found 100",
        ),
        (
            lambda: Config(num_perm=1032),
            ValueError,
            "num_perm: expected a multiple of 8 in 0..1024, found 1032",
        ),
        (lambda: Config(num_perm=-8), ValueError, "num_perm: expected"),
        (lambda: Config(num_perm=128.0), TypeError, "num_perm: expected an int, found float"),
        (lambda: Config(num_perm=True), TypeError, "num_perm: expected an int, found bool"),
        (lambda: Config(num_perm=0, simhash=None), ValueError, "or SimHash, found neither"),
        (
            lambda: Config(num_perm=0, keep_shingles=5),
            ValueError,
            "expected MinHash rows beside it, found none",
        ),
        (lambda: Config(keep_shingles=-1), ValueError, "keep_shingles: expected 0..1000000, found -1"),
        (lambda: Config(keep_shingles="x"), TypeError, "keep_shingles: expected an int, found str"),
        (lambda: Config(seed=-1), ValueError, "seed: expected 0..18446744073709551615, found -1"),
        (lambda: Config(seed=2**64), ValueError, "seed: expected"),
        (lambda: Config(shingles=3), TypeError, "shingles: expected WordShingles or CharShingles, found 3"),
        (lambda: Config(simhash=3), TypeError, "simhash: expected a SimHashConfig or None, found 3"),
        (lambda: WordShingles(0), ValueError, "size: expected 1..1024, found 0"),
        (lambda: WordShingles("3"), TypeError, "size: expected an int, found str"),
        (lambda: CharShingles(9, "lowercase"), ValueError, "normalize: expected steps .*found 'lowercase'"),
        (lambda: WordShingles(3, False), TypeError, "normalize: expected names of .*None, found bool"),
        (lambda: WordShingles(3, [5]), ValueError, "normalize: expected steps out of .*found 5"),
        (lambda: SimHashConfig(9), ValueError, "max_distance: expected 0..8, found 9"),
        (lambda: SimHashConfig(-1), ValueError, "max_distance: expected 0..8, found -1"),
        (lambda: SimHashConfig(3, 3), ValueError, "blocks: expected 4..9, found 3"),
        (lambda: SimHashConfig(3, 10), ValueError, "blocks: expected 4..9, found 10"),
        (
            lambda: SimHashConfig(3, shingles="words"),
            TypeError,
            "shingles: expected WordShingles or CharShingles",
        ),
        (lambda: Layout(1), ValueError, "layout: expected tier_factor >= 2"),
        (lambda: Layout(8, 0), ValueError, "layout: expected .* sizes >= 1"),
        (lambda: Sketch.from_rows([]), ValueError, "rows: expected a multiple of 8 in 8..1024 integers"),
        (lambda: Sketch.from_rows([1.5] * 128), TypeError, "rows: expected integers, found .*float"),
        (lambda: Sketch.from_rows(["1"] * 128), TypeError, "rows: expected integers, found .*str"),
        (lambda: Sketch.from_rows(np.zeros(128)), TypeError, "rows: expected integers, found float64"),
        (lambda: Sketch.from_rows(np.zeros((2, 64), int)), ValueError, r"rows: .*found shape \(2, 64\)$"),
        (lambda: Sketch.from_rows(range(7)), ValueError, r"rows: expected .*found shape \(7,\)$"),
        (lambda: Sketch.from_rows(range(100)), ValueError, r"\(100,\); take the first 96 of .* rows\[:96\]$"),
        (lambda: Sketch.from_rows(range(2000)), ValueError, r"; take the first 1024 of each signature, "),
        (lambda: Sketch.from_rows(5), TypeError, "rows: expected integers"),
        (lambda: OF_ROWS(-(2**63) - 1), ValueError, r"fingerprint: expected .*, found -9223372036854775809"),
        (lambda: Sketch.from_fingerprint("x"), ValueError, "expected 1 to 16 hexadecimal digits, found 'x'"),
        (lambda: OF_ROWS().jaccard(Sketch.from_rows(range(128))), ValueError, "found 64 and 128"),
        (lambda: OF_ROWS().hamming(Sketch.from_fingerprint(1)), ValueError, "two fingerprints"),
        (
            lambda: tuning.candidate_probability(1.5, 16, 4),
            ValueError,
            r"similarity: expected .*\[0, 1\], found 1.5",
        ),
        (lambda: tuning.candidate_probability(0.5, 0, 4), ValueError, "at least 1 band"),
        (lambda: tuning.pick_bands(0.5, 0), ValueError, "num_perm: expected 1 or more, found 0"),
    ],
)
def test_setting_outside_its_range_is_refused(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


# ---- as JSON ----

shingles = st.builds(
    lambda kind, size, steps: kind(size, steps),
    st.sampled_from([WordShingles, CharShingles]),
    st.integers(1, 1024),
    normalize_steps,
)
simhash_configs = st.integers(0, 8).flatmap(
    lambda k: st.builds(
        SimHashConfig, st.just(k), st.none() | st.integers(k + 1, k + 6), shingles, st.integers(1, 2**48)
    )
)
configs = st.builds(
    Config,
    shingles=shingles,
    num_perm=st.integers(1, 128).map(lambda bands: 8 * bands),
    simhash=st.none() | simhash_configs,
    keep_shingles=st.integers(0, 10**6),
    seed=st.integers(0, 2**64 - 1),
    containment=st.sampled_from([0, 1, 2, 4, 8, 16, 32, 64]),
) | st.builds(Config, num_perm=st.just(0), simhash=simhash_configs)


def test_steps_are_kept_in_the_order_of_application() -> None:
    both: list[Any] = ["casefold whitespace", "whitespace,casefold", ["whitespace", "casefold", "casefold"]]
    none: list[Any] = [None, (), "", []]
    for steps in both + none:
        expected = ("casefold", "whitespace") if steps in both else ()
        assert WordShingles(3, steps).normalize == CharShingles(3, steps).normalize == expected


def test_config_is_frozen_and_hashable() -> None:
    assert len({Config(), Config(), Config(seed=2)}) == 2
    with pytest.raises(FrozenInstanceError):
        Config().seed = 2  # type: ignore[misc] # that is what is refused


@given(configs)
def test_config_comes_back_from_json(config: Config) -> None:
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_short_texts_find_a_note_that_is_typed_otherwise(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "notes", config=Config.short_texts()) as index:
        index.insert("note", "User prefers Python 3.12")
        index.insert("other", "User prefers Rust")
        (match,) = index.query("user prefers python3.12!", threshold=0.8, exact=True)
        assert (match.key, match.exact, round(match.similarity, 2)) == ("note", True, 0.86)


@pytest.mark.parametrize(
    ("threshold", "texts", "edited", "other"),
    [
        (
            0.8,
            ["{} lives in Lisbon", "Deploys of the {} service happen on Friday", "How do I restart {}?"],
            ["{} lives in  LISBON.", "deploys of {} service hapen on friday", "how do i restart the {}"],
            ["{} works as a baker", "Deploys of the {} service broke twice", "How long is {}?"],
        ),
        (
            0.75,
            ["{}住在上海市浦东新区的公寓", "{}服务每星期五下午进行部署", "请问怎么才能重启{}服务器？"],
            ["{}住在上海市浦东新区公寓。", "{}服务：每星期五下午进行部署", "请问怎么才能重启{}的服务器"],
            ["{}在北京的一家面包店工作", "{}服务昨天坏了两次", "{}服务器要多少钱？"],
        ),
        (
            0.8,
            [
                "{}さんは大阪に住んでいます",
                "{}は毎週金曜日にデプロイする",
                "{}を再起動するにはどうすればいい？",
            ],
            [
                "{}さんは大阪に住んでいます。",
                "{}は、毎週金曜日にデプロイする",
                "{} を再起動するにはどうすればいい",
            ],
            ["{}さんはパン屋で働いています", "{}は昨日二回壊れた", "{}はいくらですか？"],
        ),
    ],
)
def test_short_texts_meet_their_copies_and_no_others(
    tmp_path: Path, threshold: float, texts: list[str], edited: list[str], other: list[str]
) -> None:
    names = ["Anna", "Zoltan", "Kestrel", "billing", "Quebec", "mailer", "Öresund", "42"]
    with simindex.open(tmp_path / "notes", config=Config.short_texts()) as index:
        for of in texts, other:
            index.insert_many((text.format(name), text.format(name)) for text in of for name in names)
        for text, again in zip(texts, edited, strict=True):
            for name in names:
                found = index.query(again.format(name), threshold=threshold, exact=True)
                assert found[0].key == text.format(name)
                assert not {match.key for match in found} & {each.format(name) for each in other}
