"""Matrix-free linear algebra, probabilistic solvers, linear control and diffusions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def kernel_matrix(n: int) -> Any:
    """Return a smooth positive definite matrix."""
    x = jnp.linspace(0.0, 3.0, n)
    return jnp.exp(-0.5 * (x[:, None] - x[None, :]) ** 2) + 0.1 * jnp.eye(n)


@case("matfree", "matrix-free", "random", "lanczos", shows="A log determinant.")
def lanczos_log_determinant() -> Call:
    from matfree import decomp, funm, stochtrace

    integrand = funm.monte_carlo_funm_sym_logdet(decomp.tridiag_sym(4))
    sampler = stochtrace.sampler_signs(jnp.zeros(12), num=10)
    estimate = stochtrace.estimator_monte_carlo(integrand, sampler)

    def log_determinant(matrix: Any, key: Any) -> Any:
        return estimate(lambda v, m: m @ v, key, matrix)

    return call(
        jax.value_and_grad(log_determinant), kernel_matrix(12), jax.random.key(0)
    )


@case("matfree", "matrix-free", "random", "batched", shows="Traces and diagonals.")
def stochastic_trace_and_diagonal() -> Call:
    from matfree import stochtrace

    sampler = stochtrace.sampler_normal(jnp.zeros(8), num=32)
    estimate = stochtrace.estimator_monte_carlo(
        stochtrace.monte_carlo_trace_and_diagonal(), sampler
    )

    def trace(matrix: Any, keys: Any) -> Any:
        return jax.lax.map(lambda key: estimate(lambda v: matrix @ v, key), keys)

    return call(trace, kernel_matrix(8), jax.random.split(jax.random.key(1), 3))


@case("matfree", "matrix-free", "eigenvalues", "scan", shows="A partial eigensystem.")
def partial_eigensystem() -> Call:
    from matfree import decomp, eig

    eigh = eig.eigh_partial(decomp.tridiag_sym(5))

    def solve(matrix: Any, start: Any) -> Any:
        return eigh(lambda v: matrix @ v, start)

    return call(solve, kernel_matrix(14), jnp.ones(14))


@case(
    "matfree", "matrix-free", "least-squares", "while", shows="LSMR and its gradient."
)
def lsmr_gradient() -> Call:
    from matfree import lstsq

    solver = lstsq.lsmr(maxiter=20)

    def loss(matrix: Any, b: Any) -> Any:
        x, _ = solver(lambda v, m: v @ m, b, matrix)
        return jnp.sum(x**2)

    matrix = jax.random.normal(jax.random.key(2), (9, 4))
    return call(jax.grad(loss), matrix, jnp.arange(9.0))


@case("matfree", "matrix-free", "cholesky", "pivot", shows="A preconditioner, pivoted.")
def pivoted_preconditioner() -> Call:
    from matfree import low_rank

    def solve(matrix: Any, v: Any) -> Any:
        cholesky = low_rank.cholesky_partial_pivot(
            lambda i, j: matrix[i, j], nrows=10, rank=4
        )
        return low_rank.preconditioner(cholesky)(v, 0.1)

    return call(solve, kernel_matrix(10), jnp.ones(10))


@case("traceax", "matrix-free", "random", "qr", shows="Hutch++ on a matrix.")
def hutch_plus_plus() -> Call:
    import lineax as lx
    import traceax as tx

    def trace(key: Any, matrix: Any) -> Any:
        operator = lx.MatrixLinearOperator(matrix)
        return tx.HutchPlusPlusEstimator().estimate(key, operator, 9)

    return call(trace, jax.random.key(3), kernel_matrix(15))


@case("traceax", "matrix-free", "gradient", "random", shows="XTrace and its gradient.")
def gradient_of_xtrace() -> Call:
    import lineax as lx
    import traceax as tx

    def trace(matrix: Any, key: Any) -> Any:
        operator = lx.MatrixLinearOperator(matrix @ matrix.T)
        estimate, _ = tx.XTraceEstimator().estimate(key, operator, 6)
        return estimate

    return call(jax.value_and_grad(trace), kernel_matrix(10), jax.random.key(4))


@case(
    "probdiffeq", "ode", "filter", "while", "qr", x64=True, shows="Adaptive filtering."
)
def adaptive_terminal_values() -> Call:
    from probdiffeq import ivpsolve, probdiffeq

    @probdiffeq.ode
    def logistic(u: Any, /, *, t: Any) -> Any:
        return 2.0 * u * (1.0 - u)

    def solve(u0: Any) -> Any:
        expand = probdiffeq.jetexpand_ode_padded_scan(num=3)
        coefficients, _ = expand(logistic, [u0], t=0.0)
        ssm = probdiffeq.state_space_model_dense()
        constraint = ssm.constraint_ode_ts1(logistic)
        solver = probdiffeq.solver_mle(
            strategy=probdiffeq.strategy_filter(), constraint=constraint
        )
        solve_adaptive = ivpsolve.solve_adaptive_terminal_values(
            solver=solver, error=probdiffeq.error_residual_std(constraint=constraint)
        )
        prior = ssm.prior_wiener_integrated(coefficients)
        solution = solve_adaptive(prior, t0=0.0, t1=1.0, atol=1e-3, rtol=1e-3)
        return solution.u.mean[0], solution.u.std[0]

    return call(solve, jnp.array([0.1, 0.3]))


@case("probdiffeq", "ode", "smoother", "scan", "gradient", shows="A grid's smoother.")
def fixed_grid_gradient() -> Call:
    from probdiffeq import ivpsolve, probdiffeq

    def loss(rate: Any, u0: Any) -> Any:
        @probdiffeq.ode
        def decay(u: Any, /, *, t: Any) -> Any:
            return -rate * u + 0.1 * jnp.sin(u)

        expand = probdiffeq.jetexpand_ode_unroll(num=2)
        coefficients, _ = expand(decay, [u0], t=0.0)
        ssm = probdiffeq.state_space_model_isotropic()
        solver = probdiffeq.solver(
            strategy=probdiffeq.strategy_smoother_fixedinterval(),
            constraint=ssm.constraint_ode_ts0(decay),
        )
        prior = ssm.prior_wiener_integrated(coefficients)
        solve = ivpsolve.solve_fixed_grid(solver=solver)
        solution = solve(prior, grid=jnp.linspace(0.0, 1.0, 9))
        return jnp.sum(solution.u.mean[0][-1] ** 2)

    return call(jax.value_and_grad(loss), jnp.array(0.7), jnp.array([1.0, 2.0, 0.5]))


def drift_and_diffusion(n: int) -> tuple[Any, Any, Any]:
    """Return the drift, the shift and the diffusion of a stationary process."""
    drift = 2.0 * jnp.eye(n) + 0.5 * jnp.eye(n, k=1) + 0.5 * jnp.eye(n, k=-1)
    return drift, jnp.linspace(-1.0, 1.0, n), jnp.eye(n) + 0.2


@case("thermox", "sde", "random", "eigenvalues", "complex", shows="Exact paths.")
def exact_ornstein_uhlenbeck_paths() -> Call:
    import thermox

    times = jnp.linspace(0.0, 1.0, 12)
    return call(
        thermox.sample, jax.random.key(5), times, jnp.zeros(3), *drift_and_diffusion(3)
    )


@case("thermox", "sde", "density", "complex", shows="The density of a path.")
def path_log_probability() -> Call:
    import thermox

    times = jnp.linspace(0.0, 1.0, 6)
    path = jnp.cumsum(jax.random.normal(jax.random.key(6), (6, 2)), axis=0)

    def density(shift: Any) -> Any:
        drift, _, diffusion = drift_and_diffusion(2)
        return thermox.log_prob(times, path, drift, shift, diffusion)

    return call(jax.value_and_grad(density), jnp.zeros(2))


def double_integrator() -> Any:
    """Return a point that is pushed, in steps of time."""
    import contrax

    a = jnp.array([[1.0, 0.05], [0.0, 1.0]])
    b = jnp.array([[0.0], [0.05]])
    return contrax.dss(a, b, jnp.eye(2), jnp.zeros((2, 1)), dt=0.05)


@case(
    "contrax",
    "control",
    "gradient",
    "while",
    "x64",
    x64=True,
    shows="A tuned regulator.",
)
def gradient_of_tuned_regulator() -> Call:
    import contrax

    def cost(log_q: Any, log_r: Any, start: Any) -> Any:
        system = double_integrator()
        gain = contrax.lqr(system, jnp.diag(jnp.exp(log_q)), jnp.diag(jnp.exp(log_r))).K
        _, xs, _ = contrax.simulate(system, start, lambda t, x: -gain @ x, num_steps=30)
        return jnp.sum(xs**2)

    grad = jax.value_and_grad(cost, argnums=(0, 1))
    return call(grad, jnp.zeros(2), jnp.zeros(1), jnp.array([1.0, -0.2]))


@case("contrax", "control", "state-space", "scan", shows="A filter and its smoother.")
def kalman_and_smoother() -> Call:
    import contrax

    def estimate(ys: Any) -> Any:
        system = double_integrator()
        noises = 1e-3 * jnp.eye(2), 0.1 * jnp.eye(2)
        filtered = contrax.kalman(system, *noises, ys, jnp.zeros(2), jnp.eye(2))
        return contrax.rts(system, filtered, noises[0])

    return call(estimate, jax.random.normal(jax.random.key(7), (15, 2)))


@case(
    "contrax", "control", "jacobian", "scan", shows="An extended filter of a pendulum."
)
def pendulum_extended_filter() -> Call:
    import contrax

    def pendulum(x: Any, u: Any) -> Any:
        return jnp.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (u[0] - jnp.sin(x[0]))])

    def estimate(ys: Any, us: Any) -> Any:
        return contrax.ekf(
            pendulum,
            1e-3 * jnp.eye(2),
            0.05 * jnp.eye(1),
            ys,
            us,
            jnp.array([0.5, 0.0]),
            jnp.eye(2),
            observation=lambda x: x[:1],
        )

    times = jnp.arange(12.0)[:, None]
    return call(estimate, 0.5 * jnp.cos(0.05 * times), 0.1 * jnp.sin(times))


def kalman_functions() -> tuple[Any, Any]:
    """Return the parameters of the dynamics and the sights of a turning point."""
    turn = jnp.array([[0.95, -0.3], [0.3, 0.95]])

    def dynamics(inputs: Any) -> Any:
        return turn, jnp.zeros(2), 0.1 * jnp.eye(2)

    def observation(inputs: Any) -> Any:
        return jnp.eye(2)[:1], jnp.zeros(1), 0.3 * jnp.eye(1), inputs

    return dynamics, observation


@case("cuthbert", "state-space", "scan", "qr", shows="A square-root filter, in a scan.")
def square_root_filter() -> Call:
    import cuthbert
    from cuthbert.gaussian import kalman

    dynamics, observation = kalman_functions()
    kalman_filter = kalman.build_filter(jnp.zeros(2), jnp.eye(2), dynamics, observation)

    def run(ys: Any) -> Any:
        states = cuthbert.filter(kalman_filter, ys, kalman_filter.init_prepare())
        return states.mean, states.log_normalizing_constant

    return call(run, jax.random.normal(jax.random.key(8), (14, 1)))


@case("cuthbert", "state-space", "associative-scan", "qr", shows="A parallel smoother.")
def parallel_square_root_smoother() -> Call:
    import cuthbert
    from cuthbert.gaussian import kalman

    dynamics, observation = kalman_functions()
    filtering = kalman.build_filter(jnp.zeros(2), jnp.eye(2), dynamics, observation)
    smoothing = kalman.build_smoother(dynamics)

    def run(ys: Any) -> Any:
        states = cuthbert.filter(filtering, ys, filtering.init_prepare(), parallel=True)
        smoothed = cuthbert.smoother(smoothing, states, ys, parallel=True)
        return smoothed.mean, smoothed.chol_cov

    return call(run, jax.random.normal(jax.random.key(9), (8, 1)))


@case(
    "finitediffx", "differences", "stencil", shows="Laplacians, curls and divergences."
)
def vector_calculus_on_grids() -> Call:
    import finitediffx as fdx

    def operators(field: Any, height: Any) -> Any:
        return (
            fdx.divergence(field, step_size=(0.1, 0.1), keepdims=False, accuracy=4),
            fdx.curl(field, step_size=0.1, accuracy=2),
            fdx.laplacian(height, step_size=0.1, accuracy=2),
        )

    grid = jnp.linspace(0.0, 1.0, 12)
    x, y = jnp.meshgrid(grid, grid, indexing="ij")
    return call(operators, jnp.stack([x * y, jnp.sin(x)]), x**2 + y)


@case(
    "finitediffx", "differences", "derivative", shows="A function's finite differences."
)
def finite_difference_gradients() -> Call:
    import finitediffx as fdx

    def energy(params: Any, shift: Any) -> Any:
        return jnp.sum(jnp.sin(params["a"]) * params["b"]) * shift

    gradient = fdx.value_and_fgrad(energy, offsets=fdx.Offset(accuracy=4), argnums=1)
    return call(gradient, {"a": jnp.arange(3.0), "b": jnp.ones(3)}, jnp.array(1.5))


@case(
    "sympy2jax", "symbolic", "gradient", "filtered", shows="A trained formula of SymPy."
)
def symbolic_module_gradient() -> Call:
    import equinox as eqx
    import sympy
    import sympy2jax

    x, y = sympy.symbols("x y")
    formula = 1.5 * sympy.cos(2.0 * x) + sympy.exp(-0.5 * y**2) / (1 + x**2)
    module = sympy2jax.SymbolicModule([formula, sympy.diff(formula, x)])

    def loss(module: Any, x: Any, y: Any) -> Any:
        value, slope = module(x=x, y=y)
        return jnp.mean(value**2 + slope**2)

    points = jnp.linspace(-1.0, 1.0, 9)
    return call(eqx.filter_value_and_grad(loss), module, points, 2 * points)
