"""deduplicate and join with files of other machines."""

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import fsspec
import pytest
from support.servers import gs_store, in_memory, s3_store
from support.truth import lines, texts, write_lines

from simindex import SimIndexError
from simindex.corpus import DedupSettings, deduplicate

TEXTS = texts(300)


def test_a_remote_input_that_changed_is_another_job(tmp_path: Path) -> None:
    all_lines = lines(TEXTS)
    for content in (all_lines, all_lines[::-1]):
        with in_memory(a__jsonl=b"".join(content)) as url:
            if content is all_lines:
                deduplicate(f"{url}/a.jsonl", tmp_path / "out.jsonl")
            else:  # of the same size, written later
                with pytest.raises(
                    SimIndexError, match=r"inputs that have changed since: .*memory://crawl/a\.jsonl"
                ):
                    deduplicate(f"{url}/a.jsonl", tmp_path / "out.jsonl")


@pytest.mark.parametrize("name", ["out.jsonl.zst", "out.parquet"])
def test_a_remote_output_has_the_bytes_of_a_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.jsonl", TEXTS)
    deduplicate("a.jsonl", f"local-{name}", settings=DedupSettings(removed="gone.jsonl"))
    with in_memory() as url:
        reports = [
            deduplicate("a.jsonl", f"{url}/far/{name}", settings=DedupSettings(removed=f"{url}/gone.jsonl"))
            for _ in range(2)
        ]
        assert reports[0] == reports[1]
        assert fsspec.filesystem("memory").find("/crawl") == [f"/crawl/far/{name}", "/crawl/gone.jsonl"]
        for mine, theirs in ((f"local-{name}", f"{url}/far/{name}"), ("gone.jsonl", f"{url}/gone.jsonl")):
            with fsspec.open(theirs) as file:
                assert file.read() == (tmp_path / mine).read_bytes()
        assert [path.name for path in (tmp_path / f"{name}.dedup").iterdir()] == ["journal.json"]
        (tmp_path / f"{name}.dedup" / "journal.json").unlink()
        with pytest.raises(SimIndexError, match=rf"memory://crawl/far/{name}: there is such a file already"):
            deduplicate("a.jsonl", f"{url}/far/{name}")
        deduplicate(((n, text) for n, text in enumerate(TEXTS)), f"{url}/far/{name}", force=True)


@pytest.mark.parametrize("store", [s3_store, gs_store])
def test_object_store_gives_and_takes_what_local_files_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Callable[[], AbstractContextManager[str]]
) -> None:
    """Inputs by a pattern, an output, its report, and the same job once more, through a server of its own."""
    monkeypatch.chdir(tmp_path)
    all_lines = write_lines(tmp_path / "a.jsonl", TEXTS)
    expected = deduplicate("a.jsonl", "local.jsonl.zst", settings=DedupSettings(removed="gone.jsonl"))
    with store() as url:
        kind = url.partition("://")[0]
        system = fsspec.filesystem(kind)
        for name, part in (("a", all_lines[:100]), ("b", all_lines[100:])):
            system.pipe_file(f"{url}/in/{name}.jsonl", b"".join(part))
        inputs, outputs = f"{url}/in/*.jsonl", (f"{url}/out.jsonl.zst", f"{url}/gone.jsonl")
        reports = [
            deduplicate(inputs, outputs[0], settings=DedupSettings(removed=outputs[1])) for _ in range(2)
        ]
        assert reports[0] == reports[1]
        assert reports[0][:4] == expected[:4]
        assert system.cat_file(outputs[0]) == Path("local.jsonl.zst").read_bytes()
        gone = [json.loads(line) for line in system.cat_file(outputs[1]).splitlines()]
        assert len(gone) == expected.removed
        assert {row["input"] for row in gone} == {f"{url}/in/a.jsonl", f"{url}/in/b.jsonl"}
        assert sorted(system.find(url)) == sorted(
            f"{url}/{name}".removeprefix(f"{kind}://")
            for name in ("gone.jsonl", "in/a.jsonl", "in/b.jsonl", "out.jsonl.zst")
        )
        with pytest.raises(FileNotFoundError, match="no such file"):
            deduplicate(f"{url}/in/none.jsonl", "other.jsonl")
        shutil.rmtree("out.jsonl.zst.dedup")
        with pytest.raises(SimIndexError, match=rf"{kind}://.*out\.jsonl\.zst: there is such a file already"):
            deduplicate("a.jsonl", outputs[0])


def test_an_upload_that_breaks_off_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.jsonl", TEXTS)
    deduplicate("a.jsonl", "local.jsonl")
    system = fsspec.filesystem("memory")
    with in_memory() as url:
        with monkeypatch.context() as broken:
            broken.setattr(type(system), "mv", _breaks)
            with pytest.raises(
                SimIndexError, match=r"memory://crawl/out\.jsonl: cannot be reached: the line is dead"
            ):
                deduplicate("a.jsonl", f"{url}/out.jsonl")
        assert not system.exists("/crawl/out.jsonl")
        deduplicate("a.jsonl", f"{url}/out.jsonl")
        assert system.cat("/crawl/out.jsonl") == (tmp_path / "local.jsonl").read_bytes()
        assert system.find("/crawl") == ["/crawl/out.jsonl"]


def _breaks(*_: object, **__: object) -> None:
    raise RuntimeError("the line is dead")


def test_an_output_on_a_web_server_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "a.jsonl", TEXTS)
    with pytest.raises(SimIndexError, match=r"https://host/out\.jsonl: expected an output on this machine"):
        deduplicate("a.jsonl", "https://host/out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]
