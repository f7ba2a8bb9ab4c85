"""What the primitives of libraries compute, in equations of JAX's own primitives.

A library may say how its primitive is compiled by a function of JAX's, through
`mlir.lower_fun`. That function is what the primitive computes; it is traced, and nothing
is compiled: a primitive whose compilation fails is left alone.
"""

# These are JAX's private hooks; `tests/lifting/test_opened.py` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core as _core
from jax._src import dispatch as _dispatch
from jax._src.interpreters import ad as _ad

from untrace.jaxapi.avals import same_aval
from untrace.jaxapi.comparing import array_key
from untrace.jaxapi.evaluation import eval_jaxpr
from untrace.jaxapi.jaxprs import JaxprLiteral, Tracer, split_jaxpr, sub_jaxprs_of
from untrace.jaxapi.libraries import asked_about, compiled_as, library_of, remembered
from untrace.jaxapi.tracing import trace_flat


@remembered
def implementation(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    """Return what a library's primitive computes, if that is known for certain.

    The function that it is compiled as is traced at the types of an equation. It has to
    make the types of the results, to have no effects, and to be what the primitive does
    outside of `jax.jit`, too. How the primitive is batched or differentiated does not
    follow: if derivatives would be other ones, it is a function whose rule refuses.

    Returns:
      A closed jaxpr; None if there is none, or the primitive is one of JAX's.
    """
    jaxpr = computation(primitive, params, avals, out_avals)
    if jaxpr is None or not differentiates_otherwise(
        primitive, params, avals, out_avals
    ):
        return jaxpr
    return trace_flat(_underived(primitive, params, jaxpr), avals)


def _underived(
    primitive: Any, params: Mapping[str, Any], jaxpr: Any
) -> Callable[..., list[Any]]:
    """Return a function that computes what a primitive does, and has no derivative."""
    body, consts = split_jaxpr(jaxpr)
    n_consts = len(consts)

    def computed(*args: Any) -> list[Any]:
        return eval_jaxpr(body, args[:n_consts], *args[n_consts:])

    def original(*args: Any) -> Sequence[Any]:
        return bound(primitive, params)(*args[n_consts:])

    library = library_of(primitive)  # a batch of one may be another primitive

    def refusing(primals: Any, tangents: Any) -> Any:
        error = NotImplementedError(
            f"derivatives of primitives of {library} are not kept in recovered code: "
            "recover the derivative of the original instead"
        )
        error.__dict__[_ORIGINAL] = original
        raise error

    computed.__name__ = computed.__qualname__ = primitive.name
    function = jax.custom_jvp(computed)
    function.defjvp(refusing)
    return functools.partial(function, *consts)


@remembered
def pulled_back(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    """Return what a library's primitive computes, with the backward pass that it has.

    That is a function with a rule for reverse mode alone.

    Returns:
      As `implementation`, also where the backward pass is that of what is computed.
    """
    inner = computation(primitive, params, avals, out_avals)
    floats = [i for i, aval in enumerate(avals) if _is_inexact(aval)]
    if inner is None or not pulls_back_otherwise(primitive, params, avals, out_avals):
        return implementation(primitive, params, avals, out_avals)

    def forward(*args: Any) -> tuple[Sequence[Any], Any]:
        of_floats, primals = _of_floats(bound(primitive, params), args, floats)
        return jax.vjp(of_floats, *primals)

    def backward(transposed: Any, cotangents: Any) -> tuple[Any, ...]:
        found = dict(zip(floats, transposed(cotangents)))
        return tuple([found.get(i) for i in range(len(avals))])

    computed = _evaluating(inner)
    computed.__name__ = computed.__qualname__ = primitive.name
    function = jax.custom_vjp(computed)
    function.defvjp(forward, backward)
    return trace_flat(function, avals)


@remembered
def pulls_back_otherwise(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> bool:
    """Whether the backward pass of a primitive is known, and not of what it computes.

    Operands are results, too: their cotangents are added to what the pass gives for them,
    which shows whether it gives zeros or nothing.
    """
    inner = computation(primitive, params, avals, out_avals)
    if inner is None:
        return False

    def beside_operands(function: _Flat) -> _Flat:
        return lambda *args: [*function(*args), *args]

    made = [*out_avals, *avals]
    functions = bound(primitive, params), _evaluating(inner)
    one, other = (
        _backward(beside_operands(f), primitive, avals, made) for f in functions
    )
    return one is not None and other is not None and _parts(one, other)


_ORIGINAL = "__untrace_original__"


def refusing_original(error: Exception) -> Callable[..., list[Any]] | None:
    """Return what a function that refuses to be differentiated is in the place of."""
    return error.__dict__.get(_ORIGINAL)


@remembered
def computation(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    """Return what a library's primitive computes, however it is differentiated.

    Returns:
      A closed jaxpr; None as of `implementation`.
    """
    function = compiled_as(primitive)
    if function is None or not library_of(primitive):
        return None
    try:
        jaxpr = _traced(function, params, avals, out_avals)
        body, _ = split_jaxpr(jaxpr)
        if body.effects or len(jaxpr.out_avals) != len(out_avals):
            return None
        if _calls_foreign_code(body):
            return None
        if not all(map(same_aval, jaxpr.out_avals, out_avals)):
            return None
        if getattr(primitive.impl, "func", None) is _dispatch.apply_primitive:
            return jaxpr
        other = _traced(primitive.impl, params, avals, out_avals)
        is_same = _is_same(jaxpr, other) or _is_same(*map(opened, (jaxpr, other)))
    except Exception:  # code of a library, which may want other things than tracers
        return None
    return jaxpr if is_same else None


def _calls_foreign_code(body: Any) -> bool:
    """Whether a jaxpr calls compiled code, which only the library makes known to XLA."""
    if any(eqn.primitive.name == "ffi_call" for eqn in body.eqns):
        return True
    inner = [split_jaxpr(part)[0] for part in sub_jaxprs_of(body.eqns)]
    return any(map(_calls_foreign_code, inner))


@remembered
def differentiates_otherwise(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> bool:
    """Whether derivatives of a primitive may be other than those of what it computes.

    A solver, for one, may give what it has factorised beside the matrix, and differentiate
    by the matrix alone. Where the primitive cannot be differentiated, nothing is other.
    A rule may do something else for operands that are not perturbed, so each is perturbed
    alone, too; and primitives in a derivative may have other derivatives themselves.
    """
    inner = computation(primitive, params, avals, out_avals)
    floats = [i for i, aval in enumerate(avals) if _is_inexact(aval)]
    results = [i for i, aval in enumerate(out_avals) if _is_inexact(aval)]
    if inner is None or primitive not in _ad.primitive_jvps:
        return False
    if not floats or not results:
        return False

    def tangents(function: _Flat, places: Sequence[int]) -> _Flat:
        def run(*args: Any) -> list[Any]:
            of_floats, primals = _of_floats(function, args[: len(avals)], places)
            _, made = jax.jvp(of_floats, primals, list(args[len(avals) :]))
            return [made[i] for i in results]

        return run

    functions = bound(primitive, params), _evaluating(inner)
    alone = [[i] for i in floats] if floats[1:] else []
    token = asked_about.set(asked_about.get() | {primitive})
    try:
        for places in (floats, *alone):
            types = [*avals, *[avals[i] for i in places]]
            made = [trace_flat(tangents(f, places), types) for f in functions]
            plain = [opened(opened(j, True), True, is_plain=True) for j in made]
            if not _is_same(*plain):
                return True
    except Exception:  # a rule may want other things than that all is perturbed
        return True
    finally:
        asked_about.reset(token)
    return False


@remembered
def transforms_otherwise(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> bool:
    """Whether `vmap` or a backward pass has a primitive where it has other equations.

    Other than those of what the primitive computes, or none. An error check, for one, may
    ask whether any of a batch is wrong; an integral may have a transpose of its own. What
    the primitive refuses is not counted.
    """
    inner = computation(primitive, params, avals, out_avals)
    if inner is None:
        return False
    if primitive not in _ad.primitive_jvps and primitive in _ad.primitive_transposes:
        return True  # it is linear, in operands that only its rule knows
    functions = bound(primitive, params), _evaluating(inner)
    if pulls_back_otherwise(primitive, params, avals, out_avals):
        return True
    return any(_parts(one, other) for one, other in _batched(functions, avals))


_Flat = Callable[..., Sequence[Any]]
_Traced = tuple[_Flat, Sequence[Any]]


def bound(primitive: Any, params: Mapping[str, Any]) -> _Flat:
    """Return the function of its operands that a primitive is, with the params given."""

    def run(*args: Any) -> Sequence[Any]:
        found = primitive.bind(*args, **primitive.get_bind_params(dict(params)))
        return list(found) if primitive.multiple_results else [found]

    return run


def _evaluating(inner: Any) -> _Flat:
    return lambda *args: eval_jaxpr(*split_jaxpr(inner), *args)


def _batched(
    functions: Sequence[_Flat], avals: Sequence[Any]
) -> Iterator[tuple[_Traced, _Traced]]:
    """Yield both functions, batched by all operands, and by each alone."""
    places = [i for i, aval in enumerate(avals) if hasattr(aval, "shape")]
    choices = (places, *[[i] for i in places]) if places[1:] else (places,)
    for batched in choices:
        axes = tuple([0 if i in batched else None for i in range(len(avals))])
        types = [
            aval if axis is None else aval.update(shape=(2, *aval.shape))
            for aval, axis in zip(avals, axes)
        ]
        one, other = ((jax.vmap(f, axes), types) for f in functions)
        yield one, other


def _backward(
    function: _Flat, primitive: Any, avals: Sequence[Any], out_avals: Sequence[Any]
) -> _Traced | None:
    """Return the backward pass of a function, of its operands and cotangents."""
    floats = [i for i, aval in enumerate(avals) if _is_inexact(aval)]
    results = [i for i, aval in enumerate(out_avals) if _is_inexact(aval)]
    if primitive not in _ad.primitive_jvps or not floats or not results:
        return None

    def cotangents(*args: Any) -> Sequence[Any]:
        of_floats, primals = _of_floats(function, args[: len(avals)], floats)
        _, transposed = jax.vjp(
            lambda *given: [of_floats(*given)[i] for i in results], *primals
        )
        return transposed(list(args[len(avals) :]))

    return cotangents, [*avals, *[out_avals[i] for i in results]]


def _parts(one: _Traced, other: _Traced) -> bool:
    """Whether a function traces where another has other equations, or none."""
    try:
        made = opened(opened(trace_flat(*one)), is_plain=True)
    except Exception:  # what the library refuses
        return False
    try:
        return not _is_same(made, opened(opened(trace_flat(*other)), is_plain=True))
    except Exception:  # what JAX cannot do
        return True


def is_same_plain(one: Any, other: Any) -> bool:
    """Whether two jaxprs are the same where what primitives of libraries compute is."""
    return _is_same(*[opened(opened(each), is_plain=True) for each in (one, other)])


def _of_floats(
    function: _Flat, operands: Sequence[Any], floats: Sequence[int]
) -> tuple[_Flat, list[Any]]:
    """Return a function of some operands, and these."""

    def of_floats(*values: Any) -> list[Any]:
        given = dict(zip(floats, values))
        return list(function(*[given.get(i, x) for i, x in enumerate(operands)]))

    return of_floats, [operands[i] for i in floats]


def _is_inexact(aval: Any) -> bool:
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and jax.numpy.issubdtype(dtype, jax.numpy.inexact)


def _is_same(one: Any, other: Any) -> bool:
    return str(one) == str(other) and _same_constants(one, other)


def opened(jaxpr: Any, is_derived: bool = False, is_plain: bool = False) -> Any:
    """Put what the primitives of libraries in a jaxpr compute in their places.

    If that may be differentiated, those that have other derivatives stay.
    If it is to be plain, copies and what no result needs are left out, and constants that
    are one number are literals.

    Outside of `jax.jit`, lineax marks its solutions by a primitive that does nothing,
    behind which its code does not see constants. What depends on none but them is
    computed.
    """
    body, consts = split_jaxpr(jaxpr)
    if is_plain:
        consts = [*map(_as_literal, consts)]

    def run(*args: Any) -> list[Any]:
        values = dict(zip([*body.constvars, *body.invars], [*consts, *args]))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, JaxprLiteral) else values[atom]

        for eqn in _needed(body) if is_plain else body.eqns:
            operands = list(map(read, eqn.invars))
            is_copy = is_plain and eqn.primitive.name == "copy"
            made = operands if is_copy else _evaluated(eqn, operands, is_derived)
            values.update(zip(eqn.outvars, made))
        return list(map(read, body.outvars))

    return trace_flat(run, jaxpr.in_avals)


def _as_literal(const: Any) -> Any:
    """Return an array of one number as that number, of the same type."""
    is_number = isinstance(const, np.ndarray | jax.Array) and const.ndim == 0
    if not is_number or jax.numpy.issubdtype(const.dtype, jax.dtypes.extended):
        return const
    number = np.asarray(const)[()]
    return number.item() if getattr(const, "weak_type", False) else number


def _needed(body: Any) -> list[Any]:
    """List the equations that results are computed from."""
    read = {id(atom) for atom in body.outvars}
    kept: list[Any] = []
    for eqn in reversed(body.eqns):
        if eqn.effects or any(id(var) in read for var in eqn.outvars):
            kept.append(eqn)
            read |= {id(atom) for atom in eqn.invars}
    return kept[::-1]


def _evaluated(eqn: Any, operands: Sequence[Any], is_derived: bool) -> Sequence[Any]:
    """Evaluate an equation, that of a library as what it computes."""
    primitive = eqn.primitive
    avals = [[atom.aval for atom in atoms] for atoms in (eqn.invars, eqn.outvars)]
    inner = computation(primitive, eqn.params, *avals)
    if inner is not None and is_derived and primitive not in asked_about.get():
        is_other = differentiates_otherwise(primitive, eqn.params, *avals)
        inner = None if is_other else inner
    if inner is not None:
        return eval_jaxpr(*split_jaxpr(inner), *operands)
    is_known = not any(isinstance(operand, Tracer) for operand in operands)
    computed = jax.ensure_compile_time_eval() if is_known else contextlib.nullcontext()
    with computed, eqn.ctx.manager:
        found = primitive.bind(*operands, **primitive.get_bind_params(eqn.params))
    return found if primitive.multiple_results else [found]


def _same_constants(one: Any, other: Any) -> bool:
    """Whether two jaxprs close over the same arrays, bit for bit."""
    mine, theirs = split_jaxpr(one)[1], split_jaxpr(other)[1]
    return len(mine) == len(theirs) and all(
        a is b or array_key(a) == array_key(b) for a, b in zip(mine, theirs)
    )


def _traced(
    function: Callable[..., Any],
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    """Trace a function; its results are as weak as those of the equation."""

    def run(*args: Any) -> list[Any]:
        results = jax.tree.leaves(function(*args, **params))
        if len(results) != len(out_avals):
            return results
        return [_as_weak_as(aval, made) for aval, made in zip(out_avals, results)]

    return trace_flat(run, avals)


def _as_weak_as(aval: Any, result: Any) -> Any:
    is_weak = getattr(aval, "weak_type", False)
    if is_weak or not getattr(_core.typeof(result), "weak_type", False):
        return result
    return jax.lax.convert_element_type(result, result.dtype)
