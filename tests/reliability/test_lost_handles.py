"""A handle works, or says that it does not.

After Ctrl-C at any place, errors of the disk, a fork, and files that somebody else has replaced or removed.
"""

import dis
import errno
import gc
import itertools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import lmdb
import pytest
from support.faults import set_bound
from support.indexes import CALLS, FOX, READING_AND_ADDING, Mode, problems_of
from support.processes import Tell, everything_from, forked, printed, run_in_threads
from support.samples import sample_of

import simindex
from simindex import (
    ClosedError,
    Config,
    CorruptIndexError,
    FormatError,
    Index,
    IndexLockedError,
    KeyExistsError,
    Layout,
    SimIndexError,
)
from simindex.changes.documents import prepare_documents
from simindex.scaleout.once import OnceIndex
from simindex.storage import check_at_open, lmdb_file
from simindex.storage.environment import BROKEN, Environment
from simindex.storage.lmdb_file import open_lmdb
from simindex.storage.registry import registry

SMALL = Config(num_perm=16)
WORDS = [f"w{n}" for n in range(40)]


def document(number: int) -> list[str]:
    return [f"{number} {word}" for word in WORDS[:8]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "i"
    with simindex.open(folder, "x", SMALL) as index:
        index.insert_many([(n, document(n)) for n in range(20)])
    return folder


def check_whole(folder: Path, keys: range = range(20)) -> None:
    """Everything is there, for readers and for a writer."""
    for mode in ("r", "r+"):
        with simindex.open(folder, mode) as index:
            assert list(index) == list(keys)
            assert [match.key for match in index.query(document(3), 0.9)] == [3]


# ---- Ctrl-C at any place ----


# Where the interpreter looks for signals: behind calls, at jumps back, and where a function begins.
_SIGNALS = {dis.opmap[name] for name in ("CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")}


def _is_garbage(frame: FrameType | None) -> bool:
    """Whether the garbage collector runs it: what is raised there goes nowhere."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


_LEFT_OPEN = pytest.mark.filterwarnings("ignore::ResourceWarning")


class Interruption:
    """Ctrl-C at the n-th place of some files, on this thread, where the interpreter would let one through.

    And of the way in and out of a read transaction; what `transactions` does inside of one changes nothing.
    """

    def __init__(self, at: int, files: tuple[str, ...]) -> None:
        self.at = self.left = at
        self.has_come = True
        self._files = files
        self._known: dict[CodeType, bool] = {}
        self._before: dict[FrameType, int] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if code not in self._known:
            is_way_in_or_out = code.co_qualname.startswith("ReadTransaction.__")
            self._known[code] = is_way_in_or_out or code.co_filename.endswith(self._files)
        if not self._known[code] or _is_garbage(frame):
            return None
        frame.f_trace_opcodes = True
        is_place = event == "call"
        if event == "opcode":
            is_place = self._before.get(frame) in _SIGNALS
            self._before[frame] = code.co_code[frame.f_lasti]
        elif event == "return":
            self._before.pop(frame, None)
        self.left -= is_place
        if is_place and self.left == 0:
            sys.settrace(None)
            self._before.clear()
            raise KeyboardInterrupt
        return self

    def during(self, call: Callable[[], object]) -> BaseException | None:
        """Run a call; returns the interruption, ``None`` where it came to its end before."""
        sys.settrace(self)
        try:
            call()
        except KeyboardInterrupt as error:
            return error
        finally:
            sys.settrace(None)
        self.has_come = False
        return None


STORAGE = ("storage/store.py", "storage/folder.py", "storage/environment.py", "storage/registry.py")
OPENING = (*STORAGE, "storage/check_at_open.py", "storage/lmdb_file.py")

LIFE = (
    *STORAGE, "storage/page_file.py", "storage/lmdb_file.py", "storage/check_at_open.py",
    "changes/session.py", "index.py",
)  # fmt: skip
"""Where a handle begins and ends."""
assert all((Path(simindex.__file__).parent / name).exists() for name in LIFE)


def interruptions(least: int, files: tuple[str, ...], stride: int = 1) -> Iterator[Interruption]:
    """One at every so many places, until a call comes to its end; there must be `least` of them."""
    for at in itertools.count(1, stride):
        yield (interruption := Interruption(at, files))
        if not interruption.has_come:
            break
    assert at > least


@_LEFT_OPEN
@pytest.mark.parametrize("stride", sample_of([10], [3]))
def test_opening_that_is_interrupted_anywhere_leaves_nothing_behind(path: Path, stride: int) -> None:
    for interruption in interruptions(100, LIFE, stride):
        interruption.during(lambda: simindex.open(path).close())
        with simindex.open(path) as index:  # no lock is held, and nobody is inside
            assert len(index) == 20
    check_whole(path)
    assert str(path) not in {environment.folder for environment in registry.environments.values()}


def test_opening_that_is_interrupted_after_its_last_step_can_be_done_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the traceback is kept, and in it the environment that was closed."""
    add = registry.add

    def interrupted(environment: Environment) -> None:
        add(environment)
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "add", interrupted)
    with pytest.raises(KeyboardInterrupt) as kept:
        simindex.open(path)
    monkeypatch.undo()
    check_whole(path)
    assert kept.tb is not None


