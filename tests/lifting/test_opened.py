"""Primitives of libraries are written as what they compute, unless types are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import ad, batching, mlir

import untrace
from untrace import jaxapi
from untrace.jaxapi import libraries
from untrace.verification.equivalence import equivalent
from untrace.verification.retrace import execute

X = np.arange(3, dtype=np.float32)


def _primitive(
    name: str, impl: Callable[..., Any], lowered: Callable[..., Any] | None = None
) -> Any:
    """Make a primitive as libraries do."""
    made = jax.extend.core.Primitive(name)
    made.def_impl(impl)
    made.def_abstract_eval(lambda x, **params: x)
    rule = mlir.lower_fun(lowered or impl, multiple_results=False)
    mlir.register_lowering(made, rule)
    return made


unbatched_p = _primitive("unbatched", lambda x, *, why: x)
softened_p = _primitive("softened", lambda x, *, by: jnp.tanh(x * by) + jnp.sin(x))
foreign_p = _primitive(
    "foreign", lambda x: jax.ffi.ffi_call("nowhere", jax.typeof(x))(jnp.sin(x))
)
lied_p = _primitive("lied", lambda x: x, lambda x: x * 2)


def recover(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    src = untrace.source(function, **options)(*args)
    assert src.report.strength == "equivalent", str(src.report)
    return str(src)


def body(text: str) -> str:
    return text[text.index("def f") :].split("\n\n\ndef example_args")[0]


def test_what_calls_compiled_code_of_a_library_is_imported() -> None:
    def f(x: Any) -> Any:
        return foreign_p.bind(jnp.cos(x)) * 2.0

    src = untrace.source(f)(X)
    assert src.report.strength == "identical"
    assert "import foreign_p\n" in str(src)
    assert "return foreign_p.bind(jnp.cos(x)) * 2.0" in str(src)


def test_what_does_nothing_vanishes() -> None:
    def f(x: Any) -> Any:
        y = unbatched_p.bind(jnp.sin(x), why="it must not")
        return y + unbatched_p.bind(jnp.arange(3.0), why="neither")

    text = recover(f, X)
    assert "why" not in text
    assert "y = jnp.sin(x)" in text
    assert "Written as what they compute: `unbatched` of " in text


def test_what_computes_is_written_so() -> None:
    def f(x: Any) -> Any:
        return softened_p.bind(x, by=2.0)

    text = recover(f, X)
    assert "softened_p" not in text
    assert "jnp.tanh(" in text


def test_sub_programs_and_programs_without_a_recording() -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            return unbatched_p.bind(softened_p.bind(carry, by=3.0), why=""), None

        return jax.lax.scan(step, x, None, length=2)[0]

    for made in (
        untrace.source(f)(X),
        untrace.source(jax.make_jaxpr(f)(X), level="api"),
    ):
        assert made.report.strength == "equivalent"
        assert "_p.bind" not in str(made)


passed_p = _primitive("passed", lambda x: x)
ad.primitive_jvps[passed_p] = lambda primals, tangents: (
    passed_p.bind(*primals),
    tangents[0],
)


@pytest.mark.parametrize("way", ["scan", "while_loop", "custom_jvp"])
def test_sub_programs_with_what_a_library_differentiates(way: str) -> None:
    """Where it stands for what it computes, it does so in loops and rules, too."""

    def double(x: Any) -> Any:
        return passed_p.bind(x) * 2

    made = jax.custom_jvp(double)
    made.defjvp(lambda primals, tangents: (made(*primals), double(*tangents)))

    def f(x: Any) -> Any:
        if way == "scan":
            return jax.lax.scan(lambda c, _: (double(c), None), x, None, length=2)[0]
        if way == "while_loop":
            return jax.lax.while_loop(lambda c: c[0] < 9, double, x)
        return made(x) + 1

    assert "passed_p" not in recover(f, X)


def test_rules_of_functions_are_opened_too() -> None:
    @jax.custom_jvp
    def g(x: Any) -> Any:
        return unbatched_p.bind(x, why="") * 2

    @g.defjvp
    def g_jvp(primals: Any, tangents: Any) -> Any:
        return g(*primals), unbatched_p.bind(tangents[0], why="") * 2

    text = recover(lambda x: g(x) + 1, X)
    assert "unbatched_p" not in text
    assert "return g(primals[0]), tangents[0] * 2" in text


def test_types_are_kept() -> None:
    def f(x: Any) -> Any:
        return unbatched_p.bind(x, why="kept") + 1

    src = untrace.source(f, keep_types=True)(X)
    assert src.report.strength == "identical"
    assert "unbatched_p.bind(x, why='kept')" in str(src).replace('"', "'")
    assert "unbatched_p.bind" in str(untrace.source(f, level="lax")(X))


def _aborts(*args: Any, **params: Any) -> Any:
    raise AssertionError("nothing is compiled")


compiled_p = _primitive("compiled", lambda x: x)
mlir.register_lowering(compiled_p, _aborts)


def test_a_primitive_with_a_compilation_of_its_own_stays() -> None:
    src = untrace.source(lambda x: compiled_p.bind(x) + 1)(X)
    assert src.report.strength == "identical"
    assert "compiled_p.bind(x)" in str(src)


def test_what_is_compiled_to_something_else_stays() -> None:
    src = untrace.source(lambda x: lied_p.bind(x) + 1)(X)
    assert src.report.strength == "identical"
    assert "lied_p.bind(x)" in str(src)


def test_primitives_are_opened_on_request_only() -> None:
    bound = jax.make_jaxpr(lambda x: unbatched_p.bind(x, why="") + 1)(X)
    plain = jax.make_jaxpr(lambda x: x + 1)(X)
    assert equivalent(bound, plain) is not None
    assert equivalent(bound, plain, opened={unbatched_p: False}) is None
    other = jax.make_jaxpr(lambda x: x + 2)(X)
    assert equivalent(bound, other, opened={unbatched_p: False}) is not None


def _twice(x: Any) -> Any:
    """Double numbers in a way that JAX cannot differentiate backwards."""
    return jax.lax.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] * 2), (0, x)
    )[1]


twice_p = _primitive("twice", lambda x, **params: _twice(x))
ad.deflinear2(twice_p, lambda ct, _, **params: [twice_p.bind(ct, **params)])


def choosy(factor: float) -> Any:
    """A function whose rules want two of their operands to be perturbed, as equinox's do."""

    @jax.custom_vjp
    def f(*args: Any) -> Any:
        return sum(args[1:], args[0])

    def forward(*args: Any) -> Any:
        given = [i for i, arg in enumerate(args) if arg.perturbed]
        assert given == [1, 4], "unexpected tangents"
        return f(*[arg.value for arg in args]), args[1].value * factor

    def backward(kept: Any, ct: Any) -> Any:
        return None, ct * kept, None, None, ct, None

    f.defvjp(forward, backward, symbolic_zeros=True)
    return f


