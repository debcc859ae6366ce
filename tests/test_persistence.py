"""What is committed stays, what is not leaves no trace: several processes, kills, growth, threads, fork."""

import contextlib
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

import lmdb
import pytest

import simindex
from simindex import (
    ClosedError,
    Config,
    CorruptIndexError,
    IndexFullError,
    IndexLockedError,
    Layout,
    Sketcher,
)
from simindex.format.keys import segment_of
from simindex.format.manifest import decode_manifest
from simindex.storage import folder
from simindex.storage.lmdb_file import file_lengths
from simindex.storage.store import Store

SMALL = Config(num_perm=64)
TINY_LAYOUT = Layout(2, 64, 4096)
BATCH = 30


def label(*name):
    return "-".join(map(str, name))


def document(*name):
    """Ready shingles of a document unlike any of another name."""
    return [label(*name, letter) for letter in "abcde"]


def batch(*name, size=BATCH):
    """(key, document) of each document of a batch."""
    return [(label(*name, place), document(*name, place)) for place in range(size)]


def start(code, *arguments, **options):
    """A Python process that runs `code`, with pipes to its stdin and from its stdout."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        **options,
    )


def ask(process, line=""):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def end(process):
    process.stdin.close()
    assert process.stdout.read() == ""
    process.stdout.close()
    assert process.wait(20) == 0


def forked(work):
    """Run `work(acknowledge)` in a forked child; returns its pid and the pipe of what it acknowledges."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        os.close(read)
        work(lambda text: os.write(write, f"{text}\n".encode()))
        os._exit(0)
    except BaseException as error:
        os.write(write, f"failed: {error!r}\n".encode())
        os._exit(1)


def everything_from(pipe):
    """The lines written to a pipe whose writers have ended."""
    with os.fdopen(pipe) as lines:
        return lines.read().split("\n")[:-1]


def assert_holds(index, documents):
    """The index has exactly these documents (key -> document), and finds each by its text and by its key."""
    assert len(index) == len(documents)
    assert set(index) == documents.keys()
    for (key, _), matches in zip(
        documents.items(), index.query_many(list(documents.values()), 0.9), strict=True
    ):
        assert [(match.key, match.similarity) for match in matches] == [(key, 1.0)]
        assert index[key].key == key


def stored_segments(path):
    """(ids that the manifest names, ids that chunks lie under), read from the closed index."""
    with lmdb.open(str(path), max_dbs=16, readonly=True, lock=False, lib_version=0) as env:
        databases = {name: env.open_db(name, create=False) for name in (b"meta", b"segments")}
        with env.begin() as txn:
            manifest = decode_manifest(txn.get(b"manifest", db=databases[b"meta"]))
            stored = {segment_of(key) for key, _ in txn.cursor(db=databases[b"segments"])}
    return {shape.id for shape in manifest.segments}, stored


# ---- several processes ----

ANSWER = """
import sys, simindex
index = simindex.open(sys.argv[1], "r", map_bytes=int(sys.argv[2]))
for line in sys.stdin:
    matches = index.query(line.split(), 0.9)
    print(len(index), *[match.key for match in matches])
"""


def test_process_queries_what_another_has_committed_while_it_goes_on_inserting(tmp_path):
    with simindex.open(tmp_path / "i", "x", SMALL, layout=TINY_LAYOUT) as index:
        reader = start(ANSWER, tmp_path / "i", 1 << 24)
        for number in range(40):
            wanted = document("wanted", number)
            index.insert_many(batch(number))
            reader.stdin.write(" ".join(wanted) + "\n")
            index.insert(f"wanted-{number}", wanted)
            index.insert_many(batch("later", number, size=3))
            size, *keys = reader.stdout.readline().split()
            # The reader saw the state before its query, or one of the two commits after it.
            assert int(size) - number * (BATCH + 4) in (BATCH, BATCH + 1, BATCH + 4)
            assert keys in ([], [f"wanted-{number}"])
            assert ask(reader, " ".join(wanted)) == f"{(number + 1) * (BATCH + 4)} wanted-{number}"
        end(reader)


