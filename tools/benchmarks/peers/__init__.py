"""What a user could take instead of simindex: which peers there are, and which of them can run here.

Owns the two lists. How each is called is in the files beside this one, what all share in `peer`. Must not
measure or print results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from peers.fingerprints import FaissHash, FaissMultiHash, FingerprintPeer, NumpyTables, Simhash
from peers.in_memory import Datasketch, DatasketchRedis, DatasketchXxh32, Gaoya, Rensa
from peers.on_disk import Lance, SqliteBands
from peers.peer import ONE_THREAD, DocumentPeer, Peer

__all__ = ["MINHASH_PEERS", "ONE_THREAD", "SIMHASH_PEERS", "usable"]

MINHASH_PEERS: tuple[type[DocumentPeer], ...] = (
    Datasketch,
    DatasketchXxh32,
    DatasketchRedis,
    Rensa,
    Gaoya,
    Lance,
    SqliteBands,
)
SIMHASH_PEERS: tuple[type[FingerprintPeer], ...] = (FaissMultiHash, FaissHash, Simhash, NumpyTables)


def usable(peers: Iterable[type[Peer]]) -> list[type[Peer]]:
    """The peers that can run here; of the others it is said on stderr why not."""
    chosen = []
    for peer in peers:
        reason = peer.missing()
        if reason:
            print(f"{peer.name}: skipped, {reason}", file=sys.stderr)
        else:
            chosen.append(peer)
    return chosen
