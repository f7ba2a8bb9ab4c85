"""Equivalence sees data flow only, but all of it."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.verification.mutation import edits
from tests.verification.programs import PROGRAMS, M, X, host, mlp, refs, retrace, trace
from untrace import jaxapi
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent


def traced(function: Callable[..., Any], *args: Any) -> Any:
    return jax.make_jaxpr(lambda *args: function(*args))(*args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_wrapping_in_jit_keeps_equivalence(name: str) -> None:
    function, args = PROGRAMS[name]
    if name == "captured_rule":
        args = tuple(jnp.asarray(a) for a in args)
    wrapped = jax.make_jaxpr(jax.jit(lambda *args: function(*args)))(*args)
    assert compare(trace(name), wrapped) is not None
    found = equivalent(trace(name), wrapped)
    assert found is None, str(found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_dead_equations_do_not_count(name: str) -> None:
    program = retrace(name)
    body, consts = jaxapi.split_jaxpr(program)
    pure = [eqn for eqn in body.eqns if not eqn.effects]
    copies = [
        eqn.replace(outvars=[jaxapi.new_var(v.aval) for v in eqn.outvars])
        for eqn in pure
    ]
    longer = jaxapi.close_jaxpr(body.replace(eqns=[*body.eqns, *copies]), consts)
    assert compare(program, longer) is not None or not pure
    assert equivalent(program, longer) is None


def test_names_of_calls_do_not_count_but_their_options_do() -> None:
    def first(x: Any) -> Any:
        return jnp.sin(x) * 2

    def second(x: Any) -> Any:
        return jnp.sin(x) * 2

    def program(function: Callable[..., Any], **options: Any) -> Any:
        return jax.make_jaxpr(lambda x: jax.jit(function, **options)(x) + x)(X)

    donating = program(first, donate_argnums=0)
    renamed = program(second, donate_argnums=0)
    assert compare(donating, renamed) is not None
    assert equivalent(donating, renamed) is None
    assert equivalent(donating, program(first)) is not None


def test_ranges_in_params_are_compared_by_their_limits() -> None:
    def program(axes: range, *, is_late: bool = False) -> Any:
        numbers = lax.ScatterDimensionNumbers(axes, (0,), (0,))
        index, update = jnp.ones((1, 1), int), jnp.ones((1, 2))

        def function(x: Any) -> Any:
            early = None if is_late else jnp.sin(x)
            added = lax.scatter_add(x, index, update, numbers)
            return added, jnp.sin(x) if early is None else early

        return traced(function, M)

    late = program(range(1, 2), is_late=True)
    assert equivalent(program(range(1, 2)), late) is None
    assert equivalent(program(range(1, 2, 2)), late) is not None


# Differentiation leaves dead equations behind.
WITH_DEAD_EQUATIONS = {"dead", "grad_custom_vjp", "grad_remat", "hessian", "jvp"}
SEEN = ("another primitive", "literal value", "literal dtype", "one step", "effects")


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - WITH_DEAD_EQUATIONS))
def test_mutants_of_live_equations_are_rejected(name: str) -> None:
    program = trace(name)
    mutants = [edit for edit in edits(program) if any(kind in edit[0] for kind in SEEN)]
    for what, mutate in mutants[::3]:
        assert equivalent(program, mutate()) is not None, f"not seen: {what}"


def test_order_of_pure_equations_does_not_count() -> None:
    first = traced(lambda x: (jnp.sin(x), jnp.cos(x)), X)
    second = traced(lambda x: (jnp.cos(x), jnp.sin(x))[::-1], X)
    assert compare(first, second) is not None
    assert equivalent(first, second) is None


def test_order_of_effects_counts() -> None:
    def prints(*labels: str) -> Any:
        def f(x: Any) -> Any:
            for label in labels:
                jax.debug.print(label + " {x}", x=x)
            return x

        return traced(f, X)

    assert equivalent(prints("a", "b"), prints("a", "b")) is None
    assert equivalent(prints("a", "b"), prints("b", "a")) is not None
    assert equivalent(prints("a", "b"), prints("a")) is not None


def test_order_of_writes_counts() -> None:
    def program(first: int, second: int) -> Any:
        def f(x: Any) -> Any:
            ref = jax.new_ref(x)
            ref[first] = 1.0
            ref[second] = 2.0
            return ref[...]

        return traced(f, X)

    assert equivalent(program(0, 1), program(0, 1)) is None
    assert equivalent(program(0, 1), program(1, 0)) is not None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: x - x * 2.0, lambda x: x * 2.0 - x),
        (lambda x: x * 2.0, lambda x: x * 2.5),
        (lambda x: jnp.sin(x), lambda x: jnp.cos(x)),
        (lambda x: jax.jit(jnp.sin)(x), lambda x: jax.jit(jnp.cos)(x)),
        (lambda x: x.sum(), lambda x: x.max()),
        (lambda x: (x, x + 1), lambda x: (x + 1, x)),
        (
            lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
            lambda x: lax.cond(x[0] > 0, jnp.cos, jnp.sin, x),
        ),
        (
            lambda x: lax.scan(lambda c, r: (c + r, c), 0.0, x),
            lambda x: lax.scan(lambda c, r: (c + r, r), 0.0, x),
        ),
        (lambda x: jax.checkpoint(jnp.sin)(x), lambda x: jnp.sin(x)),
        (lambda x: jax.nn.relu(x), lambda x: jnp.maximum(x, 0)),
        (lambda x: x.astype(jnp.float16), lambda x: x.astype(jnp.bfloat16)),
        (
            lambda x: x * np.float32([1, 2, 3, 4]),
            lambda x: x * np.float32([1, 2, 3, 5]),
        ),
    ],
)
def test_changed_data_flow_is_seen(first: Any, second: Any) -> None:
    found = equivalent(traced(first, X), traced(second, X))
    assert found is not None
    assert str(found)


def test_a_difference_points_at_the_deepest_equation() -> None:
    found = equivalent(
        traced(lambda x: jnp.exp(jnp.sin(x * 2.0)) + 1.0, X),
        traced(lambda x: jnp.exp(jnp.sin(x * 3.0)) + 1.0, X),
    )
    assert found is not None
    assert (found.expected, found.actual) == ("mul f32[4] a 2.0", "mul f32[4] a 3.0")


def test_calls_with_options_are_not_opened() -> None:
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    placed = traced(jax.jit(jnp.sin, out_shardings=device), X)
    assert equivalent(traced(jnp.sin, X), placed) is not None


def test_shared_calls_are_numbered_once() -> None:
    def doubled(f: Any, times: int) -> Any:
        for _ in range(times):
            f = (lambda g: jax.jit(lambda x: g(x) + g(x)))(f)  # 2 ** times calls
        return f

    program = traced(doubled(lambda x: x * 2.0, 40), X)
    assert equivalent(program, program) is None


def test_effects_inside_calls_keep_their_order() -> None:
    for f in (host, refs):
        assert equivalent(traced(f, X), traced(jax.jit(f), X)) is None


def test_gradients_of_jitted_functions_are_equivalent() -> None:
    plain = traced(jax.vmap(mlp, (None, 0)), M, M)
    inside = traced(jax.vmap(jax.jit(mlp), (None, 0)), M, M)
    assert equivalent(plain, inside) is None


def _loop(reads: Callable[[Any, Any], Any]) -> Any:
    """Trace a loop that closes over two values."""

    def program(x: Any, a: Any, b: Any) -> Any:
        def body(carry: Any) -> Any:
            reads(a, b)
            return carry + a

        looped = jax.lax.while_loop(lambda c: c[0] < a[0], body, x)
        scanned, _ = jax.lax.scan(lambda c, _: (body(c), None), x, None, length=3)
        chosen = jax.lax.cond(x[0] > 0, lambda: body(x), lambda: x * 2)
        return looped, scanned, chosen, jax.checkpoint(lambda x: body(x))(x)

    return jax.make_jaxpr(program)(X, X, X)


def test_constants_that_only_dead_code_reads_do_not_count() -> None:
    plain, dead = _loop(lambda a, b: None), _loop(lambda a, b: jnp.sin(b))
    assert compare(plain, dead) is not None
    assert equivalent(plain, dead) is None
    assert equivalent(dead, plain) is None


@pytest.mark.parametrize("kind", ["scan", "while_loop", "cond", "checkpoint"])
def test_the_order_of_what_is_closed_over_does_not_count(kind: str) -> None:
    def first(x: Any, a: Any, b: Any) -> Any:
        product = x * a
        return product - jnp.sin(b)

    def second(x: Any, a: Any, b: Any) -> Any:
        sine = jnp.sin(b)
        return x * a - sine

    def swapped(x: Any, a: Any, b: Any) -> Any:
        sine = jnp.sin(a)
        return x * b - sine

    def closing(step: Any) -> Any:
        def program(a: Any, b: Any, x: Any) -> Any:
            one = lambda x: step(x, a, b)
            if kind == "scan":
                return lax.scan(lambda x, _: (one(x), None), x, length=3)
            if kind == "while_loop":
                return lax.while_loop(lambda x: x < a - b, one, x)
            if kind == "cond":
                return lax.cond(x > 0, one, lambda x: x, x)
            return jax.checkpoint(one)(x)

        return traced(program, *np.arange(3, dtype=np.float32))

    expected = closing(first)
    assert compare(expected, closing(second)) is not None
    assert equivalent(expected, closing(second)) is None
    assert equivalent(expected, closing(swapped)) is not None
    assert equivalent(closing(second), closing(swapped)) is not None


def test_constants_of_nested_loops_that_only_dead_code_reads_do_not_count() -> None:
    def nested(a: Any, b: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: c + b, jnp.zeros(4))

    assert equivalent(_loop(lambda a, b: None), _loop(nested)) is None


SPLIT, WHOLE = P("d"), P()  # over the devices, and on each of them


def _over_shards(function: Callable[..., Any], specs: Sequence[P], *order: int) -> Any:
    """Trace a map over shards of some of two arguments, in an order."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    # Without the check, types inside do not tell what is split from what is whole.
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=tuple(specs), out_specs=WHOLE, check_vma=False
    )
    return traced(lambda *args: mapped(*[args[i] for i in order]), X, X)


