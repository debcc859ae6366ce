"""Pairs and clusters of files by stages that processes run over a folder, against those of one index."""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.commands import Run
from support.stages import rows_of, written

import simindex
from simindex import Config, ConfigMismatchError, SimHashConfig, SimIndexError
from simindex.corpus.dedup.journal import JobError
from simindex.scaleout import StagedDedup, StagedPairs, UnsupportedError, pair_job, plan_pairs

CONFIG = Config(num_perm=64, simhash=SimHashConfig(3, shingles=simindex.WordShingles(1)))


def rows(seed: int = 1) -> list[dict[str, Any]]:
    """Rows of which many are alike and some equal, those of a template too, each with an id of its own."""
    shared = " ".join(f"s{number}" for number in range(40))
    pages: list[dict[str, Any]] = [{"text": f"{shared} o{number % 40}"} for number in range(60)]
    some = rows_of(seed, 80) + pages + rows_of(seed + 1, 80)
    return [row | {"id": f"r{number}"} for number, row in enumerate(some)]


def planned(tmp_path: Path, **how: Any) -> StagedPairs:
    for name, some in (("1.jsonl", rows()[:90]), ("2.jsonl", rows()[90:])):
        if not (tmp_path / name).exists():
            written(tmp_path / name, some)
    given: dict[str, Any] = {"work": tmp_path / "work", "parallel": 2, "part_bytes": 5_000, "config": CONFIG}
    return plan_pairs([tmp_path / "1.jsonl", tmp_path / "2.jsonl"], tmp_path / "out.jsonl", **(given | how))


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(folder: Path, find: str, how: dict[str, Any]) -> tuple[list[Any], Any]:
    """What one index of the same rows finds, as lines, and what it bounds."""
    with simindex.open(folder / "one", config=CONFIG) as one:
        one.insert_many((row["id"], row["text"]) for row in rows())
        if find == "pairs":
            pairs = one.pairs(**how)
            return [pair.to_dict() for pair in pairs], pairs.bounded
        found = one.clusters(linkage=find, **how)  # type: ignore[arg-type]
        return [{"documents": len(keys), "keys": keys} for keys in found], found.bounded


@pytest.mark.parametrize("find", ["pairs", "components", "star"])
@pytest.mark.parametrize(
    "how", [{"threshold": 0.6}, {"threshold": 0.5, "max_run": 16}, {"by": "simhash"}], ids=repr
)
def test_stages_find_what_one_index_finds_however_they_are_shared(
    find: Any, how: dict[str, Any], tmp_path: Path
) -> None:
    random, job = Random(find + repr(how)), planned(tmp_path, find=find, **how)
    for stage in (job.sketch, job.compare):
        of = random.randint(1, 5)
        shares = [*range(1, of + 1), *random.choices(range(1, of + 1), k=2)]  # some run twice
        random.shuffle(shares)
        assert sum(stage(share, of) for share in shares) > 2
    assert (job.decide(), job.write()) == (0, 0)
    (wanted, bounded), count = expected(tmp_path, find, how), job.finish()
    found = lines_of(tmp_path / "out.jsonl")
    assert count == len(found) == len(wanted) > 5
    assert job.bounded == bounded
    assert bounded.runs or "max_run" not in how
    if find == "star":
        assert found == wanted
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert sorted(os.listdir(tmp_path / "work")) == ["done", "plan"]
    assert (job.sketch(), job.compare(), job.finish()) == (0, 0, count)


def cut_into_indexes(folder: Path) -> list[Path]:
    """Indexes of the same rows: several, one of them empty."""
    some, paths = rows(), [folder / "parts" / name for name in "abcd"]
    for path, (first, end) in zip(paths, ((0, 70), (70, 71), (71, 71), (71, None)), strict=True):
        with simindex.open(path, config=CONFIG) as index:
            index.insert_many((row["id"], row["text"]) for row in some[first:end])
    return paths


@pytest.mark.parametrize("find", ["pairs", "components", "star"])
def test_stages_over_folders_of_indexes_find_what_one_index_finds(
    find: Any, tmp_path: Path, run: Run
) -> None:
    paths = cut_into_indexes(tmp_path)
    given = *(path.relative_to(tmp_path) for path in paths), "-o", "out.jsonl", "--work", "work"
    planned = run("scaleout", "plan", *given, "--find", find, "--threshold", 0.5, "--parallel", 2)
    assert planned.code == 0, planned.err
    for stage in ("sketch", "compare", "decide", "write"):  # those of the Makefile
        for share in ("2/3", "1/3", "3/3", "1/3"):
            arguments = () if stage == "decide" else (share,)
            assert run("scaleout", "stage", stage, "work", *arguments).code == 0
    wanted, _ = expected(tmp_path, find, {"threshold": 0.5})
    done = run("scaleout", "stage", "finish", "work", "--json")
    assert json.loads(done.out) == {"lines": len(wanted)}
    found = lines_of(tmp_path / "out.jsonl")
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert found == wanted or find != "star"


def test_indexes_that_change_under_a_plan_are_named(tmp_path: Path) -> None:
    paths = cut_into_indexes(tmp_path)
    given: dict[str, Any] = {"work": tmp_path / "work"}
    job = plan_pairs(paths, tmp_path / "out.jsonl", **given)
    job.compare()
    with simindex.open(paths[1]) as index:
        index.insert("late", "a document that came meanwhile")
    with pytest.raises(SimIndexError, match=r"b: expected commit \d+, as when the job began, found"):
        job.finish()
    with pytest.raises(JobError, match="the plan of another job"):
        plan_pairs(paths, tmp_path / "out.jsonl", **given)
    again = plan_pairs(paths, tmp_path / "out.jsonl", **given, force=True)
    assert again.compare() > 0
    assert again.finish() > 0


