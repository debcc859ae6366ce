"""Pages that teach print what they say: the course, solutions included, start and coming-from."""

import contextlib
import io
import re
from pathlib import Path

import pytest
from support.command_server import run_block
from support.pages import DOCS, fences, text_of

COURSE = DOCS / "course"
PAGES = sorted(COURSE.glob("[0-9]*.md"))


def test_all_pages_are_in_the_list_of_the_course() -> None:
    listed = re.findall(r"\]\((\d\d-[\w-]+\.md)\)", text_of(COURSE / "README.md"))
    assert listed == [page.name for page in PAGES]
    assert len(PAGES) == 10


RUN = [*PAGES, DOCS / "start.md", DOCS / "coming-from.md"]


@pytest.mark.parametrize("page", RUN, ids=[page.stem for page in RUN])
def test_page_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [(fence.language, fence.content) for fence in fences(page) if fence.language != "console"]
    names: dict[str, object] = {"__name__": page.stem}
    for (language, program), (shown, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        assert shown == "text"
        assert language in ("python", "sh")
        assert (printed(program, names) if language == "python" else run_block(program, tmp_path)) == expected


def printed(program: str, names: dict[str, object]) -> str:
    """Run a program, and give what it printed."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "page", "exec"), names)
    return output.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_has_a_picture_and_two_exercises_with_solutions(page: Path) -> None:
    text = text_of(page)
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert (page.parent / picture).is_file()
    exercises = text.partition("## Exercises")[2]
    assert len(re.findall(r"^\*\*\d\.\*\* ", exercises, re.MULTILINE)) == 2
    assert exercises.count("<summary>Solution</summary>") == exercises.count("```python") == 2
