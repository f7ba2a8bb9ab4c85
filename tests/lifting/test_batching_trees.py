"""Batching rules of trees: where the text is one of leaves, so are their stand-ins."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap, sequential_vmap

import untrace
from untrace.checking import check_module as check
from untrace.saved import verify_file
from untrace.verification.equivalence import equivalent
from untrace.verification.retrace import execute

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)
XS = jnp.stack([X, X + 1, X * 2])
levels = pytest.mark.parametrize("level", ["lax", "api"])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Two:
    """A node that a file without this module does not have."""

    one: Any
    two: Any


def of_dicts(n: float) -> Any:
    """A function of a dict, whose rule closes over a number and gives other values."""
    f = custom_vmap(lambda d: {"sum": d["a"] + d["b"], "same": d["a"]})

    def rule(size: int, flags: Any, d: Any) -> Any:
        out = {"sum": d["a"] * n + d["b"] * size, "same": d["a"]}
        return out, {"sum": True, "same": flags[0]["a"]}

    f.def_vmap(rule)
    return f


def of_nodes(x: Any) -> Any:
    f = custom_vmap(lambda two, y: Two(two.two * y, two.one))

    @f.def_vmap
    def rule(size: int, flags: Any, two: Any, y: Any) -> Any:
        assert type(two) is Two and type(flags[0]) is Two and type(flags) is list
        one = two.one if flags[0].one else two.one[None]
        return Two(two.two + y + one, two.one), Two(True, flags[0].one)

    out = f(Two(x, jnp.cos(x)), jnp.float32(3.0))
    return out.one - out.two


def one_result(x: Any) -> Any:
    f = custom_vmap(lambda x: {"only": jnp.sin(x)})
    f.def_vmap(lambda size, flags, x: ({"only": jnp.cos(x)}, {"only": True}))
    return f(x)["only"]


def two_rules(x: Any) -> Any:
    first = of_dicts(2.0)({"a": x, "b": x})
    return of_dicts(3.0)({"a": first["sum"], "b": first["same"]})["sum"]


def pushed_forward(x: Any) -> Any:
    return jax.jvp(lambda x: of_dicts(2.0)({"a": x, "b": x * x})["sum"], (x,), (x,))


def in_sequence(x: Any) -> Any:
    return sequential_vmap(lambda d: (jnp.sin(d["a"]), d["a"]))({"a": x})[0]


def imported_rule(size: int, flags: Any, d: Any) -> Any:
    return jnp.cos(d["a"]) * size, True


def with_imported_rule(x: Any) -> Any:
    f = custom_vmap(lambda d: jnp.sin(d["a"]))
    f.def_vmap(imported_rule)
    return f({"a": x})


def in_a_derivative_rule(x: Any) -> Any:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return of_dicts(2.0)({"a": x, "b": x})["sum"]

    def forwards(x: Any) -> Any:
        out = of_dicts(2.0)({"a": x, "b": x})
        return out["sum"], out

    f.defvjp(forwards, lambda out, ct: (ct * out["same"],))
    return f(x)


PROGRAMS = (
    *(of_nodes, one_result, two_rules, pushed_forward, in_sequence),
    *(with_imported_rule, in_a_derivative_rule),
)


@levels
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loaded_function_has_the_rules_of_the_original(program: Any, level: Any):
    src = untrace.source(program, level=level)(X)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    f = src.load()
    same(jax.vmap(f)(XS), jax.vmap(program)(XS))
    twice = [jax.jit(jax.vmap(jax.vmap(g)))(XS[None] * 2) for g in (f, program)]
    same(*twice)


def same(one: Any, other: Any) -> None:
    """Check that two results are one tree of the same numbers, up to rounding."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_gradients_have_the_rule_too() -> None:
    f = untrace.source(in_a_derivative_rule, level="lax")(X).load()
    gradients = [
        jax.vmap(jax.grad(lambda x, g=g: g(x).sum()))(XS)
        for g in (f, in_a_derivative_rule)
    ]
    same(*gradients)