@_LEFT_OPEN
@pytest.mark.parametrize("is_block", [False, True], ids=["close", "with"])
def test_closing_that_is_interrupted_anywhere_lets_the_next_writer_in(path: Path, is_block: bool) -> None:
    """Where Ctrl-C comes before the first step of it, the handle is open still."""
    still_open = 0
    for interruption in interruptions(30, LIFE):
        index = simindex.open(path)
        interruption.during(partial(index.__exit__, None, None, None) if is_block else index.close)
        if not index._store.is_closed:
            still_open += 1
            assert len(index) == 20
            index.close()
        with simindex.open(path) as next_writer:
            assert len(next_writer) == 20
        for call in (index.__len__, partial(index.insert, "x", "one two three four")):
            with pytest.raises(ClosedError):
                call()
        index.close()
    assert still_open == (2 if is_block else 1)


@_LEFT_OPEN
@pytest.mark.parametrize("stride", sample_of([13], [4]))
def test_first_use_in_a_forked_child_that_is_interrupted_anywhere_can_be_done_again(
    path: Path, stride: int
) -> None:
    with simindex.open(path, "r") as reader:
        assert len(reader) == 20
        for interruption in interruptions(40, STORAGE, stride):

            def work(tell: Tell, interruption: Interruption = interruption) -> None:
                tell(interruption.during(lambda: len(reader)))
                for _ in range(2):
                    assert len(reader) == 20
                    assert [match.key for match in reader.query(document(3), 0.9)] == [3]
                with simindex.open(path) as index:
                    index.compact()
                assert len(reader) == 20

            pid, pipe = forked(work)
            status, lines = os.waitpid(pid, 0)[1], everything_from(pipe)
            assert status == 0, lines
            interruption.has_come = lines != ["None"]
    check_whole(path)


def break_environment(index: Index) -> None:
    """So that it opens its file anew."""
    index._store.environment().ended = BROKEN


INTERRUPTED: dict[str, tuple[int, tuple[str, ...], Callable[[Index], object], Callable[[Index], object]]] = {
    "query": (10, STORAGE, len, lambda index: index.query(document(3))),
    "insert": (10, STORAGE, len, lambda index: index.insert("x", document(1000))),
    "compact": (100, (*STORAGE, "storage/replacement.py"), len, lambda index: index.compact()),
    "open again": (40, OPENING, break_environment, len),
}
"""Call -> how many places it has at the least, in which files, what comes before it, and the call."""


@_LEFT_OPEN
@pytest.mark.parametrize(
    ("call", "stride"),
    sample_of(
        [("query", 1), ("insert", 1), ("compact", 23), ("open again", 5)],
        [("compact", 7), ("open again", 1)],
    ),
)
def test_call_that_is_interrupted_anywhere_leaves_a_working_handle(
    path: Path, call: str, stride: int
) -> None:
    """Nobody waits for a call that was broken off, whose traceback a debugger or a notebook keeps."""
    least, files, prepare, work = INTERRUPTED[call]
    kept = list[BaseException | None]()
    for interruption in interruptions(least, files, stride):
        with simindex.open(path) as index, simindex.open(path, "r") as reader:
            index.insert("y", document(1000))
            index.remove("y")
            assert len(index) == len(reader) == 20
            prepare(index)
            kept += [interruption.during(partial(work, index))]
            if prepare is not len:  # a broken environment is closed when no call is inside
                kept.clear()
            for handle in [index, reader][:: interruption.at % 2 * 2 - 1]:
                assert len(handle) == 20 + ("x" in handle)
            index.replace("x", document(1000))
            assert [match.key for match in reader.query(document(1000), 0.9)] == ["x"]
            index.remove("x")
            index.compact()
            assert list(index) == list(reader) == list(range(20))
            assert reader._store.environment() is index._store.environment()
    assert len(kept) > 20 or call not in ("query", "insert")
    check_whole(path)


