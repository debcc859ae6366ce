"""One bit of a chunked segment is flipped, whichever: see tools/attacks/bits.py, which flips all of them."""

import subprocess
import sys
from pathlib import Path

TORTURE = Path(__file__).parents[2] / "tools" / "torture"


def test_a_flipped_bit_gives_the_right_answer_or_corrupt_index_error() -> None:
    """For every key, band, fingerprint and number asked, and for every merge; in a child, for it may hang."""
    command = [sys.executable, str(TORTURE), "bits", "--seed", "7", "--rounds", "2000", "--merge-every", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("bits, seed 7\n2,000 bits flipped\n")
    right, typed = map(int, done.stdout.splitlines()[3].split()[1:3])
    assert right > 100_000
    assert typed > 10_000
