"""Tables (Markdown) of a benchmark's results. Called by run.py for one run, by page.py for docs/performance.md."""

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
                    f"simindex, {result['documents']:,}, as {state}"
                    + (", no SimHash" if result.get("bare") else ""),
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


def build_table(builds: list[dict[str, Any]]) -> str:
    rows = []
    for result in builds:
        single, commit = result.get("single_insert"), result.get("commit")
        rows.append(
            [
                f"{result['documents']:,}" + (" (made-up sketches)" if not single else ""),
                figure(result["documents_a_second"]),
                figure(result["last_tenth_a_second"]),
                figure(result.get("written_bytes_a_document")),
                f"{commit['median_us'] / 1e3:.1f}" if commit else "",
                f"{commit['longest_over_median']:.1f}x ({commit['longest_over_median_cpu']:.1f}x)"
                if commit
                else "",
                f"{single['median_us']:,.0f} ({single['median_ratio']:.2f}x)" if single else "",
                f"{single['p99_us']:,.0f} ({single['p99_ratio']:.2f}x)" if single else "",
                str(result["segments"]),
                figure(result["compact_s"], 1),
                figure(result["open_and_first_query_ms"], 1),
            ]
        )
    headers = [
        "documents", "documents/s", "in the last tenth", "written B/document", "commit ms",
        "longest of the median (CPU time)",
        "single insert us (of a bare commit)", "its p99", "segments", "compact s", "open and query ms",
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


def beyond_table(runs: list[dict[str, Any]]) -> str:
    """Inserts a second in each part of the growth, a column for each number of workers."""
    headers = ["documents", *(f"documents/s, {run['workers']} workers" for run in runs)]
    growths = zip(*(run["growth"] for run in runs), strict=True)
    return table(
        headers,
        [
            [figure(steps[0]["documents"]), *(figure(step["documents_a_second"]) for step in steps)]
            for steps in growths
        ],
    )
