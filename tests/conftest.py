"""What all tests share: fixed Hypothesis seeds, no state on disk, and the fixtures
of `commandline` and `two_documents`.
"""

from commandline import news, rows_file, run  # noqa: F401 - fixtures
from hypothesis import HealthCheck, settings
from two_documents import index  # noqa: F401 - fixture

settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")
