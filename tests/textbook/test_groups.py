"""Groups of pairs in plain Python."""

from simindex import textbook


def test_textbook_components_follow_a_long_chain() -> None:
    """Without shortened ways to the root the last member of a chain would be as many steps away."""
    count = 200_000
    pairs = ((number, number + 1) for number in range(count - 1, 0, -1))
    assert textbook.components(pairs) == [list(range(1, count + 1))]
