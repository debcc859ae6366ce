"""Rows to deduplicate, for tests of many workers."""

import json
from pathlib import Path
from random import Random
from typing import Any


def rows_of(seed: int, count: int, newest: int = 20) -> list[dict[str, Any]]:
    """Rows of which some are equal, many alike, and some alike in a chain."""
    random = Random(seed)
    words = [f"w{number}" for number in range(400)]
    texts: list[list[str]] = []
    for _ in range(count):
        kind = random.random()
        if texts and kind < 0.15:
            text = list(random.choice(texts))
        elif texts and kind < 0.6:
            text = list(random.choice(texts[-newest:] if newest else texts[:4]))
            for _ in range(random.randint(1, 5)):
                text[random.randrange(len(text))] = random.choice(words)
        else:
            text = random.choices(words, k=random.randint(1, 60))
        texts.append(text)
    return [
        {"id": f"d{number % (count - 3)}", "text": " ".join(text), "rank": random.choice([None, 1, 2, 3.5])}
        for number, text in enumerate(texts)
    ]


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return str(path)
