"""Root finding, linear solves, quadrature and interpolation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def spd_matrix(n: int, seed: int) -> Any:
    """Return a symmetric matrix of positive eigenvalues."""
    factor = jax.random.normal(jax.random.key(seed), (n, n))
    return factor @ factor.T / n + jnp.eye(n)


def rosenbrock(x: Any, args: Any) -> Any:
    """Return the residuals of Rosenbrock's valley, coupled."""
    a, b = args
    return jnp.concatenate([b * (x[1:] - x[:-1] ** 2), a - x[:-1]])


@case("optimistix", "least-squares", "while", shows="A fit by Levenberg and Marquardt.")
def levenberg_marquardt_fit() -> Call:
    import optimistix as optx

    def model(params: Any, data: Any) -> Any:
        x, y = data
        return params["a"] * jnp.exp(-params["rate"] * x) + params["shift"] - y

    def fit(params: Any, x: Any, y: Any) -> Any:
        solver = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6)
        return optx.least_squares(model, solver, params, args=(x, y)).value

    x = jnp.linspace(0.0, 4.0, 30)
    y = 2.5 * jnp.exp(-1.3 * x) + 0.5
    start = {name: jnp.array(1.0) for name in ("a", "rate", "shift")}
    return call(fit, start, x, y)


@case(
    "optimistix", "root", "implicit", "gradient", shows="Implicit gradient of a root."
)
def implicit_gradient_of_newton() -> Call:
    import optimistix as optx

    def equations(y: Any, k: Any) -> Any:
        a, b = y
        return jnp.tanh(a * b) - 0.3 * k, jnp.exp(a) + b**2 - 2.0 * k

    def root(k: Any) -> Any:
        solver = optx.Newton(rtol=1e-5, atol=1e-5)
        solution = optx.root_find(
            equations, solver, (jnp.array(0.2), jnp.array(1.0)), args=k, throw=False
        )
        return solution.value[0] * solution.value[1]

    return call(jax.value_and_grad(root), jnp.array(1.1))


@case("optimistix", "minimise", "while", "x64", x64=True, shows="BFGS in the valley.")
def bfgs_rosenbrock() -> Call:
    import optimistix as optx

    def minimum(x: Any, args: Any) -> Any:
        solution = optx.minimise(
            lambda y, args: jnp.sum(rosenbrock(y, args) ** 2),
            optx.BFGS(rtol=1e-8, atol=1e-8),
            x,
            args=args,
            max_steps=500,
            throw=False,
        )
        return solution.value, solution.stats["num_steps"]

    return call(minimum, jnp.full(6, -0.7), (1.0, 10.0))


@case(
    "optimistix", "root", "batched", shows="Kepler's equation, a batch, by bisection."
)
def kepler_bisection_batched() -> Call:
    import optimistix as optx

    def kepler(e: Any, args: Any) -> Any:
        mean_anomaly, eccentricity = args
        return e - eccentricity * jnp.sin(e) - mean_anomaly

    def solve(mean_anomaly: Any, eccentricity: Any) -> Any:
        return optx.root_find(
            kepler,
            optx.Bisection(rtol=1e-4, atol=1e-4),
            mean_anomaly,
            args=(mean_anomaly, eccentricity),
            options={"lower": -1.0, "upper": 7.5},
        ).value

    batched = jax.vmap(solve, in_axes=(0, None))
    return call(batched, jnp.linspace(0.1, 6.0, 12), jnp.array(0.4))


@case("optimistix", "fixed-point", shows="A fixed point of an affine contraction.")
def fixed_point_of_tanh() -> Call:
    import optimistix as optx

    def solve(y: Any, weights: Any) -> Any:
        solver = optx.FixedPointIteration(rtol=1e-5, atol=1e-6)
        return optx.fixed_point(lambda y, w: jnp.tanh(w @ y + 0.1), solver, y, weights)

    def value(y: Any, weights: Any) -> Any:
        return solve(y, weights).value

    weights = 0.2 * jax.random.normal(jax.random.key(0), (5, 5))
    return call(value, jnp.zeros(5), weights)


