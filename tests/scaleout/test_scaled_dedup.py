"""Deduplication by ranges against that of one machine, byte for byte, without Ray."""

import json
import os
import shutil
from codecs import BOM_UTF8
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from support.dedup_settings import dedup_arguments
from support.faults import set_bound, small_frames
from support.stages import LocalTasks, rows_of, written

from simindex import Config, scaleout
from simindex.corpus import DedupReport, deduplicate
from simindex.inputs import InputError
from simindex.scaleout import ScaleOutError, dedup, stages


def both(
    tmp_path: Path,
    sources: list[str],
    suffix: str = ".jsonl",
    *,
    max_run: int = 1_000,
    stops: int = 0,
    **named: Any,
) -> LocalTasks:
    """Run the job on one machine and by ranges; all files that are left must be the same.

    Args:
        stops: times that it is broken off while it writes, and gone on with.
    """
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    tasks = LocalTasks()
    expected = deduplicate(sources, one / f"out{suffix}", **dedup_arguments(**named))

    def stop(read: int) -> None:
        raise KeyboardInterrupt(read)

    def run(**more: Any) -> DedupReport:
        more |= {"max_run": max_run, "part_bytes": 8_000, "memory_bytes": 1 << 20, "batch_size": 100}
        with mock.patch.object(dedup, "tasks_on", return_value=nullcontext(tasks)):
            return scaleout.deduplicate(sources, many / f"out{suffix}", **(named | more))

    for _ in range(stops):
        with pytest.raises(KeyboardInterrupt):
            run(progress=stop)
    found = run()
    assert (found[:4], found.emptied) == (expected[:4], expected.emptied)
    for name in [f"out{suffix}", f"out{suffix}.dedup/removed.jsonl"]:
        assert (many / name).read_bytes() == (one / name).read_bytes()
    assert sorted(os.listdir(many)) == sorted(os.listdir(one))
    assert not list(many.glob("*/simindex-dedup-*"))
    assert expected.removed > 20
    return tasks


@pytest.mark.parametrize(("keep", "threshold"), [("first", 0.4), ("first", 0.7), ("longest", 0.4)])
def test_long_runs_end_as_on_one_machine(keep: str, threshold: float, tmp_path: Path) -> None:
    sources = [written(tmp_path / "a.jsonl", rows_of(3, 300, newest=0))]
    tasks = both(tmp_path, sources, keep=keep, mode="annotate", threshold=threshold, max_run=16)
    assert tasks.waiting > 100


@pytest.mark.parametrize("config", [Config(), None])
def test_fingerprints_decide_as_on_one_machine(config: Config | None, tmp_path: Path) -> None:
    sources = [written(tmp_path / "a.jsonl", rows_of(4, 300))]
    both(tmp_path, sources, by="simhash", mode="annotate", config=config)


def test_many_unlike_fingerprints_that_share_a_prefix_decide_as_on_one_machine(tmp_path: Path) -> None:
    random = Random(7)
    shared = [f"s{random.randrange(9_000)}" for _ in range(120)]
    texts = [" ".join([*shared, *(f"w{random.randrange(9_000)}" for _ in range(30))]) for _ in range(1_000)]
    texts += [f"{text} once" for text in texts[500:]]
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
    tasks = both(tmp_path, [written(tmp_path / "a.jsonl", rows)], by="simhash", max_run=16)
    assert tasks.waiting > 500


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
def test_lines_with_marks_and_ends_of_files_are_written_as_they_stand(suffix: str, tmp_path: Path) -> None:
    more = [*rows_of(2, 150), rows_of(1, 150)[7]]
    sources = [
        written(tmp_path / f"{name}.jsonl", some) for name, some in (("a", rows_of(1, 150)), ("b", more))
    ]
    with open(sources[0], "rb+") as file:
        lines = file.read()
        file.seek(0)
        file.write(BOM_UTF8 + lines)
        file.truncate(file.tell() - 1)  # the last line has no end
    tasks = both(tmp_path, sources, suffix)
    written_by_parts = tasks.num_jobs["sketch_part"] if suffix == ".jsonl" else 0
    assert tasks.num_jobs["write_part"] == written_by_parts
    assert tasks.num_jobs["sketch_part"] > 5


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
@pytest.mark.parametrize(("num_bytes", "rows"), [(2_000, 65_536), (1 << 20, 7)])
def test_an_output_that_was_broken_off_is_gone_on_with(
    num_bytes: int, rows: int, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_frames(monkeypatch, num_bytes)
    set_bound(monkeypatch, "rows of a frame", rows)
    tasks = both(tmp_path, [written(tmp_path / "a.jsonl", rows_of(1, 300))], suffix, stops=3)
    # Parts that are written are passed over when they are asked for once more.
    assert (tasks.num_jobs["write_part"] > tasks.num_jobs["sketch_part"]) == (suffix == ".jsonl")


def test_an_input_that_changes_between_two_readings_is_named(tmp_path: Path) -> None:
    source = Path(written(tmp_path / "a.jsonl", rows_of(1, 150)))

    def change(stage: str, common: Any) -> Any:
        if stage == "write_part":
            source.write_bytes(source.read_bytes().replace(b"}\n", b"}", 1) + b"\n")
        return common

    with (
        mock.patch.object(dedup, "tasks_on", return_value=nullcontext(LocalTasks(change))),
        pytest.raises(InputError, match=r"a\.jsonl: expected the \d+ rows .* found the input changed"),
    ):
        scaleout.deduplicate([source], tmp_path / "out.jsonl", part_bytes=5_000)


@pytest.mark.parametrize("mark", [b"", BOM_UTF8])
def test_removed_rows_have_keys_of_any_kind(mark: bytes, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{}, {"text": "no key"}, {"id": 7}, {"id": {"bytes": "YQ=="}}]
    rows += [{"id": 2**60, "text": "another"}] * 25
    lines = [json.dumps({"text": "a text"} | row).encode() for row in rows]
    source = tmp_path / "a.jsonl"
    source.write_bytes(mark + b"\n".join(lines))  # the last line has no end
    both(tmp_path, [str(source)])


def test_tables_of_several_runs_and_equal_rows_end_as_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "_RUN", 5)
    rows = rows_of(6, 150) + rows_of(6, 150)
    tasks = both(tmp_path, [written(tmp_path / "a.jsonl", rows)], mode="annotate", threshold=0.7)
    assert tasks.num_copies > 10


