"""One bit of a chunked segment is flipped, whichever: see tools/attacks/bits.py, which flips all of them."""

import pytest
from support.commands import torture
from support.samples import sample_of


@pytest.mark.parametrize("rounds", sample_of([600], [2_000]))
def test_a_flipped_bit_gives_the_right_answer_or_corrupt_index_error(rounds: int) -> None:
    """For every key, band, fingerprint and number asked, and for every merge; in a child, for it may hang."""
    output = torture("bits", "--merge-every", "4", seed=7, rounds=rounds)
    assert output.startswith(f"bits, seed 7\n{rounds:,} bits flipped\n")
    right, typed = map(int, output.splitlines()[3].split()[1:3])
    assert right > 50 * rounds
    assert typed > 5 * rounds
