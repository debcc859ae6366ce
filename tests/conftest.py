"""What all tests share: fixed Hypothesis seeds, no state on disk, the fixtures of `commandline` and
`two_documents`, and the order of files, the longest first.
"""

import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy; every process would start its own

import pytest
from hypothesis import HealthCheck, settings
from support.commands import news, rows_file, run  # noqa: F401 - fixtures
from support.indexes import index  # noqa: F401 - fixture
from support.servers import browser  # noqa: F401 - fixture
from support.variants import each_variant  # noqa: F401 - fixture

settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "long", database=None, deadline=None, max_examples=2_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")  # --hypothesis-profile long draws anew, and more

_TESTS = Path(__file__).parent
LONGEST = (
    "howto/test_howto.py",
    "reliability/test_attacks.py",
    "reliability/test_lost_handles.py",
    "cli/test_usage.py",
    "scaleout/test_scaled_pairs.py",
    "reliability/test_damage.py",
    "queries/test_containment.py",
    "metamorphic/test_dedup_combinations.py",
    "maintenance/test_store_backups.py",
    "maintenance/test_check.py",
    "queries/pairs/test_ignore_common.py",
    "reliability/test_power_cuts.py",
    "reliability/test_fuzzing.py",
    "scaleout/test_scaled_dedup.py",
    "corpus/test_dedup_ignore_common.py",
    "reliability/test_model.py",
    "queries/test_search.py",
    "reliability/test_fork.py",
    "test_typed_programs.py",
    "formulas/test_found.py",
    "maintenance/test_repair.py",
    "cli/test_dedup_progress.py",
    "formulas/test_agreement.py",
    "test_truth.py",
    "test_memory_bounds.py",
    "test_docs.py",
    "tools/test_demo.py",
    "tuning/test_advice_labels.py",
    "maintenance/test_backup.py",
    "storage/test_room.py",
    "formulas/test_curve.py",
    "corpus/test_dedup_killed.py",
    "queries/clusters/test_clusters.py",
    "scaleout/test_one_node.py",
    "scaleout/test_shared.py",
    "scaleout/test_replicas.py",
)
"""Files of four seconds of processor time and more, or that wait for long. A process takes a file at a time,
and would go on alone with one of these that came last. Those that start nodes of Ray, which must answer in
time, come last of them, when types and package are done."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all", action="store_true", help="run whole campaigns (marked as long) and all examples"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Let `pytest` without a path end in minutes: a process a core, and without the longest files."""
    config.option.is_short = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    config.option.is_short &= not config.getoption("--all")
    is_worker = hasattr(config, "workerinput")  # which would start workers of its own
    if config.option.is_short and not is_worker and getattr(config.option, "numprocesses", 0) is None:
        config.option.numprocesses, config.option.dist = "logical", "loadfile"
        config.option.loadscopereorder = False


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.option.is_short:
        return None
    return f"without the {len(LONGEST)} longest files of tests; `pytest tests` runs them, too"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_left_out = config.option.is_short and collection_path in {_TESTS / name for name in LONGEST}
    return True if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is long, and most examples of properties, unless all is asked for; the longest files
    come first."""
    if not config.getoption("--all"):
        long = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]
        if config.getoption("--hypothesis-profile") is None:
            for item in items:
                if item.path.parent.name != "metamorphic":
                    _draw_few(getattr(item, "function", None))
    ranks = {_TESTS / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONGEST)))


_FEW = 15
_DRAWN = "_hypothesis_internal_use_settings"
"""Where `given` keeps the settings of a test; they are read when it runs."""


def _draw_few(test: object) -> None:
    """Let a property draw a quarter of its examples, or `_FEW`; nothing where it has no more than those."""
    own: settings | None = vars(test).get(_DRAWN) if hasattr(test, "__dict__") else None
    if own is not None and own.max_examples > _FEW and not hasattr(test, "draws_few"):
        setattr(test, _DRAWN, settings(own, max_examples=max(_FEW, own.max_examples // 4)))
        setattr(test, "draws_few", True)  # noqa: B010 - a function has it for one of its parameters, too
