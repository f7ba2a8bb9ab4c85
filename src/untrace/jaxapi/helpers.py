"""Small functions that a generated module defines when it needs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """Source of a helper (its name is the key in `HELPERS`) and what it imports."""

    source: str
    imports: tuple[str, ...] = ()


HELPERS: dict[str, Helper] = {
    "root_with_rule": Helper(
        '''\
def root_with_rule(f, solve, tangent_solve, *args, has_aux=False, types=None):
    """Find a root as `jax.lax.custom_root` does, by functions that take constants."""
    from jax._src.lax.control_flow.solves import CustomRoot

    avals = types or jax.tree.map(jax.typeof, args)
    solved = jax.jit(solve).trace(*avals[:2])
    return CustomRoot(f, solve, tangent_solve, solved, avals, has_aux)(*args)
''',
        ("jax",),
    ),
    "root_linear_map": Helper(
        '''\
def root_linear_map(f, consts, x, v, transposed=False, types=None):
    """Apply the derivative of `f` at `x`, as `jax.lax.custom_root` keeps it."""
    from jax._src.lax.control_flow.solves import _RootLinearMap

    avals = types or jax.tree.map(jax.typeof, (consts, x, v))
    traced = jax.jit(f).trace(*avals[:2])
    out = jax.tree.map(lambda aval: aval.to_tangent_aval(), traced.out_avals)
    primitive = _RootLinearMap(f, avals, out, traced.effects, transposed)
    return primitive(consts, x, v)
''',
        ("jax",),
    ),
    "unchecked_jvp": Helper(
        '''\
def unchecked_jvp(function):
    """Do what `jax.custom_jvp` does, for a rule whose results have other types."""
    from jax.extend.core.primitives import custom_jvp_call_p
    from jax.extend.linear_util import wrap_init

    def flat(*args):
        return jax.tree.leaves(function(*args))

    def jvp(*values):
        n = len(values) // 2
        results = call.rule(values[:n], values[n:])
        return [leaf for result in results for leaf in jax.tree.leaves(result)]

    def call(*args):
        subfuns = wrap_init(flat), wrap_init(jvp)
        results = custom_jvp_call_p.bind(*args, subfuns=subfuns, **call.options)
        return results[0] if len(results) == 1 else tuple(results)

    def defjvp(rule, symbolic_zeros=False):
        call.rule, call.options = rule, dict(symbolic_zeros=symbolic_zeros)
        return rule

    call.defjvp = defjvp
    return call
''',
        ("jax",),
    ),
    "unchecked_vjp": Helper(
        '''\
def unchecked_vjp(function):
    """Do what `jax.custom_vjp` does, for a rule whose results have other types."""
    from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
    from jax.extend.core.primitives import custom_vjp_call_p
    from jax.extend.linear_util import wrap_init
    from jax.interpreters.ad import Zero

    def call(*args):
        avals = [jax.typeof(arg).to_ct_aval() for arg in args]
        trees = []

        def flat(*args):
            return jax.tree.leaves(function(*args))

        def fwd(*pairs):
            values = pairs[::2]
            if call.symbolic_zeros:
                values = tuple(map(CustomVJPPrimal, values, pairs[1::2]))
            results, residuals = call.fwd(*values)
            results, out_tree = jax.tree.flatten(results)
            residuals, tree = jax.tree.flatten(residuals)
            places = {id(value): place for place, value in enumerate(values)}
            trees[:] = out_tree, tree, [places.get(id(each)) for each in residuals]
            return [each for each in residuals if id(each) not in places] + results

        def bwd(*args):
            out_tree, tree, _ = trees
            given = [instantiated(arg) for arg in args]
            residuals = jax.tree.unflatten(tree, given[: tree.num_leaves])
            cotangents = jax.tree.unflatten(out_tree, given[tree.num_leaves :])
            made = zip(call.bwd(residuals, cotangents), avals)
            made = [Zero(a) if is_zero(x, a) else x for x, a in made]
            # Newer releases of JAX take logs beside the cotangents.
            has_logs = hasattr(jax.custom_vjp, "defvjp_with_logs")
            return (made, None) if has_logs else made

        def is_zero(cotangent, aval):
            return cotangent is None or aval.dtype == jax.dtypes.float0

        def instantiated(arg):
            if call.symbolic_zeros or not isinstance(arg, SymbolicZero):
                return arg
            return jax.numpy.zeros(arg.shape, arg.dtype)

        results = custom_vjp_call_p.bind(
            *args,
            subfuns=(wrap_init(flat), wrap_init(fwd), wrap_init(bwd)),
            out_trees=lambda: trees,
            symbolic_zeros=call.symbolic_zeros,
        )
        return results[0] if len(results) == 1 else tuple(results)

    def defvjp(fwd, bwd, symbolic_zeros=False):
        call.fwd, call.bwd, call.symbolic_zeros = fwd, bwd, symbolic_zeros

    call.defvjp = defvjp
    return call
''',
        ("jax",),
    ),
    "by_tangents": Helper(
        '''\
def by_tangents(rules):
    """Choose among rules by which tangents are given; zeros stand for those it lacks."""

    def rule(primals, tangents):
        zero = jax.custom_derivatives.SymbolicZero
        given = {i for i, t in enumerate(tangents) if not isinstance(t, zero)}
        case = min((case for case in rules if given <= {*case}), key=len)
        for i in given.symmetric_difference(case):
            zeros = jnp.zeros(tangents[i].shape, tangents[i].dtype)
            tangents = (*tangents[:i], zeros, *tangents[i + 1 :])
        return rules[case](primals, tangents)

    return rule
''',
        ("jax", "jax.numpy"),
    ),
    "by_perturbed": Helper(
        '''\
def by_perturbed(rules):
    """Choose among rules by which arguments are perturbed and which cotangents given.

    Zeros stand for those that the chosen rule has too many.
    """

    def fwd(*args):
        leaves = jax.tree.leaves(args)
        given = {i for i, leaf in enumerate(leaves) if leaf.perturbed}
        case = min((case for case in rules if given <= {*case}), key=len)
        values = jax.tree.map(lambda leaf: leaf.value, args)
        results, residuals = rules[case][0](*values)
        return results, {case: residuals}

    def bwd(residuals, cotangents):
        ((case, residuals),) = residuals.items()
        backward = rules[case][1]
        leaves, tree = jax.tree.flatten(cotangents)
        zero = jax.custom_derivatives.SymbolicZero
        given = {i for i, leaf in enumerate(leaves) if not isinstance(leaf, zero)}
        case = min((case for case in backward if given <= {*case}), key=len)
        for i in given.symmetric_difference(case):
            leaves[i] = jnp.zeros(leaves[i].shape, leaves[i].dtype)
        return backward[case](residuals, tree.unflatten(leaves))

    return fwd, bwd
''',
        ("jax", "jax.numpy"),
    ),
    "converted_with_sharding": Helper(
        '''\
def converted_with_sharding(x, dtype):
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
    "traced_at": Helper(
        '''\
def traced_at(function, types):
    """Make a call that is given other types than `function` was traced at."""
    from jax.extend.core import jaxpr_as_fun

    def call(*args):
        known = [types.get(i, arg) for i, arg in enumerate(args)]
        return jaxpr_as_fun(jax.make_jaxpr(function)(*known))(*args)

    return call
''',
        ("jax",),
    ),
    "hoisted": Helper(
        '''\
def hoisted(*values):
    """Have JAX take values of a function around into this one, in this order."""
    early = getattr(getattr(jax, "Inline", None), "JAX_EARLY", True)
    return jax.jit(lambda *values: values, inline=early)(*values)
''',
        ("jax",),
    ),
    "unmade": Helper(
        '''\
def unmade(kind, message):
    """Make an exception of a class whose constructor takes more than a message."""
    members = {"__init__": lambda self: None, "__str__": lambda self: message}
    return type(kind.__name__, (kind,), members)()
'''
    ),
    "combine": Helper(
        '''\
def combine(first, second):
    """Put two trees together, each of which has the leaves that are None in the other."""
    if first is None or second is None:
        return second if first is None else first
    return jax.tree.map(combine, first, second, is_leaf=lambda x: x is not first)
''',
        ("jax",),
    ),
    "with_zeros": Helper(
        '''\
def with_zeros(tangents, primals):
    """Put symbolic zeros where there are no tangents."""
    zero = jax.custom_derivatives.SymbolicZero.from_primal_value
    return jax.tree.map(
        lambda tangent, primal: jax.tree.map(zero, primal) if tangent is None else tangent,
        tangents,
        primals,
        is_leaf=lambda tangent: tangent is None,
    )
''',
        ("jax",),
    ),
    "instantiated": Helper(
        '''\
def instantiated(tangents):
    """Put arrays of zeros in the place of symbolic zeros, but for integers."""

    def made(t):
        is_zero = isinstance(t, jax.custom_derivatives.SymbolicZero)
        has_tangents = is_zero and t.dtype != jax.dtypes.float0
        return jnp.zeros(t.shape, t.dtype) if has_tangents else t

    return jax.tree.map(made, tangents)
''',
        ("jax", "jax.numpy"),
    ),
    "inexact": Helper(
        '''\
def inexact(tree):
    """Replace the leaves that are no floats by None."""
    return jax.tree.map(
        lambda x: x if jnp.issubdtype(x.dtype, jnp.inexact) else None, tree
    )
''',
        ("jax", "jax.numpy"),
    ),
    "exact": Helper(
        '''\
def exact(tree):
    """Replace the leaves that are floats by None."""
    return jax.tree.map(
        lambda x: None if jnp.issubdtype(x.dtype, jnp.inexact) else x, tree
    )
''',
        ("jax", "jax.numpy"),
    ),
    "without": Helper(
        '''\
def without(tree, *keys):
    """Leave out what nested dicts hold under some keys."""
    if not isinstance(tree, dict):
        return tree
    parts = {k: without(v, *keys) for k, v in tree.items() if k not in keys}
    return {k: v for k, v in parts.items() if not isinstance(v, dict) or v}
'''
    ),
    "merged": Helper(
        '''\
def merged(tree, *parts):
    """Put parts into nested dicts, in place of what is there."""
    for part in parts:
        if not isinstance(part, dict):
            return part
        tree = {**tree, **{k: merged(tree.get(k, {}), v) for k, v in part.items()}}
    return tree
'''
    ),
    "error_if": Helper(
        '''\
@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def error_if(x, pred, message, *index):
    """Return `x`, but raise an error on the host if `pred` is true."""
    leaves, tree = jax.tree.flatten(x)
    types = jax.eval_shape(lambda: leaves)

    def stand_in(name):
        def fail(*args):
            raise RuntimeError(message or f"error {args[-1]}")

        fail.__untrace_stand_in__ = f"equinox._errors._error.<locals>.{name}"
        fail.__untrace_takes_leaves__ = True
        return fail

    def handle_error():
        number = index[0] if index else 0
        out = jax.pure_callback(stand_in("raises"), types, number)
        return jax.pure_callback(stand_in("tpu_msg"), types, *out, number)

    return jax.tree.unflatten(tree, jax.lax.cond(pred, handle_error, lambda: leaves))


def error_if_jvp(message, primals, tangents):
    def tangent(tx, x):
        is_float = jnp.issubdtype(x.dtype, jnp.inexact)
        zero = jax.custom_derivatives.SymbolicZero.from_primal_value
        return tx if is_float else zero(x)

    x, pred, *index = primals
    x = error_if(x, pred, message, *index)
    return x, jax.tree.map(tangent, tangents[0], x)


error_if.defjvp(error_if_jvp, symbolic_zeros=True)
''',
        ("functools", "jax", "jax.numpy"),
    ),
    "filled": Helper(
        '''\
def filled(tree, part):
    """Put a part into nested dicts, in the places that hold nothing."""
    if isinstance(tree, dict):
        return {k: filled(v, part[k]) for k, v in tree.items()}
    return part if isinstance(tree, tuple) and not tree else tree
'''
    ),
    "known_as": Helper(
        '''\
def known_as(name):
    """Set the name under which JAX knows a function."""

    def rename(function):
        function.__name__ = name
        return function

    return rename
'''
    ),
    "check_errors": Helper(
        '''\
def check_errors(failed, code, payload, kinds, debug=False):
    """Do what `checkify.check_error` does, for errors by effect and kinds by number."""
    from jax._src import checkify

    trace = checkify.get_traceback()
    exceptions = {
        number: kind.tree_unflatten(trace if rest is None else (trace, *rest), children)
        for number, (kind, rest, children) in kinds.items()
    }
    trees = {number: jax.tree.structure(e) for number, e in exceptions.items()}
    leaves, tree = jax.tree.flatten(checkify.Error(failed, code, trees, payload))
    checkify.check_p.bind(*leaves, err_tree=tree, debug=debug)
''',
        ("jax",),
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