def _summed(x: Any, y: Any) -> Any:
    return lax.psum(x, "d") - y


def test_operands_of_a_map_over_shards_that_only_dead_code_reads_do_not_count() -> None:
    def with_dead(x: Any, dead: Any, y: Any) -> Any:
        jnp.sin(dead)
        return _summed(x, y)

    plain = _over_shards(_summed, (SPLIT, WHOLE), 0, 1)
    for spec, given in itertools.product((SPLIT, WHOLE), (0, 1)):
        dead = _over_shards(with_dead, (SPLIT, spec, WHOLE), 0, given, 1)
        assert compare(plain, dead) is not None
        assert equivalent(plain, dead) is None
        assert equivalent(dead, plain) is None


def test_operands_of_a_map_over_shards_that_are_read_count() -> None:
    plain = _over_shards(_summed, (SPLIT, WHOLE), 0, 1)
    read = _over_shards(lambda x, y, _: _summed(x, y), (SPLIT, WHOLE, WHOLE), 0, 0, 1)
    assert equivalent(plain, read) is not None


def test_operands_of_a_map_over_shards_keep_their_specs() -> None:
    def turned(y: Any, x: Any) -> Any:
        return _summed(x, y)

    plain = _over_shards(_summed, (SPLIT, WHOLE), 0, 1)
    assert equivalent(plain, _over_shards(turned, (WHOLE, SPLIT), 1, 0)) is None
    assert equivalent(plain, _over_shards(turned, (SPLIT, WHOLE), 1, 0)) is not None
    assert equivalent(plain, _over_shards(_summed, (WHOLE, SPLIT), 0, 1)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    itertools.combinations(itertools.product((SPLIT, WHOLE), repeat=2), 2),
    ids=str,
)
def test_one_value_with_different_specs_is_two_operands(
    one: Sequence[P], other: Sequence[P]
) -> None:
    expected, actual = [_over_shards(_summed, s, 0, 0) for s in (one, other)]
    assert equivalent(expected, _over_shards(_summed, one, 0, 0)) is None
    assert equivalent(expected, actual) is not None
    assert equivalent(actual, expected) is not None


