"""Jaxprs, jit, pytrees, control flow, random numbers: the first chapters of the docs."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.corpus.registry import add, f32, i32, positive, program

# ---- reading jaxprs ----------------------------------------------------------------


@program(f32(8), f32(8))
def func1(first, second):
    temp = first + jnp.sin(second) * 3.0
    return jnp.sum(temp)


@program(f32(8))
def func_nested_call(arg):
    def inner(second):
        temp = arg + jnp.sin(second) * 3.0
        return jnp.sum(temp)

    return jax.jit(inner)(arg - 3.0)


@program(5, f32(3))
def func_switch(index, arg):
    branches = [lambda x: x + 1.0, lambda x: x - 2.0, lambda x: x + 3.0]
    return lax.switch(index, branches, arg)


@program(5.0, f32(3))
def func_cond(arg, vector):
    return lax.cond(
        arg >= 0.0, lambda xtrue: xtrue + 3.0, lambda xfalse: xfalse - 3.0, vector
    )


@program(5.0, f32(3))
def func_cond_pair(arg1, arg2):
    def true_fun(pair):
        return jnp.sum(pair[1]) + pair[0]

    def false_fun(pair):
        return jnp.prod(pair[1]) - pair[0]

    return lax.cond(arg1 > 2.0, true_fun, false_fun, (arg1, arg2))


@program(f32(5), 10)
def func_while(arg, n):
    ones = jnp.ones(arg.shape)

    def body(i, carry):
        return carry + ones * 3.0 + arg

    return lax.fori_loop(0, n, body, arg + ones)


@program(f32(16), 5.0)
def func_scan(arr, extra):
    ones = jnp.ones(arr.shape)

    def body(carry, elements):
        first, second = elements
        return carry + first * second + extra, carry

    return lax.scan(body, 0.0, (arr, ones))


@program(f32(4))
def func_names(x):
    with jax.named_scope("outer"):
        y = jnp.tanh(x)
        with jax.named_scope("inner"):
            return y * y


# ---- jit ---------------------------------------------------------------------------


@jax.jit
def selu_jitted(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


add("jit_selu", selu_jitted, f32(10))
add("jit_selu_twice", lambda x: selu_jitted(selu_jitted(x)), f32(10))
add("jit_selu_weak", lambda x: selu_jitted(x, 1.5, 2), f32(10))


@functools.partial(jax.jit, static_argnames="n")
def power_static(x, n):
    for _ in range(n):
        x = x * x
    return x


add("jit_static", lambda x: power_static(x, n=3) + power_static(x, n=2), f32(3))
add("jit_static_partial", functools.partial(power_static, n=4), f32(3))
add(
    "jit_donate",
    lambda x, y: jax.jit(lambda a, b: a + b, donate_argnums=0)(x, y),
    f32(3),
    f32(3),
)
add(
    "jit_keep_unused",
    lambda x, y: jax.jit(lambda a, b: a, keep_unused=True)(x, y),
    f32(3),
    f32(3),
)
add("jit_drops_unused", lambda x, y: jax.jit(lambda a, b: a * 2)(x, y), f32(3), f32(3))
add("jit_identity", lambda x: jax.jit(lambda a: a)(x), f32(3))
add("jit_no_inputs", lambda: jax.jit(lambda: jnp.arange(3.0))(), variants=False)
add("jit_inline", lambda x: jax.jit(lambda a: a * 2.0, inline=True)(x), f32(3))
add("jit_of_jit", jax.jit(jax.jit(lambda x: jnp.sin(x))), f32(3))
add("jit_duplicates", lambda x: jax.jit(lambda a: (a + 1, a + 1, a))(x), f32(3))
add("jit_literal_output", lambda x: jax.jit(lambda a: (a, 3.0, 2))(x), f32(3))
add("jit_kwargs", lambda x: jax.jit(lambda a, *, b: a - b)(x, b=x * 2), f32(3))
add(
    "jit_dict",
    jax.jit(lambda d: {"sum": d["a"] + d["b"], "first": d["a"]}),
    {"a": f32(2), "b": f32(2)},
)
add(
    "jit_compiler_options",
    jax.jit(jnp.sin, compiler_options={"xla_embed_ir_in_executable": True}),
    f32(3),
)


def _named(name: str) -> Any:
    def function(x):
        return jnp.cos(x) * 2.0

    function.__name__ = function.__qualname__ = name
    return function


for position, odd in enumerate(
    [
        "f():\n  import os",
        "lambda",
        "class",
        "Größe",
        "λ",
        "x" * 10_000,
        "",
        "a.b",
        "None",
        "jax",
        "print",
        "'\"\\",
        "my fun",
        "2x",
        "{x}",
        "%s",
        "#",
        "_",
        "__init__",
    ]
):
    add(
        f"jit_odd_name_{position}",
        lambda x, f=_named(odd): jax.jit(f)(x) + jax.jit(f)(2 * x),
        f32(2),
        variants=False,
    )


@program(f32(3))
def jit_closure_constant(x, table=np.arange(3, dtype=np.float32)):
    return jax.jit(lambda y: y * table + jnp.array([1.0, 2.0, 3.0]))(x)


@program(f32(3), f32(3))
def jit_closure_tracer(x, y):
    @jax.jit
    def inner(z):
        return z * x + y

    return inner(inner(y))


@program(f32(200))
def jit_large_constant(x):
    return x * jnp.asarray(f32(200)) + np.linspace(0, 1, 200, dtype=np.float32)


# ---- pytrees -----------------------------------------------------------------------


class Point(NamedTuple):
    """A pair of arrays."""

    x: Any
    y: Any


TREE = {
    "layers": [{"w": f32(2, 3), "b": f32(3)}, {"w": f32(3, 1), "b": f32(1)}],
    "scale": (1.0, f32(2)),
}
add("tree_map_add", lambda t: jax.tree.map(lambda x: x + 1, t), TREE)
add(
    "tree_map_two",
    lambda t, u: jax.tree.map(lambda x, y: x - 0.1 * y, t, u),
    TREE,
    TREE,
)
add(
    "tree_reduce_norm",
    lambda t: jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(t))),
    TREE,
)
add(
    "tree_transpose",
    lambda t: jax.tree.transpose(
        jax.tree.structure([0, 0]), jax.tree.structure({"a": 0}), t
    ),
    [{"a": f32(2)}, {"a": f32(2)}],
)
add("tree_named_tuple", lambda p: Point(p.x + 1, p.y * p.x), Point(f32(2), f32(2)))
add(
    "tree_none",
    lambda t: {"a": t["a"], "b": None, "c": (None, t["a"] * 2)},
    {"a": f32(2), "b": None},
)
add("tree_empty", lambda t: ((), [], {}), {})
add(
    "tree_nested_result",
    lambda x: {"a": [x, (x + 1,)], "b": {"c": {"d": x * 2}}},
    f32(2),
)
add(
    "tree_keys",
    lambda d: d["a b"] + d["class"] + d["f'\"\n"],
    {"a b": f32(2), "class": f32(2), "f'\"\n": f32(2)},
)
add("tree_int_keys", lambda d: d[1] + d[-2], {1: f32(2), -2: f32(2)})


@program(TREE)
def tree_flatten_roundtrip(t):
    leaves, structure = jax.tree.flatten(t)
    return jax.tree.unflatten(structure, [x * 2 for x in leaves])


@program({"w": f32(4, 1), "b": f32(1)}, f32(5, 4), f32(5))
def tree_sgd_step(params, x, y):
    def loss(p):
        return jnp.mean((x @ p["w"] + p["b"] - y[:, None]) ** 2)

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


# ---- control flow ------------------------------------------------------------------


@program(0.5)
def while_sqrt(x):
    return lax.while_loop(
        lambda c: jnp.abs(c * c - x) > 1e-3, lambda c: 0.5 * (c + x / c), x
    )


@program(f32(3), 2.0)
def while_captures_both(x, limit):
    return lax.while_loop(lambda c: jnp.sum(c) < limit, lambda c: c + jnp.abs(x), x)


@program(f32(4), f32(4))
def while_batched_predicate(x, y):
    return jax.vmap(
        lambda a, b: lax.while_loop(
            lambda c: c[0] < b, lambda c: (c[0] + 1, c[1] * a), (a, b)
        )
    )(x, y)


@program(f32(4))
def while_unchanged_carry(x):
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1], c[2] * c[1]), (0, x, x)
    )


@program(f32(4))
def fori_dynamic_index(x):
    return lax.fori_loop(1, 4, lambda i, a: a.at[i].set(a[i - 1] + a[i]), x)


add(
    "fori_unrolled",
    lambda x: lax.fori_loop(0, 4, lambda i, a: a * i, x, unroll=2),
    f32(2),
)
add("fori_empty", lambda x: lax.fori_loop(0, 0, lambda i, a: a * i, x), f32(2))
add(
    "fori_nested",
    lambda x: lax.fori_loop(
        0, 3, lambda i, a: lax.fori_loop(0, i, lambda j, b: b + j, a), x
    ),
    f32(2),
)
add("map_function", lambda x: lax.map(lambda r: jnp.sin(r) @ r, x), f32(3, 4))
add("map_batched", lambda x: lax.map(lambda r: r * 2, x, batch_size=2), f32(5, 4))
add("scan_cumsum", lambda x: lax.scan(lambda c, v: (c + v, c + v), 0.0, x), f32(5))
add(
    "scan_reverse",
    lambda x: lax.scan(lambda c, v: (c * v, c), 1.0, x, reverse=True),
    f32(5),
)
add(
    "scan_unroll",
    lambda x: lax.scan(lambda c, v: (c + v, None), 0.0, x, unroll=3),
    f32(5),
)
add(
    "scan_unroll_full",
    lambda x: lax.scan(lambda c, v: (c + v, None), 0.0, x, unroll=True),
    f32(5),
)
add(
    "scan_no_xs", lambda x: lax.scan(lambda c, _: (c * 2, c), x, None, length=4), f32(2)
)
add("scan_no_carry", lambda x: lax.scan(lambda c, v: (c, v * 2), (), x), f32(4))
add("scan_nothing", lambda x: lax.scan(lambda c, v: (c, ()), (), x), f32(4))
add(
    "scan_zero_length",
    lambda x: lax.scan(lambda c, v: (c + v, v * 2), 0.0, x[:0]),
    f32(4),
)
add(
    "scan_tree",
    lambda x: lax.scan(
        lambda c, v: ({"a": c["a"] + v[0], "b": c["b"]}, {"y": v[1]}),
        {"a": 0.0, "b": x},
        (x, x * 2),
    ),
    f32(4),
)
add(
    "scan_closure_order",
    lambda x, y, z: lax.scan(lambda c, v: (c * z + y, v * x), x, jnp.arange(3.0)),
    1.0,
    2.0,
    3.0,
)
add(
    "scan_closure_as_carry",
    lambda x, y: lax.scan(lambda c, v: (c, v * x), y, jnp.arange(3.0)),
    1.0,
    2.0,
)
add(
    "scan_forward_xs",
    lambda x: lax.scan(lambda c, v: (c + v, (v, v * 2)), 0.0, x),
    f32(4),
)
add(
    "scan_duplicate_carry",
    lambda x: lax.scan(lambda c, v: ((c[1], c[0]), v), (x, x), jnp.arange(3.0)),
    f32(4),
)
add(
    "scan_constant_outputs",
    lambda x: lax.scan(lambda c, v: (c + 1.0, (2.0, jnp.ones(2))), 0.0, x),
    f32(4),
)
add("scan_weak_carry", lambda x: lax.scan(lambda c, v: (c + 1, v), 0, x), f32(4))
add(
    "scan_nested",
    lambda x: lax.scan(
        lambda c, r: lax.scan(lambda d, v: (d + v * c, d), c, r), 1.0, x
    ),
    f32(3, 4),
)
add(
    "scan_vmapped",
    lambda x, y: jax.vmap(
        lambda a: lax.scan(lambda c, v: (c + v * y, c), a, jnp.arange(3.0))
    )(x),
    f32(3),
    2.0,
)
add("associative_scan_sum", lambda x: lax.associative_scan(jnp.add, x), f32(7))
add(
    "associative_scan_max",
    lambda x: lax.associative_scan(jnp.maximum, x, reverse=True),
    f32(8),
)
add("cond_no_operands", lambda p, x: lax.cond(p, lambda: x, lambda: -x), True, f32(2))
add("cond_numeric_predicate", lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), 3, f32(2))
add(
    "cond_forwarded",
    lambda p, x, y: lax.cond(p, lambda a, b: (a, b * 2), lambda a, b: (a, b), x, y),
    True,
    f32(2),
    f32(3),
)
add(
    "cond_no_results",
    lambda p, x: lax.cond(p, lambda a: (), lambda a: (), x),
    True,
    f32(2),
)
add("cond_same_branch", lambda p, x: lax.cond(p, jnp.sin, jnp.sin, x), True, f32(2))
add("cond_literals", lambda p: lax.cond(p, lambda: (1.0, 2), lambda: (3.0, 4)), True)
add(
    "cond_nested",
    lambda p, q, x: lax.cond(
        p, lambda a: lax.cond(q, jnp.sin, jnp.cos, a), jnp.tanh, x
    ),
    True,
    False,
    f32(2),
)
add(
    "cond_batched",
    lambda p, x: jax.vmap(lambda a, b: lax.cond(a, jnp.sin, jnp.cos, b))(p, x),
    np.array([True, False]),
    f32(2),
)
add(
    "cond_index_twice",
    lambda p, x: (lambda i: (lax.cond(p, jnp.sin, jnp.cos, x), i + 1))(
        lax.convert_element_type(p, jnp.int32)
    ),
    True,
    f32(2),
)
add("switch_one", lambda i, x: lax.switch(i, [jnp.sin], x), 0, f32(2))
add(
    "switch_many",
    lambda i, x: lax.switch(
        i, [functools.partial(jnp.multiply, k) for k in range(12)], x
    ),
    7,
    f32(2),
)
add(
    "switch_int8", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x), np.int8(1), f32(2)
)
add(
    "switch_int32",
    lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x),
    np.int32(1),
    f32(2),
)
add(
    "select_n_three",
    lambda i, x: lax.select_n(i, x, x * 2, x * 3),
    i32(4, high=3),
    f32(4),
)
add(
    "platform_dependent",
    lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
    f32(2),
)
add(
    "platform_dependent_two",
    lambda x: lax.platform_dependent(x, tpu=jnp.sin, cuda=jnp.tan, default=jnp.cos),
    f32(2),
)


@program(f32(6))
def clip_loop(x):
    def body(state):
        i, total = state
        return i + 1, total + lax.cond(x[i] > 0, lambda v: v, lambda v: 0.0, x[i])

    return lax.while_loop(lambda s: s[0] < 6, body, (0, 0.0))


# ---- random numbers ----------------------------------------------------------------

KEY = jax.random.key(0)
OLD_KEY = jax.random.PRNGKey(0)
for _name, _function in {
    "uniform": lambda k: jax.random.uniform(k, (3,)),
    "normal": lambda k: jax.random.normal(k, (3, 2)),
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (4,)),
    "categorical": lambda k: jax.random.categorical(
        k, jnp.log(jnp.array([0.2, 0.8])), shape=(5,)
    ),
    "choice": lambda k: jax.random.choice(k, jnp.arange(5), (3,), replace=False),
    "permutation": lambda k: jax.random.permutation(k, 6),
    "randint": lambda k: jax.random.randint(k, (4,), 0, 10),
    "gamma": lambda k: jax.random.gamma(k, 2.0, (3,)),
    "beta": lambda k: jax.random.beta(k, 2.0, 3.0),
    "dirichlet": lambda k: jax.random.dirichlet(k, jnp.ones(3)),
    "poisson": lambda k: jax.random.poisson(k, 4.0, (3,)),
    "truncated_normal": lambda k: jax.random.truncated_normal(k, -1.0, 1.0, (3,)),
    "multivariate_normal": lambda k: jax.random.multivariate_normal(
        k, jnp.zeros(2), jnp.eye(2)
    ),
    "gumbel": lambda k: jax.random.gumbel(k, (3,)),
    "laplace": lambda k: jax.random.laplace(k, (3,)),
    "exponential": lambda k: jax.random.exponential(k, (3,)),
    "cauchy": lambda k: jax.random.cauchy(k, (3,)),
    "orthogonal": lambda k: jax.random.orthogonal(k, 3),
    "rademacher": lambda k: jax.random.rademacher(k, (3,)),
    "t": lambda k: jax.random.t(k, 3.0, (2,)),
    "bits": lambda k: jax.random.bits(k, (3,), "uint8"),
    "split_many": lambda k: [jax.random.normal(s) for s in jax.random.split(k, 3)],
    "fold_in": lambda k: jax.random.uniform(jax.random.fold_in(k, 7)),
    "vmap_keys": lambda k: jax.vmap(jax.random.normal)(jax.random.split(k, 4)),
    "ball": lambda k: jax.random.ball(k, 3, shape=(2,)),
    "shuffle_rows": lambda k: jax.random.permutation(k, jnp.eye(4), independent=True),
}.items():
    add(f"random_{_name}", _function, KEY, variants=_name in ("normal", "gamma"))
    add(f"random_old_{_name}", _function, OLD_KEY, variants=False)

for _impl in ("threefry2x32", "rbg", "unsafe_rbg"):
    add(
        f"random_impl_{_impl}",
        lambda k: (jax.random.normal(k, (2,)), jax.random.split(k)),
        jax.random.key(1, impl=_impl),
    )
    add(
        f"random_seed_{_impl}",
        lambda s, i=_impl: jax.random.uniform(jax.random.key(s, impl=i)),
        3,
        variants=False,
    )

add(
    "random_key_data",
    lambda k: jax.random.wrap_key_data(jax.random.key_data(k) + 1),
    KEY,
)
add(
    "random_key_array",
    lambda k: k.reshape(2, 2)[0],
    jax.random.split(KEY, 4),
    variants=False,
)
add(
    "random_scan_keys",
    lambda k: lax.scan(
        lambda c, s: (c + jax.random.normal(s), None), 0.0, jax.random.split(k, 3)
    ),
    KEY,
)
add("random_closed_key", lambda x: x + jax.random.normal(KEY, (3,)), f32(3))
add(
    "random_old_partitionable",
    lambda k: jax.random.normal(k, (3,)),
    KEY,
    context=lambda: jax.threefry_partitionable(False),
    variants=False,
)


# ---- indexing and updates ----------------------------------------------------------

X = f32(5, 6)
for _name, _function in {
    "int": lambda x: x[2],
    "negative": lambda x: x[-1, -2],
    "slice": lambda x: x[1:4, ::2],
    "reverse": lambda x: x[::-1],
    "ellipsis": lambda x: x[..., 0],
    "newaxis": lambda x: x[:, None, 1:],
    "array": lambda x: x[jnp.array([0, 2])],
    "two_arrays": lambda x: x[jnp.array([0, 2]), jnp.array([1, 3])],
    "mixed": lambda x: x[1:3, jnp.array([1, 3])],
    "where": lambda x: jnp.where(x > 0, x, 0),
    "traced": lambda x: x[jnp.argmax(x[:, 0])],
    "take": lambda x: jnp.take(x, jnp.array([1, 9]), axis=1, mode="clip"),
    "take_along": lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
    "set": lambda x: x.at[0].set(1.0),
    "add": lambda x: x.at[jnp.array([0, 0])].add(x[1]),
    "mul": lambda x: x.at[:, 1].mul(2.0),
    "max": lambda x: x.at[1:3].max(0.5),
    "min": lambda x: x.at[1, 2].min(-3),
    "apply": lambda x: x.at[jnp.array([1, 2])].apply(jnp.sin),
    "get_fill": lambda x: x.at[jnp.array([7])].get(mode="fill", fill_value=-1.0),
    "set_drop": lambda x: x.at[jnp.array([7])].set(2.0, mode="drop"),
    "set_unique": lambda x: x.at[jnp.array([0, 3])].set(
        2.0, unique_indices=True, indices_are_sorted=True
    ),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1, 2), (2, 2)),
    "dynamic_update": lambda x: lax.dynamic_update_slice(x, jnp.zeros((2, 2)), (1, 2)),
    "index_in_dim": lambda x: lax.dynamic_index_in_dim(x, 1, 1, keepdims=False),
    "diag": lambda x: jnp.diag(x[:5, :5]),
    "tril": lambda x: jnp.tril(x),
    "roll": lambda x: jnp.roll(x, 2, axis=1),
    "pad": lambda x: jnp.pad(x, ((1, 1), (0, 2)), mode="reflect"),
    "pad_constant": lambda x: jnp.pad(x, 1, constant_values=3.0),
    "sort": lambda x: jnp.sort(x, axis=0),
    "sort_descending": lambda x: jnp.sort(x, descending=True),
    "argsort": lambda x: jnp.argsort(x),
    "lexsort": lambda x: jnp.lexsort((x[0], x[1])),
    "top_k": lambda x: lax.top_k(x, 3),
    "unique": lambda x: jnp.unique(jnp.round(x), size=4, fill_value=0.0),
    "nonzero": lambda x: jnp.nonzero(x > 0, size=5),
    "bincount": lambda x: jnp.bincount(jnp.abs(x[0]).astype(int), length=5),
    "histogram": lambda x: jnp.histogram(x, bins=4),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1]),
    "segment_sum": lambda x: jax.ops.segment_sum(
        x, jnp.array([0, 0, 1, 2, 1]), num_segments=3
    ),
    "segment_max": lambda x: jax.ops.segment_max(
        x, jnp.array([0, 0, 1, 2, 1]), num_segments=3
    ),
    "cumsum": lambda x: jnp.cumsum(x, axis=1),
    "cumprod": lambda x: jnp.cumprod(x),
    "cummax": lambda x: lax.cummax(x, axis=0, reverse=True),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x),
    "median": lambda x: jnp.median(x, axis=0),
    "percentile": lambda x: jnp.percentile(x, 30.0),
    "argmax": lambda x: jnp.argmax(x, axis=1, keepdims=True),
    "interp": lambda x: jnp.interp(x[0], jnp.arange(4.0), jnp.arange(4.0) ** 2),
    "split": lambda x: jnp.split(x, 3, axis=1),
    "stack": lambda x: jnp.stack([x, x * 2], axis=1),
    "concatenate": lambda x: jnp.concatenate([x, x[:1]], axis=0),
    "repeat": lambda x: jnp.repeat(x, 2, axis=0),
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "meshgrid": lambda x: jnp.meshgrid(x[0], x[1]),
    "kron": lambda x: jnp.kron(x[:2, :2], x[:2, :2]),
    "flip": lambda x: jnp.flip(x, axis=1),
    "rot90": lambda x: jnp.rot90(x),
    "moveaxis": lambda x: jnp.moveaxis(x[None], 0, 2),
    "bitwise": lambda x: (x.view(jnp.int32) >> 2) & 7,
    "select": lambda x: jnp.select([x > 1, x > 0], [x, -x], 0.0),
    "piecewise": lambda x: jnp.piecewise(
        x, [x < 0, x >= 0], [lambda v: -v, lambda v: v]
    ),
    "vectorize": lambda x: jnp.vectorize(lambda r: r @ r, signature="(n)->()")(x),
    "apply_along_axis": lambda x: jnp.apply_along_axis(jnp.max, 0, x),
}.items():
    add(f"index_{_name}", _function, X)


# ---- dtypes ------------------------------------------------------------------------

for _dtype in (
    "float16",
    "bfloat16",
    "int8",
    "uint8",
    "int16",
    "uint32",
    "bool",
    "complex64",
    "int4",
    "float8_e4m3fn",
):
    add(
        f"dtype_{_dtype}",
        lambda x, d=_dtype: (x.astype(d), jnp.zeros((2,), d)),
        positive(3),
    )
add(
    "dtype_promotion",
    lambda x, i: (x + i, i / 2, x * 1j, i // 2, x % 2, -i, i**2),
    f32(3),
    i32(3),
)
add(
    "dtype_weak",
    lambda x: (x + 1, x * 2.5, 3 - x, 2**x, x**3, x**0.5, jnp.add(x, True)),
    f32(3),
)
add(
    "dtype_complex",
    lambda x: (jnp.real(x), jnp.imag(x), jnp.conj(x), jnp.abs(x), jnp.angle(x)),
    (f32(3) + 1j * f32(3)).astype(np.complex64),
    variants=False,
)
add(
    "dtype_special",
    lambda x: (x * jnp.inf, x + jnp.nan, x * -0.0, x - jnp.finfo(jnp.float32).max),
    f32(3),
)
add(
    "dtype_x64",
    lambda x: (x * 2.0, jnp.arange(3), x.astype(jnp.float32)),
    np.arange(3.0),
    context=lambda: jax.enable_x64(True),
    variants=False,
)
add(
    "dtype_x64_loop",
    lambda x: lax.fori_loop(0, 3, lambda i, c: c + i, x),
    1.0,
    context=lambda: jax.enable_x64(True),
    variants=False,
)
add(
    "dtype_bitcast",
    lambda x: lax.bitcast_convert_type(x, jnp.int32),
    f32(3),
    variants=False,
)
add("dtype_reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), f32(3))
add(
    "dtype_python_scalars",
    lambda a, b, c, d: (a + b, b * c, jnp.where(d, a, b)),
    1,
    2.0,
    3j,
    True,
    variants=False,
)
