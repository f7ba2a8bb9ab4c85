"""Nonlinear, constrained and linear programs, and Bayesian optimisation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def ridge_data(n_rows: int, n_columns: int) -> tuple[Any, Any]:
    """Return a regression's rows and targets."""
    x = jax.random.normal(jax.random.PRNGKey(0), (n_rows, n_columns))
    return x, x @ jnp.linspace(-1.0, 1.0, n_columns) + 0.1


def ridge_loss(params: Any, strength: Any, data: Any) -> Any:
    """Return the regularised squares of a linear model."""
    x, y = data
    return jnp.mean((x @ params - y) ** 2) + 0.5 * strength * jnp.sum(params**2)


@case(
    "jaxopt", "minimise", "while", "line-search", shows="L-BFGS of a ridge regression."
)
def lbfgs_ridge() -> Call:
    import jaxopt

    solver = jaxopt.LBFGS(fun=ridge_loss, maxiter=20, tol=1e-4)

    def fit(params: Any, strength: Any, data: Any) -> Any:
        params, state = solver.run(params, strength=strength, data=data)
        return params, state.error, state.iter_num

    return call(fit, jnp.zeros(4), jnp.array(0.1), ridge_data(20, 4))


@case("jaxopt", "implicit", "gradient", "proximal", shows="Gradient through a lasso.")
def gradient_through_lasso() -> Call:
    import jaxopt

    def smooth(params: Any, data: Any) -> Any:
        x, y = data
        return jnp.mean((x @ params - y) ** 2)

    solver = jaxopt.ProximalGradient(
        fun=smooth, prox=jaxopt.prox.prox_lasso, maxiter=200, implicit_diff=True
    )

    def validation(strength: Any, train: Any, test: Any) -> Any:
        params = solver.run(jnp.zeros(5), hyperparams_prox=strength, data=train).params
        return smooth(params, test)

    train = ridge_data(15, 5)
    test = (train[0][::-1] * 0.5, train[1])
    return call(jax.value_and_grad(validation), jnp.array(0.05), train, test)


@case("jaxopt", "constrained", "projection", "sort", shows="Projected gradients.")
def simplex_projection_solve() -> Call:
    import jaxopt

    solver = jaxopt.ProjectedGradient(
        fun=ridge_loss, projection=jaxopt.projection.projection_simplex, maxiter=30
    )

    def fit(params: Any, data: Any) -> Any:
        return solver.run(params, hyperparams_proj=1.0, strength=0.0, data=data).params

    return call(fit, jnp.full(6, 1.0 / 6.0), ridge_data(12, 6))


@case(
    "jaxopt", "constrained", "quadratic", "while", shows="A box of quadratics by OSQP."
)
def box_quadratic_program() -> Call:
    import jaxopt

    solver = jaxopt.BoxOSQP(maxiter=200)

    def solve(q: Any, c: Any, a: Any, lower: Any, upper: Any) -> Any:
        solution = solver.run(
            None, params_obj=(q, c), params_eq=a, params_ineq=(lower, upper)
        )
        return solution.params.primal, solution.state.status

    q = jnp.array([[4.0, 1.0], [1.0, 2.0]])
    a = jnp.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    lower, upper = jnp.array([1.0, 0.0, 0.0]), jnp.array([1.0, 0.7, 0.7])
    return call(solve, q, jnp.ones(2), a, lower, upper)


@case("jaxopt", "least-squares", "batched", "while", shows="Curves, a batch of fits.")
def batched_gauss_newton() -> Call:
    import jaxopt

    def residuals(params: Any, x: Any, y: Any) -> Any:
        return params[0] * jnp.exp(-params[1] * x) - y

    solver = jaxopt.LevenbergMarquardt(residual_fun=residuals, maxiter=20)

    def fit(params: Any, x: Any, y: Any) -> Any:
        return solver.run(params, x=x, y=y).params

    x = jnp.linspace(0.0, 2.0, 10)
    y = jnp.stack([a * jnp.exp(-a * x) for a in (1.0, 1.5, 2.0)])
    return call(jax.vmap(fit, in_axes=(None, None, 0)), jnp.ones(2), x, y)


@case("jaxopt", "fixed-point", "implicit", "jacobian", shows="Anderson's acceleration.")
def anderson_fixed_point_jacobian() -> Call:
    import jaxopt

    def contraction(x: Any, theta: Any) -> Any:
        return 0.5 * jnp.cos(x) * theta + 0.1 * jnp.roll(x, 1)

    solver = jaxopt.AndersonAcceleration(
        fixed_point_fun=contraction, history_size=3, maxiter=25, implicit_diff=True
    )

    def solve(theta: Any) -> Any:
        return solver.run(jnp.zeros(4), theta).params

    return call(jax.jacobian(solve), jnp.linspace(0.5, 1.0, 4))


@case(
    "jaxopt", "classification", "state", "stochastic", shows="Updates of a classifier."
)
def stochastic_updates() -> Call:
    import jaxopt
    import optax

    def loss(params: Any, data: Any) -> Any:
        x, labels = data
        logits = x @ params["w"] + params["b"]
        return jnp.mean(jax.vmap(jaxopt.loss.multiclass_logistic_loss)(labels, logits))

    solver = jaxopt.OptaxSolver(opt=optax.sgd(0.1, momentum=0.9), fun=loss)
    params = {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}
    data = (ridge_data(12, 4)[0], jnp.arange(12) % 3)
    return call(solver.update, params, solver.init_state(params, data=data), data=data)


