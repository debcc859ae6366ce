"""Every page of docs/howto does what it says, with the libraries that it is about."""

import re
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from pages import HOWTO, environment, fences, of_language, run

INDEX = HOWTO / "README.md"
PAGES = [page for page in sorted(HOWTO.glob("*.md")) if page != INDEX]
PROGRAMS = [page for page in PAGES if of_language(page, "python") and page.stem != "notebooks"]

each_program = pytest.mark.parametrize("page", PROGRAMS, ids=[page.stem for page in PROGRAMS])


def test_every_page_is_in_the_index_and_is_run_here() -> None:
    listed = re.findall(r"^\| .* \| \[([\w-]+\.md)\]\(\1\) \|$", INDEX.read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == [page.name for page in PAGES]
    assert {page.stem for page in PAGES} - {page.stem for page in PROGRAMS} == {"notebooks"}


@each_program
def test_page_prints_what_it_says_and_the_same_a_second_time(page: Path, tmp_path: Path) -> None:
    program = "\n".join(of_language(page, "python"))
    expected = "".join(of_language(page, "text"))
    assert expected
    for _ in range(2):
        assert run(program, tmp_path) == expected


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_has_no_block_that_nobody_runs(page: Path) -> None:
    assert {fence.language for fence in fences(page)} <= {"python", "text"}


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
