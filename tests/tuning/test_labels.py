"""Precision and recall of labels, and their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex.tuning.label_curve import Goal, points_of, wilson

labelled = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=30)


def test_wilson_is_the_interval_of_the_paper() -> None:
    """Both ends are where the share is 1.96 deviations of the binomial off."""
    for share, number in ((0.9, 20), (0.5, 7), (0.02, 300)):
        found = wilson(share, number)
        for end in (found.low, found.high):
            assert abs(share - end) == pytest.approx(1.959964 * (end * (1 - end) / number) ** 0.5)
    assert (wilson(1.0, 10).high, wilson(0.0, 10).low) == (1.0, 0.0)
    assert wilson(1.0, 0) == (1.0, 0.0, 1.0)


@given(labelled)
def test_points_count_as_a_list_would(pairs: list[tuple[int, bool]]) -> None:
    scores, wanted = np.array([score / 20 for score, _ in pairs]), np.array([is_ for _, is_ in pairs])
    for point in points_of(scores, wanted, np.ones(len(pairs)), [0.25, 0.5, 1.0]):
        taken = [is_ for score, is_ in pairs if score / 20 >= point.threshold]
        assert point.precision.value == pytest.approx(sum(taken) / len(taken) if taken else 1)
        assert point.recall.value == pytest.approx(sum(taken) / sum(wanted) if any(wanted) else 1)
        for share in point.precision, point.recall:
            assert 0 <= share.low <= share.value + 1e-12 <= share.high + 2e-12 <= 1 + 2e-12


def test_a_label_that_stands_for_many_counts_for_many_and_widens_the_interval() -> None:
    scores, wanted = np.array([0.9] * 10 + [0.6]), np.array([True] * 10 + [False])
    (alike,) = points_of(scores, wanted, np.ones(11), [0.5])
    (many,) = points_of(scores, wanted, np.array([1.0] * 10 + [10.0]), [0.5])
    assert alike.precision.value == pytest.approx(10 / 11)
    assert many.precision.value == 0.5
    assert many.precision.high - many.precision.low > alike.precision.high - alike.precision.low
    (halved,) = points_of(scores, wanted, np.ones(11), [0.5], 0.5)
    assert halved.precision.low < alike.precision.low


def test_goal_finds_the_threshold_that_is_asked_for() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    wanted = np.array([True, True, False, True, False, False])
    points = points_of(scores, wanted, np.ones(6), [hundredths / 100 for hundredths in range(100, 29, -1)])
    assert Goal().best(points).threshold == pytest.approx(0.55, abs=0.011)
    assert Goal(precision=1.0).best(points).threshold == pytest.approx(0.75, abs=0.011)
    assert Goal(recall=0.6).best(points).threshold == pytest.approx(0.75, abs=0.011)
    assert Goal(recall=1.0).best(points).threshold == pytest.approx(0.55, abs=0.011)
    assert Goal(precision=0.9).is_reached(Goal(precision=0.9).best(points))
    never = points_of(scores, ~wanted, np.ones(6), [0.9, 0.3])
    assert not Goal(precision=0.9).is_reached(Goal(precision=0.9).best(never))
