"""Differential equations: diffrax, in the ways its users write them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def lotka_volterra(t: Any, y: Any, args: Any) -> Any:
    """Return the growth of prey and predators."""
    prey, predator = y
    a, b, c, d = args
    return a * prey - b * prey * predator, -c * predator + d * prey * predator


def van_der_pol(t: Any, y: Any, mu: Any) -> Any:
    """Return the vector field of the Van der Pol oscillator."""
    return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])


def robertson(t: Any, y: Any, k: Any) -> Any:
    """Return the vector field of Robertson's stiff reaction."""
    f0 = -k[0] * y[0] + k[2] * y[1] * y[2]
    f1 = k[0] * y[0] - k[1] * y[1] ** 2 - k[2] * y[1] * y[2]
    return jnp.stack([f0, f1, k[1] * y[1] ** 2])


@case("diffrax", "ode", "while", "pytree", shows="A predator and prey model, adaptive.")
def lotka_volterra_adaptive() -> Call:
    import diffrax

    term = diffrax.ODETerm(lotka_volterra)
    saveat = diffrax.SaveAt(ts=jnp.linspace(0.0, 20.0, 50))
    controller = diffrax.PIDController(rtol=1e-5, atol=1e-5)

    def solve(y0: Any, args: Any) -> Any:
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Tsit5(),
            0.0,
            20.0,
            0.1,
            y0,
            args=args,
            saveat=saveat,
            stepsize_controller=controller,
        )
        return solution.ys, solution.stats["num_steps"]

    return call(solve, (jnp.array(10.0), jnp.array(10.0)), (0.1, 0.02, 0.4, 0.02))


@case("diffrax", "ode", "gradient", shows="Gradient of a loss through Dopri5.")
def gradient_of_initial_value() -> Call:
    import diffrax

    def loss(y0: Any, mu: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(van_der_pol),
            diffrax.Dopri5(),
            t0=0.0,
            t1=3.0,
            dt0=0.05,
            y0=y0,
            args=mu,
            max_steps=256,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
        )
        return jnp.sum(solution.ys**2)

    return call(jax.grad(loss, argnums=(0, 1)), jnp.array([2.0, 0.0]), jnp.array(1.5))


@case("diffrax", "ode", "stiff", "newton", x64=True, shows="Robertson's reaction.")
def stiff_kvaerno5() -> Call:
    import diffrax

    def solve(k: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(robertson),
            diffrax.Kvaerno5(),
            t0=0.0,
            t1=100.0,
            dt0=0.0002,
            y0=jnp.array([1.0, 0.0, 0.0]),
            args=k,
            saveat=diffrax.SaveAt(ts=jnp.array([0.0, 1e-2, 1.0, 10.0, 100.0])),
            stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8),
        ).ys

    return call(solve, jnp.array([0.04, 3e7, 1e4]))


@case("diffrax", "sde", "random", shows="Geometric Brownian motion over a tree.")
def geometric_brownian_motion() -> Call:
    import diffrax

    def path(key: Any, mu: Any, sigma: Any) -> Any:
        brownian = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=key)
        drift = diffrax.ODETerm(lambda t, y, args: mu * y)
        diffusion = diffrax.ControlTerm(lambda t, y, args: sigma * y, brownian)
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(drift, diffusion),
            diffrax.EulerHeun(),
            t0=0.0,
            t1=1.0,
            dt0=0.05,
            y0=jnp.array(1.0),
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 11)),
        )
        return solution.ys

    return call(path, jax.random.key(0), 0.1, 0.3)


@case(
    "diffrax", "sde", "batched", "random", shows="A batch of Ornstein-Uhlenbeck paths."
)
def batched_ornstein_uhlenbeck() -> Call:
    import diffrax

    def path(y0: Any, key: Any) -> Any:
        brownian = diffrax.VirtualBrownianTree(
            0.0, 2.0, tol=1e-3, shape=(2,), key=key, levy_area=diffrax.SpaceTimeLevyArea
        )
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: 0.7 * (1.0 - y)),
            diffrax.ControlTerm(lambda t, y, args: 0.2 * jnp.eye(2), brownian),
        )
        return diffrax.diffeqsolve(
            terms, diffrax.SRA1(), 0.0, 2.0, 0.1, y0, saveat=diffrax.SaveAt(t1=True)
        ).ys

    keys = jax.random.split(jax.random.key(1), 8)
    return call(jax.vmap(path), jnp.zeros((8, 2)), keys)


@case("diffrax", "ode", "event", "root", shows="A ball that falls until it is caught.")
def falling_ball_event() -> Call:
    import diffrax
    import optimistix

    def field(t: Any, y: Any, args: Any) -> Any:
        return {"height": y["speed"], "speed": -9.81 - args * y["speed"]}

    def below_ground(t: Any, y: Any, args: Any, **kwargs: Any) -> Any:
        return y["height"]

    def land(height: Any, drag: Any) -> Any:
        finder = optimistix.Newton(1e-5, 1e-5, optimistix.rms_norm)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            0.0,
            jnp.inf,
            0.1,
            {"height": height, "speed": jnp.array(0.0)},
            args=drag,
            event=diffrax.Event(below_ground, finder),
        )
        return solution.ts, solution.ys

    return call(land, jnp.array(10.0), jnp.array(0.1))


