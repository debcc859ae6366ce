"""Opening a data file, and telling whether all of it is there."""

import shutil

import pytest
from batches import SMALL, TINY_LAYOUT, after_one_more, assert_holds, batch, removed_by

import simindex
from simindex import CorruptIndexError
from simindex.storage.lmdb_file import file_lengths
from simindex.storage.store import Store


def test_file_that_ends_before_its_last_page_opens_where_that_page_is_free(tmp_path, monkeypatch):
    """A page taken and given back in one commit is not written: the file is shorter than its page count.

    The writer lengthens it at once; a kill in between leaves such a file, which must not pass for one that
    was cut short.
    """
    path = tmp_path / "i"
    documents, copies = {}, []

    def data_bytes(folder):
        return (folder / "data.mdb").stat().st_size

    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        monkeypatch.setattr(Store, "_lengthen_file", lambda *_: None)
        for number in range(400):
            with index.transaction():
                index.insert_many(batch("a", number), workers=1)
                index.remove_many(removed_by("a", number))
            documents = after_one_more(documents, "a", number)
            needed, found = file_lengths(index._store.environment().env, index.path)
            if found < needed:
                copies.append((shutil.copytree(path, tmp_path / f"copy {number}"), dict(documents), needed))
                if len(copies) == 2:
                    break
    monkeypatch.undo()
    assert copies
    for copy, held, needed in copies:
        assert data_bytes(copy) < needed
        with simindex.open(copy, "r") as reader:
            assert_holds(reader, held)
        with simindex.open(copy) as index:
            index.insert("b", ["b"])
            assert_holds(index, held | {"b": ["b"]})
            assert data_bytes(copy) >= needed
        (copy / "data.mdb").write_bytes((copy / "data.mdb").read_bytes()[: needed // 2])
        with pytest.raises(CorruptIndexError, match="cut short"):
            simindex.open(copy)
