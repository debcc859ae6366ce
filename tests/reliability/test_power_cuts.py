"""The power goes while an index is changed: see tools/attacks/power.py."""

import random
import re
from pathlib import Path

import pytest
from support.commands import TOOLS, needs_faults, torture

pytest.importorskip("resource")  # the attacks need a POSIX system


@needs_faults
@pytest.mark.parametrize("rounds", [50, pytest.param(200, marks=pytest.mark.long)])
def test_what_was_acknowledged_survives_power_cuts(rounds: int) -> None:
    output = torture("power", rounds=rounds)
    [(right, n)] = re.findall(r"^all +(\d+) .* (\d+)$", output, re.MULTILINE)
    assert int(right) == int(n) == rounds


@needs_faults
def test_a_disk_that_syncs_nothing_is_found_out() -> None:
    """Or the harness would look away. The failure comes with the command that repeats it."""
    output = without_places(torture("power", "--lying-disk", rounds=50, fails=True))
    commands = re.findall(r"^    tools/torture (power --seed 1 --lying-disk --only 0)$", output, re.MULTILINE)
    assert commands
    assert without_places(torture(*commands[0].split(), fails=True)) == output


def without_places(output: str) -> str:
    """What an attack tells, but for its folder and its time."""
    return re.sub(r"simindex-torture-\w+|after \d+ s$", "", output)


# ---- the file system that is played back ----


def found_after(tmp_path: Path, calls: str, kept: str) -> set[str]:
    """What a file may hold after calls, of many cuts: w(rite), d(urable write), s(ync), t(runcate)."""
    from attacks import faults
    from attacks.faults import Entry
    from attacks.power import Disk

    found = set()
    for seed in range(60):
        disk = Disk("/r", False)
        disk.play(Entry(faults.OPEN, faults.IS_CREATED, 7, 0, b"/r/f", b""))
        disk.play(Entry(faults.SYNC, faults.IS_FOLDER, 1, 0, b"/r", b""))
        for index, call in enumerate(calls):
            data = str(index).encode() * 1024
            entry = {
                "w": Entry(faults.WRITE, 0, 7, 0, data, b""),
                "d": Entry(faults.WRITE, faults.IS_DURABLE, 7, 0, data, b""),
                "s": Entry(faults.SYNC, 0, 7, 0, b"", b""),
                "t": Entry(faults.TRUNCATE, 0, 7, 512, b"", b""),
            }[call]
            disk.play(entry)
        disk.write_out(tmp_path, kept, random.Random(seed))
        data = (tmp_path / "f").read_bytes().replace(b"\0", b"-")
        found.add("".join(chr(data[at]) for at in range(0, len(data), 512)))
    return found


@pytest.mark.parametrize(
    ("calls", "kept", "found"),
    [
        ("ws", "none", {"00"}),
        ("d", "none", {"00"}),
        ("w", "all", {"00"}),
        ("w", "none", {""}),
        ("w", "some", {"", "--", "00"}),
        ("w", "torn", {"", "--", "0", "0-", "-0", "00"}),
        ("wsw", "torn", {"00", "02", "20", "22"}),
        ("wsww", "some", {"00", "22", "33"}),
        ("wst", "some", {"00", "0"}),
        ("wsts", "none", {"0"}),
    ],
)
def test_a_disk_keeps_what_was_synced_and_any_part_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: str, kept: str, found: set[str]
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    assert found_after(tmp_path / "found", calls, kept) == found


def test_a_name_is_durable_when_its_folder_was_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TOOLS)
    from attacks import faults
    from attacks.faults import Entry
    from attacks.power import Disk

    disk = Disk("/r", False)
    for inode, name in ((1, b"/r/old"), (2, b"/r/new")):
        disk.play(Entry(faults.OPEN, faults.IS_CREATED, inode, 0, name, b""))
        disk.play(Entry(faults.WRITE, faults.IS_DURABLE, inode, 0, name, b""))

    def found() -> set[tuple[tuple[str, str], ...]]:
        states = set()
        for seed in range(60):
            disk.write_out(tmp_path / "found", "torn", random.Random(seed))
            states.add(tuple(sorted((f.name, f.read_text()) for f in (tmp_path / "found").iterdir())))
        return states

    assert {(), (("old", "/r/old"),), (("new", "/r/new"), ("old", "/r/old"))} <= found()
    disk.play(Entry(faults.SYNC, faults.IS_FOLDER, 9, 0, b"/r", b""))
    assert found() == {(("new", "/r/new"), ("old", "/r/old"))}
    disk.play(Entry(faults.RENAME, 0, 0, 0, b"/r/new", b"/r/old"))
    assert found() == {(("new", "/r/new"), ("old", "/r/old")), (("old", "/r/new"),)}
    disk.play(Entry(faults.SYNC, faults.IS_FOLDER, 9, 0, b"/r", b""))
    assert found() == {(("old", "/r/new"),)}
