"""A full disk below the output alone: the file is named, what was done is kept, and the job goes on there."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.truth import texts, write_lines

from simindex.corpus import deduplicate
from simindex.corpus.dedup import writer_loop

SMALL, LARGE = "size=256k", "size=8m"


def test_full_disk_of_the_output_is_named_and_the_job_goes_on(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    mount = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {SMALL} none "$0" && exec "$@"']
    mount.append(str(tmp_path / "small"))
    try:
        subprocess.run([*mount, "true"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount a small file system in a private mount namespace")
    command = [*mount, sys.executable, "-W", "error", __file__, str(tmp_path)]
    # A safe path has no folder of the script in it, where the helpers of these tests lie.
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run(command, env=environment, check=True, timeout=120)


def fill_and_go_on(folder: Path) -> None:
    """What is done where `small` is a file system of its own."""
    writer_loop.FRAME_BYTES, writer_loop._SECONDS_A_MARK = 4_000, 0.0
    output, journal = folder / "small/out.jsonl", folder / "journal"
    write_lines(folder / "a.jsonl", texts(1_500))
    done: list[int] = []
    for workers in (1, 2, 1):
        with pytest.raises(OSError, match="No space left") as failure:
            deduplicate(folder / "a.jsonl", output, journal=journal, batch_size=100, workers=workers)
        assert failure.value.errno == errno.ENOSPC
        assert failure.value.filename == str(folder / "small/.out.jsonl.partial")
        state = json.loads((journal / "journal.json").read_bytes())["state"]
        done.append(state["read"])
        assert not output.exists()
    assert 0 < done[0] <= done[1] <= done[2] < 1_500
    subprocess.run(["mount", "-o", f"remount,{LARGE}", str(folder / "small")], check=True)
    report = deduplicate(folder / "a.jsonl", output, journal=journal, batch_size=70, workers=1)
    expected = deduplicate(folder / "a.jsonl", folder / "whole.jsonl", workers=1)
    assert report[:4] == expected[:4]
    assert output.read_bytes() == (folder / "whole.jsonl").read_bytes()


if __name__ == "__main__":
    fill_and_go_on(Path(sys.argv[1]))
