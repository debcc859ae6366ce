"""The pages of the documents, and the blocks of code in them."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


class Fence(NamedTuple):
    """A block of code: ```python title="service.py" is a file, ```python a part of the page's program."""

    language: str
    title: str
    content: str


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def fences(page: Path) -> list[Fence]:
    found = re.findall(r'^```(\w+)(?: title="([\w.]+)")?\n(.*?)^```$', text_of(page), re.M | re.S)
    return [Fence(*parts) for parts in found]


def of_language(page: Path, language: str) -> list[str]:
    """The contents of a page's blocks of one language that are no files."""
    return [fence.content for fence in fences(page) if fence.language == language and not fence.title]


def files(page: Path) -> dict[str, str]:
    """The files of a page: name -> content."""
    return {fence.title: fence.content for fence in fences(page) if fence.title}