@pytest.mark.parametrize("specs", [(SPLIT, WHOLE), (WHOLE, SPLIT)], ids=str)
@pytest.mark.parametrize("spec", [SPLIT, WHOLE], ids=str)
def test_one_value_with_different_specs_is_not_given_once(
    specs: Sequence[P], spec: P
) -> None:
    twice = _over_shards(_summed, specs, 0, 0)
    once = _over_shards(lambda x: _summed(x, x), (spec,), 0)
    assert equivalent(twice, once) is not None
    assert equivalent(once, twice) is not None


def test_constants_that_are_read_count() -> None:
    def program(first: Any, x: Any, a: Any, b: Any) -> Any:
        def body(carry: Any) -> Any:
            jnp.sin(a) + jnp.sin(b)
            return carry + (a if first else b)

        return jax.lax.while_loop(lambda c: c[0] < 3, body, x)

    one, two, same = (
        jax.make_jaxpr(functools.partial(program, first))(X, X, X)
        for first in (True, False, True)
    )
    assert equivalent(one, two) is not None
    assert equivalent(one, same) is None


def test_operands_that_are_given_twice_do_not_count() -> None:
    one, other = np.ones(4), np.ones(4)  # JAX takes them for two constants

    def program(x: Any, a: Any, b: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return carry * a + b, a - b

        def branch() -> Any:
            return jnp.sin(a) * b

        return (
            jax.lax.scan(body, x, None, length=3),
            jax.lax.while_loop(lambda c: (c < a + b)[0], lambda c: c * a + b, x),
            jax.lax.cond(x[0] > 0, branch, lambda: a - b),
            jax.checkpoint(lambda x: x * a + b)(x),
        )

    def traced_with(a: Any, b: Any) -> Any:
        return jax.make_jaxpr(lambda x: program(x, jnp.asarray(a), jnp.asarray(b)))(X)

    twice, once = traced_with(one, other), traced_with(one, one)
    assert compare(twice, once) is not None
    assert equivalent(twice, once) is None
    assert equivalent(once, twice) is None
    assert equivalent(once, traced_with(one, 2 * other)) is not None
    assert equivalent(traced_with(one, 2 * other), traced_with(2 * one, other))


def _with_constants(x: Any, a: Any, b: Any) -> Any:
    """Close over two numbers in all that has sub-programs."""
    by_jvp, by_vjp = _closing_over(a, b)
    return (
        lax.scan(lambda c, _: (c * a + b, a * c), x, None, length=3),
        lax.while_loop(lambda c: (c * a < b)[0], lambda c: c * a + b, x),
        lax.cond(x[0] > 0, lambda: (a * x, x + b), lambda: (x * b, x + a)),
        jax.checkpoint(lambda x: x * a + b)(x),
        by_jvp(x),
        by_vjp(x),
    )


def test_whether_constants_are_closed_over_or_named_does_not_count() -> None:
    def traced_with(a: Any, b: Any) -> Any:
        return jax.make_jaxpr(lambda x: _with_constants(x, a, b))(X)

    two, three = np.float32(2), np.float32(3)
    named = traced_with(two, three)
    closed = traced_with(jnp.asarray(two), jnp.asarray(three))
    assert compare(named, closed) is not None
    assert equivalent(named, closed) is None
    assert equivalent(closed, named) is None
    for a, b in ((three, two), (two, two), (two, jnp.asarray(two)), (-two, three)):
        other = traced_with(a, b)
        assert equivalent(named, other) is not None
        assert equivalent(closed, other) is not None


def test_a_constant_counts_where_each_loop_begins() -> None:
    """What a loop carries is a constant at first only."""

    def loops(begin: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, c: c * x[0], begin)

    named, other = (jax.make_jaxpr(lambda x, b=b: loops(b, x))(X) for b in (2.0, 3.0))
    closed = jax.make_jaxpr(lambda x: loops(jnp.asarray(np.float32(2.0)), x))(X)
    assert equivalent(named, other) is not None
    assert equivalent(closed, other) is not None


def _closing_over(a: Any, b: Any) -> tuple[Any, Any]:
    def combined(x: Any) -> Any:
        return jnp.sin(x * a) + b

    by_jvp, by_vjp = jax.custom_jvp(combined), jax.custom_vjp(combined)
    by_jvp.defjvp(lambda p, t: (by_jvp(*p), t[0] * by_jvp(*p)))
    by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, ct: (ct * by_vjp(x),))
    return by_jvp, by_vjp


