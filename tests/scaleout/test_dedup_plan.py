"""A deduplication by stages that processes run over a folder, against that of one machine, byte for byte."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.stages import rows_of, written

from simindex import SimIndexError
from simindex.corpus import DedupSettings, deduplicate
from simindex.scaleout import StagedDedup, UnsupportedError, plan_dedup

MODES: list[tuple[str, dict[str, Any]]] = [
    ("out.jsonl", {}),
    ("out.jsonl.gz", {"keep": "longest", "threshold": 0.5}),
    ("out.parquet", {"keep": "newest", "recall": 0.9}),
    ("out.csv", {"keep": "field:rank", "mode": "annotate"}),
    ("out.jsonl", {"mode": "report-only"}),
    ("out.jsonl", {"by": "simhash", "max_distance": 2}),
    ("out.jsonl", {"threshold": 0.5, "max_distance": 6}),
    ("out.jsonl", {"threshold": 0.5, "keep_per": "rank"}),
    ("out.jsonl", {"threshold": 0.5, "keep_per": "rank", "mode": "annotate", "keep": "newest"}),
]


def planned(
    tmp_path: Path, seed: int = 1, name: str = "out.jsonl", *, has_bad_row: bool = False, **how: Any
) -> StagedDedup:
    """A job over two files, planned."""
    sources = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    if not sources[0].exists() or seed > 1:
        for each, path in enumerate(sources, seed):
            written(path, rows_of(each, 60))
        if has_bad_row:
            sources[0].write_bytes(sources[0].read_bytes() + b"no row\n")
    given: dict[str, Any] = {
        "work": tmp_path / "work",
        "parallel": 2,
        "part_bytes": 6_000,
        "skip_bad_rows": True,
    }
    return plan_dedup(sources, str(tmp_path / name), **(given | how))


@pytest.mark.parametrize(("name", "how"), MODES)
def test_stages_write_what_one_machine_writes_however_they_are_shared(
    name: str, how: dict[str, Any], tmp_path: Path
) -> None:
    random, (one, many) = Random(name + repr(how)), (tmp_path / "one", tmp_path / "many")
    one.mkdir()
    many.mkdir()
    job = planned(tmp_path, name=f"many/{name}", has_bad_row=name == "out.csv", **how)
    sources, bad = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"], list[Any]()
    expected = deduplicate(sources, one / name, **dedup_arguments(on_bad_row=bad.append, **how))
    for stage in (job.sketch, job.compare, job.write):
        of = random.randint(1, 5)
        shares = [*range(1, of + 1), *random.choices(range(1, of + 1), k=2)]  # some run twice
        random.shuffle(shares)
        if stage == job.write:
            assert job.decide() == 1
        assert sum(stage(share, of) for share in shares) >= (how.get("mode") is None and stage != job.write)
    again = list[Any]()
    assert job.finish(on_bad_row=again.append)[:4] == expected[:4]
    assert len(again) == len(bad) == (name == "out.csv")
    files = {path.relative_to(one) for path in one.rglob("*") if path.is_file() and path.suffix != ".json"}
    assert files == {
        path.relative_to(many) for path in many.rglob("*") if path.suffix not in (".json", ".dedup")
    }
    for file in files:
        assert (many / file).read_bytes() == (one / file).read_bytes()
    assert sorted(os.listdir(tmp_path / "work")) == ["done", "plan"]
    assert (job.sketch(), job.compare(), job.decide(), job.write()) == (0, 0, 0, 0)
    assert job.finish()[:4] == expected[:4]


@pytest.mark.parametrize(
    ("counts", "num_written"),
    [({"a.jsonl": 9, "b.jsonl": 0, "d.jsonl": 5}, 2), ({"a.csv": 0, "b.jsonl": 9}, 0), ({"a.jsonl": 0}, 0)],
)
def test_files_without_rows_are_inputs_like_others(
    tmp_path: Path, counts: dict[str, int], num_written: int
) -> None:
    for name, count in counts.items():
        written(tmp_path / name, rows_of(1, count))
    sources = [tmp_path / name for name in counts]
    job = plan_dedup(sources, str(tmp_path / "many.jsonl"), work=tmp_path / "work")
    job.sketch()
    job.compare()
    assert (job.decide(), job.write()) == (1, num_written)
    expected = deduplicate(sources, tmp_path / "one.jsonl")
    assert job.finish()[:4] == expected[:4]
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_a_stage_that_comes_too_early_names_the_one_that_is_missing(tmp_path: Path) -> None:
    job = planned(tmp_path)
    job.sketch(1, 2)
    for stage, expected in (
        (job.compare, r"sketches of part 2 of \d+, found none; run the stage sketch"),
        (job.write, "what was decided, found none; run the stage decide"),
        (job.finish, "what was decided, found none; run the stage decide"),
    ):
        with pytest.raises(SimIndexError, match=expected):
            stage()
    job.sketch(2, 2)
    job.compare(2, 2)
    with pytest.raises(SimIndexError, match=r"what range 1 of \d+ has, found none; run the stage compare"):
        job.decide()
    with pytest.raises(SimIndexError, match="expected a plan, found none; run the stage plan"):
        StagedDedup(tmp_path)


def test_a_job_that_dies_anywhere_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = planned(tmp_path)
    for name in ("part-000000", "part-000001"):  # what a killed process leaves
        for home in (tmp_path / "work").glob("simindex-stages-*"):
            (home / "sketches" / f"{name}.abc.partial").mkdir()
    for stage in (job.sketch, job.compare, job.decide):
        stage()
    deduplicate(
        [tmp_path / "1.jsonl", tmp_path / "2.jsonl"],
        tmp_path / "one.jsonl",
        settings=DedupSettings(on_bad_row=lambda _: None),
    )

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            job.finish(stop)
    assert planned(tmp_path).write() > 2  # the plan is the same once more
    with monkeypatch.context() as patch:  # killed before the job is marked as done
        patch.setattr(StagedDedup, "_done", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            job.finish()
    assert job.sketch() == 0
    job.finish()
    assert sorted(os.listdir(tmp_path / "work")) == ["done", "plan"]
    planned(tmp_path)
    assert sorted(os.listdir(tmp_path / "work")) == ["done", "plan"]
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_the_output_lies_where_it_was_planned_whoever_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    job = plan_dedup(
        written(tmp_path / "a.jsonl", rows_of(1, 60)),
        "out.jsonl",
        work=tmp_path / "work",
        removed="gone.jsonl",
    )
    job.sketch()
    job.compare()
    job.decide()
    job.write()
    monkeypatch.chdir("other")
    with mock.patch("simindex.scaleout.dedup.sketch_part", side_effect=AssertionError):
        report = StagedDedup(tmp_path / "work").finish()
    assert list((tmp_path / "other").iterdir()) == []
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == report.kept < 60
    assert len((tmp_path / "gone.jsonl").read_bytes().splitlines()) == report.removed


def test_a_plan_that_dies_while_it_is_given_up_takes_nothing_from_the_next_output(tmp_path: Path) -> None:
    source, remove = written(tmp_path / "in.jsonl", rows_of(1, 300)), shutil.rmtree
    deduplicate([source], tmp_path / "one.jsonl")

    def plan(**how: Any) -> StagedDedup:
        out, work = tmp_path / "many.jsonl", tmp_path / "work"
        return plan_dedup([source], out, work=work, parallel=2, part_bytes=8_000, **how)

    def run(job: StagedDedup) -> None:
        job.sketch()
        job.compare()
        job.decide()
        job.write(1, 2)

    def die(path: Any, **_: Any) -> None:
        remove(Path(path) / "decided")
        raise KeyboardInterrupt

    run(plan())
    with mock.patch.object(shutil, "rmtree", die), pytest.raises(KeyboardInterrupt):
        plan(force=True)
    job = plan()
    run(job)
    job.write(2, 2)
    job.finish()
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_many_parts_need_no_more_files_than_a_system_allows_at_first(tmp_path: Path) -> None:
    job = planned(tmp_path, part_bytes=400)
    job.sketch()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = f"""if True:
        import resource
        from simindex.scaleout import StagedDedup
        resource.setrlimit(resource.RLIMIT_NOFILE, (150, {limits[1]}))
        job = StagedDedup({str(tmp_path / "work")!r})
        print(job.compare() > 0, job.decide())"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True 1\n"


