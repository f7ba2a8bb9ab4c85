"""Whole models: normalizing flows, steps of integrators, flows of libraries."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import check_log_det, check_round_trip, vector


def weights(seed: int, *shape: int, scale: float = 0.5) -> Any:
    return scale * jax.random.normal(jax.random.key(seed), shape)


def network(params: Any, x: Any) -> Any:
    for w, b in params[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def layers(seed: int, *sizes: int) -> Any:
    return [
        (weights(seed + i, n, m), weights(seed + i + 50, m))
        for i, (n, m) in enumerate(itertools.pairwise(sizes))
    ]


# ---- RealNVP -----------------------------------------------------------------------


def by_halves(params: Any, x: Any) -> Any:
    for i, layer in enumerate(params):
        a, b = (x[:3], x[3:]) if i % 2 == 0 else (x[3:], x[:3])
        shift, log_scale = jnp.split(network(layer, a), 2)
        b = b * jnp.exp(jnp.tanh(log_scale)) + shift
        x = jnp.concatenate([a, b] if i % 2 == 0 else [b, a])
    return x


def by_masks(params: Any, x: Any) -> Any:
    for i, layer in enumerate(params):
        mask = (jnp.arange(6) + i) % 2
        kept = x * mask
        shift, log_scale = jnp.split(network(layer, kept), 2)
        x = kept + (1 - mask) * (x * jnp.exp(jnp.tanh(log_scale)) + shift)
    return x


def by_updates(params: Any, x: Any) -> Any:
    for layer in params:
        shift, log_scale = jnp.split(network(layer, x[::2]), 2)
        x = x.at[1::2].multiply(jnp.exp(log_scale)).at[1::2].add(shift)[::-1]
    return x


@pytest.mark.parametrize(
    ("flow", "n"), [(by_halves, 3), (by_masks, 6), (by_updates, 3)]
)
def test_real_nvp(flow: Any, n: int) -> None:
    params = [layers(10 * i, n, 8, 2 * n) for i in range(4)]
    x = vector()
    f = lambda x: flow(params, x)
    check_log_det(f, x)
    inverted = untrace.inverse_and_log_det(flow, argnums=1)
    rows = jnp.stack([x, 2 * x, -x])
    ys = jax.vmap(f)(rows)

    def log_prob(params: Any, y: Any) -> Any:
        x, log_det = inverted(y, params)
        return -0.5 * (x**2).sum() + log_det

    gradient = jax.jit(jax.vmap(jax.grad(log_prob), (None, 0)))(params, ys)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    found, log_dets = jax.jit(jax.vmap(inverted, (0, None)))(ys, params)
    np.testing.assert_allclose(found, rows, rtol=1e-3, atol=1e-4)
    matrices = jax.vmap(jax.jacobian(f))(rows)
    wanted = -jnp.linalg.slogdet(matrices)[1]
    np.testing.assert_allclose(log_dets, wanted, rtol=1e-4, atol=1e-4)


def test_density_of_a_flow_has_the_right_gradient() -> None:
    params = [layers(10 * i, 3, 8, 6) for i in range(2)]
    y = by_halves(params, vector())

    def log_det(params: Any) -> Any:
        return untrace.inverse_and_log_det(by_halves, argnums=1)(y, params)[1]

    direction = jax.tree.map(jnp.ones_like, params)
    made = jax.jvp(log_det, (params,), (direction,))[1]
    moved = lambda t: log_det(jax.tree.map(lambda p: p + t, params))
    by_differences = (moved(1e-2) - moved(-1e-2)) / 2e-2
    np.testing.assert_allclose(made, by_differences, rtol=1e-2)


# ---- Glow --------------------------------------------------------------------------


def glow_step(params: Any, x: Any) -> Any:
    x = (x + params["bias"]) * jnp.exp(params["log_scale"])  # actnorm
    x = jnp.einsum("hwc,dc->hwd", x, params["mix"])  # 1x1 convolution
    a, b = jnp.split(x, 2, axis=-1)
    shift, log_scale = jnp.split(network(params["net"], a), 2, axis=-1)
    b = (b + shift) * jax.nn.sigmoid(log_scale + 2)
    return jnp.concatenate([a, b], axis=-1)


def glow(params: Any, x: Any) -> Any:
    h, w, c = x.shape
    x = x.reshape(h // 2, 2, w // 2, 2, c).transpose(0, 2, 1, 3, 4)  # squeeze
    x = x.reshape(h // 2, w // 2, 4 * c)
    kept: list[Any] = []
    for level in params:
        for step in level:
            x = glow_step(step, x)
        x, out = jnp.split(x, 2, axis=-1)
        kept.append(out)
    return x, kept


def test_glow() -> None:
    def step(seed: int, n: int) -> Any:
        return {
            "bias": weights(seed, n),
            "log_scale": weights(seed + 1, n),
            "mix": weights(seed + 2, n, n) + 2 * jnp.eye(n),
            "net": layers(seed + 3, n // 2, 8, n),
        }

    params = [[step(0, 8), step(5, 8)], [step(20, 4), step(30, 4)]]
    x = weights(99, 4, 4, 2)
    check_log_det(lambda x: glow(params, x), x)


# ---- splines, autoregressive flows -------------------------------------------------


def spline_parts(params: Any) -> Any:
    """Knots and slopes of a monotone rational-quadratic spline (Durkan et al. 2019)."""
    widths = jax.nn.softmax(params[0]) * 6
    heights = jax.nn.softmax(params[1]) * 6
    xs = jnp.concatenate([jnp.zeros(1), jnp.cumsum(widths)]) - 3
    ys = jnp.concatenate([jnp.zeros(1), jnp.cumsum(heights)]) - 3
    return xs, ys, jax.nn.softplus(params[2])


@jax.jit
def spline(x: Any, params: Any) -> Any:
    xs, ys, slopes = spline_parts(params)
    k = jnp.clip(jnp.searchsorted(xs, x) - 1, 0, len(xs) - 2)
    width, height = xs[k + 1] - xs[k], ys[k + 1] - ys[k]
    steep, t = height / width, (x - xs[k]) / width
    above = height * (steep * t**2 + slopes[k] * t * (1 - t))
    below = steep + (slopes[k + 1] + slopes[k] - 2 * steep) * t * (1 - t)
    return ys[k] + above / below


def spline_inverse(y: Any, params: Any) -> Any:
    xs, ys, slopes = spline_parts(params)
    k = jnp.clip(jnp.searchsorted(ys, y) - 1, 0, len(ys) - 2)
    width, height = xs[k + 1] - xs[k], ys[k + 1] - ys[k]
    steep = height / width
    bend = slopes[k + 1] + slopes[k] - 2 * steep
    a = height * (steep - slopes[k]) + (y - ys[k]) * bend
    b = height * slopes[k] - (y - ys[k]) * bend
    c = -steep * (y - ys[k])
    return xs[k] + width * 2 * c / (-b - jnp.sqrt(b**2 - 4 * a * c))


def spline_log_det(x: Any, y: Any, params: Any) -> Any:
    slope = jax.vmap(jax.grad(spline_inverse), (0, None))(y, params)
    return jnp.log(slope).sum()


def test_rational_quadratic_splines_are_registered_and_used_in_couplings() -> None:
    params = weights(7, 3, 8)
    untrace.register_inverse(spline, spline_inverse, log_det=spline_log_det)

    def flow(x: Any) -> Any:
        a, b = jnp.split(x, 2)
        b = spline(b, params + a.sum() * 0.1)
        a, b = b, a
        return jnp.concatenate([a, spline(b, params * jnp.cos(a).sum())])

    check_log_det(lambda x: spline(x, params), vector())
    check_log_det(flow, vector())


def test_masked_autoregressive_flow_is_solved_as_a_loop() -> None:
    w = jnp.tril(weights(3, 6, 6), -1)

    def flow(x: Any) -> Any:
        """Each element is transformed by those before it."""

        def turn(seen: Any, row: Any) -> Any:
            i, value = row
            context = w[i] @ seen
            y = value * jnp.exp(jnp.tanh(context)) + jnp.sin(context)
            return seen.at[i].set(value), y

        return jax.lax.scan(turn, jnp.zeros(6), (jnp.arange(6), x))[1]

    check_log_det(flow, vector())


def test_products_with_masks_are_solved_element_by_element() -> None:
    mask = np.tril(np.ones((6, 6), np.float32), -1)

    def flow(x: Any, w: Any) -> Any:
        hidden = jnp.tanh((w * (mask + np.eye(6, dtype=np.float32))) @ x)
        context = (w.T * mask) @ hidden
        return x * jnp.exp(context) + jnp.sin(context)

    w = weights(3, 6, 6)
    check_log_det(lambda x: flow(x, jnp.asarray(w)), vector())
    running = lambda x: x * jnp.exp(jnp.cumsum(jnp.concatenate([jnp.zeros(1), x[:-1]])))
    check_log_det(running, vector())


# ---- integrators -------------------------------------------------------------------


def potential(q: Any) -> Any:
    return (jnp.cos(q) + 0.1 * q**4).sum() + q[0] * q[1]


def leapfrog(q: Any, p: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        q, p = state
        p = p - 0.05 * jax.grad(potential)(q)
        q = q + 0.1 * p
        p = p - 0.05 * jax.grad(potential)(q)
        return (q, p), None

    return jax.lax.scan(step, (q, p), None, length=20)[0]


def symplectic_euler(q: Any, p: Any) -> Any:
    for _ in range(5):
        p = p - 0.1 * jax.grad(potential)(q)
        q = q + 0.1 * p
    return q, p


@pytest.mark.parametrize("f", [leapfrog, symplectic_euler])
def test_integrators_are_reversible_and_keep_volumes(f: Any) -> None:
    q, p = vector(), vector(seed=1)
    (q_found, p_found), log_det = untrace.inverse_and_log_det(f)(*f(q, p))
    np.testing.assert_allclose(q_found, q, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(p_found, p, rtol=1e-3, atol=1e-4)
    assert log_det == 0


def test_adam_like_update_is_undone_given_its_gradient() -> None:
    def update(state: Any, gradient: Any) -> Any:
        m, v, x = state["m"], state["v"], state["x"]
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient**2
        return {"m": m, "v": v, "x": x - 0.1 * m / (jnp.sqrt(v) + 1e-8)}

    state = {"m": vector(), "v": vector(seed=1) ** 2, "x": vector(seed=2)}
    made = update(state, vector(seed=3))
    found = untrace.inverse(update, argnums=0)(made, vector(seed=3))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3),
        found,
        state,
    )


# ---- libraries ---------------------------------------------------------------------


def against(forward: Any, x: Any, log_det: Any, **options: Any) -> None:
    """Compare with log |det| as the library has it."""
    inverted = untrace.inverse_and_log_det(forward, x, **options)
    found, made = inverted(forward(x))
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(made, log_det, rtol=1e-4, atol=1e-4)


def test_bijectors_of_distrax() -> None:
    distrax = pytest.importorskip("distrax")
    params = layers(5, 3, 8, 6)

    def conditioner(x: Any) -> Any:
        return network(params, x[..., ::2])

    coupling = distrax.MaskedCoupling(
        mask=jnp.arange(6) % 2 == 0,
        conditioner=conditioner,
        bijector=lambda p: distrax.ScalarAffine(
            jnp.repeat(p[:3], 2), log_scale=jnp.repeat(jnp.tanh(p[3:]), 2)
        ),
    )
    split = distrax.SplitCoupling(
        split_index=3,
        event_ndims=1,
        conditioner=lambda x: network(params, x),
        bijector=lambda p: distrax.ScalarAffine(p[:3], log_scale=p[3:]),
    )
    for bijector in (coupling, split, distrax.Chain([split, coupling])):
        x = vector()
        y, log_det = bijector.forward_and_log_det(x)
        del y
        against(bijector.forward, x, -log_det)
    for bijector in (distrax.Tanh(), distrax.ScalarAffine(1.0, 2.0)):
        _, log_det = bijector.forward_and_log_det(vector())
        against(bijector.forward, vector(), -log_det.sum())


def test_splines_of_distrax_are_registered() -> None:
    distrax = pytest.importorskip("distrax")
    params = weights(3, 6, 13)

    @jax.jit
    def spline(x: Any, params: Any) -> Any:
        return distrax.RationalQuadraticSpline(params, -3.0, 3.0).forward(x)

    def back(y: Any, params: Any) -> Any:
        return distrax.RationalQuadraticSpline(params, -3.0, 3.0).inverse(y)

    def log_det(x: Any, y: Any, params: Any) -> Any:
        made = distrax.RationalQuadraticSpline(params, -3.0, 3.0)
        return made.inverse_log_det_jacobian(y).sum()

    untrace.register_inverse(spline, back, log_det=log_det)
    x = vector()
    made = distrax.RationalQuadraticSpline(params, -3.0, 3.0)
    wanted = made.forward_log_det_jacobian(x).sum()
    against(lambda x: spline(x, params), x, -wanted)


def test_splines_of_distrax_and_flowjax_need_no_registration() -> None:
    distrax = pytest.importorskip("distrax")
    x = jnp.concatenate([vector(), jnp.array([-4.0, 3.5])])
    for shape in ((13,), (8, 13)):
        params = weights(2, *shape)
        made = distrax.RationalQuadraticSpline(params, -3.0, 3.0)
        against(made.forward, x, -made.forward_log_det_jacobian(x).sum())
    pytest.importorskip("flowjax")
    import paramax
    from flowjax import bijections as b

    spline = paramax.unwrap(b.RationalQuadraticSpline(knots=5, interval=3))
    _, log_det = jax.vmap(spline.transform_and_log_det)(x)
    against(jax.vmap(spline.transform), x, -log_det.sum())


def test_transforms_of_numpyro() -> None:
    pytest.importorskip("numpyro")
    from numpyro.distributions import transforms as t

    x = vector()
    cases = [
        t.AffineTransform(1.0, 3.0),
        t.ExpTransform(),
        t.SoftplusTransform(),
        t.LowerCholeskyAffine(x, jnp.tril(weights(2, 6, 6)) + jnp.eye(6)),
        t.PermuteTransform(jnp.array([3, 1, 2, 0, 5, 4])),
        t.OrderedTransform(),
        t.SigmoidTransform(),  # it clips what rounding makes 0 or 1
        t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(1.0, 2.0)]),
        t.ReshapeTransform((2, 3), (6,)),
        t.IndependentTransform(t.SoftplusTransform(), 1),
        t.ComposeTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)]),
        t.DiscreteCosineTransform(),
        t.HaarTransform(),
    ]
    for transform in cases:
        log_det = jnp.sum(transform.log_abs_det_jacobian(x, transform(x)))
        against(transform, x, -log_det)


def test_recursive_transform_of_numpyro() -> None:
    pytest.importorskip("numpyro")
    from numpyro.distributions import transforms as t

    rows = vector().reshape(3, 2)
    against(t.RecursiveLinearTransform(0.5 * jnp.eye(2)), rows, 0.0)


def test_transforms_of_numpyro_to_fewer_dimensions() -> None:
    """These have no determinant: their results are points of a surface."""
    pytest.importorskip("numpyro")
    from numpyro.distributions import transforms as t

    x = vector()
    cases = [
        (t.StickBreakingTransform(), x),
        (t.CorrCholeskyTransform(), x),
        (t.LowerCholeskyTransform(), x),
        (t.SoftplusLowerCholeskyTransform(), x),
        (t.ScaledUnitLowerCholeskyTransform(), x),
        (t.RealFastFourierTransform((6,)), x),
        (t.ZeroSumTransform(1), x),
    ]
    for transform, x in cases:
        check_round_trip(transform, x)


def test_inverse_autoregressive_flow_of_numpyro() -> None:
    """Zeros in its matrices say which elements depend on which: one after the other."""
    pytest.importorskip("numpyro")
    from numpyro.distributions.flows import InverseAutoregressiveTransform
    from numpyro.nn import AutoregressiveNN

    init, apply = AutoregressiveNN(6, [8])
    _, params = init(jax.random.key(0), (6,))
    x = vector()
    flow = InverseAutoregressiveTransform(lambda x: apply(params, x))
    log_det = flow.log_abs_det_jacobian(x, flow(x))
    against(flow, x, -log_det, principal=True)
    given = untrace.inverse_and_log_det(
        lambda params, x: InverseAutoregressiveTransform(lambda x: apply(params, x))(x),
        argnums=1,
        principal=True,
    )
    found, made = jax.jit(given)(flow(x), params)
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(made, -log_det, rtol=1e-4, atol=1e-4)


def test_bijections_of_flowjax() -> None:
    pytest.importorskip("flowjax")
    from flowjax import bijections as b

    x, key = vector(), jax.random.key(0)
    cases = [
        b.Affine(x, jnp.exp(x)),
        b.Tanh((6,)),
        b.TriangularAffine(x, jnp.tril(weights(2, 6, 6)) + 2 * jnp.eye(6)),
        b.Permute(jnp.array([3, 1, 2, 0, 5, 4])),
        b.Flip((6,)),
        b.Coupling(
            key,
            transformer=b.Affine(),
            untransformed_dim=3,
            dim=6,
            nn_width=8,
            nn_depth=1,
        ),
    ]
    for bijection in cases:
        _, log_det = bijection.transform_and_log_det(x)
        against(bijection.transform, x, -log_det)
    check_round_trip(b.Chain([cases[0], *cases[2:]]).transform, x, atol=1e-3)
