"""Commands that read files of other machines."""

import json

from support.commands import Run
from support.servers import in_memory
from support.texts import ROWS, json_lines


def test_insert_query_and_join_take_urls(run: Run) -> None:
    with in_memory(a__jsonl=json_lines(ROWS), b__jsonl=json_lines(ROWS[:1])) as url:
        assert run("insert", "ix", f"{url}/a*.jsonl").code == 0
        queried = run("query", "ix", "--input", f"{url}/b.jsonl", "--json")
        assert queried.code == 0
        assert f'"{ROWS[0]["id"]}"' in queried.out
        joined = run("join", "ix", f"{url}/b.jsonl", "--json")
        assert joined.code == 0
        assert ROWS[0]["id"] in {json.loads(line)["a"] for line in joined.out.splitlines()}