def test_a_folder_is_of_one_job_and_an_input_that_changes_is_named(tmp_path: Path) -> None:
    job = planned(tmp_path)
    with pytest.raises(SimIndexError, match="found the plan of another job; force=True"):
        planned(tmp_path, threshold=0.5)
    (tmp_path / "2.jsonl").write_bytes(b"")
    with pytest.raises(SimIndexError, match="the inputs have changed since they were planned; plan them"):
        job.sketch()
    job = planned(tmp_path, seed=5, force=True)
    for stage in (job.sketch, job.compare, job.decide):
        stage()
    assert job.finish().read == 120
    with pytest.raises(UnsupportedError, match="the path of an output"):
        plan_dedup([tmp_path / "1.jsonl"], print, work=tmp_path / "other")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="found an iterable or standard input"):
        plan_dedup(iter([("a", "a text")]), str(tmp_path / "out.jsonl"), work=tmp_path / "other")


def test_the_command_says_what_is_wrong_with_a_share(run: Run) -> None:
    for arguments, expected in (
        (("sketch", "work", "4/3"), "expected one like 3/64, found '4/3'"),
        (("mend", "work"), "expected one of sketch, compare, decide, write, finish; found 'mend'"),
    ):
        found = run("scaleout", "stage", *arguments)
        assert (found.code, expected in found.err) == (2, True)
    assert run("scaleout", "stage", "sketch", "work").err == (
        "simindex: work: expected a plan, found none; run the stage plan first, or once more\n"
    )