def _using(f: Any, twice: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda x, y: twice(f(X, x, X, X, jnp.sin(y), X))


def test_rules_are_compared_as_the_original_asks_for_them() -> None:
    # Which of six operands are perturbed is found by differentiating. What the primitive
    # computes has no such derivative.
    kept = object()  # at level "lax" it would be bound else
    function = _using(choosy(2.0), lambda x: twice_p.bind(x, kept=kept))
    assert jax.grad(lambda x, y: function(x, y).sum(), (0, 1))(X, X)
    for level in ("lax", "api"):
        src = untrace.source(function, level=level)(X, X)
        assert src.report.strength == "equivalent", str(src)
        assert "_p.bind" not in str(src)


def test_rules_that_differ_as_the_original_asks_for_them_are_told_apart() -> None:
    def refusing(x: Any) -> Any:
        return jaxapi.eval_jaxpr(*jaxapi.split_jaxpr(computed), x)[0]

    bound, same, other = (
        jax.make_jaxpr(_using(choosy(n), lambda x: twice_p.bind(x)))(X, X)
        for n in (2.0, 2.0, 3.0)
    )
    avals = [jax.typeof(jnp.asarray(X))]
    computed = jaxapi.implementation(twice_p, {}, avals, avals)
    for n in (2.0, 3.0):
        text = jax.make_jaxpr(_using(choosy(n), refusing))(X, X)
        for pair in ((bound, text), (text, bound)):
            assert (equivalent(*pair, opened={twice_p: False}) is None) is (n == 2.0)
    assert equivalent(bound, same) is None
    assert equivalent(bound, other) is not None


def test_jaxpr_that_the_program_evaluates_is_the_function_it_came_from() -> None:
    def f(x: Any, y: Any) -> Any:
        def step(state: Any) -> Any:
            total = state["a"] * y
            return {"a": total, "b": jnp.cos(state["b"])}

        flat = lambda a, b: jax.tree.leaves(step({"a": a, "b": b}))
        closed = jax.make_jaxpr(flat)(x, x)
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x + 1, y)

    src = untrace.source(f)(X, X)
    assert src.report.is_verified
    assert "total = " in str(src)
    assert "from its equations" not in str(src)


