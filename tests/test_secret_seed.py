"""A seed that nobody knows beforehand: drawn when an index is created, and kept in it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.stored import rewrite_header

import simindex
from simindex import Config, ConfigMismatchError, FormatError, Sketch, Sketcher


def test_random_seed_is_drawn_at_creation_and_stored(tmp_path: Path) -> None:
    seeds = []
    for name in "ab":
        with simindex.open(tmp_path / name, config=Config(seed="random")) as index:
            index.insert("fox", "the quick brown fox jumps over the lazy dog")
            seed = index.config.seed
            assert isinstance(seed, int)
            seeds.append(seed)
        for config in (None, Config(seed="random"), Config(seed=seed)):
            with simindex.open(tmp_path / name, config=config) as index:
                assert index.config.seed == seed
                assert index.query("the quick brown fox jumps over the lazy dog")[0].key == "fox"
        with pytest.raises(ConfigMismatchError, match="num_perm"):
            simindex.open(tmp_path / name, config=Config(seed="random", num_perm=64))
        with pytest.raises(ConfigMismatchError, match="seed: stored"):
            simindex.open(tmp_path / name, config=Config(seed=seed ^ 1))
    # 64 bits: equal once in 2**64 pairs, and one below 2**40 once in 2**24 draws.
    assert seeds[0] != seeds[1]
    assert min(seeds) > 2**40


def test_random_seed_comes_from_the_systems_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.randbits", lambda bits: 2**bits - 7)
    assert Config(seed="random").drawn() == Config(seed=2**64 - 7)
    assert Config(seed=5).drawn() == Config(seed=5)


def test_sketches_of_two_drawn_seeds_share_nothing(tmp_path: Path) -> None:
    """Whoever knows neither seed cannot make two documents agree by more than their shingles do."""
    text = "some words that make a few shingles, which anybody can hash with a seed that is known"
    rows = []
    for name in "ab":
        with simindex.open(tmp_path / name, config=Config(seed="random")) as index:
            index.insert("a", text)
            words = index["a"].sketch.words
            assert words is not None
            rows.append(words.view(np.uint8))
    # 128 rows of 8 bits agree by chance in 0.5 on average; in 12 or more once in 10**13.
    assert (rows[0] == rows[1]).sum() < 12


def test_random_seed_is_no_seed_before_there_is_an_index() -> None:
    config = Config(seed="random")
    assert Config.from_dict(config.to_dict()) == config
    uses: list[Callable[[Config], object]] = [
        Sketcher,
        lambda config: Sketch.from_rows([1] * 128, config=config),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=r"drawn when an index is created; take index\.config"):
            use(config)
    for seed in ("Random", "", "7"):
        with pytest.raises(ValueError, match=r'seed: expected 0\.\.2\*\*64-1 or "random", found'):
            Config(seed=seed)  # type: ignore[arg-type]


def test_stored_seed_is_a_number(tmp_path: Path) -> None:
    simindex.open(tmp_path / "i").close()
    rewrite_header(tmp_path / "i", lambda fields: [*fields[:4], fields[4] | {"seed": "random"}, fields[5]])
    with pytest.raises(FormatError, match="expected a number as the seed"):
        simindex.open(tmp_path / "i")


def test_indexes_of_two_seeds_are_not_joined_and_no_backups_of_one_another(tmp_path: Path) -> None:
    for name in "ab":
        with simindex.open(tmp_path / name, config=Config(seed="random")) as index:
            index.insert("a", "the quick brown fox jumps over the lazy dog")
    with pytest.raises(ConfigMismatchError):
        list(simindex.corpus.join(tmp_path / "a", tmp_path / "b"))
    with simindex.open(tmp_path / "a") as index, pytest.raises(ConfigMismatchError, match="seed: "):
        index.backup(tmp_path / "b")


def test_deduplication_takes_a_number_or_the_seed_of_an_index(tmp_path: Path) -> None:
    rows = [(n, f"one text of some words {n // 2}") for n in range(6)]
    kept: list[object] = []
    deduplicate = simindex.corpus.deduplicate
    with pytest.raises(ValueError, match="seed: expected a number, for a job that is resumed"):
        deduplicate(rows, kept.append, config=Config(seed="random"))
    with simindex.open(tmp_path / "i", config=Config(seed="random")):
        pass
    config = Config(seed="random")
    report = deduplicate(rows, kept.append, config=config, into=tmp_path / "i")
    assert report.kept == 3
