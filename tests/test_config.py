"""Config: ranges, and its form as JSON."""

# mypy: disable-error-code="arg-type"
# (wrong types are handed in on purpose)

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import normalize_steps

from simindex import CharShingles, Config, SimHashConfig, WordShingles


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
        (lambda: Config(num_perm=0, simhash=None), ValueError, "found both off"),
        (lambda: Config(num_perm=0, keep_shingles=5), ValueError, "keep_shingles needs MinHash"),
        (lambda: Config(keep_shingles=-1), ValueError, "keep_shingles: expected 0..1000000, found -1"),
        (lambda: Config(keep_shingles="x"), TypeError, "keep_shingles: expected an int, found str"),
        (lambda: Config(seed=-1), ValueError, "seed: expected 0..18446744073709551615, found -1"),
        (lambda: Config(seed=2**64), ValueError, "seed: expected"),
        (lambda: Config(shingles=3), TypeError, "shingles: expected WordShingles or CharShingles, found 3"),
        (lambda: Config(simhash=3), TypeError, "simhash: expected a SimHashConfig or None, found 3"),
        (lambda: WordShingles(0), ValueError, "size: expected 1..1024, found 0"),
        (lambda: WordShingles("3"), TypeError, "size: expected an int, found str"),
        (lambda: CharShingles(9, "lowercase"), ValueError, "normalize: expected steps .*found 'lowercase'"),
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
