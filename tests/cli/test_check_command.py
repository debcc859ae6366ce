"""`simindex check`: what it prints, and its exit codes."""

import json
from pathlib import Path

from support.commands import Run
from support.stored import flipped, store_values, stored_values

import simindex


def make(path: Path) -> None:
    with simindex.open(path) as index:
        index.insert("fox", "the quick brown fox jumps over the lazy dog")


def test_check_says_that_nothing_is_wrong(run: Run) -> None:
    make(Path("news"))
    for options in ((), ("--quick",)):
        ran = run("check", "news", *options)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("news: nothing is wrong (")
    report = json.loads(run("check", "news", "--json").out)
    assert (report["ok"], report["problems"], report["num_documents"]) == (True, [], 1)


def test_check_of_damage_fails_and_names_it(run: Run, tmp_path: Path) -> None:
    make(tmp_path / "news")
    database, key, value = next(item for item in stored_values(tmp_path / "news") if item[0] == "documents")
    store_values(tmp_path / "news", [(database, key, flipped(value, 9))])
    ran = run("check", tmp_path / "news")
    assert ran.code == 1
    assert "1 problem" in ran.out
    assert "database documents" in ran.out
    ran = run("check", tmp_path / "news", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["problems"][0]["kind"] == "record"
    assert run("check", tmp_path / "news", "--quick").code == 0


def test_check_of_nothing_is_an_error(run: Run) -> None:
    ran = run("check", "none")
    assert ran.code == 1
    assert ran.err.startswith("simindex: none: no simindex index")
