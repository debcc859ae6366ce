"""Parse fingerprints, hexadecimal or decimal, into 64-bit numbers.

Invariant: the base is an argument, never guessed: the digits of a hexadecimal number may all be decimal
ones.
"""

from __future__ import annotations

import re

_FORMS = {
    16: (r"(?:0[xX])?[0-9a-fA-F]{1,16}", "1 to 16 hexadecimal digits", "10 reads decimal numbers"),
    10: (r"-?[0-9]{1,20}", "a decimal integer of 64 bits", "16 reads hexadecimal digits"),
}


def parse_fingerprint(value: object, base: int = 16) -> int:
    """Return a fingerprint, 0..2**64-1, from an integer of 64 bits, signed or not, or from its digits.

    Args:
        value: the integer, or a text.
        base: of the digits of a text: 16 or 10.

    >>> parse_fingerprint("00000000000000ff"), parse_fingerprint(-1) == parse_fingerprint("f" * 16)
    (255, True)
    """
    if isinstance(value, str):
        form, kind, remedy = _FORMS[base]
        if re.fullmatch(form, value.strip()) is None:
            raise ValueError(f"expected {kind}, found {value!r:.80}; --fingerprint-base {remedy}")
        value = int(value, base)
    if isinstance(value, bool) or not isinstance(value, int):
        found = "null" if value is None else type(value).__name__
        raise ValueError(f"expected a fingerprint, an integer or its digits, found {found}")
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"expected an integer of 64 bits, found {value}")
    return value & ((1 << 64) - 1)