def test_indexes_keep_their_configuration(tmp_path: Path) -> None:
    paths = cut_into_indexes(tmp_path)
    given: dict[str, Any] = {"work": tmp_path / "work"}
    with pytest.raises(ConfigMismatchError, match="num_perm"):
        plan_pairs(paths, tmp_path / "out.jsonl", config=Config(), **given)
    with simindex.open(tmp_path / "other", config=Config(num_perm=8)):
        pass
    with pytest.raises(ConfigMismatchError, match=r"/other: .*num_perm: stored 8, asked for 64"):
        plan_pairs([*paths, tmp_path / "other"], tmp_path / "out.jsonl", **given)
    with pytest.raises(UnsupportedError, match="expected files, or indexes alone, found both"):
        plan_pairs([*paths, written(tmp_path / "1.jsonl", rows())], tmp_path / "out.jsonl", **given)


def test_of_equal_rows_the_first_alone_is_in_other_pairs_where_that_is_asked_for(tmp_path: Path) -> None:
    job = planned(tmp_path, copies="first", threshold=0.6)
    job.sketch()
    job.compare()
    job.finish()
    wanted, _ = expected(tmp_path, "pairs", {"threshold": 0.6, "copies": "first"})
    assert sorted(map(repr, lines_of(tmp_path / "out.jsonl"))) == sorted(map(repr, wanted))


def test_a_search_that_dies_anywhere_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, calls = planned(tmp_path, find="components"), list[int]()
    home = next((tmp_path / "work").glob("simindex-stages-*"))
    (home / "sketches" / "part-000000.abc.partial").mkdir()  # what a killed process leaves
    job.sketch(2, 2)
    with pytest.raises(SimIndexError, match=r"sketches of part 1 of \d+, found none; run the stage sketch"):
        job.compare()
    job.sketch()
    job.compare(1, 2)
    with pytest.raises(SimIndexError, match=r"what range \d+ of \d+ has, found none; run the stage compare"):
        job.finish()
    assert not (tmp_path / "out.jsonl").exists()
    job.compare()

    def stop(count: int) -> None:
        calls.append(count)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pair_job, "_AT_ONCE", 2)
        with pytest.raises(KeyboardInterrupt):
            job.finish(stop)
    assert calls == [2]
    assert not (tmp_path / "out.jsonl").exists()
    assert planned(tmp_path, find="components").finish() == len(
        expected(tmp_path, "components", {"threshold": 0.8})[0]
    )


def test_a_folder_is_of_one_search_and_an_input_that_changes_is_named(tmp_path: Path) -> None:
    job = planned(tmp_path)
    with pytest.raises(SimIndexError, match="found the plan of another job; force=True"):
        planned(tmp_path, find="star")
    with pytest.raises(SimIndexError, match="expected a plan of a deduplication, found one of pairs"):
        StagedDedup(tmp_path / "work")
    with (tmp_path / "2.jsonl").open("a") as file:
        file.write('{"id": "more", "text": "some more words"}\n')
    with pytest.raises(SimIndexError, match="the inputs have changed since they were planned"):
        job.sketch()
    (tmp_path / "out.jsonl").touch()
    with pytest.raises(SimIndexError, match="expected no file there, found one; force=True replaces it"):
        planned(tmp_path, work=tmp_path / "other")
    again = planned(tmp_path, force=True)
    assert again.sketch() > 2
    with pytest.raises(UnsupportedError, match="plan_pairs: expected files"):
        plan_pairs(rows(), tmp_path / "o", work=tmp_path / "third")
    with pytest.raises(ValueError, match='find: expected "pairs", "components" or "star"'):
        planned(tmp_path, find="stars")


@pytest.mark.parametrize(("find", "what"), [("pairs", "pairs"), ("star", "documents")])
def test_what_was_bounded_is_said_with_the_argument_that_sets_the_limit(
    find: str, what: str, run: Run, tmp_path: Path
) -> None:
    job = planned(tmp_path, find=find, threshold=0.5, max_run=16)
    for stage in ("sketch", "compare", "finish"):
        done = run("scaleout", "stage", stage, tmp_path / "work")
    assert f"simindex: {what} may be missing: {job.bounded.runs} groups of documents" in done.err
    assert done.err.splitlines()[-2].endswith("; max_run of plan_pairs sets the limit")


def test_commands_plan_and_run_a_search(run: Run, tmp_path: Path) -> None:
    written(tmp_path / "in.jsonl", rows())
    work, output = tmp_path / "work", tmp_path / "pairs.jsonl"
    given = (tmp_path / "in.jsonl", "-o", output, "--work", work, "--threshold", 0.6, "--find", "pairs")
    refused = run("scaleout", "plan", *given, "--keep", "longest")
    assert (refused.code, "--keep goes with --find duplicates" in refused.err) == (2, True)
    assert run("scaleout", "plan", *given).err.endswith(
        "planned; run the stages sketch, compare, decide, write, finish\n"
    )
    for stage in (
        ("sketch", work, "1/2"),
        ("sketch", work, "2/2"),
        ("compare", work),
        ("decide", work),
        ("write", work),
    ):
        assert run("scaleout", "stage", *stage).code == 0
    done = run("scaleout", "stage", "finish", work, "--json")
    assert json.loads(done.out) == {"lines": len(lines_of(output))}
    assert len(lines_of(output)) > 5
