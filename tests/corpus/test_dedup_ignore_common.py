"""`ignore_common` of `deduplicate`: rows that share a template alone stay."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.texts import json_lines, template_pages

from simindex import Config
from simindex.corpus import Removed, deduplicate

PAGES, TWINS = template_pages(300, seed=12)
ROWS = list(PAGES.items())


@pytest.mark.parametrize("keep_shingles", [0, 1000, 120])
@pytest.mark.parametrize("keep", ["first", "newest"])
def test_rows_that_share_a_template_alone_stay(keep: Any, keep_shingles: int) -> None:
    config = Config(simhash=None, keep_shingles=keep_shingles)
    removed: list[Removed] = []
    how: dict[str, Any] = {"keep": keep, "config": config, "on_removed": removed.append}
    assert deduplicate(ROWS, None, 0.6, **dedup_arguments(**how, exact=keep_shingles > 0)).kept < 100
    removed.clear()
    report = deduplicate(ROWS, None, 0.6, **dedup_arguments(**how, ignore_common=0.1))
    found = {row.key: row.duplicate_of for row in removed}
    newest = {earlier: later for later, earlier in TWINS.items() if later < 300} | {300: 302, 301: 302}
    assert found == (TWINS if keep == "first" else newest)
    assert report[:3] == (303, 303 - len(TWINS), len(TWINS))
    for row in removed:
        is_equal = PAGES[int(row.key)] == PAGES[int(row.duplicate_of)]
        assert row.exact == (keep_shingles != 120) or is_equal
        assert row.common_left_out is not None
        assert row.common_left_out == 0 if is_equal else row.common_left_out > 50
        assert row.to_dict()["common_left_out"] == row.common_left_out


def test_the_command_leaves_out_what_is_common(run: Run) -> None:
    Path("rows.jsonl").write_bytes(json_lines([{"id": key, "text": text} for key, text in ROWS]))
    how = ["rows.jsonl", "-o", "out.jsonl", "--threshold", 0.6]
    assert run("dedup", *how, "--ignore-common", 0.1).code == 0
    kept = [json.loads(line)["id"] for line in Path("out.jsonl").read_text().splitlines()]
    assert kept == [key for key, _ in ROWS if key not in TWINS]
    lines = Path("out.jsonl.dedup/removed.jsonl").read_text().splitlines()
    assert all("common_left_out" in json.loads(line) for line in lines)
    again = run("dedup", *how, "--ignore-common", 0.2)
    assert again.code != 0
    assert "was made with --ignore-common 0.1, and you ask for --ignore-common 0.2" in again.err
    refused = run("dedup", *how, "--ignore-common", 0.1, "--into", "kept.simindex")
    assert refused.code != 0
    assert "--into does not go with --ignore-common" in refused.err


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ignore_common": 0.0}, ValueError, "expected a share between 0 and 1, found 0.0"),
        ({"ignore_common": 0.1, "by": "simhash"}, ValueError, 'or by="simhash" beside ignore_common='),
        ({"ignore_common": 0.1, "into": "index"}, ValueError, "expected no against=..., into=... or by="),
    ],
)
def test_what_cannot_be_left_out_is_refused(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        deduplicate(ROWS, None, **dedup_arguments(**options))
    assert not (tmp_path / "index").exists()
