"""`simindex scaleout`: commands for jobs over many machines; the work is that of `simindex.scaleout`.

Ray starts where none runs, and ends with the command; it is meant to run already.
"""

from __future__ import annotations

from simindex.cli.command import LazyGroup

scaleout = LazyGroup(
    name="scaleout",
    package=__name__,
    sections={
        "On a Ray cluster": {
            "dedup": ("stages", "Write a corpus without its near duplicates, found by all nodes."),
            "pairs": (
                "pairs",
                "Print all pairs of similar documents of several indexes, found by all nodes.",
            ),
            "clusters": (
                "pairs",
                "Print the clusters of similar documents of several indexes, as clusters does.",
            ),
        },
        "By stages": {
            "plan": ("stages", "Plan a deduplication, or a search for pairs, over a shared folder."),
            "stage": ("stage", "Run a stage of what was planned, once all of the stage before it is done."),
        },
    },
    help="Jobs over many machines: see docs/scaleout.md.",
    no_args_is_help=True,
)
