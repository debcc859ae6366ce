"""Every page of docs/howto does what it says, with the libraries that it is about."""

import ast
import json
import os
import re
import shlex
import shutil
import signal
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
from support.command_server import command_server, run_block
from support.pages import DOCS, fences, files, of_language, text_of
from support.processes import free_port, succeeds
from support.samples import sample_of
from support.stages import rows_of, written

import simindex
from simindex.corpus import deduplicate

HOWTO = DOCS / "howto"
INDEX = HOWTO / "README.md"
PAGES = [page for page in sorted(HOWTO.glob("*.md")) if page != INDEX]
OVER_RAY = {"ray-data", "dedup-on-many-machines"}
"""Pages that tests/scaleout/test_one_node.py runs, with the Ray that it has started."""

PROGRAMS = [
    page for page in PAGES if of_language(page, "python") and page.stem not in {"notebooks", *OVER_RAY}
]

SLOW = {"hugging-face", "data-frames", "scrapy", "datasketch", "all-right", "report", "dask", "spark"}
"""Pages whose second run is left to `--all`: their imports take longest."""
RUNS = sample_of(
    [(page, 1 if page.stem in SLOW else 2) for page in PROGRAMS],
    [(page, 2) for page in PROGRAMS if page.stem in SLOW],
)


def environment(folder: Path) -> dict[str, str]:
    """Of a program that runs in that folder: its own modules are found, and no network is asked for."""
    own = {"PYTHONPATH": str(folder), "HOME": str(folder), "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | own


def run(program: str, folder: Path) -> str:
    """Run a program in a folder, and give what it printed."""
    path = folder / "page.py"
    path.write_text(program, encoding="utf-8")
    command = [sys.executable, "-X", "utf8", "-W", "error::ResourceWarning", path]
    done = succeeds(command, cwd=folder, env=environment(folder))
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_page_is_in_the_index_and_is_run_here() -> None:
    listed = re.findall(r"^\| .* \| \[([\w-]+\.md)\]\(\1\) \|$", text_of(INDEX), re.M)
    assert sorted(listed) == [page.name for page in PAGES]
    assert {page.stem for page in PAGES} - {page.stem for page in PROGRAMS} == {
        "notebooks",
        "workers",
        *OVER_RAY,
    }


@pytest.mark.parametrize(("page", "times"), RUNS, ids=lambda value: getattr(value, "stem", ""))
def test_page_prints_what_it_says_and_the_same_a_second_time(page: Path, times: int, tmp_path: Path) -> None:
    program = "\n".join(of_language(page, "python"))
    expected = "".join(of_language(page, "text"))
    assert expected
    if page.stem == "spark":
        pytest.importorskip("pyspark", reason="it is 400 MB, and so no test package")
        if shutil.which("java") is None:
            pytest.skip("Spark needs a Java runtime")
    for _ in range(times):
        assert run(program, tmp_path) == expected
    for commands in of_language(page, "sh"):
        shown = run_block(commands, tmp_path)
        if page.stem == "report":
            assert "the ferry to the island leaves at ten" in (tmp_path / "report.html").read_text()
            continue
        if page.stem == "tune":
            assert shown.count("simindex dedup news.jsonl -o clean.jsonl --threshold ") == 1
            assert json.loads((tmp_path / "tuned.json").read_text())["labels"]["skipped"] == 0
            continue
        assert "notes/ferry-2.txt" in shown
        assert "notes/list.txt" not in shown


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_has_no_block_that_nobody_runs(page: Path) -> None:
    known = {"python", "text"} | (
        {"sh"} if page.stem in ("workers", "pairs-and-clusters", "report", "tune") else set()
    )
    known |= {"diff"} if page.stem == "datasketch" else set()
    known |= {"sh", "make", "bash"} if page.stem == "dedup-on-many-machines" else set()
    assert {fence.language for fence in fences(page)} <= known


def test_move_from_datasketch_is_three_lines(tmp_path: Path) -> None:
    """Taken back, the change gives a program of datasketch that prints the same."""
    page = HOWTO / "datasketch.md"
    (diff,) = of_language(page, "diff")
    program = of_language(page, "python")[0]
    before = [line[1:] for line in diff.splitlines() if line[0] == "-"]
    after = [line[1:] for line in diff.splitlines() if line[0] == "+"]
    assert len(before) == len(after) == 3
    for old, new in zip(before, after, strict=True):
        assert program.count(f"{new}\n") == 1
        program = program.replace(new, old)
    assert run(program, tmp_path) == of_language(page, "text")[0]


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


# ---- stages of a deduplication ----

SBATCH = """#!/bin/bash
# Runs a job at once: each task of its array, and fails where one of them fails.
for option; do case $option in --array=1-*) last=${option#*-array=1-};; esac; run=$option; done
for task in $(seq $last); do SLURM_ARRAY_TASK_ID=$task bash -c "$run" >&2 || exit; done
echo 7
"""


@pytest.mark.parametrize("runner", ["make", "slurm"])
def test_stages_that_make_or_slurm_runs_write_what_one_machine_writes(runner: str, tmp_path: Path) -> None:
    page, lake = HOWTO / "dedup-on-many-machines.md", tmp_path / "lake"
    plan, make = of_language(page, "sh")[0].replace("8", "2").splitlines()
    program = plan + "\n" + (make if runner == "make" else files(page)["slurm.sh"].replace("64", "2"))
    lake.mkdir()
    sources = [written(lake / f"{seed}.jsonl", rows_of(seed, 60)) for seed in (1, 2)]
    deduplicate(sources, tmp_path / "one.jsonl")
    (tmp_path / "Makefile").write_text(files(page)["Makefile"], encoding="utf-8")
    with command_server() as function:
        for name, script in (("sbatch", SBATCH), ("simindex", f'#!/bin/bash\n{function}simindex "$@"\n')):
            (tmp_path / name).write_text(script, encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        subprocess.run(
            ["bash", "-eo", "pipefail", "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            check=True,
            timeout=120,
        )
    assert (tmp_path / "clean.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()


# ---- workers ----


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
    page = HOWTO / "workers.md"
    for name, content in files(page).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = of_language(page, "sh")[0]
    make = re.search(r"^python (-c '.*')$", commands, re.M)
    assert make is not None
    succeeds([sys.executable, *shlex.split(make[1])], cwd=tmp_path, env=environment(tmp_path))
    writer, reader = free_port(), free_port()
    write = re.search(r"^(uvicorn .*) &$", commands, re.M)
    read = re.search(r"^(gunicorn .*)$", commands, re.M)
    assert write is not None
    assert read is not None
    assert "--preload" in read[1]
    ferry = "The ferry to the island leaves at nine in the morning and at six in the evening"
    similar, pages = f"http://127.0.0.1:{reader}/similar", f"http://127.0.0.1:{writer}/pages"
    with started(read[1].replace("8000", str(reader)).split(), tmp_path):
        assert answer(similar, text=ferry) == {"matches": [], "truncated": False}
        with started(write[1].replace("8001", str(writer)).split(), tmp_path):
            assert answer(f"http://127.0.0.1:{writer}/openapi.json")["paths"].keys() == {"/pages"}
            for url, is_new in (("a", True), ("b", False)):
                saved = httpx.post(pages, json={"url": url, "text": ferry}, timeout=30)
                assert saved.status_code == 200, saved.text
                assert saved.json()["is_new"] is is_new
            for _ in range(20):  # whichever worker answers
                (match,) = answer(similar, text=ferry.upper())["matches"]
                assert (match["key"], match["similarity"]) == ("a", 1.0)
    with simindex.open(tmp_path / "service.simindex") as index:
        assert list(index) == ["a"]


@pytest.mark.parametrize(("module", "call"), [("tasks", "save"), ("turns", "save_many")])
def test_celery_stores_what_tasks_bring(module: str, call: str, tmp_path: Path) -> None:
    """By files in the place of Redis, which is no Python package."""
    pytest.importorskip("celery", reason="an environment made before the page was")
    page, redis = HOWTO / "workers.md", 'broker="redis://localhost", backend="redis://localhost"'
    program = files(page)[f"{module}.py"]
    assert redis in program
    queue = {"data_folder_in": str(tmp_path), "data_folder_out": str(tmp_path)}
    program = program.replace(redis, f'broker="filesystem://", backend="file://{tmp_path}"')
    program += f"app.conf.update(broker_transport_options={queue})\n"
    (tmp_path / f"{module}.py").write_text(program, encoding="utf-8")
    start = re.search(r"^(celery .*)$", of_language(page, "sh")[2], re.M)
    assert start is not None
    ferry = "The ferry to the island leaves at nine in the morning and at six in the evening"
    asked = [("a", ferry), ("b", ferry.upper()), ("c", "Bread, milk and a newspaper"), ("a", ferry)]
    ask = f"[save.delay(*page).get(60) for page in {asked}]"
    if call == "save_many":
        ask = f"[task.get(60) for task in [save_many.delay([page]) for page in {asked}]]"
    with started(start[1].replace("tasks", module).split(), tmp_path):
        answers = run(f"from {module} import {call}\nprint({ask})", tmp_path)
    with simindex.open(tmp_path / "service.simindex", "r") as index:
        keys = sorted(index)
    if call == "save":
        assert (keys, answers) == (["a", "c"], "[[], ['a'], [], []]\n")
    else:
        # All four are sent before the first is done, and files of one millisecond have no order.
        assert keys in (["a", "c"], ["b", "c"])
        inserted = ast.literal_eval(answers)
        assert (sorted(inserted), inserted[2]) == ([0, 0, 1, 1], 1)
