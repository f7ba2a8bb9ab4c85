"""Primitives of other packages: rules by call and by entry point."""

import importlib
import importlib.metadata
import itertools
import re
import subprocess
import sys
import types
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import untrace
from untrace import extension
from untrace.lifting.controls import CONTROLS
from untrace.lifting.printing import Rhs
from untrace.lifting.rules import table

LIBRARY = """\
from jax.extend.core import Primitive
from jax.interpreters import mlir

scale_p = Primitive("scale_of_test")
scale_p.def_abstract_eval(lambda x, *, factor: x)
scale_p.def_impl(lambda x, *, factor: x * factor)
mlir.register_lowering(
    scale_p, mlir.lower_fun(lambda x, *, factor: x * factor, multiple_results=False)
)


def scale(x, by):
    return scale_p.bind(x, factor=by)
"""
_names = (f"mylib_{n}" for n in itertools.count())


@pytest.fixture
def mylib(tmp_path, monkeypatch):
    """A package that defines a primitive and a function that binds it."""
    name = next(_names)
    (tmp_path / f"{name}.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module(name)
    table.RULES.pop("scale_of_test", None)
    table.clear_memo()
    CONTROLS.pop("scale_of_test", None)


def _source(mylib):
    src = untrace.source(lambda x: mylib.scale(jnp.sin(x), 2) + 1.0, level="lax")(
        jnp.ones(3)
    )
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def test_without_a_rule_the_primitive_is_bound(mylib):
    text = _source(mylib)
    assert f"from {mylib.__name__} import scale_p" in text and "scale_p.bind(" in text


def test_a_registered_template_is_used(mylib):
    untrace.register(
        mylib.scale_p, "scale({0}, by={factor})", imports={"scale": mylib.__name__}
    )
    text = _source(mylib)
    assert (
        f"from {mylib.__name__} import scale\n" in text
        and "= scale(sine, by=2)" in text
    )


def test_a_template_that_misses_a_param_declines(mylib):
    untrace.register(
        "scale_of_test", "scale({0}, by=3)", imports={"scale": mylib.__name__}
    )
    assert "scale_p.bind(" in _source(mylib)


def test_a_wrong_template_cannot_give_a_wrong_program(mylib):
    wrong = {"scale": mylib.__name__}
    untrace.register("scale_of_test", "scale({0}, by={factor} + 1)", imports=wrong)
    assert "scale_p.bind(" in _source(mylib)


def test_a_registered_function_is_used(mylib):
    def lift_scale(eqn, frame):
        scale = frame.lifter.imports.attribute(mylib.__name__, "scale")
        return Rhs(f"{scale}({frame.text(eqn.operands[0])}, {eqn.params['factor']})")

    untrace.register("scale_of_test", lift_scale)
    assert "= scale(sine, 2)" in _source(mylib)


def _entry_points(monkeypatch, function):
    entry = types.SimpleNamespace(
        name="mylib", value="mylib:rules", load=lambda: function
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    monkeypatch.setattr(extension, "_loaded", [])


def test_entry_points_are_called_once(mylib, monkeypatch):
    calls = []

    def rules():
        calls.append(1)
        imports = {"scale": mylib.__name__}
        untrace.register("scale_of_test", "scale({0}, by={factor})", imports=imports)

    _entry_points(monkeypatch, rules)
    assert "= scale(sine, by=2)" in _source(mylib)
    _source(mylib)
    assert calls == [1]


def test_a_failing_entry_point_is_named(monkeypatch):
    def rules():
        raise RuntimeError("broken")

    _entry_points(monkeypatch, rules)
    with pytest.raises(
        untrace.UntraceError, match="mylib = mylib:rules.*RuntimeError: broken"
    ):
        untrace.source(jnp.sin, level="lax")(1.0)


def test_jax_still_runs_the_primitive(mylib):
    assert jax.jit(lambda x: mylib.scale(x, 2))(2.0) == 4.0


def test_rules_of_the_guide_are_accepted(monkeypatch):
    from untrace.lifting.rules import elementwise

    text = (Path(__file__).parent.parent / "docs/adding-a-primitive.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.setattr(table, "RULES", {})
    names = {**vars(elementwise)}
    try:
        for block in blocks:
            exec(block, names)
        shown = {name: rules[0] for name, rules in table.RULES.items()}
        assert list(shown) == ["reduce_sum", "integer_pow", "add", "scale"]
    finally:
        table.clear_memo()


def test_what_is_registered_first_of_all_takes_the_place_of_what_is_built_in():
    """Nothing of the package is loaded before it."""
    program = (
        "import untrace\n"
        "own = lambda eqn, frame: None\n"
        "untrace.register('cond', own)\n"
        "untrace.register_inverse('tanh', lambda y: y, elementwise=True)\n"
        "import jax.numpy as jnp\n"
        "from untrace.lifting.controls import CONTROLS\n"
        "untrace.source(jnp.sin)(1.0)\n"
        "assert CONTROLS['cond'] is own\n"
        "assert untrace.inverse(jnp.tanh)(0.25) == 0.25\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