@case("diffrax", "ode", "network", "training", "filtered", shows="A neural ODE step.")
def neural_ode_train_step() -> Call:
    import diffrax
    import equinox as eqx
    import optax

    mlp = eqx.nn.MLP(2, 2, 16, 2, activation=jax.nn.softplus, key=jax.random.key(2))
    optimizer = optax.adabelief(3e-3)
    ts = jnp.linspace(0.0, 1.0, 8)

    def predict(model: Any, y0: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: model(y)),
            diffrax.Tsit5(),
            ts[0],
            ts[-1],
            ts[1] - ts[0],
            y0,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            saveat=diffrax.SaveAt(ts=ts),
            max_steps=64,
        ).ys

    @eqx.filter_value_and_grad
    def loss(model: Any, ys: Any) -> Any:
        return jnp.mean((jax.vmap(predict, (None, 0))(model, ys[:, 0]) - ys) ** 2)

    def step(model: Any, state: Any, ys: Any) -> Any:
        value, gradient = loss(model, ys)
        updates, state = optimizer.update(gradient, state)
        return value, eqx.apply_updates(model, updates), state

    ys = jnp.cos(ts[None, :, None] + jnp.arange(8.0).reshape(4, 1, 2))
    return call(step, mlp, optimizer.init(eqx.filter(mlp, eqx.is_array)), ys)


@case("diffrax", "ode", "adjoint", "gradient", shows="The continuous adjoint.")
def backsolve_adjoint() -> Call:
    import diffrax

    def loss(matrix: Any, y0: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, a: jnp.tanh(a @ y)),
            diffrax.Heun(),
            0.0,
            1.0,
            0.1,
            y0,
            args=matrix,
            adjoint=diffrax.BacksolveAdjoint(),
        )
        return jnp.sum(solution.ys[-1])

    matrix = jnp.array([[0.0, 1.0], [-1.0, -0.1]])
    return call(jax.value_and_grad(loss), matrix, jnp.array([1.0, 0.5]))


@case("diffrax", "ode", "symplectic", "constant-step", shows="A pendulum, symplectic.")
def pendulum_semi_implicit() -> Call:
    import diffrax

    def solve(p: Any, q: Any) -> Any:
        terms = (
            diffrax.ODETerm(lambda t, q, args: -jnp.sin(q)),
            diffrax.ODETerm(lambda t, p, args: p),
        )
        return diffrax.diffeqsolve(
            terms,
            diffrax.SemiImplicitEuler(),
            0.0,
            5.0,
            0.01,
            (p, q),
            max_steps=600,
            saveat=diffrax.SaveAt(steps=True),
        ).ys

    return call(solve, jnp.array(0.0), jnp.array(1.2))


@case("diffrax", "cde", "interpolation", shows="A controlled equation along a spline.")
def controlled_equation() -> Call:
    import diffrax

    def solve(weights: Any, ts: Any, xs: Any) -> Any:
        coefficients = diffrax.backward_hermite_coefficients(ts, xs)
        control = diffrax.CubicInterpolation(ts, coefficients)
        term = diffrax.ControlTerm(
            lambda t, y, args: jnp.tanh(jnp.einsum("hxc,h->xc", args, y)), control
        ).to_ode()
        return diffrax.diffeqsolve(
            term, diffrax.Tsit5(), ts[0], ts[-1], 0.1, xs[0] @ weights[0].T, weights
        ).ys

    ts = jnp.linspace(0.0, 1.0, 9)
    xs = jnp.stack([ts, jnp.sin(3 * ts), jnp.cos(2 * ts)], axis=-1)
    return call(solve, 0.3 * jax.random.normal(jax.random.key(3), (4, 4, 3)), ts, xs)


@case(
    "diffrax",
    "pde",
    "imex",
    "newton",
    shows="Reaction and diffusion, split by stiffness.",
)
def reaction_diffusion_imex() -> Call:
    import diffrax

    def diffuse(t: Any, u: Any, args: Any) -> Any:
        return 0.05 * (jnp.roll(u, 1) - 2 * u + jnp.roll(u, -1)) * u.shape[0] ** 2

    def react(t: Any, u: Any, args: Any) -> Any:
        return args * u * (1 - u)

    def solve(u0: Any, rate: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.MultiTerm(diffrax.ODETerm(react), diffrax.ODETerm(diffuse)),
            diffrax.KenCarp4(),
            0.0,
            0.2,
            0.01,
            u0,
            args=rate,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 0.2, 5)),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
        ).ys

    x = jnp.linspace(0.0, 1.0, 24, endpoint=False)
    return call(solve, jnp.exp(-50 * (x - 0.5) ** 2), jnp.array(4.0))
