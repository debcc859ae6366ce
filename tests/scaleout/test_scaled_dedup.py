"""Deduplication by ranges against that of one machine, byte for byte, without Ray."""

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.hosts import LocalTasks, rows_of, written

from simindex import Config, scaleout
from simindex.corpus import DedupReport, deduplicate
from simindex.corpus.dedup import writer_loop
from simindex.corpus.dedup.second_pass import InputPart, PartRead
from simindex.corpus.dedup.verdict_file import RowDecisions
from simindex.inputs import Fields, InputError, Inputs
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.pairs.plan import plan_pairs
from simindex.pairs.walk_plan import scheme_of_config
from simindex.scaleout import ScaleOutError, UnsupportedError, dedup_parts, dedup_stages
from simindex.scaleout.dedup import ScaledJob
from simindex.scaleout.dedup_parts import Making, Wanted, Writing, lines_of
from simindex.scaleout.dedup_stages import Stages, no_step
from simindex.sketching.sketch import HAS_SIGNATURE


def both(
    tmp_path: Path,
    sources: list[str],
    suffix: str = ".jsonl",
    *,
    max_run: int = 1_000,
    sees: bool = True,
    stops: int = 0,
    **named: Any,
) -> LocalTasks:
    """Run the job on one machine and by ranges; all files that are left must be the same.

    Args:
        sees: whether nodes see the output.
        stops: times that it is broken off while it writes, and gone on with.
    """
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    tasks = LocalTasks()
    tasks.sees = sees
    expected = deduplicate(sources, one / f"out{suffix}", **named)
    usual: dict[str, Any] = {
        "threshold": 0.8,
        "keep": "first",
        "mode": "remove",
        "recall": None,
        "by": None,
        "max_distance": None,
        "config": None,
        "removed": None,
        "batch_size": 100,
        "progress": None,
        "on_removed": None,
        "on_bad_row": None,
        "journal": None,
        "force": False,
    }

    def stop(read: int) -> None:
        raise KeyboardInterrupt(read)

    def run(**more: Any) -> DedupReport:
        return ScaledJob(
            sources,
            many / f"out{suffix}",
            tasks=lambda: tasks,
            work=None,
            memory_bytes=1 << 20,
            max_run=max_run,
            part_bytes=8_000,
            step=no_step,
            **(usual | named | more),
        ).run()

    for _ in range(stops):
        with pytest.raises(KeyboardInterrupt):
            run(progress=stop)
    found = run()
    assert found[:4] == expected[:4]
    for name in [f"out{suffix}", f"out{suffix}.dedup/removed.jsonl"]:
        assert (many / name).read_bytes() == (one / name).read_bytes()
    assert sorted(os.listdir(many)) == sorted(os.listdir(one))
    assert not list(many.glob("*/simindex-dedup-*"))
    assert expected.removed > 20
    return tasks


@pytest.mark.parametrize(
    ("keep", "mode"),
    [("first", "remove"), ("newest", "annotate"), ("longest", "annotate"), ("field:rank", "remove")],
)
def test_the_bytes_are_those_of_one_machine(keep: str, mode: Any, tmp_path: Path) -> None:
    sources = [written(tmp_path / f"{seed}.jsonl", rows_of(seed, 150)) for seed in (1, 2)]
    tasks = both(tmp_path, sources, keep=keep, mode=mode, threshold=0.7)
    assert tasks.num_jobs["sketch_part"] > 5


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
    texts = [" ".join([*shared, *(f"w{random.randrange(9_000)}" for _ in range(30))]) for _ in range(2_000)]
    texts += [f"{text} once" for text in texts[1_000:]]
    rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
    tasks = both(tmp_path, [written(tmp_path / "a.jsonl", rows)], by="simhash", max_run=16)
    assert tasks.waiting > 1_000


def test_both_halves_are_told_of(tmp_path: Path) -> None:
    sources = [written(tmp_path / "a.jsonl", rows_of(5, 300))]
    both(tmp_path, sources, threshold=0.6, config=Config(), mode="annotate")


def test_those_who_see_the_output_write_it(tmp_path: Path) -> None:
    rows = rows_of(1, 150)
    more = [*rows_of(2, 150), rows[7]]
    sources = [written(tmp_path / f"{name}.jsonl", some) for name, some in (("a", rows), ("b", more))]
    with open(sources[0], "rb+") as file:
        lines = file.read()
        file.seek(0)
        file.write(BYTE_ORDER_MARK + lines)
    tasks = both(tmp_path, sources)
    assert tasks.num_jobs["write_part"] == tasks.num_jobs["sketch_part"] > 5


def test_a_node_that_does_not_see_the_output_leaves_it_to_the_caller(tmp_path: Path) -> None:
    both(tmp_path, [written(tmp_path / "a.jsonl", rows_of(1, 150))], sees=False)


def test_a_packed_output_is_written_by_the_caller(tmp_path: Path) -> None:
    tasks = both(tmp_path, [written(tmp_path / "a.jsonl", rows_of(1, 150))], ".jsonl.zst")
    assert not tasks.num_jobs["write_part"]


