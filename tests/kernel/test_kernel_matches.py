"""Objects made in one go have the attributes that each set by itself has."""

import gc
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import Match, _kernel


class Made(_kernel.MatchSlots):
    """An object of no other attributes."""

    __slots__ = ()
    key: Any
    metadata: Any
    exact: Any


def made_plainly(keys: list[object], found: list[object], asked: object) -> list[Made]:
    """The plain twin of `make_matches`."""
    made = [Made() for _ in keys]
    for one, key, record in zip(made, keys, found, strict=True):
        one.key, one._found, one._asked, one.exact = key, record, asked, False
    return made


def attributes_of(made: list[Made]) -> list[list[object]]:
    return [[getattr(one, name, "not set") for name in _kernel.MatchSlots.__slots__] for one in made]


values = st.none() | st.integers() | st.text() | st.binary()


@given(st.lists(st.tuples(values, values)), values)
def test_many_objects_are_what_each_made_by_itself_is(
    pairs: list[tuple[object, object]], asked: object
) -> None:
    keys, found = [key for key, _ in pairs], [record for _, record in pairs]
    made = _kernel.make_matches(Made, keys, found, asked)
    assert set(map(type, made)) <= {Made}
    assert attributes_of(made) == attributes_of(made_plainly(keys, found, asked))


def test_objects_hold_their_attributes_and_let_go_of_them() -> None:
    class Held:
        """Counted by the collector."""

    def num_held() -> int:
        return sum(type(one) is Held for one in gc.get_objects())

    made = _kernel.make_matches(Made, [Held() for _ in range(10)], [Held() for _ in range(10)], Held())
    made[0].key = made[0].metadata = Held()
    assert num_held() == 21
    del made[0].metadata
    made.clear()
    assert num_held() == 0


@pytest.mark.parametrize("kind", [object, "Made", Exception])
def test_only_a_subclass_is_made(kind: Any) -> None:
    with pytest.raises(ValueError, match="expected a subclass of MatchSlots"):
        _kernel.make_matches(kind, [], [], None)
    with pytest.raises(ValueError, match="expected two lists of the same length"):
        _kernel.make_matches(Made, [1], [], None)


def test_match_is_the_dataclass_that_it_was() -> None:
    match = Match("a", 0.5, 3, {"page": 7})
    assert pickle.loads(pickle.dumps(match)) == match
    assert not hasattr(match, "__dict__")
    with pytest.raises(FrozenInstanceError):
        match.key = "b"  # type: ignore[misc]
