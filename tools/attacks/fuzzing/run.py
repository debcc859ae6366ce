"""Coverage-guided fuzzing by Atheris (libFuzzer): targets in processes of their own, until a first finding.

A finding is an exception that is not the documented one, a wrong answer, no end within ten seconds, more than
2 GB of memory, or the death of the process. Owns the process; what is tried is in stored, read and compiled.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from attacks.children import HANG, RIGHT, SIGNAL, UNTYPED

TARGETS = (
    *("records", "counts", "meta", "config"),
    *(
        "jsonl",
        "json",
        "csv",
        "tsv",
        "txt",
        "warc",
        "warc.gz",
        "jsonl.gz",
        "jsonl.xz",
        "jsonl.zst",
        "parquet",
    ),
    *("kernel", "segments"),
)
"""What can be tried: stored values, inputs by their suffix, the kernel."""

CONTROL = "control"
"""A target that must be found wanting, or the fuzzer shows nothing."""

_CHILD = Path(__file__).with_name("child.py")
_HANG_SECONDS, _MOST_MIB, _MOST_BYTES = 10, 2048, 4096


class Fuzzed(NamedTuple):
    """What became of a target.

    Attributes:
        outcome: RIGHT, or of the finding.
        runs, seconds: done.
        covered: edges of the instrumented Python that were seen.
        why: the end of what the process told, for a finding.
        finding: the file of the input that did it.
    """

    target: str
    outcome: str
    runs: int
    seconds: int
    covered: int
    why: str = ""
    finding: Path | None = None


def can_fuzz() -> bool:
    """Whether Atheris is installed; it has no packages for some Pythons and systems."""
    return importlib.util.find_spec("atheris") is not None


def fuzz(
    targets: Sequence[str],
    seed: int,
    runs: int | None,
    seconds: int | None,
    corpus: Path | None,
    repeat: Path | None,
    found: Path,
    patience: int = 0,
) -> list[Fuzzed]:
    """Try targets, one after the other.

    Args:
        runs, seconds: when to end with one, whichever is first; ``None``: no such end. The seconds are of
            processor time.
        corpus: a folder where inputs that reached something new are kept, by target.
        repeat: a file with the one input to try.
        found: a folder for the inputs of findings.
        patience: seconds until an input counts as one that does not end, at the least.
    """
    with tempfile.TemporaryDirectory(prefix="simindex-fuzz-") as folder:
        found.mkdir(parents=True, exist_ok=True)
        for name in targets:
            Path(folder, name, "seeds").mkdir(parents=True)
            Path(corpus or folder, name, "corpus").mkdir(parents=True, exist_ok=True)
        hang = max(_HANG_SECONDS, patience)
        flags = [f"-timeout={hang}", f"-rss_limit_mb={_MOST_MIB}", "-print_final_stats=1"]
        if repeat is not None:
            flags += [str(repeat.resolve())]
        else:
            flags += [f"-seed={seed}", f"-max_len={_MOST_BYTES}", f"-artifact_prefix={found}/TARGET-"]
            flags += [] if runs is None else [f"-runs={runs}"]
            flags += [f"{corpus or folder}/TARGET/corpus", f"{folder}/TARGET/seeds"]
        # libFuzzer ends what hangs; a process that does not even run is noticed by its status.
        command = [sys.executable, str(_CHILD), folder, ",".join(targets), str(seconds or 0), *flags]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"the targets could not be tried:\n{done.stdout[-3000:]}")
        return [
            _judged(
                name,
                int(Path(folder, name, "status").read_text()),
                Path(folder, name, "told").read_text(errors="replace"),
            )
            for name in targets
        ]


def _judged(target: str, status: int, told: str) -> Fuzzed:
    ended = re.search(r"Done (\d+) runs in (\d+) second", told)
    runs = re.findall(r"^(?:#|stat::number_of_executed_units: +)(\d+)", told, re.MULTILINE)
    covered = re.findall(r"cov: (\d+)", told)
    figures = int(runs[-1]) if runs else 0, int(ended[2]) if ended else 0, int(covered[-1]) if covered else 0
    if status == 0 and ended:
        return Fuzzed(target, RIGHT, *figures)
    if status == 0 and "Executed" in told:  # one input, repeated
        return Fuzzed(target, RIGHT, 1, *figures[1:])
    names = re.findall(r"Test unit written to (\S+)", told)
    outcome = SIGNAL
    if "Uncaught Python exception" in told:
        outcome = UNTYPED
    elif "ALARM" in told or "timeout" in told:
        outcome = HANG
    marks = [told.find(mark) for mark in ("Uncaught Python exception", "Traceback", "ERROR:")]
    at = min((mark for mark in marks if mark >= 0), default=0)
    return Fuzzed(target, outcome, *figures, told[at:][:3000], Path(names[-1]) if names else None)