@_LEFT_OPEN
def test_call_with_an_id_that_is_interrupted_anywhere_is_done_once(path: Path) -> None:
    """Behind its commit, too, where the handle has not taken note of it yet."""
    late = 0
    with OnceIndex(path, "r+") as index:
        sketcher = simindex.Sketcher(SMALL)
        for interruption in interruptions(60, ("changes/session.py",)):
            number = 1000 + interruption.at
            call = b"%016d" % number
            batch = prepare_documents([(number, document(number))], sketcher)
            add = partial(index.add_once, call, batch, "error")
            is_interrupted = interruption.during(add) is not None
            late += is_interrupted and number in index
            assert add() == ([1, 0, 0], [])
            index.insert("y", document(2000 + interruption.at))
            index.remove("y")
        assert index.check()
        assert list(index) == [*range(20), *range(1001, number + 1)]
    assert late >= 5
    with OnceIndex(path, "r+") as index:
        assert index.add_once(call, batch, "error") == ([1, 0, 0], [])


def test_handle_is_closed_from_inside_a_call_of_the_same_thread(path: Path) -> None:
    """The call comes to its end all the same."""
    index = simindex.open(path)
    with index._store.reading() as txn:
        index.close()
        assert txn.get("main", b"manifest")
    with pytest.raises(ClosedError):
        len(index)
    simindex.open(path).close()


# ---- errors of the disk ----


class Broken:
    """LMDB's environment after an error in the middle of a commit."""

    def __init__(self, env: Any, *, reads: bool) -> None:
        self._env, self._reads = env, reads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def begin(self, *, write: bool = False, **options: Any) -> Any:
        if self._reads and not write:
            return self._env.begin(**options)
        raise lmdb.PanicError("mdb_txn_begin", -30795)


@pytest.mark.parametrize(("first", "reads"), [("query", False), ("insert", False), ("insert", True)])
def test_handle_goes_on_after_a_panic_of_lmdb(path: Path, first: str, reads: bool) -> None:
    with simindex.open(path) as index, simindex.open(path, "r") as reader:
        environment: Any = index._store.environment()
        environment.env = Broken(environment.env, reads=reads)
        if first == "insert":
            index.insert(20, document(20))
        assert [match.key for match in index.query(document(3), 0.9)] == [3]
        assert len(reader) == len(index) == 20 + (first == "insert")


