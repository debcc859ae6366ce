"""`simindex decontaminate`: the rows that stay, and the items that were found, as a table and as JSON."""

import json
import re
from pathlib import Path

from support.commands import Run
from support.texts import json_lines

ITEM = "the ferry to the island leaves at nine and comes back at noon"


def test_decontaminate_writes_clean_rows_and_prints_what_it_found(run: Run) -> None:
    Path("train.jsonl").write_bytes(
        json_lines([{"id": "a", "text": f"News. {ITEM.upper()}!"}, {"id": "b", "text": "Bring a coat."}])
    )
    Path("items.jsonl").write_bytes(json_lines([{"id": "q", "text": ITEM}, {"id": "r", "text": "Who?"}]))
    command = "decontaminate", "train.jsonl", "--against", "items.jsonl", "-o", "clean.jsonl"
    result = run(*command)
    assert result.code == 0
    assert result.out.splitlines()[1].split() == ["q", "1.000", "1", "a"]
    assert "2 rows read, 1 kept, 1 removed, 0 bad rows" in result.err
    assert "1 of 2 items found\n1 item of fewer words than a shingle" in result.err
    assert Path("clean.jsonl").read_bytes() == json_lines([{"id": "b", "text": "Bring a coat."}])
    found = json.loads(run(*command, "--json").out)
    assert (found["was_done"], found["items"], found["short_items"]) == (True, 2, 1)
    assert found["found"] == [
        {
            "item": "q",
            "item_input": "items.jsonl",
            "item_row": 1,
            "share": 1.0,
            "rows": 1,
            "held_by": "a",
            "place": ["train.jsonl", 1],
        }
    ]
    assert "was made with --threshold 0.5" in run(*command, "--threshold", 0.7).err
    Path("others.jsonl").write_bytes(json_lines([{"id": "q", "text": ITEM}]))
    refused = run(*command[:3], "others.jsonl", *command[4:])
    assert re.search(
        r"made with --against \S+items.jsonl, and you ask for --against \S+others.jsonl. ", refused.err
    )


def test_an_index_of_items_keeps_its_own_shingles(run: Run) -> None:
    made = run(
        "insert", "items", "-", "--words", 5, "--containment", 1, stdin=json_lines([{"id": 1, "text": ITEM}])
    )
    assert made.code == 0
    rows = json_lines([{"id": 2, "text": ITEM[:40]}])
    result = run("decontaminate", "-", "--against", "items", "-o", "o.jsonl", "--threshold", 0.3, stdin=rows)
    assert (result.code, Path("o.jsonl").read_bytes()) == (0, b"")
    assert (
        run("decontaminate", "-", "--against", "items", "-o", "p.jsonl", "--words", 8, stdin=rows).code == 1
    )