@pytest.mark.parametrize("which", [0, 1])
def test_values_that_functions_with_rules_close_over_twice_count_once(
    which: int,
) -> None:
    one, other = jnp.ones(4), jnp.ones(4)  # JAX takes them for two constants
    twice, once = (
        traced(lambda x, b=b: _closing_over(one, b)[which](x), X) for b in (other, one)
    )
    assert compare(twice, once) is not None
    assert equivalent(twice, once) is None
    assert equivalent(once, twice) is None


@pytest.mark.parametrize("which", [0, 1])
def test_what_a_function_with_rules_closes_over_counts_though_dead_code_reads_it(
    which: int,
) -> None:
    """It has no derivative by that."""

    def program(is_given: bool, x: Any) -> Any:
        def f(z: Any) -> Any:
            if is_given:
                jnp.sin(x)
            return z * 2.0

        by_jvp, by_vjp = jax.custom_jvp(f), jax.custom_vjp(f)
        by_jvp.defjvp(lambda p, t: (p[0], t[0]))
        by_vjp.defvjp(lambda z: (z, None), lambda _, ct: (ct,))
        return (by_jvp, by_vjp)[which](jnp.cos(x))

    given, plain = (
        traced(functools.partial(program, is_given), X) for is_given in (True, False)
    )
    assert equivalent(given, plain) is not None
    assert equivalent(given, given) is None