def test_a_jaxpr_that_is_evaluated_with_stronger_types_keeps_its_numbers() -> None:
    def f(n: Any, x: Any) -> Any:
        def step(n: Any, x: Any) -> Any:
            n = n + 1
            return n + jnp.where(x > 0, 1, 0), jnp.sin(x)

        closed = jax.make_jaxpr(step)(0, x)
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, n, x)

    src = untrace.source(f)(np.int32(3), np.float32(1))
    assert src.report.strength == "identical", str(src.report)
    assert "jax.lax.add(n, 1)" in str(src)
    assert "from its equations" not in str(src)


@pytest.mark.parametrize("kind", [jax.custom_jvp, jax.custom_vjp])
def test_rules_that_raise_leave_the_function_as_it_was_written(kind: Any) -> None:
    @kind
    def g(x: Any) -> Any:
        scaled = jnp.sin(x) * 2
        return scaled + scaled.sum()

    def rule(*args: Any) -> Any:
        raise ValueError("no gradient")

    rules = [rule] if kind is jax.custom_jvp else [rule, rule]
    getattr(g, "defjvp" if len(rules) == 1 else "defvjp")(*rules, symbolic_zeros=True)
    text = str(untrace.source(lambda x: g(x) + 1)(X))
    assert "scaled = jnp.sin(x) * 2" in text
    assert 'raise ValueError("no gradient")' in text
    assert "from its equations" not in text


def test_rule_that_returns_symbolic_zeros() -> None:
    @jax.custom_jvp
    def g(x: Any, n: Any) -> Any:
        return jnp.sin(x) * n, n + 1

    def g_jvp(primals: Any, tangents: Any) -> Any:
        out = g(*primals)
        zero = jax.custom_derivatives.SymbolicZero.from_primal_value(out[1])
        return out, (jnp.cos(primals[0]) * tangents[0], zero)

    g.defjvp(g_jvp, symbolic_zeros=True)
    text = str(untrace.source(lambda x, n: g(x, n))(X, np.int32(2)))
    assert "jax.custom_derivatives.SymbolicZero(" in text
    assert "from its equations" not in text


def _any_of_batch(args: Any, dims: Any, **params: Any) -> Any:
    """Batch as error checks do: the answer is that for all of the batch."""
    return checked_p.bind(*args, **params), None


checked_p = jax.extend.core.Primitive("checked")
checked_p.def_impl(lambda x, *, by: jnp.any(x > by))
checked_p.def_abstract_eval(lambda x, *, by: x.update(shape=(), dtype=np.dtype(bool)))
mlir.register_lowering(
    checked_p, mlir.lower_fun(lambda x, *, by: jnp.any(x > by), multiple_results=False)
)
batching.primitive_batchers[checked_p] = _any_of_batch

# Its forward derivative is that of what it computes; its backward pass is another one.
clipped_p = _primitive("clipped", lambda x: jnp.sin(x))
slope_p = jax.extend.core.Primitive("slope")
slope_p.def_impl(lambda t, x: t * jnp.cos(x))
slope_p.def_abstract_eval(lambda t, x: t)
mlir.register_lowering(
    slope_p, mlir.lower_fun(lambda t, x: t * jnp.cos(x), multiple_results=False)
)
ad.primitive_jvps[clipped_p] = lambda primals, tangents: (
    clipped_p.bind(*primals),
    slope_p.bind(ad.instantiate_zeros(tangents[0]), *primals),
)
ad.primitive_transposes[slope_p] = lambda ct, t, x: [
    jnp.clip(ct, -1, 1) * jnp.cos(x),
    None,
]


