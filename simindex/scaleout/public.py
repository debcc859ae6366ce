"""The public names of `simindex.scaleout`, which its first use loads as a whole."""

import simindex.public  # noqa: F401 - so that what comes from here is pickled by its public name
from simindex.maintenance.backup import backup_index as backup_index
from simindex.maintenance.object_store import MissingObjectError as MissingObjectError
from simindex.maintenance.object_store import StoreError as StoreError
from simindex.maintenance.object_store import UnprovenStoreError as UnprovenStoreError
from simindex.maintenance.reports import RestoreReport as RestoreReport
from simindex.maintenance.reports import StoreBackupReport as StoreBackupReport
from simindex.maintenance.restore import restore_index as restore_index
from simindex.scaleout.admin import backup as backup
from simindex.scaleout.admin import create as create
from simindex.scaleout.admin import move as move
from simindex.scaleout.admin import open as open  # noqa: A004 - the public name
from simindex.scaleout.admin import rebalance as rebalance
from simindex.scaleout.admin import restore as restore
from simindex.scaleout.batches import BuildPart as BuildPart
from simindex.scaleout.batches import Query as Query
from simindex.scaleout.batches import SeenBefore as SeenBefore
from simindex.scaleout.batches import Sketch as Sketch
from simindex.scaleout.building import BuildReport as BuildReport
from simindex.scaleout.building import build as build
from simindex.scaleout.dedup import StagedDedup as StagedDedup
from simindex.scaleout.dedup import deduplicate as deduplicate
from simindex.scaleout.dedup import plan_dedup as plan_dedup
from simindex.scaleout.errors import CatalogChangedError as CatalogChangedError
from simindex.scaleout.errors import PartitionError as PartitionError
from simindex.scaleout.errors import PlaceMissingError as PlaceMissingError
from simindex.scaleout.errors import ScaleOutError as ScaleOutError
from simindex.scaleout.errors import UnsupportedError as UnsupportedError
from simindex.scaleout.index import ScaledIndex as ScaledIndex
from simindex.scaleout.moving import Move as Move
from simindex.scaleout.pair_job import ScaledClusters as ScaledClusters
from simindex.scaleout.pair_job import ScaledPairs as ScaledPairs
from simindex.scaleout.pair_job import StagedPairs as StagedPairs
from simindex.scaleout.pair_job import clusters as clusters
from simindex.scaleout.pair_job import pairs as pairs
from simindex.scaleout.pair_job import plan_pairs as plan_pairs
from simindex.scaleout.replica_actors import replicas as replicas
