"""Groups in one flat array against the textbook."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import _kernel
from simindex.all_pairs.edges import Forest, edges_between
from simindex.textbook import components, stars


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """How many numbers there are, and pairs of them: few numbers make large groups, many make small ones."""
    count = draw(st.integers(1, 60))
    numbers = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(numbers, numbers), max_size=90))


def edges_of(pairs: list[tuple[int, int]]) -> np.ndarray:
    ends = np.array(pairs, dtype=np.uint32).reshape(-1, 2)
    return edges_between(ends[:, 0], ends[:, 1])


def listed(links: np.ndarray, room: int) -> list[list[int]]:
    """The groups of a forest, as the kernel lists them into so much room at a time."""
    _kernel.make_circles(links)
    cursor, members = np.zeros(2, dtype=np.uint64), np.empty(room, dtype=np.uint64)
    groups: dict[int, list[int]] = {}
    while count := _kernel.next_members(links, cursor, members):
        for entry in members[:count].tolist():
            groups.setdefault(entry >> 32, []).append(entry & 0xFFFF_FFFF)
    assert np.array_equal(links, np.arange(len(links))), "what was listed is taken apart"
    return list(groups.values())


@settings(max_examples=300)
@given(edge_lists(), st.integers(1, 7))
def test_joined_edges_are_the_components_of_the_textbook(
    drawn: tuple[int, list[tuple[int, int]]], room: int
) -> None:
    count, pairs = drawn
    links = np.arange(count, dtype=np.uint32)
    half = len(pairs) // 2
    joined = sum(_kernel.join_edges(links, edges_of(some)) for some in (pairs[:half], pairs[half:]))
    expected = components(pairs)
    assert joined == sum(len(members) - 1 for members in expected)
    assert listed(links, room) == expected
    forest = Forest(count)
    forest.join(edges_of(pairs))
    assert [members.tolist() for members, is_last in forest.groups() if is_last] == expected


@settings(max_examples=300)
@given(edge_lists(), st.integers(1, 7))
def test_assigned_centres_are_the_stars_of_the_textbook(
    drawn: tuple[int, list[tuple[int, int]]], room: int
) -> None:
    count, pairs = drawn
    links = np.arange(count, dtype=np.uint32)
    edges = np.sort(edges_of(pairs))
    half = len(edges) // 2
    assigned = sum(_kernel.assign_stars(links, some) for some in (edges[:half], edges[half:]))
    expected = stars(pairs)
    assert assigned == sum(len(members) - 1 for members in expected)
    assert listed(links, room) == expected


def test_long_chains_are_one_group_however_they_are_joined() -> None:
    count = 200_000
    chain = edges_between(np.arange(1, count), np.arange(count - 1))
    for edges in (chain, chain[::-1], np.random.default_rng(1).permutation(chain)):
        forest = Forest(count)
        assert forest.join(edges) == count - 1
        parts = list(forest.groups())
        assert [is_last for _, is_last in parts] == [False] * (len(parts) - 1) + [True]
        assert len(parts) > 1
        assert np.array_equal(np.concatenate([members for members, _ in parts]), np.arange(count))


def test_edges_out_of_range_are_refused_before_anything_is_written() -> None:
    for call in (_kernel.join_edges, _kernel.assign_stars):
        for pairs in ([(0, 1), (2, 3)], [(0, 1), (2**32 - 1, 0)]):
            links = np.arange(3, dtype=np.uint32)
            with pytest.raises(ValueError, match=f"edges: expected numbers below 3, found {max(pairs[1])}"):
                call(links, edges_of(pairs))
            assert links.tolist() == [0, 1, 2]


def test_a_cursor_out_of_range_is_refused() -> None:
    links = np.arange(3, dtype=np.uint32)
    for cursor in ([4, 4], [0, 3], [2, 1], [3, 2**40]):
        with pytest.raises(ValueError, match="cursor: out of range"):
            _kernel.next_members(links, np.array(cursor, dtype=np.uint64), np.empty(1, dtype=np.uint64))


@settings(max_examples=500)
@given(
    st.lists(st.integers(0, 12) | st.integers(0, 2**32 - 1), min_size=1, max_size=12),
    edge_lists(),
    st.tuples(st.integers(0, 13), st.integers(0, 13)),
)
def test_links_that_lead_elsewhere_are_refused_or_groups_all_the_same(
    drawn: list[int], edges: tuple[int, list[tuple[int, int]]], begin: tuple[int, int]
) -> None:
    """Whatever the links are, no function leaves the array or goes round for ever."""
    count = len(drawn)
    is_forest = all(link <= number for number, link in enumerate(drawn))
    inside = [(a % count, b % count) for a, b in edges[1]]
    for work in (
        lambda links: _kernel.join_edges(links, edges_of(inside)),
        _kernel.make_circles,
        lambda links: _kernel.next_members(
            links, np.array(begin, dtype=np.uint64), np.empty(20, dtype=np.uint64)
        ),
    ):
        links = np.array([*drawn, *[77] * 40], dtype=np.uint32)
        is_refused = False
        try:
            work(links[:count])
        except ValueError:
            is_refused = True
        assert work is not _kernel.make_circles or is_refused == (not is_forest)
        assert links[count:].tolist() == [77] * 40
    if is_forest:
        _kernel.join_edges(np.array(drawn, dtype=np.uint32), edges_of(inside))
        assert len(listed(np.array(drawn, dtype=np.uint32), 5)) <= count


@pytest.mark.parametrize("link", [1, 3, 2**32 - 1])
def test_a_link_upwards_or_beyond_the_array_is_refused(link: int) -> None:
    links = np.array([link, 1, 0], dtype=np.uint32)
    with pytest.raises(ValueError, match="links: expected each to the number itself or to a smaller one"):
        _kernel.join_edges(links, edges_of([(2, 1)]))
    with pytest.raises(ValueError, match="links: expected each to the number itself or to a smaller one"):
        _kernel.make_circles(links)


@pytest.mark.parametrize("link", [3, 2**32 - 1])
def test_a_circle_that_leaves_the_array_is_refused(link: int) -> None:
    links = np.array([2, 1, link], dtype=np.uint32)
    with pytest.raises(ValueError, match="links: expected circles of ascending numbers"):
        _kernel.next_members(links, np.zeros(2, dtype=np.uint64), np.empty(4, dtype=np.uint64))


def test_no_numbers_have_no_groups() -> None:
    assert list(Forest(0).groups()) == []
    assert Forest(0).join(np.empty(0, dtype=np.uint64)) == 0


def test_more_numbers_than_a_link_can_name_are_refused() -> None:
    from simindex import SimIndexError

    with pytest.raises(
        SimIndexError, match="expected fewer than 4,294,967,296 documents, found 4,294,967,296"
    ):
        Forest(2**32)
