"""`simindex stats`: tables and JSON."""

import json
from pathlib import Path

import pytest
from support.commands import Run
from support.texts import json_lines

import simindex


def test_stats_shows_what_the_index_holds_and_gives(run: Run, news: str) -> None:
    result = run("stats", news)
    assert (result.code, result.err) == (0, "")
    for part in ("documents", "segments", "bytes in use/document", "permutation tables", "3 words"):
        assert part in result.out
    recalls = [line.split()[0] for line in result.out.splitlines() if line.startswith("0.")]
    assert recalls == ["0.5", "0.6", "0.7", "0.8", "0.9"]
    assert "threshold  bits compared  candidates  0.5 found at  0.95 found at  0.99 found at" in result.out
    stats = json.loads(run("stats", news, "--json").out)
    found = [f"{similarity:.3f}" for similarity in stats["found"]["0.8"].values()]
    assert ["0.8", "56", "0.9775", *found] in map(str.split, result.out.splitlines())
    assert f"shingles/document {stats['shingles']}" in " ".join(result.out.split())


def test_stats_shows_every_byte_of_the_file(run: Run, news: str) -> None:
    stats = json.loads(run("stats", news, "--json").out)
    lines = [line.split() for line in run("stats", news).out.splitlines()]
    table = lines[lines.index(["part", "entries", "bytes", "bytes/document"]) + 1 :]
    shown = {line[0]: int(line[2].replace(",", "")) for line in table[: table.index([])]}
    assert shown.pop("together") == stats["file_bytes"] == sum(shown.values())
    assert shown == stats["part_bytes"]


def test_stats_json_is_one_object_of_the_stats_of_the_library(run: Run, news: str) -> None:
    with simindex.open(news, "r") as index:
        stats = index.stats()
    assert json.loads(run("stats", news, "--json").out) == json.loads(json.dumps(stats.to_dict()))


@pytest.mark.parametrize("option", ["--no-minhash", "--no-simhash"])
def test_stats_shows_an_index_of_one_method(run: Run, rows_file: str, option: str) -> None:
    assert run("insert", "news", rows_file, option).code == 0
    result = run("stats", "news")
    assert result.code == 0
    assert ("threshold" in result.out) == (option == "--no-simhash")
    assert ("SimHash search" in result.out) == (option == "--no-minhash")


def test_stats_histogram_prints_and_draws_the_numbers_of_its_json(run: Run, news: str) -> None:
    stats = json.loads(run("stats", news, "--histogram", "--json").out)
    bars = stats["histograms"]
    assert sum(count for _, count in bars["similarities"]) == 1
    assert bars["similarities"][0][0] == "0.50"
    assert sum(count for _, count in bars["ages"]) == 3
    sizes = {"1": 1, "2-3": 2}
    assert (
        sum(sizes[label] * count for label, count in bars["buckets"]) == 3 * stats["config"]["num_perm"] // 8
    )
    result = run("stats", news, "--histogram")
    assert result.out.startswith(run("stats", news).out)
    shown = [line.split("  ") for line in result.out.splitlines()]
    for name in bars:
        for label, count in bars[name]:
            assert any(line[0] == label and str(count) in line for line in shown)


def test_stats_common_shows_the_passages_that_many_documents_have(run: Run) -> None:
    template = "all rights are reserved by the ferry company"
    rows = [{"id": n, "text": f"page {n} of {n * n}\n{template}"} for n in range(5)]
    Path("pages.jsonl").write_bytes(json_lines(rows))
    assert run("insert", "pages", "pages.jsonl", "--containment", 1).code == 0
    asked = "stats", "pages", "--common", 0.5, "--texts", "pages.jsonl"
    assert run(*asked).out.splitlines()[-1].split() == ["5", *template.split()]
    assert json.loads(run(*asked, "--json").out)["common"] == [[5, template]]
    rows[0]["text"] = rows[1]["text"] = f"{template}. bring a coat with you today"
    Path("others.jsonl").write_bytes(json_lines(rows))
    assert run("insert", "others", "others.jsonl", "--containment", 1).code == 0
    shorter, longer = run("stats", "others", "--common", 0.3, "--texts", "others.jsonl").out.splitlines()[-2:]
    assert len(shorter.rstrip()) < len(longer)
    assert shorter.index("all") == longer.index("all")