@pytest.mark.parametrize("layout", [None, TINY_LAYOUT])
def test_map_grows_under_readers_of_this_and_another_process(tmp_path, layout):
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, map_bytes=1 << 20, layout=layout) as index:
        index.insert("first", ["first"])
        other = start(ANSWER, path, 1 << 20)
        assert ask(other, "first") == "1 first"
        with simindex.open(path, "r", map_bytes=1 << 20) as reader:
            assert len(reader) == 1
            for number in range(8):
                index.insert_many(
                    [(key, text, b"x" * 4_000) for key, text in batch(number, size=100)], batch_size=50
                )
                assert reader.query(document(number, 7), 0.9)[0].key == f"{number}-7"
                assert ask(other, "first") == f"{1 + 100 * (number + 1)} first"
            assert reader.stats().file_bytes > 3 << 20
            with simindex.open(path, "r") as later:
                assert len(later) == 801
        end(other)


GROW = """
import sys, simindex
with simindex.open(sys.argv[1], "a", map_bytes=1 << 20) as index:
    for line in sys.stdin:
        index.insert_many([(f"{line.strip()}-{n}", [f"{n}"], b"x" * 4000) for n in range(300)])
        print(len(index))
"""


def test_reader_follows_a_map_that_another_process_grew(tmp_path):
    """Every first call of a handle may meet the larger file: a query, stats, and opening a second handle."""
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL, map_bytes=1 << 20).close()
    writer = start(GROW, path)
    readers = [simindex.open(path, "r", map_bytes=1 << 20)]
    calls = [
        lambda: readers[0].query(["7"], 0.9)[0].key,
        lambda: readers[0].stats().documents,
        lambda: readers.append(simindex.open(path, "r", map_bytes=1 << 20)),
        lambda: next(iter(readers[1])),
        lambda: readers[1].refresh(),
    ]
    for number, call in enumerate(calls):
        assert ask(writer, number) == str(300 * (number + 1))
        call()
        assert len(readers[0]) == 300 * (number + 1)
    end(writer)
    with simindex.open(path, "a", map_bytes=1 << 20) as index:
        index.insert("last", ["last"])
        assert readers[0].query(["last"])[0].key == "last"
    for reader in readers:
        reader.close()


# ---- kill -9 ----


def insert_until_killed(path, name, config, layout, map_bytes, acknowledge):
    """Insert batches for ever; each also removes a third of the batch before the last one."""
    with simindex.open(path, "a", config, layout=layout, map_bytes=map_bytes) as index:
        number = 0
        while True:
            with index.transaction():
                index.insert_many(batch(name, number), workers=1)
                index.remove_many(removed_by(name, number))
            acknowledge(number)
            number += 1


def removed_by(name, number):
    return [key for key, _ in batch(name, number - 2)[::3]] if number >= 2 else []


def after_one_more(before, name, number):
    """What the index holds when a batch has been committed on top of `before`."""
    gone = set(removed_by(name, number))
    return {key: text for key, text in (before | dict(batch(name, number))).items() if key not in gone}


def after_batches(before, name, count):
    """What the index holds when `count` batches of a name have been committed on top of `before`."""
    for number in range(count):
        before = after_one_more(before, name, number)
    return before


@pytest.mark.parametrize(
    ("layout", "map_bytes"),
    [(None, 1 << 30), (None, 1 << 20), (TINY_LAYOUT, 1 << 20), (Layout(2, 16, 512), 1 << 30)],
)
def test_kill_in_the_middle_of_inserting_loses_nothing_and_leaves_nothing_half(tmp_path, layout, map_bytes):
    """13 kills for each of four layouts (52): the small ones have merges of many chunks under way."""
    chance = random.Random(f"kill {layout} {map_bytes}")
    path = tmp_path / "i"
    before, acknowledged = {}, 0
    for name in range(13):
        pid, pipe = forked(
            lambda tell, name=name: insert_until_killed(path, name, SMALL, layout, map_bytes, tell)
        )
        try:
            select.select([pipe], [], [], 20)  # the first batch
            time.sleep(chance.uniform(0, 0.1))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        told = everything_from(pipe)
        assert told == [str(number) for number in range(len(told))]
        assert told
        acknowledged += len(told)
        with simindex.open(path, "r") as reader:
            keys = set(reader)
        # The batch that was under way may have been committed, but never a part of it.
        count = len(told) + (label(name, len(told), 0) in keys)
        before = after_batches(before, name, count)
        assert keys == before.keys()
        with simindex.open(path, "a", map_bytes=map_bytes) as index:
            recent = {key: before[key] for key in list(before)[-600:]}
            found = index.query_many(list(recent.values()), 0.9)
            assert [[match.key for match in matches] for matches in found] == [[key] for key in recent]
        live, stored = stored_segments(path)
        assert stored == live
    with simindex.open(path, map_bytes=map_bytes) as index:
        assert_holds(index, before)
        index.insert("afterwards", ["afterwards"])
    assert acknowledged >= 13


