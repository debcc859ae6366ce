"""`simindex tune`: what it prints."""

import json
from pathlib import Path

import pytest
from support.commands import Run, data_in, must_say
from support.texts import json_lines
from support.truth import extract

from simindex import Config, WordShingles, tuning

ROWS = [{"id": key, "text": text} for key, text in sorted(extract().items()) if len(text) < 1_500]


@pytest.fixture
def sample(run: Run) -> str:  # noqa: ARG001 - it has changed to an empty folder
    Path("a.jsonl").write_bytes(json_lines(ROWS))
    return "a.jsonl"


def test_tune_prints_what_it_found_and_the_line_to_paste(run: Run) -> None:
    Path("my texts.jsonl").write_bytes(json_lines(ROWS))
    result = run("tune", "my texts.jsonl")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[1].split() == ["texts", str(len(ROWS))]
    assert sum(line.startswith("0.") and line.endswith("#") for line in lines) >= 10
    report = tuning.tune((row["id"], row["text"]) for row in ROWS)
    assert f"pairs there or above: {report.num_from(report.advice.threshold)}." in result.out
    config = report.advice.setting.config
    assert eval(lines[-2], {"Config": Config, "WordShingles": WordShingles}) == config
    assert lines[-1].startswith("simindex dedup 'my texts.jsonl' -o clean.jsonl --threshold ")
    arguments = lines[-1].replace("'my texts.jsonl'", "my_texts.jsonl").split()[1:]
    Path("my texts.jsonl").rename("my_texts.jsonl")
    assert run(*arguments).code == 0
    assert Path("clean.jsonl").read_bytes().count(b"\n") < len(ROWS)


def test_tune_prints_json_and_draws_pictures(run: Run, sample: str) -> None:
    found = json.loads(run("tune", sample, "--chars", 9, "--json", "-o", "a.svg").out)
    assert found["shingles"] == {"kind": "characters", "size": 9, "normalize": ["fold", "whitespace"]}
    assert (found["sample"]["documents"], len(found["histogram"])) == (len(ROWS), 80)
    assert "Similar pairs of the sample" in Path("a.svg").read_text()


def test_tune_writes_a_page_and_takes_its_labels(run: Run, sample: str) -> None:
    result = run("tune", sample, "-o", "page.html")
    assert result.err == "simindex: page.html: open it, label the pairs, and give what it saves as --pairs\n"
    report = tuning.tune((row["id"], row["text"]) for row in ROWS)
    labels = [
        json.loads(pair["line"]) | {"verdict": "y" if of.similarity >= 0.7 else "n"}
        for pair, of in zip(data_in("page.html")["pairs"], report.to_label, strict=True)
    ]
    Path("pairs.jsonl").write_bytes(json_lines(labels))
    result = run("tune", sample, "--pairs", "pairs.jsonl", "--recall", 1)
    assert result.code == 0, result.err
    assert "measure" in result.out
    assert " labels of pairs that are wanted and " in result.out
    found = json.loads(run("tune", sample, "--pairs", "pairs.jsonl", "--json").out)
    assert found["advice"]["point"]["precision"][1] < 1
    assert {curve["name"] for curve in found["curves"]} >= {"3 words", "4 characters", "SimHash"}
    Path("pairs.jsonl").write_text('{"a": "gone", "b": "x", "verdict": "y"}\n')
    message = "simindex: pairs.jsonl:1: expected the id of one text of the sample, found 'gone'"
    must_say(run("tune", sample, "--pairs", "pairs.jsonl"), message)


def test_tune_says_whether_earlier_settings_hold(run: Run) -> None:
    Path("one.jsonl").write_bytes(json_lines(ROWS[::2] * 2))
    short = [row | {"text": " ".join(row["text"].split()[:5])} for row in ROWS]
    Path("short.jsonl").write_bytes(json_lines(short))
    Path("tuned.json").write_text(run("tune", "one.jsonl", "--json").out)
    result = run("tune", "one.jsonl", "--check", "tuned.json")
    assert (result.code, result.out.splitlines()[-1]) == (0, "The settings hold.")
    result = run("tune", "short.jsonl", "--check", "tuned.json", "--json")
    found = json.loads(result.out)
    assert (result.code, found["holds"]) == (1, False)
    assert "shingles of a text" in [finding["name"] for finding in found["findings"] if not finding["holds"]]
    Path("bad.json").write_text("{}")
    message = "simindex: drift: expected reports as tune gives them, found one without 'shingles'"
    must_say(run("tune", "one.jsonl", "--check", "bad.json"), message)
    message = "simindex: one.jsonl: expected what simindex tune --json printed, found another file"
    must_say(run("tune", "one.jsonl", "--check", "one.jsonl"), message)