@pytest.mark.parametrize("level", ["lax", "api"])
def test_the_loaded_function_is_batched_as_the_original(level: str) -> None:
    def f(x: Any) -> Any:
        big = checked_p.bind(jnp.sin(x) * 3, by=2.0)
        small = checked_p.bind(jnp.cos(x) * 3, by=2.0)
        first = checked_p.bind(x, by=0.5)
        return jnp.where(big, x, -x), jnp.where(small, 1.0, 2.0), first

    for program in (f, jax.make_jaxpr(f)(X)):
        src = untrace.source(program, level=level)
        src = src(X) if program is f else src
        assert src.report.is_verified, str(src.report)
        batch = np.stack([X, X * 0.1, X + 5])
        wanted = jax.vmap(f)(batch)
        made = jax.vmap(src.load())(batch)
        jax.tree.map(np.testing.assert_array_equal, tuple(wanted), tuple(made))


def test_the_loaded_function_is_transposed_as_the_original() -> None:
    def f(x: Any) -> Any:
        return (clipped_p.bind(x) * 3).sum()

    src = untrace.source(f)(X)
    assert src.report.is_verified
    assert "`src.load()` binds `clipped` for theirs" in " ".join(str(src).split())
    np.testing.assert_array_equal(jax.grad(src.load())(X), jax.grad(f)(X))
    np.testing.assert_array_equal(jax.grad(f)(X), jnp.cos(X))
    np.testing.assert_array_equal(jax.grad(execute(str(src)).f)(X), 3 * jnp.cos(X))


def _gate(keep: Any, x: Any, y: Any) -> Any:
    """Return `x`; its backward pass gives zeros for `y`, as the gates of loops do."""
    return gate_p.bind(keep, x, y)


gate_p = jax.extend.core.Primitive("gate")
gate_p.def_impl(lambda keep, x, y: x)
gate_p.def_abstract_eval(lambda keep, x, y: x)
mlir.register_lowering(
    gate_p, mlir.lower_fun(lambda keep, x, y: x, multiple_results=False)
)
ad.primitive_jvps[gate_p] = lambda primals, tangents: (
    _gate(*primals),
    _gate(primals[0], *map(ad.instantiate_zeros, tangents[1:])),
)
ad.primitive_transposes[gate_p] = lambda ct, keep, x, y: [
    None,
    _gate(keep, ct, jnp.zeros_like(ct)) if ad.is_undefined_primal(x) else None,
    _gate(keep, jnp.zeros_like(ct), ct) if ad.is_undefined_primal(y) else None,
]


def _gated(keep: Any, x: Any, y: Any) -> Any:
    return (_gate(keep, jnp.sin(x), y) * y).sum()


@pytest.mark.parametrize("shape", [(), (3,)])
def test_what_reverse_mode_goes_through_has_its_backward_pass(shape: Any) -> None:
    def f(keep: Any, x: Any, y: Any) -> Any:
        return jax.grad(_gated, (1, 2))(keep, x, y)

    values = np.full(shape, 2, np.float32)
    given = np.bool_(True), values, values + 1
    src = untrace.source(f)(*given)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src)
    assert "@jax.custom_vjp\ndef gate(keep, x, y):\n    return x\n" in str(src)
    jax.tree.map(np.testing.assert_array_equal, f(*given), src.load()(*given))
    # The zeros are added: -0.0 is not the sum of it and 0.0.
    given = np.bool_(True), values, -values
    wanted, made = (
        np.signbit(np.asarray(jax.jit(one)(*given)[1]))
        for one in (f, execute(str(src)).f)
    )
    np.testing.assert_array_equal(wanted, made)


def test_another_backward_pass_is_seen() -> None:
    def f(keep: Any, x: Any, y: Any) -> Any:
        return jax.grad(_gated, (1, 2))(keep, x, y)

    src = untrace.source(f)(np.bool_(True), X, X)
    expected = jax.make_jaxpr(f)(np.bool_(True), X, X)
    opened = {gate_p: True}
    for before, after, is_same in (
        ("", "", True),
        ("zeros(", "ones(", False),
        ("    return x\n", "    return y\n", False),
    ):
        text = str(src)
        assert before in text
        made = execute(text.replace(before, after) if before else text).f
        actual = jax.make_jaxpr(made)(np.bool_(True), X, X)
        assert (equivalent(expected, actual, opened=opened) is None) is is_same