@pytest.mark.parametrize(("num_bytes", "rows"), [(2_000, 65_536), (1 << 20, 7)])
def test_an_output_that_workers_write_is_gone_on_with(
    num_bytes: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_loop, "FRAME_BYTES", num_bytes)
    monkeypatch.setattr(writer_loop, "FRAME_ROWS", rows)
    monkeypatch.setattr(writer_loop, "_SECONDS_A_MARK", 0)
    source = written(tmp_path / "a.jsonl", rows_of(1, 300))
    with open(source, "rb+") as file:  # the last line has no end
        file.truncate(os.path.getsize(source) - 1)
    tasks = both(tmp_path, [source], stops=3)
    assert (
        tasks.num_jobs["write_part"] > tasks.num_jobs["sketch_part"]
    )  # those are written again that were broken off


def test_a_part_that_has_changed_is_told(tmp_path: Path) -> None:
    source = written(tmp_path / "a.jsonl", rows_of(1, 20))
    inputs, config = Inputs([source]), Config(num_perm=32)
    how = "minhash", None, None, False, False, "all", 1_000, 1 << 20
    plan = plan_pairs(scheme_of_config(config), 0.8, *how)  # type: ignore[arg-type]
    writing = Writing(inputs, [source], 32, plan, "", ("", ""))
    part = InputPart(0, Extent(0, os.path.getsize(source), 0))
    wanted = Wanted(PartRead(part, 20, 20), 0, 0, RowDecisions([], []))
    assert len(lines_of(writing, wanted).lines.sizes) == 20
    with pytest.raises(InputError, match=r"a\.jsonl: expected the 21 rows .* found 20: the input changed"):
        lines_of(writing, Wanted(PartRead(part, 21, 21), 0, 0, RowDecisions([], [])))


@pytest.mark.parametrize("mark", [b"", BYTE_ORDER_MARK])
def test_lines_of_parts_have_keys_of_any_kind(mark: bytes, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "no key"}, {"id": 7, "text": ["a", "list"]}, {"id": 2**70}]
    lines = [json.dumps({"text": "a"} | row).encode() for row in rows]
    lines[2] = json.dumps({"id": {"bytes": "YQ=="}, "text": "a"}).encode()
    source = tmp_path / "a.jsonl"
    source.write_bytes(mark + b"\n".join(lines))  # the last line has no end
    inputs = Inputs([str(source)], Fields(key_from="line"))
    how = "minhash", None, None, False, False, "all", 1_000, 1 << 20
    plan = plan_pairs(scheme_of_config(Config(num_perm=32)), 0.8, *how)  # type: ignore[arg-type]
    writing = Writing(inputs, [str(source)], 32, plan, "", ("", ""))
    part = PartRead(InputPart(0, Extent(0, source.stat().st_size, 0)), 3, 3)
    for gone in ([0, 1, 2], [1], []):
        told = RowDecisions([(place, (9, 0xFFFF - 30 << 16, "0 10 i9", False)) for place in gone], [])
        made = lines_of(writing, Wanted(part, 0, 0, told))
        assert b"".join(made.kept) == b"".join(lines[at] + b"\n" for at in range(3) if at not in gone)
        report = [json.loads(line) for line in bytes(made.lines.reported).splitlines()]
        keys = f"{source}:1", 7, {"bytes": "YQ=="}
        assert [row["id"] for row in report] == [keys[at] for at in gone]
        assert made.lines.stays.tolist() == [at not in gone for at in range(3)]


def test_tables_of_several_runs_and_equal_rows_end_as_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dedup_parts, "_RUN", 5)
    rows = rows_of(6, 150) + rows_of(6, 150)
    tasks = both(tmp_path, [written(tmp_path / "a.jsonl", rows)], mode="annotate", threshold=0.7)
    assert tasks.num_copies > 10


def test_partitions_of_another_run_of_the_system_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path / "in.jsonl", rows_of(1, 30))
    making = Making(Inputs([source]), Config(num_perm=32), HAS_SIGNATURE, "first", False)
    tasks, made = LocalTasks(), set[Path]()
    for boot in ("a", "b"):  # what was not synced may be gone after the first
        (tmp_path / "boot").write_text(boot)
        monkeypatch.setattr(dedup_stages, "_BOOT_FILE", str(tmp_path / "boot"))
        stages = Stages(str(tmp_path / "job"), tasks)
        stages.make(making, [InputPart(0, None)], no_step)
        before = len(made)
        made |= set((tmp_path / "job").glob("*/000000"))
        assert len(made) == before + 1
    stages.drop()
    assert not (tmp_path / "job").exists()


def test_a_node_that_does_not_see_the_folder_is_named(tmp_path: Path) -> None:
    source = written(tmp_path / "in.jsonl", rows_of(1, 30))
    making = Making(Inputs([source]), Config(num_perm=32), HAS_SIGNATURE, "first", False)
    with pytest.raises(ScaleOutError, match=r"node .*: expected the folder .*nowhere, .* give work="):
        dedup_stages.sketch_part((making, str(tmp_path / "nowhere")), (0, InputPart(0, None)))


def test_what_one_machine_alone_keeps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="without against="):
        scaleout.deduplicate([str(tmp_path / "a.jsonl")], None, against="other")
    with pytest.raises(TypeError, match="unexpected keyword argument 'treshold'"):
        scaleout.deduplicate([str(tmp_path / "a.jsonl")], None, treshold=0.5)