def _ruled(inner: Any, is_jvp: bool) -> Any:
    """Make a function with rules that call `inner`, or itself."""

    def plain(x: Any) -> Any:
        return jnp.sin(x)

    f: Any = jax.custom_jvp(plain) if is_jvp else jax.custom_vjp(plain)
    g = inner or f
    if is_jvp:
        f.defjvp(lambda p, t: (g(*p), t[0] * jnp.cos(g(*p))))
    else:
        f.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * g(x),))
    return f


@pytest.mark.parametrize("is_jvp", [True, False])
def test_rules_that_lead_back_to_themselves_may_be_written_at_any_length(
    is_jvp: bool,
) -> None:
    once = _ruled(None, is_jvp)
    twice = _ruled(_ruled(None, is_jvp), is_jvp)
    thrice = _ruled(_ruled(_ruled(None, is_jvp), is_jvp), is_jvp)
    programs = [traced(f, X) for f in (once, twice, thrice)]
    for first, second in itertools.permutations(programs, 2):
        assert equivalent(first, second) is None
    other = traced(_ruled(lambda x: once(x) * 2.0, is_jvp), X)
    assert all(equivalent(other, program) for program in programs)


# ---- what is drawn, written or held anew -------------------------------------------


def drawn() -> Any:
    return lax.rng_uniform(0.0, 1.0, (3,))