def test_handles_say_why_the_file_cannot_be_opened_again_and_work_when_it_can(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise lmdb_file.translated(OSError(errno.EMFILE, "Too many open files"), str(path))

    with simindex.open(path) as index, simindex.open(path, "r") as reader:
        with monkeypatch.context() as patch:
            patch.setattr(check_at_open, "open_lmdb", refuse)
            for call in (index.compact, partial(len, index), partial(len, reader)):
                with pytest.raises(SimIndexError, match="no file descriptor is left"):
                    call()
            with pytest.raises(IndexLockedError):
                simindex.open(path)  # the writer keeps its lock
        for handle in (index, reader):
            assert [match.key for match in handle.query(document(3), 0.9)] == [3]
        index.insert(20, document(20))
        assert len(reader) == 21
        index.remove(20)
    check_whole(path)


def test_handle_that_opens_its_file_anew_does_not_take_another_index_for_it(path: Path) -> None:
    simindex.open(path.parent / "other", "x", Config(num_perm=32)).close()
    with simindex.open(path) as index:
        break_environment(index)
        path.rename(path.parent / "away")
        with pytest.raises((FileNotFoundError, IndexLockedError)):
            len(index)
        (path.parent / "other").rename(path)
        for call in (lambda: len(index), lambda: index.insert("a", ["a"])):
            with pytest.raises((FormatError, IndexLockedError)):
                call()
    with simindex.open(path, "r") as other:
        assert len(other) == 0


# ---- a file cut short ----

CUTS = """
import os, shutil, sys
import simindex
source, target, num_cuts = sys.argv[1], sys.argv[2], int(sys.argv[3])
whole = os.path.getsize(source + "/data.1.mdb")
for pages in range(1, num_cuts + 1):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    os.truncate(target + "/data.1.mdb", whole - 4096 * pages + (pages % 3 == 0) * 100)
    try:
        with simindex.open(target, "r") as index:
            keys = list(index)
            index.query_many([index[key].sketch for key in keys], 0.5)
            print(pages, "whole" if len(keys) == int(sys.argv[4]) else "wrong")
    except simindex.CorruptIndexError as error:
        print(pages, "cut short" if "cut short" in str(error) else "damaged")
"""


def test_file_that_lost_its_last_pages_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    """Also inside the last large value, of which LMDB's own verifier looks at the first page only."""
    layout = Layout(8, 1 << 20, 1 << 15)
    with simindex.open(tmp_path / "i", "x", Config(num_perm=64, simhash=None), layout=layout) as index:
        index.insert_many([(n, document(n)) for n in range(4000)], batch_size=4000)
    # Free pages at the end may be missing: a file that ends in pages in use is what the cuts are about.
    with simindex.open(tmp_path / "i") as index:
        index.compact()
    lines = printed(CUTS, tmp_path / "i", tmp_path / "cut", 30, 4000).splitlines()
    outcomes = [line.partition(" ")[2] for line in lines]
    assert len(outcomes) == 30
    assert "wrong" not in outcomes
    assert outcomes.count("cut short") > 25


# ---- files that somebody else replaced or removed ----


def test_removed_writer_lock_is_noticed_before_anything_is_stored(path: Path) -> None:
    with simindex.open(path) as first:
        (path / "writer.lock").unlink()
        with simindex.open(path) as second:
            second.insert(20, document(20))
            with pytest.raises(IndexLockedError, match=r"writer\.lock was replaced or removed") as raised:
                first.insert(21, document(21))
            assert raised.value.path == str(path)
            second.insert(22, document(22))
            assert list(second)[-2:] == [20, 22]


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("replaced", [False, True])
def test_data_file_that_is_gone_is_noticed_before_a_commit_is_acknowledged(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool, mode: Mode
) -> None:
    """And by a reader that looks."""
    if mode == "r":
        set_bound(monkeypatch, "seconds between looks for a new file", 0.0)
    with simindex.open(path, mode) as index:
        assert len(index) == 20
        shutil.copy(path / "data.mdb", tmp_path / "copy")
        (path / "data.mdb").unlink()
        if replaced:
            os.replace(tmp_path / "copy", path / "data.mdb")
        for _ in range(2):
            with pytest.raises(ClosedError, match=r"data\.mdb was replaced or removed") as raised:
                len(index) if mode == "r" else index.insert(20, document(20))
            assert raised.value.path == str(path)
        with pytest.raises(ClosedError):
            index.query(document(3))
    if replaced:
        check_whole(path)


def by_renaming(path: Path, new: Path) -> None:
    path.rename(path.with_name("before"))
    new.rename(path)


def by_removing(path: Path, new: Path) -> None:
    shutil.rmtree(path)
    new.rename(path)


def by_a_link(path: Path, new: Path) -> None:
    """As `ln -sfn new path` does, where the path is a link already."""
    path.with_name("link").symlink_to(new)
    path.with_name("link").rename(path)


@pytest.mark.parametrize("replace", [by_renaming, by_removing, by_a_link])
@pytest.mark.parametrize("refresh", ["auto", "manual"])
@pytest.mark.parametrize("is_open_here", [False, True])
def test_reader_whose_folder_was_replaced_says_so_and_the_new_index_opens_beside_it(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replace: Callable[[Path, Path], None],
    refresh: Any,
    is_open_here: bool,
) -> None:
    """Or is built there, in the same process, too."""
    set_bound(monkeypatch, "seconds between looks for a new file", 0.0)
    new = path.with_name("new")
    with simindex.open(new, "x", SMALL) as index:
        index.insert("new", document(1))
    if replace is by_a_link:
        path.rename(path.with_name("before"))
        path.symlink_to(path.with_name("before"))
    with simindex.open(path, "r", refresh=refresh) as reader:
        assert len(reader) == 20
        replace(path, new)
        if is_open_here:
            with simindex.open(path) as index:
                index.insert("newer", document(2))
                assert list(index) == ["new", "newer"]
        elif refresh == "manual":
            assert len(reader) == 20  # until it is refreshed
        for _ in range(2):
            with suppress(ClosedError):
                reader.refresh()
            with pytest.raises(
                ClosedError, match=r"data\.mdb was replaced or removed .* open the index again"
            ):
                reader.query(document(3))
        with simindex.open(path, "r") as again:
            assert next(iter(again)) == "new"
            shutil.rmtree(path.resolve())
            with simindex.open(path.resolve(), "x", SMALL) as index:
                index.insert_many((n, document(n)) for n in range(20))
            check_whole(path)
    assert problems_of(path) == []


@pytest.mark.parametrize("is_renamed", [False, True])
@pytest.mark.parametrize("mode", READING_AND_ADDING)
@pytest.mark.parametrize("call", CALLS)
def test_call_on_an_index_whose_folder_has_gone_answers_or_names_it(
    tmp_path: Path, call: str, mode: Mode, is_renamed: bool
) -> None:
    """A bare error of the system names a file that the caller has never heard of."""
    path = tmp_path / "i"
    with simindex.open(path, "x", Config(containment=8, keep_shingles=16)) as index:
        index.insert("fox", FOX)
    with simindex.open(path, mode) as index:
        if is_renamed:
            path.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(path)
        raised: BaseException | None = None
        try:
            CALLS[call](index)
        except (simindex.SimIndexError, FileNotFoundError) as error:
            raised = error
        assert raised is None or str(path) in str(raised)
        if not isinstance(raised, simindex.SimIndexError):  # as open() raises it
            assert raised is None or "no simindex index" in str(raised)
    if is_renamed:
        with simindex.open(tmp_path / "elsewhere") as index:
            assert [match.key for match in index.query(FOX)] == list(index) == ["fox"]


def test_reader_follows_a_compaction_at_every_look(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction replaces the file, too, and leaves word of it."""
    set_bound(monkeypatch, "seconds between looks for a new file", 0.0)
    stopped = threading.Event()
    with simindex.open(path) as index, simindex.open(path, "r") as reader:

        def read() -> None:
            while not stopped.is_set():
                assert len(reader) == 20

        def compact() -> None:
            for _ in range(20):
                index.compact()
            stopped.set()

        run_in_threads(read, compact)


# ---- handles that were not closed ----


def test_writing_handle_that_nobody_closed_warns_and_lets_the_next_writer_in(path: Path) -> None:
    index = simindex.open(path)
    kept = [index]
    del index
    with pytest.warns(ResourceWarning, match="open for writing and was not closed"):
        kept.clear()
    with simindex.open(path) as index:
        index.insert(20, document(20))
    check_whole(path, range(21))


def test_reading_handle_that_nobody_closed_closes_itself(path: Path) -> None:
    reader = simindex.open(path, "r")
    assert len(reader) == 20
    del reader
    gc.collect()
    assert str(path) not in {environment.folder for environment in registry.environments.values()}


# ---- what errors say to a program ----


def test_errors_name_the_index_that_they_are_about(path: Path) -> None:
    with simindex.open(path) as index:
        calls: list[Callable[[], object]] = [
            lambda: index.insert(3, document(3)),
            lambda: simindex.open(path),
            lambda: simindex.open(path, "r", Config(num_perm=64)),
        ]
        for call in calls:
            with pytest.raises(SimIndexError) as raised:
                call()
            assert raised.value.path == str(path)
    with simindex.open(path, "r") as reader, pytest.raises(SimIndexError) as raised:
        reader.insert(21, document(21))
    assert raised.value.path == str(path)
    (path.parent / "file").touch()
    with pytest.raises(SimIndexError, match="expected a folder with an index, found a file") as raised:
        simindex.open(path.parent / "file")
    assert raised.value.path == str(path.parent / "file")
    assert KeyExistsError("no index").path is None
    assert CorruptIndexError("none").path is None


COMPACT = "import simindex, sys\nwith simindex.open(sys.argv[1], 'r+') as index: index.compact()"


def test_change_over_knows_the_file_that_it_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another compaction may put the next file at the path between a look at it and its opening."""
    opener = open_lmdb
    waiting = [COMPACT, COMPACT]

    def late(*arguments: Any, **options: Any) -> Any:
        if waiting:
            printed(waiting.pop(), path)
        return opener(*arguments, **options)

    with simindex.open(path, "r") as reader:
        printed(COMPACT, path)
        monkeypatch.setattr(check_at_open, "open_lmdb", late)
        set_bound(monkeypatch, "seconds between looks for a new file", 0.0)
        for _ in range(4):
            assert len(reader) == 20
    assert not waiting


@pytest.mark.parametrize("mode", ["r", "r+", "a"])
def test_data_file_that_lost_everything_is_no_new_index(path: Path, mode: Mode) -> None:
    os.truncate(path / "data.mdb", 0)
    with pytest.raises(CorruptIndexError, match=r"data\.mdb is empty") as raised:
        simindex.open(path, mode)
    assert raised.value.path == str(path)
    assert (path / "data.mdb").stat().st_size == 0