@case("optimistix", "minimise", "derivative-free", "sort", shows="Nelder and Mead.")
def nelder_mead() -> Call:
    import optimistix as optx

    def minimum(x: Any) -> Any:
        solver = optx.NelderMead(rtol=1e-3, atol=1e-3)
        args = (1.0, 3.0)
        return optx.minimise(
            lambda y, args: jnp.sum(rosenbrock(y, args) ** 2), solver, x, args
        ).value

    return call(minimum, jnp.array([-0.5, 0.8]))


@case("lineax", "linear-solve", "dense", "gradient", shows="Gradient of a dense solve.")
def gradient_of_dense_solve() -> Call:
    import lineax as lx

    def loss(matrix: Any, b: Any) -> Any:
        return jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(matrix), b).value ** 2)

    return call(jax.grad(loss, argnums=(0, 1)), spd_matrix(6, 1), jnp.arange(6.0))


@case("lineax", "linear-solve", "matrix-free", "while", shows="CG on a Jacobian.")
def conjugate_gradients_of_jacobian() -> Call:
    import lineax as lx

    def stretch(y: Any, args: Any) -> Any:
        return {
            "u": 3.0 * y["u"] + jnp.sum(y["v"]),
            "v": 2.0 * y["v"] + jnp.sum(y["u"]),
        }

    def solve(b: Any) -> Any:
        operator = lx.JacobianLinearOperator(
            stretch, b, tags=lx.positive_semidefinite_tag
        )
        return lx.linear_solve(operator, b, solver=lx.CG(rtol=1e-6, atol=1e-6)).value

    return call(solve, {"u": jnp.arange(3.0), "v": jnp.ones(2)})


@case(
    "lineax", "linear-solve", "least-squares", "batched", shows="QR of tall matrices."
)
def batched_qr_least_squares() -> Call:
    import lineax as lx

    def fit(matrix: Any, b: Any) -> Any:
        return lx.linear_solve(lx.MatrixLinearOperator(matrix), b, solver=lx.QR()).value

    matrices = jax.random.normal(jax.random.key(2), (4, 7, 3))
    return call(jax.vmap(fit), matrices, jnp.ones((4, 7)))


@case("lineax", "linear-solve", "tridiagonal", "scan", shows="An implicit heat step.")
def tridiagonal_heat_steps() -> Call:
    import lineax as lx

    def steps(u: Any, diffusivity: Any) -> Any:
        diagonal = jnp.full(u.shape, 1.0 + 2.0 * diffusivity)
        side = jnp.full(u.shape[0] - 1, -diffusivity)
        operator = lx.TridiagonalLinearOperator(diagonal, side, side)

        def step(u: Any, _: None) -> Any:
            u = lx.linear_solve(operator, u, solver=lx.Tridiagonal()).value
            return u, jnp.max(u)

        return jax.lax.scan(step, u, None, length=10)

    return call(steps, jnp.zeros(20).at[10].set(1.0), jnp.array(0.4))


@case("lineax", "linear-solve", "gmres", "matrix-free", shows="GMRES with a start.")
def gmres_with_preconditioner() -> Call:
    import lineax as lx

    def solve(scale: Any, b: Any) -> Any:
        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
        operator = lx.FunctionLinearOperator(
            lambda x: scale * x + 0.1 * jnp.roll(x, 1) - 0.2 * jnp.roll(x, 2), shape
        )
        preconditioner = lx.DiagonalLinearOperator(1.0 / scale)
        return lx.linear_solve(
            operator,
            b,
            solver=lx.GMRES(rtol=1e-5, atol=1e-5, restart=10),
            options={"preconditioner": preconditioner, "y0": b},
        ).value

    return call(solve, jnp.linspace(1.0, 3.0, 16), jnp.sin(jnp.arange(16.0)))


