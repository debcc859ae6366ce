"""How data files are damaged at random, what documents they have, and which outcome an error is."""

from __future__ import annotations

import random
from pathlib import Path

from attacks.children import OTHER, TYPED, UNTYPED
from simindex import Config, CorruptIndexError, FormatError, SimHashConfig, SimIndexError

PAGE, SECTOR = 4096, 512
CONFIG = Config(num_perm=32, simhash=SimHashConfig(3, 4))
DAMAGES = ("bit", "sector zeroed", "sector noise", "page zeroed", "pages swapped", "cut short")


def text_of(number: int) -> str:
    """Return a document: every fourth is nearly the one before, every tenth is a copy."""
    number -= number % 10 == 9
    chance = random.Random(number - number % 4)
    words = [f"w{chance.randrange(400)}" for _ in range(24)]
    words[number % 4] = f"x{number}"
    return " ".join(words)


def damage(path: Path, kind: str, chance: random.Random) -> str:
    """Damage a data file; returns a note on what was done."""
    data = bytearray(path.read_bytes())
    page = chance.randrange(len(data) // PAGE) * PAGE
    sector = page + chance.randrange(PAGE // SECTOR) * SECTOR
    if kind == "bit":
        bit = chance.randrange(8 * PAGE)
        data[page + bit // 8] ^= 1 << bit % 8
        note = f"byte {page + bit // 8}, bit {bit % 8}"
    elif kind == "sector zeroed":
        data[sector : sector + SECTOR] = bytes(SECTOR)
        note = f"byte {sector}"
    elif kind == "sector noise":
        data[sector : sector + SECTOR] = chance.randbytes(SECTOR)
        note = f"byte {sector}"
    elif kind == "page zeroed":
        data[page : page + PAGE] = bytes(PAGE)
        note = f"page {page // PAGE}"
    elif kind == "pages swapped":
        other = chance.randrange(len(data) // PAGE) * PAGE
        data[page : page + PAGE], data[other : other + PAGE] = (
            data[other : other + PAGE],
            data[page : page + PAGE],
        )
        note = f"pages {page // PAGE} and {other // PAGE}"
    else:
        end = chance.choice([page, chance.randrange(len(data))])
        del data[end:]
        note = f"at byte {end} of {path.stat().st_size}"
    path.write_bytes(data)
    return note


def kind_of(error: BaseException) -> str:
    """Return the outcome that an error is."""
    if isinstance(error, CorruptIndexError | FormatError):
        return TYPED
    return OTHER if isinstance(error, SimIndexError) else UNTYPED
