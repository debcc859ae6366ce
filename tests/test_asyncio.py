"""Tasks of one event loop on one handle: whose a transaction is, and who must not wait for it."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.indexes import CALLS, CAR, CHANGES, FOX
from support.texts import SMALL

import simindex
from simindex import ClosedError, Index, TransactionOpenError


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([("fox", FOX), ("car", CAR)])
        yield index


OF_ANOTHER = r"expected a change of the task that has a transaction open.*asyncio\.Lock"


def run(work: Coroutine[Any, Any, None]) -> None:
    """What hangs fails: a lock that waits for its own thread could not be timed out by the loop."""
    ended = threading.Event()
    errors: list[BaseException] = []

    def in_thread() -> None:
        try:
            asyncio.run(work)
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=in_thread, daemon=True).start()
    assert ended.wait(20), "it waits for ever"
    if errors:
        raise errors[0]


@pytest.mark.parametrize("change", sorted({*CHANGES, "insert_if_new"} - {"insert_many of nothing"}))
@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_change_of_another_task_or_a_thread_that_is_waited_for_is_refused_in_a_transaction(
    index: Index, change: str, is_rolled_back: bool
) -> None:
    def refuse() -> None:
        with pytest.raises(TransactionOpenError, match=OF_ANOTHER) as refused:
            CALLS[change](index)
        assert refused.value.path == index.path

    async def other(opened: asyncio.Event) -> None:
        await opened.wait()
        refuse()

    async def main() -> None:
        opened = asyncio.Event()
        waiting = asyncio.create_task(other(opened))
        with suppress(ZeroDivisionError), index.transaction():
            index.insert("T1", FOX)
            opened.set()
            await waiting
            await asyncio.to_thread(refuse)
            with pytest.raises(TransactionOpenError):
                await asyncio.to_thread(index.close)
            assert not await asyncio.to_thread(index.__contains__, "T1")
            index.insert("T1 again", CAR)
            if is_rolled_back:
                raise ZeroDivisionError
        index.insert("after", CAR)
        await asyncio.to_thread(index.insert, "after that", CAR)

    run(main())
    stored = [] if is_rolled_back else ["T1", "T1 again"]
    assert list(index) == ["fox", "car", *stored, "after", "after that"]


def test_task_that_a_transaction_has_started_is_another_task(index: Index) -> None:
    """It inherits the context."""

    async def child() -> None:
        assert "T1" not in index
        with pytest.raises(TransactionOpenError):
            index.insert("T2", FOX)

    async def main() -> None:
        with index.transaction():
            index.insert("T1", FOX)
            await asyncio.create_task(child())
            await asyncio.gather(child(), child())
            asyncio.get_running_loop().call_soon(lambda: seen.append(("T1" in index, list(index))))
            await asyncio.sleep(0)
            assert seen == [(False, ["fox", "car"])]

    seen: list[tuple[bool, list[object]]] = []
    run(main())
    assert list(index) == ["fox", "car", "T1"]


def test_queries_of_other_tasks_see_what_is_committed(index: Index) -> None:
    async def other(turn: asyncio.Event, done: asyncio.Event) -> None:
        await turn.wait()
        assert len(index) == 2
        assert "fox" in index
        assert [match.key for match in index.query(FOX)] == ["fox"]
        assert list(index) == ["fox", "car"]
        assert index.stats().documents == 2
        done.set()

    async def main() -> None:
        turn, done = asyncio.Event(), asyncio.Event()
        waiting = asyncio.create_task(other(turn, done))
        with index.transaction():
            index.insert("T1", FOX)
            index.remove("fox")
            turn.set()
            await done.wait()
            assert [match.key for match in index.query(FOX)] == ["T1"]
            assert list(index) == ["car", "T1"]
        await waiting

    run(main())


def test_thread_with_nothing_of_the_transaction_waits_its_turn(index: Index) -> None:
    """As threads always did: one that was there before, and one that was started inside the block."""

    async def main() -> None:
        opened, tried = threading.Event(), threading.Barrier(3)

        def insert(key: str) -> None:
            opened.wait(20)
            tried.wait(20)
            index.insert(key, FOX)

        before = threading.Thread(target=insert, args=("before",))
        before.start()
        with index.transaction():
            inside = threading.Thread(target=contextvars.Context().run, args=(insert, "inside"))
            inside.start()
            opened.set()
            await asyncio.to_thread(tried.wait, 20)
            await asyncio.sleep(0.05)
            index.insert("T1", FOX)
            assert list(index) == ["fox", "car", "T1"]
        await asyncio.to_thread(before.join, 20)
        await asyncio.to_thread(inside.join, 20)

    run(main())
    assert list(index)[:3] == ["fox", "car", "T1"]
    assert set(list(index)[3:]) == {"before", "inside"}


def test_cancelled_task_rolls_its_transaction_back(index: Index) -> None:
    async def change(opened: asyncio.Event) -> None:
        with index.transaction():
            index.insert("T1", FOX)
            opened.set()
            await asyncio.sleep(20)

    async def main() -> None:
        opened = asyncio.Event()
        task = asyncio.create_task(change(opened))
        await opened.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        index.insert("T2", FOX)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(change(asyncio.Event()), 0.05)

    run(main())
    assert list(index) == ["fox", "car", "T2"]


def test_transactions_of_tasks_that_take_turns_are_whole(index: Index) -> None:
    async def change(lock: asyncio.Lock, name: int) -> None:
        async with lock:
            with index.transaction():
                for number in range(3):
                    index.insert(f"{name}-{number}", FOX)
                    await asyncio.sleep(0)
                    assert len([key for key in index if str(key).startswith(f"{name}-")]) == number + 1
        await asyncio.to_thread(index.insert, f"{name}-3", CAR)

    async def main() -> None:
        lock = asyncio.Lock()
        results = await asyncio.gather(*(change(lock, name) for name in range(8)), return_exceptions=True)
        assert results == [None] * 8

    run(main())
    assert len(index) == 2 + 4 * 8


def test_many_tasks_with_threads_of_their_own_find_each_document_once(tmp_path: Path) -> None:
    async def main(index: Index) -> None:
        texts = [f"text number {n % 10} of ten that are quite unlike {n % 10} one another" for n in range(50)]
        calls: list[Awaitable[object]] = [
            asyncio.to_thread(index.insert_if_new, key, text, 1.0) for key, text in enumerate(texts)
        ]
        found = await asyncio.gather(*calls)
        assert sum(not matches for matches in found) == len(index) == 10

    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        run(main(index))


def test_close_by_another_task_rolls_back_and_the_block_learns_of_it(tmp_path: Path) -> None:
    async def close(index: Index) -> None:
        index.close()

    async def main() -> None:
        index = simindex.open(tmp_path / "i", "x", SMALL)
        index.insert("a", ["a"])

        async def change() -> None:
            with index.transaction():
                index.insert("b", ["b"])
                await asyncio.create_task(close(index))

        with pytest.raises(ClosedError, match="closed inside a transaction, whose changes are not stored"):
            await change()
        with simindex.open(tmp_path / "i") as reopened:
            assert list(reopened) == ["a"]

    run(main())


def test_transaction_from_outside_of_any_task_takes_the_tasks_that_run_inside_of_it(index: Index) -> None:
    """They can only be its own: nothing else runs on the thread until it ends."""

    async def insert(key: str) -> None:
        index.insert(key, FOX)
        assert key in index

    async def main() -> None:
        await asyncio.gather(*(insert(f"T{n}") for n in range(5)))
        with pytest.raises(TransactionOpenError):
            await asyncio.to_thread(index.insert, "T5", FOX)

    with index.transaction():
        asyncio.run(main())
    assert len(index) == 7


def test_transactions_of_two_indexes_keep_apart(index: Index, tmp_path: Path) -> None:
    async def main() -> None:
        with simindex.open(tmp_path / "other", "x", SMALL) as other:
            with index.transaction():
                await asyncio.to_thread(other.insert, "a", ["a"])
                with other.transaction(), pytest.raises(TransactionOpenError, match="/other:"):
                    await asyncio.to_thread(other.insert, "b", ["b"])
                await asyncio.to_thread(other.insert, "b", ["b"])
                with pytest.raises(TransactionOpenError, match="/i:"):
                    await asyncio.to_thread(index.insert, "b", ["b"])
            await asyncio.to_thread(index.insert, "b", ["b"])
            assert list(other) == ["a", "b"]

    run(main())
    assert list(index) == ["fox", "car", "b"]


def test_transaction_that_ended_in_another_context_is_over_everywhere(index: Index) -> None:
    """As a fixture's does that is set up and torn down in contexts of their own."""
    before, end = contextvars.copy_context(), contextvars.copy_context()
    block = index.transaction()
    before.run(block.__enter__)
    index.insert("T1", FOX)
    thread = threading.Thread(target=lambda: before.run(list, index))
    thread.start()
    thread.join(20)
    end.run(block.__exit__, None, None, None)
    before.run(index.insert, "T2", FOX)
    with index.transaction():
        thread = threading.Thread(target=lambda: before.run(index.insert, "T3", FOX))
        thread.start()  # it has the context of the transaction before, and waits its turn
        thread.join(0.05)
        assert thread.is_alive()
    thread.join(20)
    assert list(index) == ["fox", "car", "T1", "T2", "T3"]


def test_transaction_has_no_asynchronous_block(index: Index) -> None:
    async def main() -> None:
        block: Any = index.transaction()
        with pytest.raises(TypeError, match="asynchronous context manager"):
            async with block:
                pass

    run(main())


async def items() -> AsyncIterator[tuple[str, str]]:
    yield "T1", FOX


@pytest.mark.parametrize("call", ["insert_many", "remove_many", "query_many", "query_simhash_many"])
def test_asynchronous_generator_is_refused_with_what_to_do(index: Index, call: str) -> None:
    with pytest.raises(TypeError, match=r"async_generator.*gather a batch of its items in a list"):
        getattr(index, call)(items())
    assert list(index) == ["fox", "car"]
