"""A disk that is full in the second reading: the file is named, and the job goes on where it was."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands import process
from support.faults import around, set_bound, small_frames
from support.processes import on_small_disk
from support.truth import texts, write_lines

from simindex import IndexFullError
from simindex.corpus import DedupSettings, deduplicate

SMALL, LARGE = "2m", "16m"


def test_full_disk_of_the_output_is_named_and_the_job_goes_on(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    on_small_disk(tmp_path / "small", SMALL, __file__, tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_last_frame_that_cannot_be_written_fails_the_job(tmp_path: Path, workers: int) -> None:
    """The only frame, of half a megabyte: with two workers a thread writes it."""
    write_lines(tmp_path / "a.jsonl", [f"{text} {'more ' * 500}" for text in texts(200)])
    done = process(
        *("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "out.jsonl", "--workers", workers),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18)),
        text=True,
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_frames_before_one_that_a_thread_cannot_write_stay_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two more frames are cut before the failure of the fourth is met, and the journal is written then."""
    sizes: list[int] = []

    def failing(packer: Any, path: str) -> Any:
        pack = packer(path)

        def packed(content: bytes) -> bytes:
            if path.endswith("/out.jsonl"):
                if len(sizes) == 3:
                    raise OSError(errno.ENOSPC, "full")
                sizes.append(len(content))
            return bytes(pack(content))

        return packed

    around(monkeypatch, "choose a packer", failing)
    set_bound(monkeypatch, "bytes of a frame", 4_000)
    write_lines(tmp_path / "a.jsonl", texts(400))
    with pytest.raises(IndexFullError):
        deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", settings=DedupSettings(workers=2))
    state = json.loads((tmp_path / "out.jsonl.dedup/journal.json").read_bytes())["state"]
    assert state["output"][0] == sum(sizes)
    assert state["read"] > 0


def test_job_that_cannot_be_resumed_leaves_nothing_where_it_fails(tmp_path: Path) -> None:
    def stop(_: object) -> None:
        raise KeyError("stop")

    output, removed = tmp_path / "out.jsonl", tmp_path / "removed.jsonl"
    with pytest.raises(KeyError, match="stop"):
        deduplicate(
            iter(enumerate(texts(50) * 2)), output, settings=DedupSettings(removed=removed), on_removed=stop
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_and_report_are_durable_before_the_journal_speaks_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(file: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}")))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noting)
    write_lines(tmp_path / "a.jsonl", texts(100) * 2)
    removed = tmp_path / "removed.jsonl"
    deduplicate(
        tmp_path / "a.jsonl",
        tmp_path / "out.jsonl",
        settings=DedupSettings(removed=removed, workers=workers),
    )
    last = len(synced) - synced[::-1].index("journal.json.partial")
    assert {".out.jsonl.partial", ".removed.jsonl.partial"} <= set(synced[:last])


def fill_and_go_on(folder: Path) -> None:
    """What is done where `small` is a file system of its own."""
    small_frames(pytest.MonkeyPatch(), 32_000)
    output, journal = folder / "small/out.jsonl", folder / "small/out.jsonl.dedup"
    write_lines(folder / "a.jsonl", [f"{text} {'more ' * 400}" for text in texts(1_500)])
    done: list[int] = []
    for workers in (1, 2, 1):
        with pytest.raises(
            IndexFullError, match=r"small/.*(\.partial|/journal\.json): .*No space left.*free"
        ) as failure:
            deduplicate(
                folder / "a.jsonl",
                output,
                settings=DedupSettings(batch_size=100, workers=workers),
            )
        assert failure.value.errno == errno.ENOSPC
        assert str(failure.value.path).startswith(f"{folder}/small/")
        state = json.loads((journal / "journal.json").read_bytes())["state"]
        done.append(state["read"])
        assert not output.exists()
    assert 0 < done[0] <= done[1] <= done[2] < 1_500
    subprocess.run(["mount", "-o", f"remount,size={LARGE}", str(folder / "small")], check=True)
    report = deduplicate(folder / "a.jsonl", output, settings=DedupSettings(batch_size=70, workers=1))
    expected = deduplicate(folder / "a.jsonl", folder / "whole.jsonl", settings=DedupSettings(workers=1))
    assert report[:4] == expected[:4]
    assert output.read_bytes() == (folder / "whole.jsonl").read_bytes()


if __name__ == "__main__":
    fill_and_go_on(Path(sys.argv[1]))