@case(
    "quadax",
    "quadrature",
    "while",
    shows="Adaptive Gauss and Kronrod over a half line.",
)
def adaptive_gauss_kronrod() -> Call:
    import quadax

    def integral(rate: Any) -> Any:
        def integrand(t: Any, rate: Any) -> Any:
            return jnp.exp(-rate * t) * jnp.sin(t) ** 2

        return quadax.quadgk(integrand, [0.0, jnp.inf], args=(rate,))

    return call(integral, jnp.array(0.7))


@case(
    "quadax",
    "quadrature",
    "gradient",
    "fixed",
    shows="A gradient through a fixed rule.",
)
def gradient_of_fixed_rule() -> Call:
    import quadax

    def integral(a: Any) -> Any:
        rule = quadax.ClenshawCurtisRule(order=16)
        value, *_ = rule.integrate(lambda x, a: jnp.log1p(a * x**2), 0.0, 1.0, (a,))
        return value

    return call(jax.value_and_grad(integral), jnp.array(2.0))


@case(
    "quadax", "quadrature", "while", shows="Romberg's table of a vector of integrands."
)
def romberg_vector() -> Call:
    import quadax

    def integral(powers: Any) -> Any:
        value, status = quadax.romberg(
            lambda x: jnp.cos(x) * x**powers, jnp.array([0.0, 2.0]), divmax=8
        )
        return value, status.err

    return call(integral, jnp.array([1.0, 2.0, 3.0]))


@case("quadax", "quadrature", "samples", shows="Integrals of sampled curves.")
def integrals_of_samples() -> Call:
    import quadax

    def integrals(x: Any, y: Any) -> Any:
        return (
            quadax.simpson(y, x=x, axis=0),
            quadax.cumulative_simpson(y, x=x, axis=0, initial=0.0),
            quadax.cumulative_trapezoid(y, x=x, axis=0),
        )

    x = jnp.linspace(0.0, 3.0, 21)
    return call(integrals, x, jnp.stack([x**2, jnp.exp(-x)], axis=1))


@case("interpax", "interpolation", "gather", shows="A cubic spline at many points.")
def cubic_spline_values() -> Call:
    import interpax

    def values(xq: Any, x: Any, f: Any) -> Any:
        spline = interpax.CubicSpline(x, f, bc_type="natural", check=False)
        return spline(xq), spline(xq, nu=1), spline.integrate(x[0], x[-1])

    x = jnp.linspace(0.0, 5.0, 12)
    return call(values, jnp.linspace(0.2, 4.8, 33), x, jnp.sin(x))


@case("interpax", "interpolation", "gradient", "2d", shows="Gradient on a table.")
def gradient_of_bicubic_table() -> Call:
    import interpax

    x = jnp.linspace(0.0, 1.0, 8)
    y = jnp.linspace(0.0, 2.0, 9)

    def height(xq: Any, yq: Any, table: Any) -> Any:
        values = interpax.interp2d(xq, yq, x, y, table, method="cubic2", extrap=True)
        return jnp.sum(values)

    table = jnp.sin(3 * x)[:, None] * jnp.cos(y)[None, :]
    xq = jnp.linspace(0.1, 0.9, 7)
    return call(jax.grad(height, argnums=(0, 1, 2)), xq, 2 * xq, table)


@case(
    "interpax", "interpolation", "periodic", "filtered", shows="An interpolator object."
)
def periodic_interpolator_object() -> Call:
    import interpax

    theta = jnp.linspace(0.0, 6.0, 10)
    curve = interpax.Interpolator1D(theta, jnp.cos(theta), method="cubic", period=6.5)

    def evaluate(curve: Any, query: Any) -> Any:
        return curve(query), curve(query, dx=1)

    return call(evaluate, curve, jnp.linspace(-5.0, 12.0, 25))


@case("interpax", "interpolation", "fft", shows="Resampling by Fourier, on two axes.")
def fourier_resampling() -> Call:
    import interpax

    def resample(f: Any) -> Any:
        return interpax.fft_interp2d(f, 24, 18), interpax.fft_interp1d(f, 32)

    grid = jnp.linspace(0.0, 6.283, 12, endpoint=False)
    return call(resample, jnp.cos(grid)[:, None] + jnp.sin(2 * grid)[None, :])
