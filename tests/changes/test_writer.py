"""The one writer: conflicts of keys, and a change that becomes a commit."""

import pytest
from two_documents import CAR, FOX

from simindex import Index, KeyExistsError


def test_stored_key_is_refused_and_named(index: Index) -> None:
    for call in (
        lambda: index.insert("fox", CAR),
        lambda: index.insert_many([("new", CAR), ("fox", CAR)]),
        lambda: index.insert_many([("new", CAR), ("new", FOX)]),
        lambda: index.insert_if_new("fox", "entirely different words again"),
    ):
        with pytest.raises(
            KeyExistsError, match=r"key '(fox|new)' is in the index already; use replace\(\)"
        ) as caught:
            call()
        assert isinstance(caught.value, KeyError)
    with pytest.raises(KeyExistsError):
        index.insert_many(((number % 25, FOX) for number in range(50)), batch_size=20)
    assert index.remove_many(range(25)) == 20
