"""An index that may not be written: in an image, on a read-only mount, in files without the permission."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.processes import printed
from support.texts import SMALL

import simindex

READ = """
import sys, simindex
for options in ({}, {"refresh": "manual"}, {"warm": True}, {"untrusted": True}):
    with simindex.open(sys.argv[1], "r", **options) as index:
        assert dict(index.items()).keys() == set(range(30)), options
        assert [match.key for match in index.query([*"abc", "7"], 0.9)] == [7], options
assert simindex.check(sys.argv[1]).ok
with simindex.open(sys.argv[1], "r") as index:
    index.backup(sys.argv[2])
try:
    simindex.open(sys.argv[1])
except OSError as error:
    print(type(error).__name__, error.filename)
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with simindex.open(tmp_path / "i", config=SMALL) as index:
        index.insert_many((key, [*"abc", str(key)]) for key in range(30))
        index.compact()  # as the page on production says
    return tmp_path / "i"


def require(command: Sequence[object], why: str) -> None:
    """Skip the test where a command fails that prepares it; `why`: what the machine does not grant."""
    try:
        subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{why}: {getattr(error, 'stderr', None) or error}")


def mounted(mount: str, source: Path, folder: Path, *flags: str) -> list[str]:
    """What a command begins with that sees `source` mounted in a folder; nobody else does."""
    folder.mkdir()
    return [
        "unshare",
        *flags,
        "-m",
        "sh",
        "-c",
        f'{mount} && shift 2 && exec "$@"',
        "sh",
        str(source),
        str(folder),
    ]


def test_index_on_a_read_only_mount_is_read_as_any_other(made: Path, tmp_path: Path) -> None:
    bind = 'mount --bind "$1" "$2" && mount -o remount,ro,bind "$2"'
    below = mounted(bind, made, tmp_path / "mount", "--user", "--map-root-user")
    require([*below, "true"], "the kernel lets this user make no namespace of mounts")
    assert printed(READ, tmp_path / "mount", tmp_path / "backup", below=below) == (
        f"OSError {tmp_path / 'mount' / 'writer.lock'}\n"
    )
    with simindex.open(tmp_path / "backup", "r") as index:
        assert len(index) == 30


def test_index_in_a_squashfs_image_is_read_as_any_other(made: Path, tmp_path: Path) -> None:
    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is not installed (Debian: squashfs-tools)")
    image = tmp_path / "pages.squashfs"
    subprocess.run(["mksquashfs", made, image, "-quiet", "-no-progress"], check=True, timeout=60)
    below = mounted('mount -o loop "$1" "$2"', image, tmp_path / "mount")
    require([*below, "true"], "mounting an image takes root, a loop device and squashfs in the kernel")
    assert printed(READ, tmp_path / "mount", tmp_path / "backup", below=below) == (
        f"OSError {tmp_path / 'mount' / 'writer.lock'}\n"
    )


WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
"""Before a command: root may write what nobody may write."""

TRY = """
import sys, simindex
try:
    simindex.open(sys.argv[1], "r")
except simindex.ReadOnlyError as error:
    print(error)
"""


def test_files_that_may_not_be_written_are_read_where_the_lock_file_may_be(
    made: Path, tmp_path: Path
) -> None:
    if WITHOUT_RIGHTS:
        require([*WITHOUT_RIGHTS, "true"], "root without its rights takes setpriv, of util-linux")
    for path in (*made.iterdir(), made):
        path.chmod(0o555 if path == made else 0o444)
    try:
        refused = printed(TRY, made, below=WITHOUT_RIGHTS)
        assert refused.startswith(f"{made}: no permission to write (")
        assert "name ends in -lock. Let them write that" in refused
        (made / "data.1.mdb-lock").chmod(0o666)
        writer = f"PermissionError {made / 'writer.lock'}\n"
        assert printed(READ, made, tmp_path / "backup", below=WITHOUT_RIGHTS) == writer
    finally:
        made.chmod(0o755)