def test_kill_at_any_time_of_opening_leaves_an_index_that_opens(tmp_path):
    chance = random.Random("kill while opening")
    for name in range(12):
        path = tmp_path / str(name)

        def work(tell, path=path):
            with simindex.open(path, "a", SMALL) as index:
                tell("open")
                index.insert("a", ["a"])
                tell("inserted")

        pid, pipe = forked(work)
        time.sleep(chance.uniform(0, 0.015))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told = everything_from(pipe)
        with simindex.open(path, "a", SMALL) as index:
            assert len(index) <= 1
            assert ("a" in index) or "inserted" not in told
            index.replace("a", ["a"])
            assert index.query(["a"])[0].key == "a"


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


def test_killed_transaction_leaves_nothing(tmp_path):
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index:
        index.insert_many(batch("kept"))

    def work(tell):
        index = simindex.open(path)
        with index.transaction():
            index.insert_many(batch("lost", size=500), batch_size=100)
            index.remove(batch("kept")[0][0])
            index.replace(batch("kept")[1][0], ["other"])
            tell(len(index))
            signal.pause()

    pid, pipe = forked(work)
    assert os.read(pipe, 100) == b"529\n"
    with pytest.raises(IndexLockedError):
        simindex.open(path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pipe)
    with simindex.open(path) as index:
        assert_holds(index, dict(batch("kept")))


# ---- a full index ----


@pytest.mark.parametrize("map_bytes", [1 << 20, 1 << 36])
def test_full_index_refuses_the_commit_and_stays_intact(tmp_path, map_bytes):
    path = tmp_path / "i"
    kept = {}
    with simindex.open(path, "x", SMALL, map_bytes=map_bytes, max_bytes=4 << 20, layout=TINY_LAYOUT) as index:

        def fill():
            for number in range(200):
                index.insert_many([(key, text, b"x" * 2_000) for key, text in batch(number)])
                kept.update(batch(number))

        expected = f"{4 << 20} bytes.*nothing of this commit.*larger max_bytes"
        with pytest.raises(IndexFullError, match=expected):
            fill()
        assert len(kept) > 500
        assert_holds(index, kept)
        with pytest.raises(IndexFullError):
            index.insert("large", ["large"], b"x" * 3_000_000)
        assert_holds(index, kept)
        assert index.stats().file_bytes <= 4 << 20
    with simindex.open(path, max_bytes=8 << 20) as index:
        assert_holds(index, kept)
        index.insert_many([(key, text, b"x" * 2_000) for key, text in batch("more")])
        assert_holds(index, kept | dict(batch("more")))


def test_full_index_is_full_under_a_reader_with_a_larger_map_too(tmp_path):
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL).close()
    with simindex.open(path, "r") as reader, simindex.open(path, max_bytes=2 << 20) as index:
        with pytest.raises(IndexFullError):
            index.insert("large", ["large"], b"x" * 3_000_000)
        index.insert("small", ["small"])
        assert list(reader) == ["small"]


def test_limit_stays_when_a_reader_is_first_to_open_a_compacted_file(tmp_path, monkeypatch):
    with simindex.open(tmp_path / "i", "x", SMALL, max_bytes=4 << 20) as index:
        index.insert_many(batch("a"))
        with simindex.open(tmp_path / "i", "r") as reader:
            sync = folder.sync_folder

            def sync_and_read(path):
                sync(path)
                assert len(reader) == BATCH

            monkeypatch.setattr("simindex.storage.replacement.sync_folder", sync_and_read)
            index.compact()
        assert index._store.environment().env.info()["map_size"] <= 4 << 20


def test_transaction_that_does_not_fit_is_rolled_back_whole(tmp_path):
    with simindex.open(tmp_path / "i", "x", SMALL, max_bytes=2 << 20) as index:
        index.insert("first", ["first"])

        def fill():
            with index.transaction():
                for number in range(300):
                    index.insert(number, [str(number)], b"x" * 10_000)
                index.remove("first")

        with pytest.raises(IndexFullError):
            fill()
        assert list(index) == ["first"]
        index.insert("second", ["second"])
        assert index.query(["first"])[0].key == "first"
        assert index.query(["second"])[0].key == "second"


# ---- threads ----


