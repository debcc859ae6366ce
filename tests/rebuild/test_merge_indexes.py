"""Several indexes become one: every document with its sketch and metadata, and the sources as they were."""

import json
from pathlib import Path

import pytest
from backups import TINY, content_of, texts
from commandline import process

import simindex
from simindex import Config, ConfigMismatchError, FormatError, KeyExistsError, Sketch

KEPT = Config(num_perm=64, keep_shingles=20, seed=3)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Two indexes; the keys 30 to 39 are in both, with other texts."""
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths):
        with simindex.open(path, config=KEPT, layout=TINY) as index:
            index.insert_many((key, f"{text} {number}", [number]) for key, text, _ in texts(30 * number, 40))
            index.remove(3 + 50 * number)
    return paths


@pytest.mark.parametrize(
    ("on_conflict", "counts", "kept"), [("skip", (68, 0, 10), 0), ("replace", (68, 10, 0), 1)]
)
def test_merged_index_has_the_documents_of_all(
    tmp_path: Path, parts: list[Path], on_conflict: str, counts: tuple[int, int, int], kept: int
) -> None:
    before = [content_of(part) for part in parts]
    report = simindex.merge(parts, tmp_path / "both", on_conflict)  # type: ignore[arg-type]
    assert tuple(report) == counts
    with (
        simindex.open(tmp_path / "both", "r") as both,
        simindex.open(parts[0], "r") as a,
        simindex.open(parts[1], "r") as b,
    ):
        assert both.config == KEPT
        assert set(both) == set(a) | set(b)
        for key in both:
            source = (b if key in b and (kept or key not in a) else a)[key]
            assert (both[key].sketch, both[key].metadata) == (source.sketch, source.metadata)
        assert both.query(texts(65, 1)[0][1] + " 1", exact=True)[0].key == 65
    assert [content_of(part) for part in parts] == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b", "both"}


def test_key_in_two_sources_is_an_error_and_makes_nothing(tmp_path: Path, parts: list[Path]) -> None:
    with pytest.raises(KeyExistsError, match="30"):
        simindex.merge(parts, tmp_path / "both")
    assert {entry.name for entry in tmp_path.iterdir()} == {"a", "b"}


def test_indexes_of_other_settings_are_refused_by_name(tmp_path: Path, parts: list[Path]) -> None:
    simindex.open(tmp_path / "c", config=Config(num_perm=64, keep_shingles=20, seed=4)).close()
    with pytest.raises(ConfigMismatchError, match="seed: 3 and 4") as caught:
        simindex.merge([parts[0], tmp_path / "c"], tmp_path / "both")
    assert caught.value.fields == {"seed": (3, 4)}
    with simindex.open(tmp_path / "rows", config=KEPT) as index:
        index.insert("row", Sketch.from_rows(range(64)))
    with pytest.raises(ConfigMismatchError):
        simindex.merge([parts[0], tmp_path / "rows"], tmp_path / "both")
    assert simindex.merge([tmp_path / "rows"], tmp_path / "alone").inserted == 1
    assert not (tmp_path / "both").exists()


def test_destination_and_sources_are_checked(tmp_path: Path, parts: list[Path]) -> None:
    with pytest.raises(FormatError, match="expected an empty folder or nothing"):
        simindex.merge([parts[0]], parts[1])
    with pytest.raises(FileNotFoundError):
        simindex.merge([parts[0], tmp_path / "none"], tmp_path / "both")
    with pytest.raises(ValueError, match="expected one index or more"):
        simindex.merge([], tmp_path / "both")
    with pytest.raises(TypeError, match="expected several folders, found one"):
        simindex.merge(str(parts[0]), tmp_path / "both")


def test_merge_command_says_what_it_did(tmp_path: Path, parts: list[Path]) -> None:
    done = process("merge", *parts, tmp_path / "both", "--on-conflict", "skip", "--json", text=True)
    assert json.loads(done.stdout) == {"inserted": 68, "replaced": 0, "skipped": 10}
    refused = process("merge", *parts, tmp_path / "more", text=True)
    assert refused.returncode == 1
    assert "--on-conflict skip" in refused.stderr