def of_loop(_: Any) -> Any:
    return lax.scan(lambda c, _: (c + drawn(), None), jnp.zeros(3), length=3)[0]


@pytest.mark.parametrize(
    "draw", [lambda x: drawn(), lambda x: jax.jit(drawn)(), of_loop]
)
def test_two_draws_are_not_one(draw: Any) -> None:
    def once(x: Any) -> Any:
        value = draw(x)
        return value - value

    def twice(x: Any) -> Any:
        return draw(x) - draw(x)

    assert differs(twice, once)
    assert not differs(twice, lambda x: draw(x) - draw(x))


def test_writes_to_another_mutable_array_differ() -> None:
    first, second = jax.new_ref(jnp.zeros(4)), jax.new_ref(jnp.zeros(4))

    def writing(*refs: Any) -> Any:
        def function(x: Any) -> Any:
            for ref in refs:
                ref[...] = x
                x = 2.0 * x
            return x

        return function

    assert differs(writing(first, second), writing(second, first))
    assert differs(writing(first, first), writing(first, second))
    assert not differs(writing(first, second), writing(first, second))


def test_objects_with_hidden_state_differ() -> None:
    def drawing(generator: Any) -> Any:
        shape = jax.ShapeDtypeStruct((4,), np.float32)
        return lambda x: jax.pure_callback(generator.normal, shape, x)

    one, other = np.random.default_rng(0), np.random.default_rng(0)
    assert differs(drawing(one), drawing(other))
    assert not differs(drawing(one), drawing(one))


@pytest.mark.parametrize("other", [np.int64(3), 3, np.bool_(True), 3.0, np.float32(3)])
def test_types_of_attributes_differ(other: Any) -> None:
    def composite(value: Any) -> Any:
        made = lax.composite(lambda x, **_: x + 1.0, "my.composite")
        return lambda x: made(x, a=value)

    def foreign(value: Any) -> Any:
        made = jax.ffi.ffi_call("foreign", jax.ShapeDtypeStruct((4,), np.float32))
        return lambda x: made(x, a=value)

    for call in (composite, foreign):
        assert differs(call(np.int32(3)), call(other))
        assert not differs(call(np.int32(3)), call(np.int32(3)))


def differs(first: Any, second: Any) -> bool:
    jaxprs = [traced(function, jnp.ones(4)) for function in (first, second)]
    is_other = equivalent(*jaxprs) is not None
    assert is_other <= (compare(*jaxprs) is not None)
    return is_other


def test_nested_programs_of_host_functions_are_gone_through_once_for_each_program() -> (
    None
):
    """What a host function holds counts in both programs, at no more than its cost."""
    seen: list[int] = [0]

    def told(x: Any) -> None:
        seen[0] += 1

    def nested(depth: int) -> Callable[..., Any]:
        def step(x: Any, _: Any) -> Any:
            if depth:
                x, _ = jax.lax.scan(nested(depth - 1), x, None, length=2)
            else:
                jax.debug.callback(told, x)
            return x * 2.0, None

        return step

    program = jax.make_jaxpr(lambda x: nested(9)(x, None)[0])(1.0)
    start = time.perf_counter()
    assert equivalent(program, program) is None
    assert time.perf_counter() - start < 5.0  # not 3 ** 9 times
    jitted = jax.jit(nested(1))
    twice = jax.make_jaxpr(lambda x: jitted(jitted(x, None)[0], None)[0])(1.0)
    assert equivalent(twice, twice) is None


def test_what_jax_holds_for_policies_is_not_changed_by_them() -> None:
    """One policy twice, or two that are equal: neither changes the list it was given."""

    def policy() -> Any:
        return jax.checkpoint_policies.save_and_offload_only_these_names(
            names_which_can_be_saved=[],
            names_which_can_be_offloaded=["kept"],
            offload_src="device",
            offload_dst="pinned_host",
        )

    def twice(first: Any, second: Any) -> Any:
        def program(x: Any) -> Any:
            x = jax.checkpoint(jnp.sin, policy=first)(x)
            return jax.checkpoint(jnp.cos, policy=second)(x)

        return jax.make_jaxpr(program)(1.0)

    shared = policy()
    one, two = twice(shared, shared), twice(policy(), policy())
    assert compare(one, two) is None and compare(two, one) is None
    assert equivalent(one, two) is None


