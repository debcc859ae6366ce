"""The pages of an LMDB file, as somebody finds them who knows LMDB 0.9's structs and not simindex."""

import struct
from pathlib import Path

import lmdb

PAGE = 4096
LEAF = 0x02
_HEADER, _NODE, _DATABASE = struct.Struct("<QHHHH"), struct.Struct("<HHHH"), struct.Struct("<IHHQQQQQ")


def compacted(source: Path, target: Path) -> Path:
    """A copy of an index's file without free pages, so that every page is one in use."""
    target.mkdir()
    with lmdb.open(str(source), max_dbs=16, readonly=True, lock=False, lib_version=0) as env:
        env.copy(str(target), compact=True)
    return target


def page(data: bytes | bytearray, number: int) -> bytes:
    return bytes(data[number * PAGE : (number + 1) * PAGE])


def swap(data: bytearray, one: int, other: int) -> None:
    """Put two pages in each other's place, their contents whole."""
    first, second = page(data, one), page(data, other)
    data[one * PAGE : (one + 1) * PAGE], data[other * PAGE : (other + 1) * PAGE] = second, first


def exchange(data: bytearray, one: int, other: int) -> None:
    """Swap two pages and let each say that it is the one that it now is."""
    swap(data, one, other)
    for number in (one, other):
        struct.pack_into("<Q", data, number * PAGE, number)


def forget(data: bytearray, number: int) -> None:
    """Let a page have its first node only; the bytes of the others stay."""
    struct.pack_into("<H", data, number * PAGE + 12, _HEADER.size + 2)


def nodes(content: bytes) -> list[tuple[bytes, int, bytes]]:
    """(key, the node's number, value) of a page's nodes; in a branch the number is of the child page."""
    _, _, flags, lower, _ = _HEADER.unpack_from(content)
    found = []
    for place in range((lower - _HEADER.size) // 2):
        (at,) = struct.unpack_from("<H", content, _HEADER.size + 2 * place)
        low, high, node_flags, key_bytes = _NODE.unpack_from(content, at)
        key = content[at + _NODE.size : at + _NODE.size + key_bytes]
        value = content[at + _NODE.size + key_bytes :][: low | high << 16] if flags & LEAF else b""
        found.append((key, low | high << 16 | (0 if flags & LEAF else node_flags << 32), value))
    return found


def main_root(data: bytes) -> int:
    """The number of the page that has the names of the databases."""
    metas = [_HEADER.size + number * PAGE for number in (0, 1)]
    newest = max(metas, key=lambda at: struct.unpack_from("<Q", data, at + 24 + 2 * _DATABASE.size + 8))
    return int(_DATABASE.unpack_from(data, newest + 24 + _DATABASE.size)[-1])


def root(data: bytes, name: str) -> int:
    """The number of the root page of a named database."""
    main = main_root(data)
    value = next(value for key, _, value in nodes(page(data, main)) if key == name.encode())
    return int(_DATABASE.unpack(value)[-1])


def pages_of(data: bytes, name: str) -> list[int]:
    """The numbers of the branch and leaf pages of a named database."""

    def below(number: int) -> list[int]:
        content = page(data, number)
        if _HEADER.unpack_from(content)[2] & LEAF:
            return [number]
        return [number, *(found for _, child, _ in nodes(content) for found in below(child))]

    return below(root(data, name))


def leaves(data: bytes, name: str) -> list[int]:
    """The numbers of the leaf pages of a named database, in order of keys."""

    def below(number: int) -> list[int]:
        content = page(data, number)
        if _HEADER.unpack_from(content)[2] & LEAF:
            return [number]
        return [leaf for _, child, _ in nodes(content) for leaf in below(child)]

    return below(root(data, name))
