"""The public names of `simindex.corpus`, which its first use loads as a whole."""

from simindex.corpus.dedup.decontaminate import Contaminated as Contaminated
from simindex.corpus.dedup.decontaminate import DecontaminationReport as DecontaminationReport
from simindex.corpus.dedup.decontaminate import FoundItem as FoundItem
from simindex.corpus.dedup.decontaminate import Held as Held
from simindex.corpus.dedup.decontaminate import decontaminate as decontaminate
from simindex.corpus.dedup.deduplicate import deduplicate as deduplicate
from simindex.corpus.dedup.results import DedupReport as DedupReport
from simindex.corpus.dedup.results import Removed as Removed
from simindex.corpus.dedup.settings import DedupSettings as DedupSettings
from simindex.corpus.joining import Joined as Joined
from simindex.corpus.joining import join as join
from simindex.corpus.shared_passages import Explanation as Explanation
from simindex.corpus.shared_passages import Passage as Passage
from simindex.corpus.shared_passages import explain as explain
