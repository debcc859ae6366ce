"""What is promised of platforms is said once, and everywhere the same."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_pages_package_and_workflow_promise_the_same_platforms() -> None:
    (sentence,) = re.findall(r"^## Platforms\n\n(.*)$", text("docs/limits.md"), re.M)
    assert sentence.startswith("Tested on Linux, x86-64 and 64-bit ARM; compiled for macOS")
    for page in ("README.md", "docs/guide.md"):
        assert sentence in text(page)
    project = tomllib.loads(text("pyproject.toml"))
    systems = [each for each in project["project"]["classifiers"] if each.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert all("-macosx_" in build for build in project["tool"]["cibuildwheel"]["build"])
    workflow = text(".github/workflows/test.yml")
    runners = dict(re.findall(r"^  (\w+):(?:(?!^  \w).)*?runner: \[(.*?)\]", workflow, re.M | re.S))
    assert runners == {"test": "ubuntu-latest, ubuntu-24.04-arm", "macos": "macos-15-intel, macos-15"}
    assert "macos: # not tried here" in workflow
