"""`untrace.interpret`: what it takes, what it returns, and what stays as it was."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.errors import CallError
from untrace.interpreters.evaluate import Step

P = {"w": jnp.arange(9.0).reshape(3, 3) / 9, "b": jnp.ones(3)}
X = jnp.arange(3.0)


class State(NamedTuple):
    """A result of the user's own type."""

    mean: Any
    kind: str


def as_it_is(step: Step, *operands: Any) -> Any:
    return step(*operands)


def layer(p: Any, x: Any, n: int = 2, *, scale: Any = 1.0) -> Any:
    with jax.named_scope("layer"):
        y = jnp.tanh(p["w"] @ x + p["b"])
    for _ in range(n):
        y = y * scale
    return [y]


def described(p: Any, x: Any, *, scale: Any) -> Any:
    (y,) = layer(p, x, scale=scale)
    return State(y.mean(), "tanh"), [y]


def test_results_are_in_the_users_containers() -> None:
    wanted = described(P, X, scale=3.0)
    found = untrace.interpret(described, as_it_is)(P, X, scale=3.0)
    assert isinstance(found[0], State) and found[0].kind == "tanh"
    jax.tree.map(np.testing.assert_allclose, wanted[1], found[1])


def test_it_takes_what_source_takes() -> None:
    wanted = layer(P, X, 3)[0]
    jitted = jax.jit(layer, static_argnames="n")
    traced = jitted.trace(P, X, n=3)
    recovered = untrace.source(layer, static_argnums=2)(P, X, 3)
    for made in (
        untrace.interpret(jitted, as_it_is)(P, X, 3),
        untrace.interpret(layer, as_it_is, static_argnums=2)(P, X, 3),
        untrace.interpret(traced, as_it_is)(P, X),
        untrace.interpret(recovered, as_it_is)(),
        untrace.interpret(recovered, as_it_is)(P, X, 3),
    ):
        np.testing.assert_allclose(made[0], wanted, rtol=1e-6)
    jaxpr = jax.make_jaxpr(lambda p, x: layer(p, x, 3)[0])(P, X)
    flat = untrace.interpret(jaxpr, as_it_is)(P["b"], P["w"], X)
    np.testing.assert_allclose(flat, wanted, rtol=1e-6)


def test_other_arguments_than_were_traced_are_refused() -> None:
    jaxpr = jax.make_jaxpr(jnp.add)(1.0, 2.0)
    with pytest.raises(CallError, match="has 2 inputs, without names; 1 are given"):
        untrace.interpret(jaxpr, as_it_is)(1.0)
    traced = jax.jit(layer).trace(P, X)
    with pytest.raises(CallError, match="was traced with"):
        untrace.interpret(traced, as_it_is)(P["w"], X)
    abstract = untrace.source(jnp.sin)(jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(CallError, match="carries no inputs"):
        untrace.interpret(abstract, as_it_is)()
    with pytest.raises(CallError, match="needs values"):
        untrace.interpret(jnp.sin, as_it_is)(jax.ShapeDtypeStruct((3,), np.float32))


def test_exceptions_of_the_handler_come_through_with_the_users_line() -> None:
    @dataclasses.dataclass
    class Stop(Exception):
        step: Step

    def stopping(step: Step, *operands: Any) -> Any:
        if step.name == "tanh":
            raise Stop(step)
        return step(*operands)

    with pytest.raises(Stop) as caught:
        untrace.interpret(layer, stopping)(P, X)
    assert caught.value.step.name == "tanh"
    text = "".join(traceback.format_exception(caught.value))
    assert 'jnp.tanh(p["w"] @ x + p["b"])' in text
    assert "JaxStackTraceBeforeTransformation" in text


def test_scopes_and_lines_stay_when_it_is_traced_again() -> None:
    def doubling(step: Step, *operands: Any) -> Any:
        made = step(*operands)
        return made * 2 if step.name == "tanh" else made

    for eqn in jax.make_jaxpr(untrace.interpret(layer, doubling))(P, X).eqns:
        frames = eqn.source_info.traceback.frames
        names = [f.function_name for f in frames]
        assert not any("doubling" in name for name in names)
        if eqn.primitive.name in ("dot_general", "tanh"):
            assert str(eqn.source_info.name_stack) == "layer"
            assert "layer" in names


@pytest.mark.parametrize("level", ["api", "lax"])
def test_it_can_be_written_down(level: str) -> None:
    def with_cosine(step: Step, *operands: Any) -> Any:
        return jnp.cos(*operands) if step.name == "tanh" else step(*operands)

    src = untrace.source(untrace.interpret(layer, with_cosine), level=level)(P, X)
    assert src.report.is_verified
    assert "cos(" in str(src) and "tanh(" not in str(src)
    assert src.name == "layer"


def test_batched_conditions_are_those_of_jax() -> None:
    def f(x: Any, limit: Any) -> Any:
        return jax.lax.while_loop(lambda c: c < limit, lambda c: c * 2 + 1, x)

    xs, limits = jnp.arange(4.0), jnp.array([9.0, 0.0, 40.0, 3.5])
    batched = jax.vmap(f)
    made = untrace.interpret(batched, as_it_is)
    np.testing.assert_array_equal(made(xs, limits), batched(xs, limits))
    np.testing.assert_array_equal(jax.jit(made)(xs, limits), batched(xs, limits))


def test_sharded_functions_are_entered() -> None:
    mesh = jax.make_mesh((8,), ("d",), (jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    f = jax.shard_map(
        lambda x: jax.lax.psum(jnp.sin(x), "d"),
        mesh=mesh,
        in_specs=spec,
        out_specs=jax.P(),
    )
    seen: list[str] = []

    def handler(step: Step, *operands: Any) -> Any:
        seen.append(step.name)
        return step(*operands)

    x = jnp.arange(8.0)
    np.testing.assert_allclose(untrace.interpret(f, handler)(x), f(x), rtol=1e-6)
    assert "sin" in seen and "shard_map" in seen


def test_arguments_that_are_changed_in_place_are_changed() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Counter(nnx.Module):
        def __init__(self) -> None:
            self.count = nnx.Variable(jnp.zeros(()))

        def __call__(self, x: Any) -> Any:
            self.count[...] += 1
            return x * self.count[...]

    counter = Counter()
    assert untrace.interpret(lambda m, x: m(x), as_it_is)(counter, 3.0) == 3.0
    assert counter.count[...] == 1.0


def test_it_costs_no_more_than_half_again_of_jax() -> None:
    from benchmarks.interpret import chain, ratio

    assert min(ratio(chain, 5) for _ in range(3)) < 1.5


def test_the_function_is_traced_once_for_each_call() -> None:
    calls: list[Any] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return x + 1

    untrace.interpret(f, as_it_is)(1.0)
    assert len(calls) == 1
