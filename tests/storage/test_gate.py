"""Gate: who is inside, and how everybody is kept out for a while."""

from pathlib import Path

import pytest
from merging import SMALL, check, insert

import simindex
from simindex.storage.gate import Gate


def test_call_that_was_broken_off_does_not_stay_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or closing, growing and forking would wait for it for ever."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        insert(index, 0)
        environment = index._store.environment()
        reading = index._store.reading()
        reading.__enter__()  # Ctrl-C comes before the block begins
        assert not environment.gate.is_empty
        del reading
        assert environment.gate.is_empty
        with index._store.reading(), monkeypatch.context() as patch:
            patch.setattr(Gate, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                environment.stop()
            with pytest.raises(KeyboardInterrupt), environment.alone():
                pass
        check(index, [0])
