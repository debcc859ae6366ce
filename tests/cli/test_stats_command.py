"""`simindex stats`: tables and JSON."""

import json

import pytest
from support.commands import NO_INDEX, Run


def test_stats_shows_what_the_index_holds_and_gives(run: Run, news: str) -> None:
    result = run("stats", news)
    assert (result.code, result.err) == (0, "")
    for part in ("documents", "segments", "bytes in use/document", "permutation tables", "3 words"):
        assert part in result.out
    recalls = [line.split()[0] for line in result.out.splitlines() if line.startswith("0.")]
    assert recalls == ["0.5", "0.6", "0.7", "0.8", "0.9"]
    assert (
        "threshold  bits compared  looked at  0.5 returned at  0.95 returned at  0.99 returned at"
        in result.out
    )
    assert ["0.8", "56", "0.9775", "0.799", "0.853", "0.873"] in map(str.split, result.out.splitlines())


def test_stats_says_why_tables_use_and_file_differ(run: Run, news: str) -> None:
    stats = json.loads(run("stats", news, "--json").out)
    tables = sum(stats["table_bytes"].values())
    (line,) = (line for line in run("stats", news).out.splitlines() if line.startswith("The tables hold "))
    assert line.startswith(
        f"The tables hold {tables:,} bytes. In use are {stats['used_bytes']:,}: whole pages"
    )
    assert f"The file has {stats['file_bytes']:,}: what was freed is used again." in line


def test_stats_json_is_one_object(run: Run, news: str) -> None:
    stats = json.loads(run("stats", news, "--json").out)
    assert stats["documents"] == 3
    assert stats["config"]["shingles"] == {
        "kind": "words",
        "size": 3,
        "normalize": ["casefold", "whitespace"],
    }
    assert set(stats["recall"]) == {"0.5", "0.6", "0.7", "0.8", "0.9"}
    assert set(stats["found"]) == set(stats["recall"])
    assert stats["found"]["0.8"]["0.5"] == pytest.approx(0.799, abs=0.001)
    assert stats["table_bytes"]["bands"] > 0


@pytest.mark.parametrize("option", ["--no-minhash", "--no-simhash"])
def test_stats_shows_an_index_of_one_method(run: Run, rows_file: str, option: str) -> None:
    assert run("insert", "news", rows_file, option).code == 0
    result = run("stats", "news")
    assert result.code == 0
    assert ("threshold" in result.out) == (option == "--no-simhash")
    assert ("SimHash search" in result.out) == (option == "--no-minhash")


def test_stats_reports_a_missing_index(run: Run) -> None:
    result = run("stats", "nowhere", "--json")
    assert (result.code, result.out, result.err) == (
        1,
        "",
        NO_INDEX,
    )
