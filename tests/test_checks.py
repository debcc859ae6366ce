"""Arguments that are no number of the right kind are refused with what was expected and what was found."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simindex
from simindex.checks import local_path, require_int, require_seconds, require_share


@given(st.integers(-50, 50), st.integers(-20, 20), st.none() | st.integers(-20, 20), st.integers(1, 5))
def test_require_int_takes_what_is_in_range_and_a_multiple(
    value: int, low: int, high: int | None, multiple: int
) -> None:
    fits = value >= low and (high is None or value <= high) and value % multiple == 0
    if fits:
        require_int("n", value, low, high, multiple=multiple)
    else:
        with pytest.raises(ValueError, match=f"^n: expected .*, found {value}$"):
            require_int("n", value, low, high, multiple=multiple)


@pytest.mark.parametrize(
    ("value", "options", "message"),
    [
        (0, {"low": 1}, "size: expected 1 or more, found 0"),
        (9, {"low": 1, "high": 8}, "size: expected 1..8, found 9"),
        (9, {"low": 0, "high": 16, "multiple": 8}, "size: expected a multiple of 8 in 0..16, found 9"),
        (9, {"low": 0, "multiple": 8}, "size: expected a multiple of 8 in 0 or more, found 9"),
        (9, {"low": 0, "high": 8, "remark": ", so it is"}, "size: expected 0..8, so it is, found 9"),
    ],
)
def test_require_int_says_the_range_and_what_it_found(
    value: int, options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        require_int("size", value, **options)  # type: ignore[arg-type] # one of them is the remark


@pytest.mark.parametrize("value", [True, False, 1.0, "1", None, [1]])
def test_require_int_takes_no_other_type(value: object) -> None:
    with pytest.raises(TypeError, match=f"^size: expected an int, found {type(value).__name__}$"):
        require_int("size", value, 0)


@pytest.mark.parametrize("value", [1, 1.0, 0.5, 5e-324])
def test_require_share_takes_numbers_up_to_one(value: float) -> None:
    require_share("share", value)
    require_share("share", value, zero=True)


@pytest.mark.parametrize("value", [0, 0.0, -0.0])
def test_require_share_takes_zero_where_it_is_said(value: float) -> None:
    require_share("share", value, zero=True)
    with pytest.raises(ValueError, match=r"^share: expected a number in \(0, 1\], found"):
        require_share("share", value)


@pytest.mark.parametrize("value", [-1, 1.0000001, 2, float("nan"), float("inf")])
@pytest.mark.parametrize("zero", [True, False])
def test_require_share_takes_nothing_outside(value: float, zero: bool) -> None:
    expected = re.escape(f"share: expected a number in {'[0' if zero else '(0'}, 1], found {value!r}")
    with pytest.raises(ValueError, match=f"^{expected}$"):
        require_share("share", value, zero=zero)


@pytest.mark.parametrize("value", [True, "1", None, 1j])
def test_require_share_takes_no_other_type(value: object) -> None:
    with pytest.raises(TypeError, match=f"^share: expected a number, found {type(value).__name__}$"):
        require_share("share", value)


@pytest.mark.parametrize("value", [0, 0.0, 2, 0.5, float("inf"), None])
def test_require_seconds_takes_none_and_numbers_from_zero_on(value: float | None) -> None:
    require_seconds("t", value)


@pytest.mark.parametrize("value", [-1, -0.1, float("nan"), float("-inf")])
def test_require_seconds_takes_nothing_below_zero(value: float) -> None:
    with pytest.raises(ValueError, match=r"^t: expected 0 seconds or more, or None, found"):
        require_seconds("t", value)


@pytest.mark.parametrize("value", ["1", True, [1]])
def test_require_seconds_takes_no_other_type(value: object) -> None:
    with pytest.raises(TypeError, match=r"^t: expected a number of seconds or None, found"):
        require_seconds("t", value)


def test_path_of_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ("~/i", Path("~/i")):
        with simindex.open(path) as index:
            assert index.path == str(tmp_path / "i")
    assert not (tmp_path / "~").exists()
    assert local_path("a~b") == "a~b"
    assert local_path(Path("x")) == Path("x")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            ":memory:",
            "expected a folder, found ':memory:'; an index that is not to stay goes into a tempfile",
        ),
        ("", "expected a folder, found ''"),
        ("s3://bucket/i", "expected a folder of this machine, found an address, 's3://bucket/i'"),
    ],
)
def test_path_that_is_no_folder_is_refused_before_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for mode in ("a", "r", "x"):
        with pytest.raises(ValueError, match=message):
            simindex.open(path, mode)
    assert list(tmp_path.iterdir()) == []