def run_in_threads(*works):
    """Run every work in a thread of its own; the first error of any is raised here."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_threads_insert_and_query_on_one_index(tmp_path):
    """Growing, merging, transactions and queries of eight threads on one handle, and a reader beside it."""
    path = tmp_path / "i"
    index = simindex.open(path, "x", SMALL, map_bytes=1 << 20, layout=Layout(2, 16, 512))
    reader = simindex.open(path, "r")
    writing = threading.Semaphore(4)

    def insert(name):
        with writing:
            for number in range(12):
                index.insert_many([(key, text, b"x" * 500) for key, text in batch(name, number, size=10)])
                with index.transaction():
                    index.insert((name << 16) + number, document(name, number))
                    index.remove(label(name, number, 3))
                    assert label(name, number, 3) not in index
                index.replace(label(name, number, 4), document(name, number, "new"))
                assert [match.key for match in index.query(document(name, number, 5), 0.9)] == [
                    label(name, number, 5)
                ]

    def query(handle):
        while not writing.acquire(blocking=False):
            # Each transaction and each batch is seen whole: 10 documents, then one more and one less.
            assert len(handle) % 10 == 0
            for matches in handle.query_many([document(name, 3, 5) for name in range(4)], 0.9):
                assert [match.key for match in matches] in ([], *[[f"{name}-3-5"] for name in range(4)])
        writing.release()

    run_in_threads(
        *[lambda name=name: insert(name) for name in range(4)],
        *[lambda handle=handle: query(handle) for handle in (index, index, reader, reader)],
    )
    assert len(index) == len(reader) == 480
    expected = {}
    for name in range(4):
        for number in range(12):
            expected.update(batch(name, number, size=10))
            del expected[label(name, number, 3)]
            expected[label(name, number, 4)] = document(name, number, "new")
            expected[(name << 16) + number] = document(name, number)
    assert_holds(index, expected)
    assert_holds(reader, expected)
    index.close()
    assert_holds(reader, expected)
    reader.close()


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


def test_close_waits_for_the_queries_of_other_threads(tmp_path):
    for round_ in range(20):
        index = simindex.open(tmp_path / str(round_), "x", SMALL, layout=TINY_LAYOUT)
        index.insert_many(batch(round_, size=200))
        started = threading.Barrier(4)

        def query(index=index, started=started, round_=round_):
            documents = [document(round_, place) for place in range(200)]
            started.wait(20)
            with contextlib.suppress(ClosedError):
                while all(index.query_many(documents, 0.5)):
                    pass
                raise AssertionError("a stored document was not found")

        def close(index=index, started=started):
            started.wait(20)
            index.close()

        run_in_threads(query, query, query, close)


def test_sketches_are_made_by_several_workers_in_the_order_of_the_items(tmp_path):
    items = batch("a", size=500)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        done = []
        index.insert_many(iter(items), batch_size=40, workers=3, progress=done.append)
        assert done == [*range(40, 500, 40), 500]
        assert list(index) == [key for key, _ in items]


# ---- fork ----


def test_fork_gives_the_child_a_closed_handle_and_leaves_the_parent_alone(tmp_path):
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index, simindex.open(path, "r") as reader:
        index.insert("a", ["a"])
        assert len(reader) == 1

        def work(tell):
            for call in (
                lambda: index.query(["a"]),
                lambda: index.insert("b", ["b"]),
                lambda: index.insert_many([("b", ["b"])]),
                lambda: index.remove("a"),
                lambda: "a" in reader,
                lambda: list(reader),
                lambda: reader.stats(),
                lambda: index.transaction().__enter__(),
            ):
                with pytest.raises(ClosedError, match=r"fork\(\).*parent.*open it again"):
                    call()
            index.close()
            reader.close()
            tell("closed")

        pid, pipe = forked(work)
        assert os.waitpid(pid, 0)[1] == 0
        assert everything_from(pipe) == ["closed"]
        with pytest.raises(IndexLockedError):
            simindex.open(path)
        index.insert("b", ["b"])
        assert list(reader) == ["a", "b"]


FORK = """
import os, sys, simindex
index = simindex.open(sys.argv[1], "a", simindex.Config(num_perm=64))
reader = simindex.open(sys.argv[1], "r")
index.insert("a", ["a"])
assert len(index) == len(reader) == 1
for number in range(3):
    pid = os.fork()
    if not pid:
        if sys.argv[2] == "opens":
            with simindex.open(sys.argv[1], "r") as own:
                assert own.query(["a"])[0].key == "a"
            try:
                simindex.open(sys.argv[1], "a")
            except simindex.IndexLockedError:
                sys.exit(0)
            sys.exit(1)
        if sys.argv[2] == "closes":
            index.close()
        sys.exit(0)  # with the interpreter's clearing up
    assert os.waitpid(pid, 0)[1] == 0
    try:
        simindex.open(sys.argv[1], "a")
        sys.exit("the writer lock was gone")
    except simindex.IndexLockedError:
        pass
    assert len(reader) == len(index) == number + 1, "reader"
    index.insert(number, [str(number)])
    assert [match.key for match in reader.query([str(number)])] == [number]
