"""Every page of docs/course: its programs print what stands behind them, solutions of exercises included."""

import contextlib
import io
import re
from pathlib import Path

import pytest

COURSE = Path(__file__).parents[1] / "docs" / "course"
PAGES = sorted(COURSE.glob("[0-9]*.md"))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_all_pages_are_in_the_list_of_the_course() -> None:
    listed = re.findall(r"\]\((\d\d-[\w-]+\.md)\)", (COURSE / "README.md").read_text(encoding="utf-8"))
    assert listed == [page.name for page in PAGES]
    assert len(PAGES) == 10


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_prints_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    assert [language for language, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    names = {"__name__": page.stem}
    for (_, program), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, page.name, "exec"), names)
        assert printed.getvalue() == expected


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_page_has_a_picture_and_two_exercises_with_solutions(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text)
    assert (page.parent / picture).is_file()
    exercises = text.partition("## Exercises")[2]
    assert len(re.findall(r"^\*\*\d\.\*\* ", exercises, re.MULTILINE)) == 2
    assert exercises.count("<summary>Solution</summary>") == exercises.count("```python") == 2
