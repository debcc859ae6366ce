"""`simindex dedup` on a terminal and off it: how far it is, and a real Ctrl-C."""

import json
import os
import pty
import random
import re
import sys
from contextlib import suppress
from pathlib import Path

from support.commands import on_terminal, process
from support.texts import FOX, SHIP, json_lines

ROWS = [{"id": 1, "text": FOX}, {"id": 2, "text": SHIP}, {"id": 3, "text": FOX}]


def test_dedup_shows_rows_duplicates_rate_size_and_time_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(json_lines(ROWS))
    for order in ("first", "newest"):
        command = ["dedup", "rows.jsonl", "-o", f"{order}.jsonl", "--keep", order]
        shown = on_terminal(command, tmp_path, "stderr", 120)
        for part in ("3 rows, 1 duplicates", "/s", "━", "MB written", "remaining", "3 rows read, 2 kept"):
            assert part in shown
        assert ("reading, and ordering the rows" in shown) == (order == "newest")
    for columns in (40, 80):
        command = ["dedup", "rows.jsonl", "-o", f"{columns}.jsonl"]
        shown = on_terminal(command, tmp_path, "stderr", columns)
        assert "3 rows, 1 duplicates" in shown
        assert "…" not in shown


def test_dedup_shows_no_progress_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(json_lines(ROWS))
    silent = process("dedup", "rows.jsonl", "-o", "a.jsonl", cwd=tmp_path)
    assert silent.stderr.count(b"\n") == 2
    found = (
        b"expected to be found: 51% of the duplicates right at the threshold, 94% of those at 0.85; --recall"
    )
    assert found in silent.stderr


def test_decontaminate_counts_contaminated_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(json_lines(ROWS))
    (tmp_path / "items.jsonl").write_bytes(json_lines(ROWS[1:2]))
    command = ["decontaminate", "rows.jsonl", "--against", "items.jsonl", "-o"]
    shown = on_terminal([*command, "a.jsonl"], tmp_path, "stderr", 120)
    assert "3 rows, 1 contaminated" in shown
    assert "duplicates" not in shown


HALTING = """
import signal, time
from rich.progress import Progress
from simindex.cli import main
update = Progress.update

def update_and_halt(self, *task, **fields):
    update(self, *task, **fields)
    if fields["count"].endswith("duplicates") and fields["count"] >= "1":
        self.refresh()
        while True:  # a signal just before signal.pause() would be waited for without end
            time.sleep(0.05)

Progress.update = update_and_halt
# As a terminal has it, whatever the process that runs the tests does with Ctrl-C.
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
"""The command, which waits for a signal when it has decided some rows and shown them."""


def test_ctrl_c_on_a_terminal_keeps_what_was_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    some = random.Random(6)
    words = ["".join(some.choices("abcdefghijklmnop", k=6)) for _ in range(3_000)]
    texts = [" ".join(some.choices(words, k=20)) for _ in range(9_000)]
    rows = [{"id": number, "text": texts[number % 9_000]} for number in range(12_000)]
    (tmp_path / "rows.jsonl").write_bytes(json_lines(rows))
    command = ["dedup", "rows.jsonl", "-o", "out.jsonl"]
    code, shown = _interrupted([*command, "--batch-size", "10", "--workers", "1"], tmp_path)
    assert code == 130, shown
    assert "interrupted" in shown
    assert "run the same command to go on there" in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "out.jsonl").exists()
    went_on = process(*command, "--json", cwd=tmp_path)
    assert went_on.returncode == 0, went_on.stderr
    assert json.loads(went_on.stdout)["read"] == 12_000
    assert process("dedup", "rows.jsonl", "-o", "whole.jsonl", cwd=tmp_path).returncode == 0
    for name in ("{}", "{}.dedup/removed.jsonl"):
        resumed, whole = (tmp_path / name.format(output) for output in ("out.jsonl", "whole.jsonl"))
        assert resumed.read_bytes() == whole.read_bytes()


def _interrupted(arguments: list[str], cwd: Path) -> tuple[int, str]:
    """Run the command on a terminal of its own and type Ctrl-C when it has decided some rows and waits."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execv(sys.executable, [sys.executable, "-c", HALTING, *arguments])
    written, has_typed = b"", False
    with suppress(OSError):  # how Linux tells that the other side is closed
        while piece := os.read(terminal, 65_536):
            written += piece
            if not has_typed and re.search(rb"[1-9][0-9,]* rows, [0-9,]+ duplicates", written):
                os.write(terminal, b"\x03")
                has_typed = True
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert has_typed, written.decode()
    return os.waitstatus_to_exitcode(status), written.decode()
