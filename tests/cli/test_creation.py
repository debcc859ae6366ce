"""The options of a new index, and the comparison with what is stored."""

import pytest
from support.commands import Run, config_of

from simindex import CharShingles, Config, SimHashConfig, WordShingles


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ([], Config()),
        (["--words", 5], Config(shingles=WordShingles(5))),
        (["--chars", 7], Config(shingles=CharShingles(7))),
        (["--num-perm", 64, "--seed", 9], Config(num_perm=64, seed=9)),
        (["--keep-shingles", 100], Config(keep_shingles=100)),
        (["--max-distance", 2], Config(simhash=SimHashConfig(2))),
        (["--no-simhash"], Config(simhash=None)),
        (["--no-minhash"], Config(num_perm=0)),
        (
            ["--normalize", "nfkc,whitespace"],
            Config(
                shingles=WordShingles(3, ("nfkc", "whitespace")),
                simhash=SimHashConfig(shingles=WordShingles(1, ("nfkc", "whitespace"))),
            ),
        ),
        (
            ["--no-simhash", "--normalize", "numbers,html casefold"],
            Config(shingles=WordShingles(3, ("html", "numbers", "casefold")), simhash=None),
        ),
        (
            ["--chars", 4, "--normalize", "none"],
            Config(shingles=CharShingles(4, ()), simhash=SimHashConfig(shingles=WordShingles(1, ()))),
        ),
    ],
    ids=str,
)
def test_insert_creates_an_index_as_the_options_say(
    run: Run, rows_file: str, options: list[object], config: Config
) -> None:
    assert run("insert", "news", rows_file, *options).code == 0
    assert config_of("news") == config
    assert run("insert", "news", rows_file, *options, "--on-conflict", "skip").code == 0


def test_insert_compares_only_the_options_that_were_given(run: Run, rows_file: str) -> None:
    assert run("insert", "news", rows_file, "--words", 4, "--num-perm", 64, "--no-simhash").code == 0
    assert run("insert", "news", rows_file, "--num-perm", 64, "--on-conflict", "skip").code == 0
    assert run("insert", "news", rows_file, "--on-conflict", "skip").code == 0
