"""Some runs of each target of tools/attacks/fuzzing. The long runs are `tools/torture fuzz`."""

import importlib.util
import re
from pathlib import Path

import pytest
from support.commands import torture
from support.samples import sample_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="Atheris has no package for this Python or system"
)


SAMPLE = ("records", "kernel")


@pytest.mark.parametrize(("targets", "seconds"), sample_of([(SAMPLE, 1)], [((), 1), ((), 5)]))
def test_every_target_stands_some_seconds(tmp_path: Path, targets: tuple[str, ...], seconds: int) -> None:
    """Of processor time: those of the clock are over before the first changed input on a busy machine."""
    chosen = [word for target in targets for word in ("--target", target)]
    chosen += ["--findings", str(tmp_path), "--seconds", str(seconds), "--patience", "60"]
    output = torture("fuzz", *chosen)
    rows = re.findall(r"^([a-z.]+) +right +([\d,]+) +(\d+) +(\d+)$", output, re.MULTILINE)
    assert len(rows) == (len(targets) or 17), output
    assert all(int(runs.replace(",", "")) >= 100 * seconds for _, runs, _, _ in rows), output
    assert all(int(taken) == seconds and int(edges) > 0 for _, _, taken, edges in rows), output


def test_what_a_target_does_not_stand_is_kept_and_can_be_repeated(tmp_path: Path) -> None:
    """The target that checks the fuzzer itself: it dies of some bytes, which coverage leads to."""
    output = torture("fuzz", "--target", "control", "--findings", str(tmp_path), rounds=200_000, fails=True)
    assert "untyped" in output
    (finding,) = tmp_path.iterdir()
    repeated = torture("fuzz", "--target", "control", "--repeat", str(finding), fails=True)
    assert "found the way" in repeated
