"""Session: whose turn it is, and who sees an open transaction."""

import threading

from batches import SMALL
from processes import run_in_threads

import simindex


def test_threads_of_one_index_wait_for_a_transaction_and_do_not_see_it(tmp_path):
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        begun, ended = threading.Event(), []

        def insert():
            begun.wait(20)
            index.insert("b", ["b"])
            ended.append("b")

        def query():
            begun.wait(20)
            assert len(index) == 0
            assert index.query(["a"]) == []

        waiting = threading.Thread(target=insert)
        waiting.start()
        with index.transaction():
            index.insert("a", ["a"])
            begun.set()
            run_in_threads(query)
            assert ended == []
            assert len(index) == 1
        waiting.join(20)
        assert list(index) == ["a", "b"]
