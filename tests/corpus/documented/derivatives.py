"""Derivatives, custom rules, checkpointing and solvers: the autodiff chapters."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from tests.corpus.registry import add, f32, i32, positive, program, spd

# ---- the autodiff cookbook ---------------------------------------------------------


def predict(w, b, inputs):
    return 0.5 * (jnp.tanh((inputs @ w + b) / 2) + 1)


def logistic_loss(w, b, inputs, targets):
    preds = predict(w, b, inputs)
    label_probs = preds * targets + (1 - preds) * (1 - targets)
    return -jnp.sum(jnp.log(label_probs))


DATA = (f32(3), 0.1, f32(4, 3), np.array([True, True, False, True]))
add("logistic_loss", logistic_loss, *DATA)
add(
    "logistic_value_and_grad",
    jax.value_and_grad(logistic_loss, (0, 1)),
    *DATA,
    variants=False,
)
add(
    "logistic_jacfwd",
    jax.jacfwd(lambda w: predict(w, 0.0, DATA[2])),
    f32(3),
    variants=False,
)
add(
    "logistic_jacrev",
    jax.jacrev(lambda w: predict(w, 0.0, DATA[2])),
    f32(3),
    variants=False,
)
add(
    "hvp",
    lambda f, v: jax.jvp(jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 3)), (f,), (v,))[1],
    f32(3),
    f32(3),
)
add(
    "hvp_reverse",
    lambda x, v: jax.grad(
        lambda y: jnp.vdot(jax.grad(lambda z: jnp.sum(jnp.tanh(z)))(y), v)
    )(x),
    f32(3),
    f32(3),
)
add("vmap_vjp", lambda x, m: jax.vmap(jax.vjp(jnp.sin, x)[1])(m), f32(3), f32(2, 3))
add("grad_third", jax.grad(jax.grad(jax.grad(jnp.tanh))), 0.3)
add(
    "grad_complex",
    jax.grad(lambda z: jnp.real(z * jnp.conj(z)) + jnp.real(jnp.sin(z))),
    1.0 + 2.0j,
    variants=False,
)
add("grad_holomorphic", jax.grad(jnp.sin, holomorphic=True), 1.0 + 2.0j, variants=False)
add("stop_gradient", lambda x: x * lax.stop_gradient(jnp.sin(x)), f32(3))
add("straight_through", lambda x: x + lax.stop_gradient(jnp.round(x) - x), f32(3))
add(
    "per_example_gradients",
    jax.vmap(jax.grad(lambda w, x, y: (w @ x - y) ** 2), (None, 0, 0)),
    f32(3),
    f32(5, 3),
    f32(5),
)
add(
    "td_update",
    jax.grad(lambda t, s, n: -0.5 * (1.0 + lax.stop_gradient(t @ n) - t @ s) ** 2),
    f32(3),
    f32(3),
    f32(3),
)
add(
    "linearize_then_map",
    lambda x: jax.vmap(jax.linearize(jnp.sin, x)[1])(jnp.eye(3)),
    f32(3),
)
add(
    "linear_transpose",
    lambda x: jax.linear_transpose(lambda y: 2.0 * y[::-1], x)(x),
    f32(3),
)
add(
    "vjp_has_aux",
    lambda x: jax.vjp(lambda y: (jnp.sin(y), y * 2), x, has_aux=True)[2],
    f32(3),
)
add(
    "jvp_integers",
    lambda x, i: jax.jvp(
        lambda a, b: a * b, (x, i), (x, np.zeros(3, jax.dtypes.float0))
    )[1],
    f32(3),
    i32(3),
)
add(
    "grad_allow_int",
    lambda x, i: jax.grad(lambda a, b: jnp.sum(a * b), (0, 1), allow_int=True)(x, i)[0],
    f32(3),
    i32(3),
)
add(
    "jet_like",
    lambda x: jax.jvp(lambda y: jax.jvp(jnp.exp, (y,), (1.0,))[1], (x,), (1.0,)),
    0.5,
)
add(
    "newton_step",
    lambda x: (
        x
        - jnp.linalg.solve(
            jax.hessian(lambda z: jnp.sum(z**4) + z @ z)(x),
            jax.grad(lambda z: jnp.sum(z**4) + z @ z)(x),
        )
    ),
    f32(3),
)

# ---- custom_jvp --------------------------------------------------------------------


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t


@jax.custom_jvp
def mul_sin(x, y):
    return jnp.sin(x) * y


mul_sin.defjvps(
    lambda t, ans, x, y: jnp.cos(x) * t * y, lambda t, ans, x, y: jnp.sin(x) * t
)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def app(f, x):
    return f(x)


@app.defjvp
def app_jvp(f, primals, tangents):
    (x,), (t,) = primals, tangents
    return f(x), 2.0 * t


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def power_n(x, n):
    return x**n


power_n.defjvp(lambda n, p, t: (power_n(p[0], n), n * p[0] ** (n - 1) * t[0]))


@jax.custom_jvp
def two_results(x, y):
    return x * y, {"sum": x + y}


@two_results.defjvp
def two_results_jvp(primals, tangents):
    (x, y), (a, b) = primals, tangents
    return two_results(x, y), (x * b + y * a, {"sum": a + b})


@jax.custom_jvp
def symbolic(x, y):
    return x * y


@functools.partial(symbolic.defjvp, symbolic_zeros=True)
def symbolic_jvp(primals, tangents):
    x, y = primals
    a, b = tangents
    out = x * y
    terms = [
        v
        for t, o in ((a, y), (b, x))
        if not isinstance(t, SymbolicZero)
        for v in [t * o]
    ]
    return out, (
        sum(terms[1:], terms[0])
        if terms
        else SymbolicZero(jax.typeof(out).to_tangent_aval())
    )


@jax.custom_jvp
def zero_tangent(x):
    return jnp.floor(x), x


zero_tangent.defjvp(lambda p, t: (zero_tangent(*p), (jnp.zeros_like(t[0]), t[0])))

add("custom_jvp", log1pexp, f32(3))
add("custom_jvp_scalar", log1pexp, 3.0)
add("custom_jvp_twice", lambda x: log1pexp(log1pexp(x)) + log1pexp(2.0), f32(3))
add("custom_jvp_defjvps", mul_sin, f32(3), f32(3))
add(
    "custom_jvp_nondiff_function",
    lambda x: app(lambda y: y**3, x) + app(jnp.sin, x),
    f32(3),
)
add("custom_jvp_nondiff_value", lambda x: power_n(x, 3) + power_n(x, 2), f32(3))
add("custom_jvp_two_results", two_results, f32(3), f32(3))
add("custom_jvp_symbolic_zeros", symbolic, f32(3), f32(3))
add("custom_jvp_zero_tangent", zero_tangent, f32(3))
add(
    "custom_jvp_in_scan",
    lambda x: lax.scan(lambda c, v: (log1pexp(c + v), c), 0.0, x),
    f32(4),
)
add("custom_jvp_in_cond", lambda p, x: lax.cond(p, log1pexp, jnp.sin, x), True, f32(3))
add(
    "custom_jvp_in_jit",
    lambda x: jax.jit(log1pexp)(x) * jax.jit(log1pexp)(x + 1),
    f32(3),
)
add("custom_jvp_vmapped", lambda x: jax.vmap(log1pexp)(x), f32(3, 2))
add(
    "custom_jvp_in_remat",
    lambda x: jax.checkpoint(lambda y: log1pexp(jnp.sin(y)))(x),
    f32(3),
)


@program(f32(3), f32(3))
def custom_jvp_closure(x, y):
    @jax.custom_jvp
    def inner(z):
        return z * y

    inner.defjvp(lambda p, t: (inner(*p), t[0] * y * 2.0))
    return inner(x)


@program(f32(3))
def custom_jvp_constants(x, table=np.arange(3, dtype=np.float32)):
    @jax.custom_jvp
    def inner(z):
        return z * jnp.asarray(table)

    inner.defjvp(lambda p, t: (inner(*p), t[0] * jnp.asarray(table)))
    return inner(x)


# ---- custom_vjp --------------------------------------------------------------------


@jax.custom_vjp
def product(x, y):
    return jnp.sin(x) * y


product.defvjp(
    lambda x, y: (product(x, y), (jnp.cos(x), jnp.sin(x), y)),
    lambda r, g: (r[0] * g * r[2], r[1] * g),
)


@jax.custom_vjp
def clip_gradient(lo, hi, x):
    return x


clip_gradient.defvjp(
    lambda lo, hi, x: (x, (lo, hi)), lambda r, g: (None, None, jnp.clip(g, r[0], r[1]))
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def clip_static(bounds, x):
    return x * 1.0


clip_static.defvjp(lambda b, x: (x, None), lambda b, r, g: (jnp.clip(g, *b),))


@jax.custom_vjp
def with_tree(params, x):
    return {"y": params["w"] * x, "z": params["b"]}


with_tree.defvjp(
    lambda p, x: (with_tree(p, x), (p, x)),
    lambda r, g: ({"w": g["y"] * r[1], "b": g["z"]}, g["y"] * r[0]["w"]),
)


@jax.custom_vjp
def with_integers(x, i):
    return x * i


with_integers.defvjp(
    lambda x, i: (x * i, i), lambda i, g: (g * i, np.zeros(i.shape, jax.dtypes.float0))
)


@jax.custom_vjp
def lazy(x, y):
    return x + y


lazy.defvjp(
    lambda x, y: (x.value + y.value, (x.perturbed,)),
    lambda r, g: (g, g),
    symbolic_zeros=True,
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def fixed_point(f, a, x_guess):
    def cond_fun(carry):
        x_prev, x = carry
        return jnp.max(jnp.abs(x_prev - x)) > 1e-6

    def body_fun(carry):
        _, x = carry
        return x, f(a, x)

    _, x_star = lax.while_loop(cond_fun, body_fun, (x_guess, f(a, x_guess)))
    return x_star


def fixed_point_fwd(f, a, x_init):
    x_star = fixed_point(f, a, x_init)
    return x_star, (a, x_star)


def fixed_point_rev(f, res, x_star_bar):
    a, x_star = res
    _, vjp_a = jax.vjp(lambda a: f(a, x_star), a)

    def rev_iter(packed, u):
        a, x_star, x_star_bar = packed
        _, vjp_x = jax.vjp(lambda x: f(a, x), x_star)
        return x_star_bar + vjp_x(u)[0]

    (a_bar,) = vjp_a(
        fixed_point(functools.partial(rev_iter), (a, x_star, x_star_bar), x_star_bar)
    )
    return a_bar, jnp.zeros_like(x_star)


fixed_point.defvjp(fixed_point_fwd, fixed_point_rev)

add("custom_vjp", product, f32(3), f32(3))
add("custom_vjp_twice", lambda x, y: product(product(x, y), y), f32(3), f32(3))
add("custom_vjp_clip", clip_gradient, -1.0, 1.0, f32(3))
add("custom_vjp_nondiff", lambda x: clip_static((-1.0, 1.0), jnp.sin(x)), f32(3))
add("custom_vjp_tree", with_tree, {"w": f32(3), "b": f32(2)}, f32(3))
add("custom_vjp_integers", with_integers, f32(3), i32(3))
add("custom_vjp_symbolic_zeros", lazy, f32(3), f32(3))
add(
    "custom_vjp_fixed_point",
    lambda a: fixed_point(lambda a, x: 0.5 * (x + a / x), a, a),
    2.0,
)
add(
    "custom_vjp_in_scan",
    lambda x, y: lax.scan(lambda c, v: (product(c, v), c), y[0], x),
    f32(4),
    f32(1),
)
add("custom_vjp_in_jit", lambda x, y: jax.jit(product)(x, y), f32(3), f32(3))
add("custom_vjp_vmapped", jax.vmap(product, (0, None)), f32(3, 2), f32(2))
add("custom_vjp_unused_argument", lambda x, y: clip_gradient(0.0, y, x)[0], f32(3), 1.0)


@program(f32(3), f32(3))
def custom_vjp_closure(x, y):
    @jax.custom_vjp
    def inner(z):
        return z * y

    inner.defvjp(lambda z: (inner(z), z), lambda z, g: (g * z,))
    return inner(x)


@program(f32(3))
def custom_vjp_optimize_remat(x):
    @jax.custom_vjp
    def inner(z):
        return jnp.sin(z)

    inner.defvjp(
        lambda z: (jnp.sin(z), z), lambda z, g: (g * jnp.cos(z),), optimize_remat=True
    )
    return inner(x)


@program(f32(3))
def custom_gradient(x):
    @jax.custom_gradient
    def inner(z):
        return z**2, lambda g: (g * z,)

    return inner(x)


@program(f32(3), f32(3))
def closure_convert(x, y):
    converted, consts = jax.closure_convert(lambda z: z * y + jnp.sin(y), x)
    return converted(x, *consts)


@program(f32(3, 2), f32(2))
def custom_vmap(x, y):
    @jax.custom_batching.custom_vmap
    def inner(a, b):
        return jnp.sin(a) * b

    @inner.def_vmap
    def rule(axis_size, in_batched, a, b):
        return jnp.cos(a) * b, True

    return inner(x[0], y), jax.vmap(inner, (0, None))(x, y)


@program(f32(3))
def sequential_vmap(x):
    return jax.custom_batching.sequential_vmap(lambda a: jnp.sin(a) * 2)(x)


@program(f32(3), f32(3))
def linear_call(r, x):
    return jax.custom_derivatives.linear_call(
        lambda r, x: x * r, lambda r, t: t * r, r, x
    )


# ---- checkpointing -----------------------------------------------------------------

W1, W2, W3 = f32(4, 5), f32(5, 6), f32(6, 2)


def layer(w, x):
    return jnp.sin(w.T @ x)


def stack(w1, w2, w3, x):
    return jnp.sum(layer(w3, layer(w2, layer(w1, x))))


def names(w1, w2, w3, x):
    from jax.ad_checkpoint import checkpoint_name

    x = checkpoint_name(layer(w1, x), name="layer1_output")
    x = checkpoint_name(layer(w2, x), name="layer2_output")
    return jnp.sum(layer(w3, x))


STACK = (W1, W2, W3, f32(4))
policies = jax.checkpoint_policies
add("remat", jax.checkpoint(stack), *STACK)
add(
    "remat_nested",
    lambda w, v, u, x: jax.checkpoint(
        lambda y: jax.checkpoint(functools.partial(layer, u))(layer(v, y))
    )(layer(w, x)),
    *STACK,
)
add("remat_no_cse", jax.checkpoint(stack, prevent_cse=False), *STACK)
for _name in (
    "dots_saveable",
    "everything_saveable",
    "nothing_saveable",
    "checkpoint_dots_with_no_batch_dims",
):
    add(
        f"remat_{_name}", jax.checkpoint(stack, policy=getattr(policies, _name)), *STACK
    )
add(
    "remat_save_names",
    jax.checkpoint(names, policy=policies.save_only_these_names("layer1_output")),
    *STACK,
)
add(
    "remat_save_except",
    jax.checkpoint(
        names, policy=policies.save_anything_except_these_names("layer1_output")
    ),
    *STACK,
)
add(
    "remat_offload",
    jax.checkpoint(
        names,
        policy=policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["layer1_output"],
            names_which_can_be_offloaded=["layer2_output"],
            offload_src="device",
            offload_dst="pinned_host",
        ),
    ),
    *STACK,
)
add(
    "remat_both",
    jax.checkpoint(
        names,
        policy=policies.save_from_both_policies(
            policies.dots_saveable, policies.save_only_these_names("layer2_output")
        ),
    ),
    *STACK,
)
add(
    "remat_closure",
    lambda x, y: jax.checkpoint(lambda a: jnp.sin(a) * y)(x),
    f32(3),
    f32(3),
)
add(
    "remat_scan",
    lambda w, x: lax.scan(jax.checkpoint(lambda c, v: (jnp.tanh(v @ c), None)), x, w),
    f32(3, 4, 4),
    f32(4),
)

# ---- solvers -----------------------------------------------------------------------


@program(f32(3), 2.0)
def linear_solve_diagonal(b, scale):
    return lax.custom_linear_solve(
        lambda v: v * scale, b, lambda mv, r: r / scale, symmetric=True
    )


@program(spd(3), f32(3))
def linear_solve_transpose(a, b):
    return lax.custom_linear_solve(
        lambda v: a @ v,
        b,
        lambda mv, r: jnp.linalg.inv(a) @ r,
        lambda mv, r: jnp.linalg.inv(a).T @ r,
    )


@program(spd(3), f32(3))
def linear_solve_no_transpose(a, b):
    return lax.custom_linear_solve(
        lambda v: a @ v, b, lambda mv, r: jnp.linalg.solve(a, r)
    )


@program(spd(3), {"x": f32(3)})
def linear_solve_aux(a, b):
    return lax.custom_linear_solve(
        lambda v: {"x": a @ v["x"]},
        b,
        lambda mv, r: (r, jnp.sum(r["x"])),
        symmetric=True,
        has_aux=True,
    )


@program(2.0)
def custom_root(a):
    def solve(f, guess):
        return lax.fori_loop(0, 10, lambda i, x: x - f(x) / jax.grad(f)(x), guess)

    return lax.custom_root(lambda x: x**2 - a, 1.0, solve, lambda g, y: y / g(1.0))


add(
    "cg", lambda a, b: jax.scipy.sparse.linalg.cg(lambda v: a @ v, b)[0], spd(3), f32(3)
)
add(
    "gmres",
    lambda a, b: jax.scipy.sparse.linalg.gmres(lambda v: a @ v, b)[0],
    spd(3),
    f32(3),
)
add(
    "bicgstab",
    lambda a, b: jax.scipy.sparse.linalg.bicgstab(lambda v: a @ v, b)[0],
    spd(3),
    f32(3),
)
add(
    "minimize_bfgs",
    lambda x: (
        jax.scipy.optimize.minimize(lambda z: jnp.sum((z - 1) ** 2), x, method="BFGS").x
    ),
    f32(3),
)
for _name, _function in {
    "solve": lambda a, b: jnp.linalg.solve(a, b),
    "inv": lambda a, b: jnp.linalg.inv(a) @ b,
    "cholesky": lambda a, b: jnp.linalg.cholesky(a) @ b,
    "cho_solve": lambda a, b: jax.scipy.linalg.cho_solve(
        jax.scipy.linalg.cho_factor(a), b
    ),
    "lu": lambda a, b: jax.scipy.linalg.lu(a),
    "lu_solve": lambda a, b: jax.scipy.linalg.lu_solve(
        jax.scipy.linalg.lu_factor(a), b
    ),
    "qr": lambda a, b: jnp.linalg.qr(a),
    "svd": lambda a, b: jnp.linalg.svd(a, full_matrices=False),
    "svdvals": lambda a, b: jnp.linalg.svd(a, compute_uv=False),
    "eigh": lambda a, b: jnp.linalg.eigh(a),
    "eig": lambda a, b: jnp.linalg.eig(a),
    "det": lambda a, b: jnp.linalg.det(a),
    "slogdet": lambda a, b: jnp.linalg.slogdet(a),
    "norm": lambda a, b: (
        jnp.linalg.norm(a),
        jnp.linalg.norm(b, ord=1),
        jnp.linalg.norm(a, ord="nuc"),
    ),
    "lstsq": lambda a, b: jnp.linalg.lstsq(a, b)[0],
    "pinv": lambda a, b: jnp.linalg.pinv(a) @ b,
    "matrix_power": lambda a, b: jnp.linalg.matrix_power(a, 3),
    "matrix_rank": lambda a, b: jnp.linalg.matrix_rank(a),
    "expm": lambda a, b: jax.scipy.linalg.expm(a / 10),
    "sqrtm": lambda a, b: jax.scipy.linalg.sqrtm(a),
    "schur": lambda a, b: jax.scipy.linalg.schur(a),
    "solve_triangular": lambda a, b: jax.scipy.linalg.solve_triangular(
        a, b, lower=True, trans="T"
    ),
    "triangular_solve": lambda a, b: lax.linalg.triangular_solve(
        a, b[:, None], left_side=True, unit_diagonal=True
    ),
    "tridiagonal": lambda a, b: lax.linalg.tridiagonal_solve(b, b + 3, b, b[:, None]),
    "hessenberg": lambda a, b: jax.scipy.linalg.hessenberg(a),
    "polar": lambda a, b: jax.scipy.linalg.polar(a, method="svd"),
    "toeplitz": lambda a, b: jax.scipy.linalg.toeplitz(b),
    "block_diag": lambda a, b: jax.scipy.linalg.block_diag(a, a),
    "batched_solve": lambda a, b: jnp.linalg.solve(
        jnp.stack([a, 2 * a]), jnp.stack([b, b])[..., None]
    ),
    "cross": lambda a, b: jnp.cross(b, b[::-1]),
    "multi_dot": lambda a, b: jnp.linalg.multi_dot([a, a, b]),
}.items():
    add(f"linalg_{_name}", _function, spd(3), f32(3))


def rk4_step(f, y, t, dt):
    k1 = f(y, t)
    k2 = f(y + dt * k1 / 2, t + dt / 2)
    k3 = f(y + dt * k2 / 2, t + dt / 2)
    k4 = f(y + dt * k3, t + dt)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


@program(f32(2), 1.5)
def ode_rk4(y0, mu):
    def f(y, t):
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    return lax.scan(lambda y, t: (rk4_step(f, y, t, 0.1), y), y0, jnp.arange(5) * 0.1)


@program(f32(2), np.linspace(0.0, 1.0, 3, dtype=np.float32), 1.0)
def ode_odeint(y0, times, mu):
    from jax.experimental.ode import odeint

    return odeint(lambda y, t, m: jnp.stack([y[1], -m * y[0]]), y0, times, mu)


add(
    "ode_symplectic",
    lambda q, p: lax.fori_loop(
        0,
        5,
        lambda i, s: (
            s[0] + 0.1 * s[1],
            s[1] - 0.1 * jax.grad(lambda z: jnp.sum(jnp.cos(z)))(s[0] + 0.1 * s[1]),
        ),
        (q, p),
    ),
    f32(2),
    f32(2),
)
add(
    "ode_jvp_flow",
    lambda x: jax.jvp(
        lambda z: lax.fori_loop(0, 3, lambda i, y: y + 0.1 * jnp.sin(y), z), (x,), (x,)
    ),
    positive(2),
)
