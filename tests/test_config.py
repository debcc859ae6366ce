"""Config: ranges, the stored form, and what differs."""

# mypy: disable-error-code="arg-type"
# (wrong types are handed in on purpose)

from collections.abc import Callable

import pytest

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
        (
            lambda: CharShingles(9, "lowercase"),
            ValueError,
            "normalize: expected steps out of .*found 'lowercase'",
        ),
        (lambda: WordShingles(3, [5]), ValueError, "normalize: expected steps out of .*found 5"),
        (lambda: SimHashConfig(9), ValueError, "max_distance: expected 0..8, found 9"),
        (lambda: SimHashConfig(3, 3), ValueError, "blocks: expected 4..9, found 3"),
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


@pytest.mark.parametrize(
    "bad", [{"max_distance": 9}, {"max_distance": -1}, {"blocks": 3}, {"blocks": 10}, {"blocks": 0}]
)
def test_simhash_config_out_of_range_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bad))}: expected .* found {next(iter(bad.values()))}"):
        SimHashConfig(**bad)
