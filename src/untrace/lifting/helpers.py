"""Small functions that a generated module defines when it needs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """Source of a helper (its name is the key in `HELPERS`) and what it imports."""

    source: str
    imports: tuple[str, ...] = ()


HELPERS: dict[str, Helper] = {
    "root_linear_map": Helper(
        '''\
def root_linear_map(f, x, v, transposed=False):
    """Apply the derivative of `f` at `x`, as `jax.lax.custom_root` keeps it."""
    from jax._src.lax.control_flow.solves import _RootLinearMap

    traced = jax.jit(f).trace(x)
    consts, converted = traced.closure_convert()
    avals = jax.tree.map(jax.typeof, (consts, x, v))
    out = jax.tree.map(lambda aval: aval.to_tangent_aval(), traced.out_avals)
    primitive = _RootLinearMap(converted, avals, out, traced.effects, transposed)
    return primitive(consts, x, v)
''',
        ("jax",),
    ),
    "converted": Helper(
        '''\
def converted(x, dtype):
    """Convert as derivative rules do: the equation names the sharding of `x`."""
    return convert_element_type_p.bind(
        x,
        new_dtype=jnp.dtype(dtype),
        weak_type=False,
        sharding=jax.typeof(x).sharding,
    )
''',
        ("jax", "jax.numpy"),
    ),
    "staged": Helper(
        '''\
def staged(function, x, aval):
    """Keep an equation that JAX drops at the type of `x`: trace it at another one."""
    call = jax.make_jaxpr(jax.jit(function))(aval).eqns[0]
    early = getattr(getattr(jax, "Inline", None), "JAX_EARLY", True)
    (result,) = call.primitive.bind(x, **{**call.params, "inline": early})
    return result
''',
        ("jax",),
    ),
    "named": Helper(
        '''\
def named(name):
    """Set the name under which JAX knows a function."""

    def rename(function):
        function.__name__ = name
        return function

    return rename
'''
    ),
    "check_failed": Helper(
        '''\
def check_failed(
    failed, message, *args, code=np.int32(0), number=0, debug=False, **kwargs
):
    """Do what `checkify.check(~failed, message, ...)` does, but for the negation."""
    from jax._src import checkify

    exception = checkify.FailedCheckError(
        checkify.get_traceback(), message, *args, **kwargs
    )
    effect = exception.get_effect_type()
    payload, kind = jax.tree.flatten(exception)
    error = checkify.Error(
        {effect: failed}, {effect: code}, {number: kind}, {effect: payload}
    )
    leaves, tree = jax.tree.flatten(error)
    checkify.check_p.bind(*leaves, err_tree=tree, debug=debug)
''',
        ("jax", "numpy"),
    ),
}
