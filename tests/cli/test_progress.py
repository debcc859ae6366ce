"""The progress bar: on a terminal only."""

from pathlib import Path

from commandline import on_terminal, process


def test_insert_shows_a_progress_bar_on_a_terminal_only(tmp_path: Path, rows_file: str) -> None:
    shown = on_terminal(["insert", "news", rows_file, "--batch-size", "1"], tmp_path, "stderr")
    for part in ("3 documents", "documents/s", "━", "remaining", "3 documents inserted"):
        assert part in shown
    done = process("insert", "other", rows_file, cwd=tmp_path)
    assert done.stderr.count(b"\n") == 1
    assert b"\x1b" not in done.stderr
