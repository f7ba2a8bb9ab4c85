"""What is a difference and what is not, one case at a time."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from untrace import jaxapi
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.fingerprint import fingerprint

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)
POLICIES = jax.checkpoint_policies


def trace(function: Callable[..., Any], *args: Any) -> Any:
    return jax.make_jaxpr(lambda *args: function(*args))(*(args or (X,)))


def are_same(first: Any, second: Any, unproved: list[str] | None = None) -> bool:
    same = compare(first, second, unproved) is None
    assert same == (compare(second, first) is None)
    assert same == (fingerprint(first) == fingerprint(second))
    return same


def with_params(jaxpr: Any, index: int, **params: Any) -> Any:
    body, consts = jaxapi.split_jaxpr(jaxpr)
    eqns = list(body.eqns)
    eqns[index] = eqns[index].replace(params={**eqns[index].params, **params})
    return jaxapi.close_jaxpr(body.replace(eqns=eqns), consts)


def with_consts(jaxpr: Any, *consts: Any) -> Any:
    body, _ = jaxapi.split_jaxpr(jaxpr)
    return jaxapi.close_jaxpr(body, consts)


def test_names_are_not_compared() -> None:
    def named(first: Any) -> Any:
        with jax.named_scope("scope"):
            return jnp.sin(first)

    assert are_same(trace(named), trace(lambda x: jnp.sin(x)))


def test_dropped_and_unused_results_are_the_same() -> None:
    plain = trace(lambda x: lax.sort((x, x), num_keys=1)[0])
    pruned, _ = jaxapi.split_jaxpr(plain)
    eqn = pruned.eqns[0]
    eqn = eqn.replace(outvars=[eqn.outvars[0], jaxapi.DropVar(eqn.outvars[1].aval)])
    assert are_same(plain, jaxapi.close_jaxpr(pruned.replace(eqns=[eqn]), []))


def test_order_merging_and_unused_constants_do_not_matter() -> None:
    a, b = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
    first, second, again = jnp.asarray(a), jnp.asarray(b), jnp.asarray(a.copy())
    merged = trace(lambda x: first * x + second - first)
    apart = trace(lambda x: first * x + second - again)
    assert [len(jaxapi.split_jaxpr(j)[1]) for j in (merged, apart)] == [2, 3]
    assert are_same(merged, apart)
    reordered = trace(lambda x: (second, first * x + second - first)[1])
    assert are_same(merged, reordered)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (np.float32([0.0] * 4), np.float32([-0.0] * 4)),
        (np.float32([np.nan] * 4), np.uint32([0x7FC00001] * 4).view(np.float32)),
        (
            np.float32([1.0] * 4),
            np.float32([1.0] * 3 + [np.nextafter(np.float32(1), 2)]),
        ),
    ],
)
def test_constants_are_compared_bitwise(value: Any, other: Any) -> None:
    program = trace(lambda x: x * jnp.asarray(X * 3))
    first, second = with_consts(program, value), with_consts(program, other)
    assert are_same(first, with_consts(program, value.copy()))
    assert not are_same(first, second)


@pytest.mark.parametrize(
    ("value", "other"),
    [(2.0, 2.5), (0.0, -0.0), (1.0, np.nan), (np.inf, -np.inf)],
)
def test_literals_are_compared_bitwise(value: float, other: float) -> None:
    assert not are_same(trace(lambda x: x * value), trace(lambda x: x * other))
    assert are_same(trace(lambda x: x * value), trace(lambda x: x * np.float32(value)))


def test_weak_literals_differ_from_strong_ones() -> None:
    weak, strong = trace(lambda x: lax.mul(x, 2.0), 1.0), trace(lambda x: x * 2.0, 1.0)
    assert are_same(weak, strong) == (str(weak) == str(strong))
    assert not are_same(trace(jnp.sin, 1.0), trace(jnp.sin, np.float32(1.0)))


def test_random_key_constants_are_compared_by_kind_and_bits() -> None:
    keys = [jax.random.key(0), jax.random.key(0), jax.random.key(1)]
    keys.append(jax.random.key(0, impl="rbg"))
    programs = [trace(lambda x, k=k: jax.random.uniform(k) * x) for k in keys]
    assert [are_same(programs[0], p) for p in programs] == [True, True, False, False]


def test_numpy_integers_are_integers_and_bools_are_not() -> None:
    program = trace(lambda x: jnp.broadcast_to(x, (3, 4)))
    index = next(i for i, e in enumerate(program.eqns) if "shape" in e.params)

    def having(*dimensions: Any) -> Any:
        return with_params(program, index, broadcast_dimensions=dimensions)

    assert are_same(having(1), having(np.int64(1)))
    assert not are_same(having(1), having(True))
    assert not are_same(having(1), having(1.0))


def test_order_of_effects_matters() -> None:
    def prints(*labels: str) -> Any:
        def f(x: Any) -> Any:
            for label in labels:
                jax.debug.print(label + " {x}", x=x)
            return x

        return trace(f)

    assert are_same(prints("a", "b"), prints("a", "b"))
    assert not are_same(prints("a", "b"), prints("b", "a"))


def make_jvp(factor: float) -> Any:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defjvp(lambda p, t: (f(*p), factor * t[0]))
    return f


def make_vjp(in_fwd: float, in_bwd: float) -> Any:
    @jax.custom_vjp
    def f(x: Any, n: Any) -> Any:
        return jnp.sin(x) * n

    f.defvjp(
        lambda x, n: (f(x, n), jnp.cos(x) * in_fwd),
        lambda res, ct: (ct * res * in_bwd, None),
    )
    return f


def test_another_jvp_rule_is_a_difference() -> None:
    assert are_same(trace(make_jvp(2.0)), trace(make_jvp(2.0)))
    assert not are_same(trace(make_jvp(2.0)), trace(make_jvp(3.0)))
    found = compare(trace(make_jvp(2.0)), trace(make_jvp(3.0)))
    assert found is not None and found.path == "custom_jvp_call/jvp"


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: jax.vmap(f, (0, None))])
def test_another_vjp_rule_is_a_difference(transform: Any) -> None:
    def program(in_fwd: float, in_bwd: float) -> Any:
        return trace(transform(make_vjp(in_fwd, in_bwd)), X, np.int32(3))

    assert are_same(program(2.0, 5.0), program(2.0, 5.0))
    assert not are_same(program(2.0, 5.0), program(3.0, 5.0))
    assert not are_same(program(2.0, 5.0), program(2.0, 6.0))


def test_values_that_rules_capture_are_followed() -> None:
    def program(pick: Callable[[Any, Any], Any]) -> Any:
        def f(x: Any, y: Any) -> Any:
            a, b = jnp.exp(x), jnp.tanh(y)
            g = jax.custom_jvp(jnp.sin)
            g.defjvp(lambda p, t: (g(*p), t[0] * pick(a, b)))
            return g(x) * a * b

        return trace(f, X, X)

    unproved: list[str] = []
    first, again = program(lambda a, b: a), program(lambda a, b: a)
    assert are_same(first, again, unproved) and not unproved
    assert not are_same(first, program(lambda a, b: b))


@pytest.mark.parametrize(
    "policy",
    [
        None,
        POLICIES.dots_saveable,
        POLICIES.save_only_these_names("b"),
        POLICIES.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=[],
            offload_src="device",
            offload_dst="pinned_host",
        ),
    ],
)
def test_remat_policies_are_compared(policy: Any) -> None:
    def program(policy: Any) -> Any:
        return trace(lambda x: jax.checkpoint(jnp.sin, policy=policy)(x))

    named = program(POLICIES.save_only_these_names("a"))
    assert are_same(named, program(POLICIES.save_only_these_names("a")))
    assert not are_same(named, program(policy))


def test_host_functions_are_compared_by_code() -> None:
    def program(host: Callable[..., Any]) -> Any:
        return trace(
            lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((4,), X.dtype), x)
        )

    def make(n: float) -> Callable[..., Any]:
        return lambda x: np.asarray(x) * np.float32(n)

    unproved: list[str] = []
    assert are_same(program(make(2.0)), program(make(2.0)), unproved) and not unproved
    assert not are_same(program(make(2.0)), program(make(3.0)))
    assert not are_same(program(np.sin), program(np.cos))


def test_same_code_elsewhere_is_compared_by_what_it_sees_there() -> None:
    def define(module: str, n: float) -> Any:
        space: dict[str, Any] = {"__name__": module, "np": np, "N": n, "other": n}
        code = """
        def host(x):
            return helper(np.sin(x))
        def helper(x):
            return x * N if x.other else host(x)
        """
        exec(textwrap.dedent(code), space)
        return trace(
            lambda x: jax.pure_callback(
                space["host"], jax.ShapeDtypeStruct((4,), X.dtype), x
            )
        )

    unproved: list[str] = []
    first, second = define("first", 2.0), define("second", 2.0)
    for judge in (compare, equivalent):
        assert judge(first, second, unproved) is None
        assert judge(first, define("first", 3.0)) is not None
    assert not unproved
    assert fingerprint(first) == fingerprint(second)


def test_objects_that_say_nothing_are_not_the_same() -> None:
    program = trace(jnp.sin)
    first = with_params(program, 0, accuracy=object())
    assert are_same(first, first)
    assert compare(first, with_params(program, 0, accuracy=object())) is not None


def test_equation_contexts_are_compared() -> None:
    def program(partitionable: bool) -> Any:
        with jax.threefry_partitionable(partitionable):
            return trace(jnp.sin)

    assert not are_same(program(True), program(False))


def test_meshes_and_specs_are_compared() -> None:
    def program(n_axes: int, spec: Any) -> Any:
        auto = (jax.sharding.AxisType.Auto,) * n_axes
        mesh = jax.make_mesh((1,) * n_axes, ("a", "b")[:n_axes], axis_types=auto)
        spec = jax.sharding.PartitionSpec(*spec)
        body = jax.shard_map(jnp.sin, mesh=mesh, in_specs=spec, out_specs=spec)
        return trace(body)

    assert are_same(program(1, "a"), program(1, "a"))
    assert not are_same(program(2, "a"), program(2, "b"))
    assert not are_same(program(1, "a"), program(2, "a"))


def test_a_difference_names_the_place() -> None:
    def program(n: float) -> Any:
        return trace(
            lambda p, x: lax.cond(p, lambda v: v * n + 1.0, lambda v: v, x), True, X
        )

    found = compare(program(2.0), program(2.5))
    assert found is not None
    assert (found.path, found.index) == ("cond/branches[1]", 0)
    assert str(found) == (
        "at cond/branches[1], equation 0:  expected  mul f32[4] a 2.0\n"
        + " " * 34
        + "actual    mul f32[4] a 2.5  (literal differs)"
    )


def test_long_and_deep_programs_are_compared() -> None:
    def deep(x: Any, depth: int) -> Any:
        return (
            jnp.sin(x) if depth == 0 else jax.jit(lambda v: deep(v, depth - 1) * 2.0)(x)
        )

    assert are_same(trace(lambda x: deep(x, 60)), trace(lambda x: deep(x, 60)))
    assert not are_same(trace(lambda x: deep(x, 60)), trace(lambda x: deep(x, 61)))
