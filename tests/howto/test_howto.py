"""Every page of docs/howto does what it says, with the libraries that it is about."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import nbclient
import nbformat
import pytest
from pages import HOWTO, environment, fences, files, of_language, run, run_commands

import simindex

INDEX = HOWTO / "README.md"
PAGES = [page for page in sorted(HOWTO.glob("*.md")) if page != INDEX]
PROGRAMS = [page for page in PAGES if of_language(page, "python") and page.stem != "notebooks"]

each_program = pytest.mark.parametrize("page", PROGRAMS, ids=[page.stem for page in PROGRAMS])


def test_every_page_is_in_the_index_and_is_run_here() -> None:
    listed = re.findall(r"^\| .* \| \[([\w-]+\.md)\]\(\1\) \|$", INDEX.read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == [page.name for page in PAGES]
    assert {page.stem for page in PAGES} - {page.stem for page in PROGRAMS} == {"notebooks", "web-service"}


@each_program
def test_page_prints_what_it_says_and_the_same_a_second_time(page: Path, tmp_path: Path) -> None:
    program = "\n".join(of_language(page, "python"))
    expected = "".join(of_language(page, "text"))
    assert expected
    for _ in range(2):
        assert run(program, tmp_path) == expected
    for commands in of_language(page, "sh"):
        shown = run_commands(commands, tmp_path)
        if page.stem == "report":
            assert "the ferry to the island leaves at ten" in (tmp_path / "report.html").read_text()
            continue
        assert "notes/ferry-2.txt" in shown
        assert "notes/list.txt" not in shown


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_has_no_block_that_nobody_runs(page: Path) -> None:
    known = {"python", "text"} | (
        {"sh"} if page.stem in ("web-service", "pairs-and-clusters", "report") else set()
    )
    assert {fence.language for fence in fences(page)} <= known


# ---- notebooks ----


def test_notebook_runs_cell_by_cell_and_shows_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    make: Any = nbformat.v4
    cells = [make.new_code_cell(code) for code in of_language(HOWTO / "notebooks.md", "python")]
    notebook = make.new_notebook(cells=[*cells, make.new_code_cell("index.close()")])
    client = nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    shown = [cell.outputs[0]["data"]["text/html"] for cell in notebook.cells[:3]]
    assert "notebook.simindex" in shown[0]
    assert all("<table" in html for html in shown[1:])
    assert "similarity" in shown[1]
    assert "documents" in shown[2]


# ---- a web service ----


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def started(arguments: list[str], folder: Path) -> Iterator[None]:
    """A server, ended by the signal that ends it in an orderly way."""
    log = folder / f"{arguments[0]}.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=folder,
            env=environment(folder),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        finally:
            server.kill()
            server.wait()
            print(log.read_text(encoding="utf-8"))
    assert server.returncode in (0, -signal.SIGTERM)


def answer(url: str, **parameters: Any) -> Any:
    """What a server that is perhaps still starting answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            response = httpx.get(url, params=parameters, timeout=30)
        except httpx.TransportError:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
            continue
        assert response.status_code == 200, response.text
        return response.json()


def test_web_service_has_readers_that_see_what_the_writer_stores(tmp_path: Path) -> None:
    page = HOWTO / "web-service.md"
    for name, content in files(page).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = of_language(page, "sh")[0]
    writer, reader = free_port(), free_port()
    write = re.search(r"^(uvicorn .*) &$", commands, re.M)
    read = re.search(r"^(gunicorn .*)$", commands, re.M)
    assert write is not None
    assert read is not None
    assert "--preload" in read[1]
    ferry = "The ferry to the island leaves at nine in the morning and at six in the evening"
    with started(write[1].replace("8001", str(writer)).split(), tmp_path):
        assert answer(f"http://127.0.0.1:{writer}/openapi.json")["paths"].keys() == {"/pages"}
        with started(read[1].replace("8000", str(reader)).split(), tmp_path):
            similar, pages = f"http://127.0.0.1:{reader}/similar", f"http://127.0.0.1:{writer}/pages"
            assert answer(similar, text=ferry) == {"matches": [], "truncated": False}
            for url, is_new in (("a", True), ("b", False)):
                saved = httpx.post(pages, json={"url": url, "text": ferry}, timeout=30)
                assert saved.status_code == 200, saved.text
                assert saved.json()["is_new"] is is_new
            for _ in range(20):  # whichever worker answers
                (match,) = answer(similar, text=ferry.upper())["matches"]
                assert (match["key"], match["similarity"]) == ("a", 1.0)
    with simindex.open(tmp_path / "service.simindex") as index:
        assert list(index) == ["a"]
