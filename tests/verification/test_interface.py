"""What a caller sees is part of the proof: parameters, containers, keys, leaves."""

from __future__ import annotations

import collections
import dataclasses
import re
import runpy
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.capture.capture import capture
from untrace.verification.check import Candidate, check

X = np.arange(3, dtype=np.float32)


class State(NamedTuple):
    mean: Any
    count: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    name: str = dataclasses.field(metadata={"static": True}, default="layer")


def result(x: Any, y: Any = 2.0) -> Any:
    return {"mean": x, "sum": (x + y, [x, None], "unit")}


TEXT = """
def result(x, y):
    return {"mean": x, "sum": (x + y, [x, None], "unit")}
"""
# Texts that trace to the same equations.
OTHER = [
    'return {"max": x, "sum": (x + y, [x, None], "unit")}',
    'return {"mean": x, "sum": (x + y, [x], "unit")}',
    'return {"mean": x, "sum": (x + y, (x, None), "unit")}',
    'return {"mean": x, "sum": [x + y, [x, None], "unit"]}',
    'return {"mean": x, "sum": (x + y, [x, None], "metre")}',
    'return {"mean": x, "sum": (x + y, [x, None])}',
    'return {"mean": x, "sum": (x + y, [x, None], "unit", ())}',
    'return {"mean": x, "sum": (x + y, [None, x], "unit")}',
    'return {"mean": x, "sum": ((x + y,), [x, None], "unit")}',
    'return {"mean": x, "sum": (x + y, [x, None], b"unit")}',
    'return {"mean": x, "more": None, "sum": (x + y, [x, None], "unit")}',
    'return x, x + y, x, "unit"',
]


def checked(text: str, function: Any, *args: Any) -> Any:
    captured = capture(function, args, {})
    return check(Candidate(text, function.__name__, {}), captured)


def test_the_text_itself_is_identical() -> None:
    assert checked(TEXT, result, X, 2.0).strength == "identical"


@pytest.mark.parametrize("line", OTHER)
def test_another_tree_is_another_program(line: str) -> None:
    text = re.sub("return .*", lambda _: line, TEXT)
    report = checked(text, result, X, 2.0)
    assert report.strength == "different"
    assert "differs" in str(report)


@pytest.mark.parametrize(
    "signature",
    ["a, y", "y, x", "x, y=2.0", "x, y, z=1", "x, /, y", "x, *, y", "*x, y"],
)
def test_other_parameters_are_another_program(signature: str) -> None:
    text = TEXT.replace("(x, y):", f"({signature}):", 1)
    assert not checked(text, result, X, 2.0).is_verified


@pytest.mark.parametrize("line", OTHER[:2])
@pytest.mark.parametrize("level", ["lax", "api"])
def test_a_saved_file_with_another_tree_is_not_verified(
    line: str, level: str, tmp_path: Any
) -> None:
    path = untrace.source(result, level=level)(X, 2.0).save(tmp_path / "saved.py")
    assert untrace.saved.verify_file(path).is_verified
    text = path.read_text()
    for old, new in [('"mean"', '"max"'), ("x, y", "x, z"), ('"unit"', '"metre"')]:
        path.write_text(text.replace(old, new))
        try:
            assert not untrace.saved.verify_file(path).is_verified
        except untrace.LoadError:
            continue


@pytest.mark.parametrize("level", ["lax", "api"])
@pytest.mark.parametrize(
    "made",
    [
        lambda x: State(x, 2.0 * x),
        lambda x: Layer(x),
        lambda x: {"state": State((x,), {}), "layer": [Layer(x), None]},
        lambda x: (State(None, x), ()),
        lambda x: ("loss", x.sum(), {"unit": b"m"}),
    ],
)
def test_objects_correspond_to_what_stands_for_them(made: Any, level: str) -> None:
    src = untrace.source(made, level=level)(X)
    assert src.report.is_verified, str(src)
    wanted, found = jax.tree.leaves(made(X)), jax.tree.leaves(src.load()(X))
    for one, other in zip(wanted, found, strict=True):
        assert one == other if isinstance(one, str | bytes) else (one == other).all()


def test_fields_that_change_places_are_found() -> None:
    text = """
import collections
Pair = collections.namedtuple("Pair", "{}")
def made(x):
    return Pair(x, x)
"""

    def made(x: Any) -> Any:
        return State(x, x)

    captured = capture(made, (X,), {})
    for names, is_same in [("mean count", True), ("count mean", False), ("a b", False)]:
        report = check(Candidate(text.format(names), "made", {}), captured)
        assert report.is_verified == is_same


@pytest.mark.parametrize("level", ["lax", "api"])
@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (lambda x: collections.deque([x]), "deque"),
        (lambda x: (y for y in [x]), "generator"),
        (lambda x: {"f": jnp.sin, "x": x}, "PjitFunction"),
        (lambda x: (x, [object()]), "object"),
    ],
)
def test_results_that_jit_refuses_are_refused(made: Any, kind: str, level: str) -> None:
    with pytest.raises(untrace.CaptureError, match=f"returns a {kind}"):
        untrace.source(made, level=level)(X)
    with pytest.raises(TypeError):
        jax.jit(made)(X)


def test_a_file_whose_result_holds_text_runs(tmp_path: Any) -> None:
    src = untrace.source(lambda x: ("loss", x.sum()), name="step")(X)
    path = src.save(tmp_path / "saved.py")
    runpy.run_path(str(path), run_name="__main__")


def test_what_a_traced_function_was_told_is_said() -> None:
    told = jax.jit(lambda x: x + 1.0, donate_argnums=0, keep_unused=True)
    text = str(untrace.source(told.trace(X)))
    assert "(donated arguments, keep_unused)" in " ".join(text.split())
    assert "jax.jit` was told" not in str(untrace.source(jax.jit(jnp.sin).trace(X)))


@pytest.mark.parametrize("name", ["True", "1.0", "2", "'1'"])
def test_what_objects_hold_beside_arrays_is_compared_by_type(name: str) -> None:
    captured = capture(lambda x: Layer(x, 1), (X,), {})
    text = "from tests.verification.test_interface import Layer\ndef f(x):\n    return Layer(x, {})"
    names = ["x"]
    assert [p.name for p in captured.parameters] == names
    assert check(Candidate(text.format("1"), "f", {}), captured).is_verified
    assert not check(Candidate(text.format(name), "f", {}), captured).is_verified
