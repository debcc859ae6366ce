"""Notes of calls that may be repeated, as bytes."""

import pytest

from simindex import CorruptIndexError
from simindex.format.meta import MAX_ANSWER_BYTES, NOTES, Done, decode_done, encode_done
from simindex.format.seals import pack, seal

CALL = bytes(range(16))


@pytest.mark.parametrize("turn", [0, 1, 255, 256, 2**63 - 1])
@pytest.mark.parametrize("answer", [0, [1, 2, 3], [7, True], None, "text"])
def test_note_comes_out_as_it_went_in(turn: int, answer: object) -> None:
    key, value = encode_done(Done(turn, CALL, answer))
    assert key == b"done %02x" % (turn % NOTES)
    assert decode_done(key, value) == (turn, CALL, answer)


def test_note_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected an id of 16 bytes, found 15"):
        encode_done(Done(0, CALL[:15], 0))
    encode_done(Done(0, CALL, "x" * (MAX_ANSWER_BYTES - 3)))
    with pytest.raises(ValueError, match="expected at most 1024 bytes, found 1025"):
        encode_done(Done(0, CALL, "x" * (MAX_ANSWER_BYTES - 2)))


def test_damaged_note_is_refused() -> None:
    key, value = encode_done(Done(3, CALL, [1]))
    for at in range(len(value)):
        with pytest.raises(CorruptIndexError, match="note b'done 03'"):
            decode_done(key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
    with pytest.raises(CorruptIndexError):
        decode_done(b"done 04", value)


@pytest.mark.parametrize(
    "fields",
    [
        [3, CALL],
        [4, CALL, 0],
        [-253, CALL, 0],
        [3, CALL[:3], 0],
        [3, "call", 0],
        ["3", CALL, 0],
        "text",
        True,
    ],
)
def test_note_that_contradicts_itself_is_refused(fields: object) -> None:
    with pytest.raises(CorruptIndexError, match="expected the turn, the id and the answer"):
        decode_done(b"done 03", seal("meta", b"done 03", pack(fields)))
