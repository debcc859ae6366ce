"""Stores: where a catalog, a backup or a journal lies when it must outlive a machine.

A store has named objects: small ones, whole, never changed in part. It is a folder (`folder`) or whatever
fsspec has a package for (`remote`: s3://, gs://, ...). Who needs to be the only one, asks for an object that
must not be there yet; `probe` proves at the start that a store keeps that promise when several ask at once.

    errors     what a store raises
    objects    what every store can do
    folder     a store in a folder
    remote     a store of fsspec
    probe      the proof
    opening    uri -> store
"""

from simindex.scaleout.stores.errors import MissingObjectError, StoreError, UnprovenStoreError
from simindex.scaleout.stores.objects import Objects
from simindex.scaleout.stores.opening import open_store
from simindex.scaleout.stores.probe import prove

__all__ = ["MissingObjectError", "Objects", "StoreError", "UnprovenStoreError", "open_store", "prove"]
