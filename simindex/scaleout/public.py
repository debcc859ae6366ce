"""The public names of `simindex.scaleout`, which its first use loads as a whole."""

from simindex.scaleout.batches import BuildPart as BuildPart
from simindex.scaleout.batches import Query as Query
from simindex.scaleout.batches import SeenBefore as SeenBefore
from simindex.scaleout.batches import Sketch as Sketch
from simindex.scaleout.dedup import StagedDedup as StagedDedup
from simindex.scaleout.dedup import deduplicate as deduplicate
from simindex.scaleout.dedup import plan_dedup as plan_dedup
from simindex.scaleout.errors import PlaceMissingError as PlaceMissingError
from simindex.scaleout.errors import ScaleOutError as ScaleOutError
from simindex.scaleout.errors import UnsupportedError as UnsupportedError
from simindex.scaleout.pair_job import ScaledClusters as ScaledClusters
from simindex.scaleout.pair_job import ScaledPairs as ScaledPairs
from simindex.scaleout.pair_job import StagedPairs as StagedPairs
from simindex.scaleout.pair_job import clusters as clusters
from simindex.scaleout.pair_job import pairs as pairs
from simindex.scaleout.pair_job import plan_pairs as plan_pairs
from simindex.scaleout.parts import merge_matches as merge_matches
from simindex.scaleout.replica_actors import Replicas as Replicas
from simindex.scaleout.replica_actors import replicas as replicas
from simindex.scaleout.shared_index import Saved as Saved
from simindex.scaleout.shared_index import SharedIndex as SharedIndex
from simindex.scaleout.shared_index import shared as shared