@case("qpax", "quadratic", "interior-point", "while", shows="Interior points.")
def quadratic_program() -> Call:
    import qpax

    def solve(*problem: Any) -> Any:
        x, slacks, duals, multipliers, converged, iterations = qpax.solve_qp(*problem)
        return x, slacks, duals, multipliers, converged, iterations

    return call(solve, *portfolio(5))


def portfolio(n: int) -> tuple[Any, ...]:
    """Return the quadratic program of a portfolio: Q, q, A, b, G, h."""
    factor = jax.random.normal(jax.random.PRNGKey(1), (n, n))
    return (
        factor @ factor.T / n + 0.1 * jnp.eye(n),
        -jnp.linspace(0.1, 0.5, n),
        jnp.ones((1, n)),
        jnp.ones(1),
        -jnp.eye(n),
        jnp.zeros(n),
    )


@case("qpax", "quadratic", "gradient", "custom-derivative", shows="Gradient of a QP.")
def gradient_of_quadratic_program() -> Call:
    import qpax

    def loss(q: Any, problem: Any) -> Any:
        x = qpax.solve_qp_primal(problem[0], q, *problem[2:], target_kappa=1e-2)
        return jnp.sum((x - 0.2) ** 2)

    problem = portfolio(4)
    return call(jax.value_and_grad(loss), problem[1], problem)


@case("qpax", "quadratic", "batched", x64=True, shows="A batch of relaxed programs.")
def batched_elastic_programs() -> Call:
    import qpax

    q, c, _, _, g, h = portfolio(4)

    def solve(c: Any) -> Any:
        return qpax.solve_qp_elastic_primal(q, c, g, h, jnp.array(10.0))

    return call(jax.vmap(solve), jnp.stack([c, 2 * c, -c]))


@case(
    "mpax", "linear-program", "while", "sparse", shows="A linear program, first order."
)
def linear_program() -> Call:
    from mpax import create_lp, r2HPDHG

    def solve(c: Any, g: Any, h: Any) -> Any:
        empty = jnp.zeros((0, c.shape[0])), jnp.zeros(0)
        bounds = jnp.zeros(c.shape[0]), jnp.full(c.shape[0], 4.0)
        problem = create_lp(c, *empty, g, h, *bounds, use_sparse_matrix=False)
        result = r2HPDHG(eps_abs=1e-4, eps_rel=1e-4, verbose=False).optimize(problem)
        return result.primal_solution, result.primal_objective

    g = jnp.array([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0]])
    return call(solve, jnp.array([1.0, 1.5, 0.7]), g, jnp.array([2.0, 1.0]))


@case("mpax", "quadratic", "while", "pytree", shows="A quadratic program, an argument.")
def quadratic_program_argument() -> Call:
    from mpax import create_qp, raPDHG

    q, c, a, b, g, h = portfolio(4)
    bounds = jnp.full(4, -2.0), jnp.full(4, 2.0)
    problem = create_qp(q, c, a, b, g, -h - 1.0, *bounds, use_sparse_matrix=False)
    return call(raPDHG(eps_abs=1e-3, eps_rel=1e-3).optimize, problem)


@case("mpax", "linear-program", "batched", "while", shows="A batch of linear programs.")
def batched_linear_programs() -> Call:
    from mpax import create_lp, r2HPDHG

    g = jnp.array([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0]])

    def solve(c: Any) -> Any:
        problem = create_lp(
            c, jnp.ones((1, 3)), jnp.ones(1), g, jnp.zeros(2), jnp.zeros(3), jnp.ones(3)
        )
        return r2HPDHG(eps_abs=1e-4, eps_rel=1e-4).optimize(problem).primal_solution

    return call(jax.vmap(solve), jnp.linspace(0.1, 1.0, 12).reshape(4, 3))


@case("bayex", "bayesian-optimisation", "gaussian-process", shows="An acquisition.")
def expected_improvement() -> Call:
    import bayex

    optimizer = bayex.Optimizer(
        domain={"x": bayex.domain.Real(0.0, 2.0)}, maximize=True, acq="EI"
    )
    xs = jnp.linspace(0.0, 2.0, 5)
    state = optimizer.init(jnp.sin(3.0 * xs), {"x": xs})

    def propose(key: Any, state: Any) -> Any:
        return optimizer.sample(key, state, size=50)

    return call(propose, jax.random.key(2), state)


@case("bayex", "bayesian-optimisation", "training", "scan", shows="A process fitted.")
def process_fit() -> Call:
    from bayex import gp

    def fit(y: Any, x: Any, mask: Any, params: Any) -> Any:
        return gp.posterior_fit(y, x, mask, params, lr=0.01, trainsteps=8)

    params = gp.GPParams(
        noise=jnp.zeros((1, 1)),
        amplitude=jnp.zeros((1, 1)),
        lengthscale=jnp.zeros((1, 1)),
    )
    x = jnp.linspace(0.0, 1.0, 6)[:, None]
    return call(fit, jnp.cos(3 * x[:, 0]), x, jnp.arange(6) < 5, params)


@case("jax-tqdm", "callback", "scan", "gradient", shows="Descent under a progress bar.")
def descent_under_progress_bar() -> Call:
    import jax_tqdm

    def fit(params: Any, data: Any) -> Any:
        @jax_tqdm.scan_tqdm(20, print_rate=10)
        def step(params: Any, index: Any) -> Any:
            value, gradient = jax.value_and_grad(ridge_loss)(params, 0.1, data)
            return params - 0.1 * gradient, value

        return jax.lax.scan(step, params, jnp.arange(20))

    return call(fit, jnp.zeros(3), ridge_data(8, 3))
