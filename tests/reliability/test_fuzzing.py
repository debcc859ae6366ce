"""Some runs of each target of tools/attacks/fuzzing. The long runs are `tools/torture fuzz`."""

import importlib.util
import re
from pathlib import Path

import pytest
from support.commands import torture

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="Atheris has no package for this Python or system"
)


@pytest.mark.parametrize("seconds", [1, pytest.param(5, marks=pytest.mark.long)])
def test_every_target_stands_some_seconds(tmp_path: Path, seconds: int) -> None:
    """Of processor time: those of the clock are over before the first changed input on a busy machine."""
    told = torture("fuzz", "--findings", str(tmp_path), "--seconds", str(seconds), "--patience", "60")
    rows = re.findall(r"^([a-z.]+) +right +([\d,]+) +(\d+) +(\d+)$", told, re.MULTILINE)
    assert len(rows) == 17, told
    assert all(int(runs.replace(",", "")) >= 100 * seconds for _, runs, _, _ in rows), told
    assert all(int(taken) == seconds and int(edges) > 0 for _, _, taken, edges in rows), told


def test_what_a_target_does_not_stand_is_kept_and_can_be_repeated(tmp_path: Path) -> None:
    """The target that checks the fuzzer itself: it dies of some bytes, which coverage leads to."""
    told = torture("fuzz", "--target", "control", "--findings", str(tmp_path), rounds=200_000, fails=True)
    assert "untyped" in told
    (finding,) = tmp_path.iterdir()
    again = torture("fuzz", "--target", "control", "--repeat", str(finding), fails=True)
    assert "found the way" in again
