"""Tables (Markdown) of a benchmark's results, for page.py."""

from __future__ import annotations

from typing import Any


def figure(value: Any, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def table(headers: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" + "---:|" * (len(headers) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def minhash_table(builds: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    rows = []
    for result in builds:
        for state in ("inserted", "compacted"):
            queries = result[state]
            rows.append(
                [
                    f"simindex, {result['documents']:,}, as {state}",
                    figure(result["documents_a_second"]) if state == "inserted" else "",
                    figure(queries["median_us"], 1),
                    figure(queries["p99_us"], 1),
                    figure(queries["batch_a_second"]),
                    figure(result["memory_bytes"] / 1e6) if state == "inserted" else "",
                    figure(result["disk_bytes_a_document"]) if state == "compacted" else "",
                    figure(result["update_100_ms"], 1) if state == "inserted" else "",
                ]
            )
    for result in peers:
        memory = result["memory_bytes"]
        rows.append(
            [
                f"{result['name']}, {result['documents']:,}",
                figure(result["documents_a_second"]),
                figure(result["median_us"], 1),
                figure(result["p99_us"], 1),
                "",
                figure(None if memory is None else memory / 1e6),
                figure(result["disk_bytes_a_document"]) if result["disk_bytes_a_document"] else "in memory",
                figure(result.get("update_100_ms"), 1),
            ]
        )
    headers = [
        "from text, one core", "documents/s", "query median us", "query p99 us", "query_many/s",
        "memory MB", "disk B/document", "100 more, ms",
    ]  # fmt: skip
    return table(headers, rows)


def match_tables(ours: dict[str, Any], peers: list[dict[str, Any]]) -> str:
    """What a query takes beside the peers, and what all calls take, in microseconds and in sketches."""
    best = ours["microseconds"]
    own = {"absent": best["query, absent"], "five": best["query, five matches, keys"]}
    beside = [{"name": "simindex", "microseconds": own, "keys": 5}, *peers]
    answers = [
        [
            each["name"],
            *(figure(each["microseconds"][kind], 1) for kind in ("absent", "five")),
            figure(each["keys"], 1),
        ]
        for each in beside
    ]
    headers = [f"a query, {ours['documents']:,} texts", "absent, us", "five near copies, us", "keys found"]
    sketch = best["sketch_many"]
    rows = [[f"`{name}`", figure(took, 1), figure(took / sketch, 1)] for name, took in best.items()]
    return f"{table(headers, answers)}\n{table(['a text', 'us', 'sketches'], rows)}"


def build_table(builds: list[dict[str, Any]]) -> str:
    rows = []
    for result in builds:
        single, commit = result.get("single_insert"), result.get("commit")
        rows.append(
            [
                f"{result['documents']:,}" + (" (made-up sketches)" if not single else ""),
                figure(result["documents_a_second"]),
                figure(result.get("written_bytes_a_document")),
                f"{commit['median_us'] / 1e3:.1f}" if commit else "",
                f"{commit['longest_over_median']:.1f}x ({commit['longest_over_median_cpu']:.1f}x)"
                if commit
                else "",
                f"{single['median_us']:,.0f} ({single['median_ratio']:.2f}x)" if single else "",
                str(result["segments"]),
                figure(result["compact_s"], 1),
                figure(result["open_and_first_query_ms"], 1),
            ]
        )
    headers = [
        "documents", "documents/s", "written B/document", "commit ms", "longest of the median (CPU time)",
        "single insert us (of a bare commit)", "segments", "compact s", "open and query ms",
    ]  # fmt: skip
    return table(headers, rows)


def simhash_table(ours: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    rows = []
    for result in ours:
        for state in ("inserted", "compacted"):
            queries = result[state]
            rows.append(
                [
                    f"simindex, {result['documents']:,}, as {state}",
                    figure(result["fingerprints_a_second"]) if state == "inserted" else "",
                    figure(queries["median_us"], 1),
                    figure(queries["p99_us"], 1),
                    figure(queries["batch_a_second"]),
                    f"{result['disk_bytes_a_fingerprint']:.0f} on disk",
                ]
            )
    for result in peers:
        rows.append(
            [
                f"{result['name']}, {result['documents']:,}",
                figure(result["fingerprints_a_second"]),
                figure(result["median_us"], 1),
                figure(result["p99_us"], 1),
                "",
                f"{result['memory_bytes_a_fingerprint']:.0f} in memory",
            ]
        )
    headers = ["k = 3, 64 bits", "fingerprints/s", "query median us", "p99 us", "batch/s", "B/fingerprint"]
    return table(headers, rows)


def corpus_table(runs: list[dict[str, Any]]) -> str:
    """Deduplications from packed lines to packed lines, a row for each number of workers."""
    headers = ["`dedup`", "documents/s", "MB/s of lines", "of `insert_many`", "anonymous memory, MB"]
    rows = [
        [
            f"{run['documents']:,}, {run['workers']} worker{'s' * (run['workers'] > 1)}",
            figure(run["dedup_a_second"]),
            figure(run["dedup_bytes_a_second"] / 1e6),
            figure(run.get("ratio"), 2),
            figure(run["peak_anonymous_bytes"] / 1e6),
        ]
        for run in runs
    ]
    return table(headers, rows)


def upkeep_table(found: dict[str, Any]) -> str:
    """Seconds and rates of maintenance."""
    size = found["file_bytes"] / 1e6
    headers = [f"{found['documents']:,} made-up sketches, {size:,.0f} MB", "s", "documents/s", "MB/s"]
    rows = [
        [f"`{name}`", figure(took, 2), figure(found["documents"] / took), figure(size / took)]
        for name, took in found["seconds"].items()
    ]
    return table(headers, rows)


def memory_table(runs: list[dict[str, Any]]) -> str:
    """An index that has outgrown its memory: queries and inserts, as inserted and compacted."""
    first = runs[0]
    states = [state for state in ("inserted", "compacted") if state in first]
    kinds = {
        "query_absent": "query of an absent document",
        "query_stored": "query of a stored document",
        "query_simhash_absent": "`query_simhash`",
    }
    rows = []
    for name, title in kinds.items():
        asked = [first[state][name] for state in states]
        rows.append(
            [f"{title}, median / p99 us"]
            + [f"{found['median_us']:,.0f} / {found['p99_us']:,.0f}" for found in asked]
        )
        rows.append(["its major page faults"] + [figure(found["major_faults_a_query"], 2) for found in asked])
    rows.append(
        ["`query_many` of absent documents, documents/s"]
        + [figure(first[state]["query_many_a_second"]) for state in states]
    )
    sizes = ["file_bytes_a_document", "compacted_bytes_a_document"]
    rows.append(["file, B/document"] + [figure(first[name]) for name in sizes[: len(states)]])
    rows += [
        [f"inserts in the last twelfth, {run['workers']} worker{'s' * (run['workers'] > 1)}, documents/s"]
        + [figure(run["growth"][-1]["documents_a_second"])]
        + [""] * (len(states) - 1)
        for run in runs
    ]
    title = f"{first['documents']:,} made-up sketches in {first['memory_bytes'] / 2**30:.2g} GiB"
    return table([title, *(f"as {state}" for state in states)], rows)


def weeks_table(weeks: dict[str, Any]) -> str:
    """Small changes without `compact`: a row for each quarter of them, the highest figures of it."""
    rows, samples = [], weeks["samples"]
    for quarter in range(4):
        some = samples[len(samples) * quarter // 4 : len(samples) * (quarter + 1) // 4]

        def highest(name: str, some: Any = some) -> float:
            return float(max(one[name] for one in some))

        def middle(name: str, of: str, some: Any = some) -> float:
            return float(sorted(one[name][of] for one in some)[len(some) // 2])

        times = [
            f"{middle(name, 'median_us'):,.0f} / {middle(name, 'p99_us'):,.0f}"
            for name in ("change", "query")
        ]
        rows.append(
            [
                figure(some[-1]["changes"]),
                figure(some[-1]["documents"]),
                figure(highest("file_bytes") / 1e6),
                figure(highest("segments")),
                *times,
                figure(highest("writer_bytes") / 1e6),
                figure(highest("reader_bytes") / 1e6),
            ]
        )
    heads = ["changes", "documents", "file MB", "segments", "a change us, p99", "a query us, p99"]
    compacted = f"\nCompacted at the end: {weeks['compacted_bytes'] / 1e6:,.0f} MB.\n"
    return table([*heads, "writer MB", "reader MB"], rows) + compacted