def test_the_header_says_which_stand_ins_take_leaves() -> None:
    src = untrace.source(two_rules, level="lax")(X)
    said = [note for note in src.report.notes if "takes and returns leaves" in note]
    assert len(said) == 2, src.report.notes
    assert any("of_dicts.<locals>.rule" in text for text in src.report.unproved)
    assert not any("compared with all" in text for text in src.report.unproved)


def test_a_file_with_such_stand_ins_verifies(tmp_path: Any) -> None:
    path = untrace.source(two_rules, level="lax")(X).save(tmp_path / "two.py")
    assert verify_file(path).is_verified
    text = path.read_text().replace("of_dicts.<locals>.rule", "of_dicts.<locals>.other")
    path.write_text(text)
    assert not verify_file(path).is_verified


def test_a_stand_in_that_does_not_take_leaves_is_a_difference() -> None:
    src = untrace.source(two_rules, level="lax")(X)
    body = src.module.body.replace("__untrace_takes_leaves__", "__takes__")
    report = check(dataclasses.replace(src.module, body=body), src.captured)
    assert report.strength in ("numeric", "different")


def test_one_stand_in_for_two_rules_is_a_difference() -> None:
    src = untrace.source(two_rules, level="lax")(X)
    assert "def_vmap(rule_2)" in src.module.body
    body = src.module.body.replace("def_vmap(rule_2)", "def_vmap(rule)")
    report = check(dataclasses.replace(src.module, body=body), src.captured)
    assert report.strength in ("numeric", "different")


def test_the_same_data_flow_with_other_leaves_is_told_apart() -> None:
    def program(x: Any, keys: str) -> Any:
        f = custom_vmap(lambda d: sum(d.values()))
        f.def_vmap(lambda size, flags, d: (sum(d.values()), True))
        return f(dict.fromkeys(keys, x)) if keys else f({"a": x, "b": None})

    src = untrace.source(lambda x: program(x, "ab"), level="lax")(X)
    written = jax.make_jaxpr(getattr(execute(str(src)), src.name))(X)
    for keys, is_same in (("ab", True), ("ac", True), ("abc", False), ("a", False)):
        other = jax.make_jaxpr(lambda x, keys=keys: program(x, keys))(X)
        assert (equivalent(other, written) is None) is is_same, keys


def test_a_rule_that_returns_another_tree_is_refused_as_by_the_original() -> None:
    def program(x: Any) -> Any:
        f = custom_vmap(lambda x: {"a": x, "b": x})
        f.def_vmap(lambda size, flags, x: ({"a": x, "c": x}, {"a": True, "c": True}))
        return f(x)["a"]

    f = untrace.source(program, level="lax")(X).load()
    for g in (program, f):
        with pytest.raises(ValueError, match="does not match that of original"):
            jax.vmap(g)(XS)


@levels
def test_a_closed_over_value_that_is_not_read(level: str) -> None:
    def program(x: Any, y: Any) -> Any:
        @custom_vmap
        def f(x: Any) -> Any:
            jnp.cos(y)  # dead, and removed below
            return jnp.sin(x)

        f.def_vmap(lambda size, flags, x: (x, flags[0]))
        return f(x)

    traced = jax.make_jaxpr(program)(X, X)
    (eqn,) = traced.eqns
    call = eqn.params["call"]
    body = call.jaxpr.replace(eqns=call.jaxpr.eqns[1:])
    params = {**eqn.params, "call": call.replace(jaxpr=body)}
    jaxpr = traced.jaxpr.replace(eqns=[eqn.replace(params=params)])
    src = untrace.source(traced.replace(jaxpr=jaxpr), level=level)
    assert src.report.strength == "equivalent", str(src)
    np.testing.assert_array_equal(src.load()(X, X), jnp.sin(X))
