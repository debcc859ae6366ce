"""deduplicate and join with files of other machines."""

from pathlib import Path

import pytest
from dedup_rows import lines, texts, write_lines
from remote_files import in_memory, served

from simindex.corpus import deduplicate, join
from simindex.corpus.dedup.journal import JobError

TEXTS = texts(300)


@pytest.mark.parametrize("keep", ["first", "longest"])
def test_remote_inputs_give_what_local_ones_give(tmp_path: Path, keep: str) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS)
    deduplicate(tmp_path / "a.jsonl", tmp_path / "local.jsonl", keep=keep)
    with served(tmp_path) as url:
        report = deduplicate(f"{url}/a.jsonl", tmp_path / "web.jsonl", keep=keep)
        assert deduplicate(f"{url}/a.jsonl", tmp_path / "web.jsonl", keep=keep) == report
    assert (tmp_path / "web.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()
    all_lines = lines(TEXTS)
    with in_memory(a__jsonl=b"".join(all_lines[:100]), b__jsonl=b"".join(all_lines[100:])) as url:
        deduplicate(f"{url}/*.jsonl", tmp_path / "memory.jsonl", keep=keep)
    assert (tmp_path / "memory.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()


def test_a_remote_input_that_changed_is_another_job(tmp_path: Path) -> None:
    all_lines = lines(TEXTS)
    for content in (all_lines, all_lines[::-1]):
        with in_memory(a__jsonl=b"".join(content)) as url:
            if content is all_lines:
                deduplicate(f"{url}/a.jsonl", tmp_path / "out.jsonl")
            else:  # of the same size, written later
                with pytest.raises(JobError, match=r"another one's \(inputs: .*memory://crawl/a\.jsonl"):
                    deduplicate(f"{url}/a.jsonl", tmp_path / "out.jsonl")


def test_join_takes_a_remote_side(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS)
    with served(tmp_path) as url:
        found = list(join(f"{url}/a.jsonl", tmp_path / "a.jsonl", 0.9))
    assert found == list(join(tmp_path / "a.jsonl", tmp_path / "a.jsonl", 0.9))
    assert len(found) >= len(TEXTS)