index.close()
with simindex.open(sys.argv[1], "a") as index:
    assert list(index) == ["a", 0, 1, 2]
"""


@pytest.mark.parametrize("child", ["ends", "closes", "opens"])
def test_fork_does_no_harm_to_the_parent_when_the_child(tmp_path, child):
    """A child that ends in the usual way, closes its dead handles, or opens the index for itself."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, str(tmp_path / "i"), child],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_with_other_threads_in_the_middle_of_a_call_does_no_harm(tmp_path):
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        index.insert_many(batch("a", size=100))
        ended = threading.Event()

        def query():
            while not ended.is_set():
                assert all(index.query_many([text for _, text in batch("a", size=100)], 0.9))

        def insert():
            number = 0
            while not ended.is_set():
                index.insert_many(batch("b", number), workers=1)
                number += 1

        def fork():
            try:
                for _ in range(10):

                    def work(tell):
                        with simindex.open(path, "r") as own:
                            assert all(own.query_many([text for _, text in batch("a", size=100)], 0.9))
                        tell("found")

                    pid, pipe = forked(work)
                    assert os.waitpid(pid, 0)[1] == 0, everything_from(pipe)
                    assert everything_from(pipe) == ["found"]
            finally:
                ended.set()

        run_in_threads(query, query, insert, fork)
        assert len(index) % BATCH == 100 % BATCH


def test_fork_during_another_threads_transaction_gives_the_child_a_closed_handle(tmp_path):
    """The child inherits a lock that nobody will ever release; it must not wait for it."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        begun, end_now = threading.Event(), threading.Event()

        def hold():
            with index.transaction():
                index.insert("a", ["a"])
                begun.set()
                end_now.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        begun.wait(20)

        def work(tell):
            signal.alarm(5)
            for call in (
                lambda: index.insert("b", ["b"]),
                lambda: index.remove_many(["a"]),
                lambda: index.insert_if_new("b", ["b"]),
                lambda: index.transaction().__enter__(),
                lambda: index.query(["a"]),
            ):
                with pytest.raises(ClosedError):
                    call()
            index.close()
            tell("closed")

        pid, pipe = forked(work)
        status = os.waitpid(pid, 0)[1]
        end_now.set()
        holder.join(20)
        assert (everything_from(pipe), status) == (["closed"], 0)
        assert list(index) == ["a"]


# ---- one result for every way to insert ----


def test_sketches_inserted_in_one_process_match_texts_queried_in_another(tmp_path):
    sketches = Sketcher(SMALL).sketch_many([text for _, text in batch("a")])
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many([(place, sketch) for place, sketch in enumerate(sketches)])
    reader = start(ANSWER, tmp_path / "i", 1 << 24)
    assert ask(reader, " ".join(document("a", 7))) == f"{BATCH} 7"
    end(reader)


def test_compact_is_followed_by_reading_processes(tmp_path):
    """Readers that were there before, that come while it happens, and the writer go on, whatever the parity
    of LMDB's transaction numbers is."""
    path = tmp_path / "i"
    code = (
        "import sys, simindex\n"
        "reader = simindex.open(sys.argv[1], 'r')\n"
        "for line in sys.stdin:\n"
        "    with simindex.open(sys.argv[1], 'r') as late:\n"
        "        print(len(reader), len(late), reader.query('one page of some words')[0].key, flush=True)\n"
    )
    with simindex.open(path) as index:
        index.insert("page", "one page of some words")
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdin is not None
        assert child.stdout is not None
        with child.stdin as asks, child.stdout as answers:
            for number in range(12):
                for more in range(number % 4 + 1):
                    index.insert(f"{number}-{more}", f"text number {number} {more} of the test")
                if number % 3 != 1:
                    index.compact()
                asks.write("?\n")
                asks.flush()
                assert answers.readline() == f"{len(index)} {len(index)} page\n"
        assert child.wait() == 0
    with simindex.open(path) as index:
        assert len(index) == 1 + sum(number % 4 + 1 for number in range(12))
        index.insert("after", "still takes inserts")