def test_forward_mode_needs_no_backward_pass() -> None:
    def f(keep: Any, x: Any, y: Any) -> Any:
        gated = lambda x, y: _gated(keep, x, y)
        return jax.jvp(gated, (x, y), (y, x)), jax.grad(gated)(x, y)

    src = untrace.source(f)(np.bool_(True), X, X)
    assert src.report.is_verified, str(src.report)


def test_a_primitive_with_nothing_but_a_transpose_is_bound_by_the_loaded_function() -> (
    None
):
    # Batched, it is what it computes; which operands it is linear in its rule alone knows.
    f = jax.custom_jvp(lambda x: jnp.sin(x) * 3)
    f.defjvp(lambda primals, dots: (f(*primals), 3 * slope_p.bind(*dots, *primals)))
    batching.primitive_batchers[slope_p] = lambda args, dims: (
        jax.vmap(lambda t, x: t * jnp.cos(x), dims)(*args),
        0,
    )
    src = untrace.source(lambda x: f(x).sum())(X)
    assert src.report.is_verified
    wanted = jax.grad(lambda x: f(x).sum())(X)
    np.testing.assert_array_equal(jax.grad(src.load())(X), wanted)


def test_anonymous_files_do_not_name_the_library() -> None:
    def f(x: Any) -> Any:
        return unbatched_p.bind(jnp.sin(x), why="secret")

    text = recover(f, X, anonymous=True)
    assert "Primitives of libraries are written as what they compute." in text
    assert "test_opened" not in text and "unbatched" not in text


def test_primitives_of_jax_are_no_library_s() -> None:
    x = jax.random.normal(jax.random.key(0), (4,))
    jaxpr = jax.make_jaxpr(lambda x: (jnp.argmax(x), jnp.sort(x), jnp.cumsum(x)))(x)
    for eqn in jaxpr.eqns:
        assert jaxapi.library_of(eqn.primitive) == ""
    assert jaxapi.library_of(jax.lax.argmax_p) == ""


scaled_p = _primitive("scaled", lambda x, *, by: x * by)


def test_params_that_are_equal_and_not_the_same_are_told_apart() -> None:
    text = recover(lambda x: (scaled_p.bind(x, by=0.0), scaled_p.bind(x, by=-0.0)), X)
    assert "return x * 0.0, x * -0.0" in text


late_p = _primitive("late", lambda x: jnp.sin(x))


def test_params_are_known_again_by_trees_of_plain_containers() -> None:
    def answer(*held: Any) -> Any:
        trees = [jax.tree.structure(each) for each in held]
        return tuple([libraries._exact(tree) for tree in trees])

    first, second = answer(({"a": 1, "b": [2]}, None), ({"a": 1, "b": [2]}, None))
    assert first == second
    one, same = answer({1: 0}, {True: 0})
    assert one != same
    blurred = jax.tree_util.Partial(jnp.sin)
    one, same = answer((blurred,), (blurred,))
    assert one != same  # its classes may compare as they like


def test_rules_that_are_registered_late_are_seen() -> None:
    aval = jax.core.ShapedArray(X.shape, X.dtype)
    asked = late_p, {}, [aval], [aval]
    assert not jaxapi.differentiates_otherwise(*asked)
    ad.defjvp(late_p, lambda t, x: t * 2)
    assert jaxapi.differentiates_otherwise(*asked)
    ad.defjvp(late_p, lambda t, x: t * jnp.cos(x))
    assert not jaxapi.differentiates_otherwise(*asked)


def test_params_that_change_in_place_are_asked_about_anew() -> None:
    weights = np.arange(3, dtype=np.float32)
    asked = scaled_p, {"by": weights}, [jax.core.ShapedArray(X.shape, X.dtype)]

    def computed() -> Any:
        jaxpr = jaxapi.implementation(*asked, asked[2])
        return jax.core.eval_jaxpr(*jaxapi.split_jaxpr(jaxpr), X)[0]

    np.testing.assert_array_equal(computed(), X * weights)
    weights += 1
    np.testing.assert_array_equal(computed(), X * weights)


def test_a_jaxpr_that_is_evaluated_twice_is_written_from_its_equations_once() -> None:
    def f(x: Any, y: Any) -> Any:
        def step(s: Any) -> Any:
            product = s * y
            return [product, jnp.cos(product)]

        closed = jax.make_jaxpr(step)(x)
        first = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x + 1)
        return first, jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x + 2)

    src = untrace.source(f)(X, X)
    assert src.report.is_verified
    assert "product = s * y" in str(src)
    assert "Written from its equations" not in str(src)