def test_a_rule_that_raises_counts_where_no_result_needs_the_call() -> None:
    def program(raises: bool) -> Any:
        @jax.custom_jvp
        def f(x: Any) -> Any:
            return jnp.sin(x)

        def rule(primals: Any, tangents: Any) -> Any:
            if raises:
                raise TypeError("another tree")
            return f(*primals), tangents[0]

        f.defjvp(rule)
        return jax.make_jaxpr(lambda x: (x * 2, jax.jit(lambda y: (f(y), y))(x)[1]))(
            1.0
        )

    fine, raising = program(False), program(True)
    assert equivalent(fine, program(False)) is None
    assert equivalent(raising, program(True)) is None
    assert equivalent(raising, fine) is None  # the text may do what the original cannot
    found = equivalent(fine, raising)
    assert found is not None and "raises" in found.reason


ONES = np.ones(3, np.float32)
WITHOUT_DERIVATIVE: dict[str, Callable[[Any], Any]] = {
    "no rule": lambda x: jax.lax.igamma_grad_a_p.bind(x, x),
    "host": lambda x: jax.pure_callback(lambda a: a, x, x),
    "in a loop": lambda x: jax.lax.fori_loop(
        0, 3, lambda i, c: jax.lax.igamma_grad_a_p.bind(c, c), x
    ),
}


@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_dead_code_without_a_derivative_counts(name: str) -> None:
    def with_dead(x: Any) -> Any:
        WITHOUT_DERIVATIVE[name](x)
        return jnp.sum(x * 2.0)

    fine, raising = (
        jax.make_jaxpr(f)(ONES) for f in (lambda x: jnp.sum(x * 2.0), with_dead)
    )
    with pytest.raises((NotImplementedError, ValueError)):
        jax.grad(with_dead)(ONES)
    assert equivalent(raising, fine) is None
    found = equivalent(fine, raising)
    assert found is not None and "raises" in found.reason


LOOPS: dict[str, Callable[[Any, Any, bool], Any]] = {
    "a loop": lambda x, y, is_dead: jax.lax.fori_loop(
        0, 3, lambda i, c: (is_dead and y + c, without_derivative(c))[1], x
    ),
    "a loop in a loop": lambda x, y, is_dead: jax.lax.fori_loop(
        0,
        3,
        lambda i, c: LOOPS["a loop"](c, x, False) + LOOPS["a loop"](c, y, is_dead),
        x,
    ),
    "a jitted function in a loop": lambda x, y, is_dead: jax.lax.fori_loop(
        0, 3, lambda i, c: (is_dead and y + c, jitted(c) + jitted(c))[1], x
    ),
    "a rule in a loop": lambda x, y, is_dead: jax.lax.fori_loop(
        0, 3, lambda i, c: (is_dead and y + c, with_raising_rule(c))[1], x
    ),
}


def without_derivative(x: Any) -> Any:
    return jax.lax.igamma_grad_a_p.bind(x, x)


jitted = jax.jit(without_derivative)


@jax.custom_jvp
def with_raising_rule(x: Any) -> Any:
    return jnp.sin(x)


@with_raising_rule.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return jnp.sin(x), t * without_derivative(x)


@pytest.mark.parametrize("name", LOOPS)
def test_what_has_no_derivative_is_the_same_beside_a_dead_operand(name: str) -> None:
    """The operand moves the others of the loop by one."""
    loop = LOOPS[name]
    fine, dead = (
        jax.make_jaxpr(lambda x, y, d=d: loop(x, y, d))(ONES, ONES)
        for d in (False, True)
    )
    assert equivalent(fine, dead) is None
    assert equivalent(dead, fine) is None


