"""One index in several processes at once."""

from pathlib import Path

from support.processes import ANSWER, ask, end, pipes_of, start
from support.texts import BATCH, SMALL, TINY_LAYOUT, batch, document

import simindex


def test_process_queries_what_another_has_committed_while_it_goes_on_inserting(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, layout=TINY_LAYOUT) as index:
        reader = start(ANSWER, tmp_path / "i", 1 << 24)
        asks, answers = pipes_of(reader)
        for number in range(40):
            wanted = document("wanted", number)
            index.insert_many(batch(number))
            asks.write(" ".join(wanted) + "\n")
            index.insert(f"wanted-{number}", wanted)
            index.insert_many(batch("later", number, size=3))
            size, *keys = answers.readline().split()
            # The reader saw the state before its query, or one of the two commits after it.
            assert int(size) - number * (BATCH + 4) in (BATCH, BATCH + 1, BATCH + 4)
            assert keys in ([], [f"wanted-{number}"])
            assert ask(reader, " ".join(wanted)) == f"{(number + 1) * (BATCH + 4)} wanted-{number}"
        end(reader)