marked_p = _primitive("marked", lambda x: x)
solved_p = _primitive(
    "solved", lambda x, *, by: marked_p.bind(x * 2), lambda x, *, by: x * 2
)


def test_marks_outside_of_jit_are_opened_too() -> None:
    assert "return x * 2" in recover(lambda x: solved_p.bind(x, by=1), X)


class _Unwritable:
    def __init__(self) -> None:
        raise TypeError("it is not to be made again")


def test_params_that_cannot_be_written_are_opened_at_every_level() -> None:
    by = object.__new__(_Unwritable)
    src = untrace.source(lambda x: solved_p.bind(x, by=by), level="lax")(X)
    assert src.report.strength == "equivalent", str(src.report)
    assert "solved_p" not in str(src)
    assert "Their rules for `vmap` and `grad` are not kept" in " ".join(
        str(src).split()
    )


def test_what_cannot_be_written_is_opened_in_rules_alone() -> None:
    by = object.__new__(_Unwritable)

    @jax.custom_jvp
    def g(x: Any) -> Any:
        return jnp.sin(x)

    g.defjvp(lambda p, t: (g(*p), solved_p.bind(t[0], by=by)))
    src = untrace.source(lambda x: g(x), level="lax")(X)
    assert src.report.strength == "equivalent", str(src.report)
    assert "solved_p" not in str(src)


def _applied(x: Any, *, f: Any, by: Any) -> Any:
    return jaxapi.as_function(f)(x)[0]


applied_p = _primitive("applied", _applied)


def test_a_primitive_with_a_sub_program_is_opened() -> None:
    by, inner = object.__new__(_Unwritable), jax.make_jaxpr(jnp.tanh)(X)
    src = untrace.source(lambda x: applied_p.bind(x, f=inner, by=by), level="lax")(X)
    assert src.report.strength == "equivalent", str(src.report)
    assert "applied_p" not in str(src) and "tanh" in str(src)


MATRIX = np.eye(3, dtype=np.float32) * 2 + 0.1


@pytest.mark.parametrize("solver", ["LU", "GMRES"])
@pytest.mark.parametrize("level", ["api", "lax"])
def test_linear_solves_of_lineax(solver: str, level: Any) -> None:
    lineax = pytest.importorskip("lineax")
    chosen = {"LU": lambda: lineax.LU(), "GMRES": lambda: lineax.GMRES(1e-3, 1e-3)}

    def f(matrix: Any, x: Any) -> Any:
        operator = lineax.MatrixLinearOperator(matrix)
        return lineax.linear_solve(operator, x, chosen[solver](), throw=False).value

    src = untrace.source(f, level=level)(MATRIX, X)
    assert src.report.strength == "equivalent", str(src.report)
    assert "linear_solve_p" not in str(src)
    loaded = src.load()
    np.testing.assert_allclose(loaded(MATRIX, X), f(MATRIX, X), rtol=1e-5)
    for derivative in (jax.jacrev, jax.jacfwd, lambda g: jax.hessian(g)):
        made, wanted = (derivative(g)(MATRIX, X) for g in (loaded, f))
        np.testing.assert_array_equal(made, wanted)


halved_p = _primitive("halved", lambda x: jnp.sin(x) / 2)
ad.primitive_jvps[halved_p] = lambda primals, tangents: (
    halved_p.bind(*primals),
    tangents[0] * 7,
)
plain_p = _primitive("plain", lambda x: jnp.copy(x) * 2)
ad.primitive_jvps[plain_p] = lambda primals, tangents: (
    plain_p.bind(*primals),
    plain_p.bind(jnp.asarray(tangents[0])),
)