@pytest.mark.parametrize("name", LOOPS)
def test_dead_loops_count_that_have_no_derivative(name: str) -> None:
    def with_dead(x: Any, y: Any) -> Any:
        jax.lax.fori_loop(0, 2, lambda i, c: LOOPS[name](c, y, True), x)
        return jnp.sum(x * 2.0)

    fine, raising = (
        jax.make_jaxpr(f)(ONES, ONES)
        for f in (lambda x, y: jnp.sum(x * 2.0), with_dead)
    )
    found = equivalent(fine, raising)
    assert found is not None and "raises" in found.reason
    assert equivalent(raising, raising) is None


def test_a_batching_rule_that_raises_counts_where_no_result_needs_the_call() -> None:
    def program(raises: bool) -> Any:
        @jax.custom_batching.custom_vmap
        def f(x: Any) -> Any:
            return jnp.sin(x)

        @f.def_vmap
        def rule(size: int, batched: Any, x: Any) -> Any:
            if raises:
                raise TypeError("not batched")
            return f(x), batched[0]

        return jax.make_jaxpr(lambda x: (f(x), x * 2.0)[1])(1.0)

    fine, raising = program(False), program(True)
    assert equivalent(raising, program(True)) is None
    assert equivalent(raising, fine) is None
    found = equivalent(fine, raising)
    assert found is not None and "raises" in found.reason


def test_integers_have_no_derivative_to_ask_for() -> None:
    def with_dead(n: Any) -> Any:
        jax.lax.clz(n)
        return n * 2

    fine, other = (jax.make_jaxpr(f)(1) for f in (lambda n: n * 2, with_dead))
    assert equivalent(fine, other) is None


def test_what_raises_in_one_call_of_both_programs_raises_in_both() -> None:
    """The jaxpr of a jitted function is one object in both."""

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    def rule(primals: Any, tangents: Any) -> Any:
        raise TypeError("no derivative")

    f.defjvp(rule)
    shared = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: f(c), x))

    def with_dead_loop(x: Any) -> Any:
        jax.lax.fori_loop(0, 3, lambda i, c: c + 1.0, x)
        return shared(x)

    one, other = (
        jax.make_jaxpr(g)(ONES) for g in (lambda x: shared(x), with_dead_loop)
    )
    assert equivalent(one, other) is None
    assert equivalent(other, one) is None


def with_residual(residual: Any, n: float = 2.0) -> Callable[..., Any]:
    """A function whose backward rule branches on a residual that is known."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    def backward(kept: Any, ct: Any) -> Any:
        x, *known = kept
        factor = n if known and known[0] else 1.0
        return (ct * jnp.cos(x) * factor,)

    f.defvjp(lambda x: (f(x), (x, *residual)), backward)
    return lambda x: f(x) * 2.0


def test_residuals_that_are_known_count_by_what_the_backward_rule_does() -> None:
    plain, off, on = (traced(with_residual(r), X) for r in ((), (False,), (True,)))
    assert compare(plain, off) is not None
    assert equivalent(plain, off) is None and equivalent(off, plain) is None
    assert equivalent(off, on) is not None and equivalent(on, plain) is not None
    number = traced(with_residual((True,), 3.0), X)
    assert equivalent(on, number) is not None


def test_residuals_that_are_computed_count() -> None:
    def kept(scale: float) -> Callable[..., Any]:
        @jax.custom_vjp
        def f(x: Any) -> Any:
            return jnp.sin(x)

        f.defvjp(
            lambda x: (f(x), (x * scale, np.float32(3.0))), lambda r, ct: (ct * r[0],)
        )
        return lambda x: f(x) * 2.0

    first, same, other = (traced(kept(scale), X) for scale in (2.0, 2.0, 3.0))
    assert equivalent(first, same) is None
    assert equivalent(first, other) is not None
