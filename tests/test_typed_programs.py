"""Programs of the documents, as a typed user has them: `mypy --strict` finds nothing in them.

Of other projects' libraries some have no types of their own; that is not counted. With `--all` mypy
reads the types of all of them, which takes most of its time; without, those that the programs import count as
unknown.
"""

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import DOCS, ROOT, files, of_language, text_of
from support.samples import sample_of

import simindex


def programs() -> dict[str, str]:
    """The programs by the names of their files: blocks of README, guide and scaleout one by one, others
    by page."""
    found: dict[str, str] = {}
    for page in (ROOT / "README.md", DOCS / "guide.md", DOCS / "scaleout.md"):
        blocks = enumerate(of_language(page, "python"), 1)
        found |= {f"{page.stem.lower()}_{number}.py": block for number, block in blocks}
    for name in ("minhash-or-simhash", "thresholds", "words"):
        examples = doctest.script_from_examples(text_of(DOCS / f"{name}.md"))
        # Functions of these pages compare whatever they are given.
        found[f"{name.replace('-', '_')}.py"] = "# mypy: allow-untyped-defs, allow-untyped-calls\n" + examples
    pages = (page for folder in ("howto", "course") for page in sorted((DOCS / folder).glob("*.md")))
    for page in [DOCS / "start.md", *pages]:
        name = page.stem.replace("-", "_")
        name = f"course_{name}" if name[0].isdigit() else name
        found |= {f"{name}_{title}": block for title, block in files(page).items() if title.endswith(".py")}
        if whole := "\n".join(of_language(page, "python")):
            found[f"{name}_page.py"] = whole
    return found


UNKNOWN = """[mypy]
strict = True
disallow_subclassing_any = False
disallow_untyped_decorators = False
disable_error_code = import-untyped, unused-ignore

[mypy-simindex.*]
ignore_errors = True

[mypy-dask.*,datasets.*,fastapi.*,fsspec.*,matplotlib.*,pandas.*,polars.*,pyarrow.*,pydantic.*,ray.*,scrapy.*]
follow_imports = skip
"""
NO_SPARK = """
[mypy-pyspark.*]
follow_imports = skip
ignore_missing_imports = True
"""
"""It is 400 MB, and so no test package."""


def checked(folder: Path, sources: dict[str, str], configuration: str) -> subprocess.CompletedProcess[str]:
    """Check files by mypy, in a folder of their own."""
    (folder / "mypy.ini").write_text(configuration, encoding="utf-8")
    for name, source in sources.items():
        (folder / name).write_text(source, encoding="utf-8")
    package = Path(simindex.__file__).parent
    # An editable install is found by a hook of the import system, which mypy does not have.
    own = {"MYPYPATH": str(package.parent)} if package.parent == ROOT else {}
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=mypy.ini",
         "--cache-dir=cache", "--no-color-output", *sources],
        cwd=folder, env=os.environ | own, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


WRONG = """import simindex

with simindex.open("news.simindex") as index:
    index.query("a text")[0].similarity.upper()
simindex.open("news.simindex", "w")
simindex.corpus.join("a", "b", treshold=0.8)
"""


@pytest.mark.parametrize(
    "configuration",
    sample_of([UNKNOWN], ["[mypy]\nstrict = True\ndisable_error_code = import-untyped, untyped-decorator\n"]),
    ids=["", "all"],
)
def test_programs_of_the_documents_are_typed_and_what_is_wrong_is_found(
    tmp_path: Path, configuration: str
) -> None:
    sources = programs()
    assert {
        "readme_1.py",
        "guide_1.py",
        "guide_2.py",
        "crawler_page.py",
        "course_08_segments_page.py",
        "thresholds.py",
        "workers_reader.py",
    } <= sources.keys()
    done = checked(tmp_path, sources | {"wrong.py": WRONG}, configuration + NO_SPARK)
    found = [line for line in done.stdout.splitlines() if line.partition(":")[0] in sources]
    assert found == []
    assert 'wrong.py:4: error: Item "float" of "float | Any" has no attribute "upper"' in done.stdout
    assert 'wrong.py:5: error: Argument 2 to "open" has incompatible type "Literal[\'w\']"' in done.stdout
    assert 'wrong.py:6: error: Unexpected keyword argument "treshold" for "join"' in done.stdout
    assert done.stderr == ""