@pytest.mark.parametrize("way", [lambda f: f, lambda f: jax.make_jaxpr(f)(X)])
def test_derivatives_that_are_not_kept_are_refused(way: Any) -> None:
    given = way(lambda x: halved_p.bind(x) + x)
    src = untrace.source(given, level="api")
    src = src(X) if callable(src) else src
    assert src.report.is_verified, str(src.report)
    assert "Derivatives of `halved` are not kept, and refused" in " ".join(
        str(src).split()
    )
    made = getattr(execute(str(src)), src.name)
    for function in (made, jax.vmap(made), src.load()):
        np.testing.assert_array_equal(function(X), jnp.sin(X) / 2 + X)
    for differentiate in (jax.jacfwd, jax.jacrev):
        with pytest.raises(NotImplementedError, match="derivatives of primitives"):
            differentiate(made)(X)
    # What is loaded binds the original's own primitive.
    np.testing.assert_array_equal(jax.jacrev(src.load())(X), jnp.eye(X.size) * 8)


def test_derivatives_of_what_is_opened_stay_calls() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(halved_p.bind(x) + x)

    src = untrace.source(jax.grad(f))(X)
    assert src.report.is_verified, str(src.report)
    said = " ".join(str(src).split())
    assert "`halved` can be differentiated in reverse mode alone." in said
    assert "return jax.grad(f)(x)" in str(src)
    made = execute(str(src)).grad_of_f
    np.testing.assert_array_equal(made(X), jnp.full_like(X, 8))
    src = untrace.source(jax.grad(f), keep_types=True)(X)
    assert src.report.strength == "identical"
    assert "return jax.grad(f)(x)" in str(src)
    np.testing.assert_array_equal(src.load()(X), jnp.full_like(X, 8))


def test_forward_derivatives_of_what_is_opened_are_written_from_equations() -> None:
    src = untrace.source(lambda x: jax.jvp(halved_p.bind, (x,), (x,)))(X)
    assert src.report.is_verified, str(src.report)
    said = " ".join(str(src).split())
    assert "written from its equations: the derivative of `halved` is its" in said


@pytest.mark.parametrize("is_loop", [False, True])
def test_rules_that_differentiate_what_is_opened(is_loop: bool) -> None:
    def turns(x: Any) -> Any:
        if not is_loop:
            return jnp.cos(halved_p.bind(x) + 1)
        return jax.lax.fori_loop(0, 3, lambda _, y: halved_p.bind(y) + 1, x)

    f = jax.custom_vjp(turns)
    f.defvjp(
        lambda x: jax.vjp(turns, x.value),
        lambda pull, cotangent: pull(cotangent),
        symbolic_zeros=True,
    )
    src = untrace.source(lambda x: f(x) * 2)(X)
    assert src.report.is_verified, str(src.report)
    said = " ".join(str(src).split())
    assert ("from its equations: the derivative of `halved` is its" in said) is is_loop
    assert "not from the calls that were made" not in said


def test_derivatives_through_a_rule_of_the_user_are_kept() -> None:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return halved_p.bind(x)

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return f(*primals), halved_p.bind(primals[0]) * tangents[0]

    loaded = untrace.source(f)(X).load()
    vector = jnp.ones_like(X)

    def tangent(function: Any) -> Any:
        return lambda x: jax.jvp(function, (x,), (vector,))[1]

    made = jax.grad(lambda x: jnp.sum(loaded(x)))(X)
    np.testing.assert_array_equal(made, jax.grad(lambda x: jnp.sum(f(x)))(X))
    np.testing.assert_array_equal(tangent(loaded)(X), tangent(f)(X))
    again = (tangent(tangent(function))(X) for function in (loaded, f))
    np.testing.assert_array_equal(*again)


def test_derivatives_that_are_those_of_what_is_computed_are_kept() -> None:
    loaded = untrace.source(lambda x: plain_p.bind(x) * x)(X).load()
    made = jax.grad(lambda x: jnp.sum(loaded(x)))(X)
    np.testing.assert_array_equal(made, 4 * X)


def test_the_verdict_says_which_primitives_are_opened() -> None:
    src = untrace.source(lambda x: jnp.sin(solved_p.bind(x, by=1)))(X)
    said = " ".join(str(src).split())
    assert "is written as what a library's primitive computes: `solved` of " in said
    assert "computed once more" not in said


def test_what_a_library_puts_together_while_it_computes_is_written() -> None:
    def both(x: Any) -> Any:
        tree = jax.tree.structure((0, 0))
        return jax.tree.unflatten(tree, map(lambda v: solved_p.bind(v, by=1), (x, -x)))

    def program(x: Any) -> Any:
        first, second = both(x)
        return jnp.sin(first) * second

    text = recover(program, X)
    assert "return jnp.sin(first) * second" in text