def test_parts_that_are_sketched_are_not_sketched_again(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", rows_of(1, 90))

    def stop(stage: str, common: Any) -> Any:
        if stage == "compare_range":
            raise KeyboardInterrupt
        return common

    def made() -> list[int]:
        with (
            mock.patch.object(dedup, "tasks_on", return_value=nullcontext(LocalTasks(stop))),
            pytest.raises(KeyboardInterrupt),
        ):
            scaleout.deduplicate([source], tmp_path / "o.jsonl", work=tmp_path / "work", part_bytes=5_000)
        return sorted(path.stat().st_ino for path in (tmp_path / "work").glob("*/sketches/part-*"))

    first = made()
    assert len(first) > 2
    assert made() == first


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("gone", ["decided/removed-*", "sketches", "decided"])
def test_a_job_that_dies_while_its_folder_is_removed_has_lost_nothing(
    gone: str, force: bool, tmp_path: Path
) -> None:
    source, work, remove = written(tmp_path / "in.jsonl", rows_of(1, 300)), tmp_path / "work", shutil.rmtree
    expected = deduplicate([source], tmp_path / "one.jsonl")

    def die(path: Any, **how: Any) -> None:
        if os.path.dirname(path) != str(work):
            return remove(path, **how)
        left = max(Path(path).glob(gone))
        remove(left) if left.is_dir() else left.unlink()
        raise KeyboardInterrupt

    def run(**how: Any) -> DedupReport:
        with mock.patch.object(dedup, "tasks_on", return_value=nullcontext(LocalTasks())):
            return scaleout.deduplicate([source], tmp_path / "many.jsonl", work=work, part_bytes=8_000, **how)

    with mock.patch.object(shutil, "rmtree", die), pytest.raises(KeyboardInterrupt):
        run()
    assert run(force=force)[:4] == expected[:4]
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert not list(work.iterdir())


def test_a_part_that_is_written_late_does_not_take_the_place_of_the_output(tmp_path: Path) -> None:
    """Ray may run a task twice, and the second may still run when the job has moved the output."""
    source, work, move = written(tmp_path / "in.jsonl", rows_of(1, 300)), tmp_path / "work", shutil.move
    deduplicate([source], tmp_path / "one.jsonl")
    tasks, given = LocalTasks(), list[tuple[Any, ...]]()

    def run() -> DedupReport:
        with mock.patch.object(dedup, "tasks_on", return_value=nullcontext(tasks)):
            return scaleout.deduplicate([source], tmp_path / "many.jsonl", work=work, part_bytes=8_000)

    def note(task: Any, stages: Any, numbers: Any) -> Any:
        given.append((task, stages, *numbers))
        return LocalTasks.run(tasks, task, stages, numbers)

    def late(*paths: Any) -> None:
        move(*paths)
        task, stages, *_, last = given[-1]
        (report,) = Path(stages.decided).glob(f"removed-*{last}")
        content = report.read_bytes()
        report.unlink()  # as it was when the second task began
        with suppress(FileNotFoundError):
            task(stages, last)
        report.write_bytes(content)
        raise KeyboardInterrupt

    with (
        mock.patch.object(tasks, "run", note),
        mock.patch.object(shutil, "move", late),
        pytest.raises(KeyboardInterrupt),
    ):
        run()
    run()
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


def test_a_node_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    def elsewhere(stage: str, common: Any) -> Any:
        return common._replace(folder="/nowhere/at/all") if stage == "sketch_part" else common

    source = written(tmp_path / "in.jsonl", rows_of(1, 30))
    with (
        mock.patch.object(dedup, "tasks_on", return_value=nullcontext(LocalTasks(elsewhere))),
        pytest.raises(ScaleOutError, match=r"node .*: expected the folder .*nowhere/.*, .* give work="),
    ):
        scaleout.deduplicate([source], tmp_path / "out.jsonl")
