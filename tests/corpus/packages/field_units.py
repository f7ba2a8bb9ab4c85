"""Values with more than an array in them: brainunit (units), jax-dataclasses."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case


@case(
    "brainunit",
    "units",
    "gradient",
    shows="The gradient of a dissipated power in watts with respect to the voltage.",
)
def resistor_power_gradient() -> Call:
    import brainunit as u
    import jax.numpy as jnp

    def power(voltage, resistance):
        return u.math.sum(voltage**2 / resistance)

    voltage = jnp.array([1.0, 2.5, -0.5]) * u.volt
    return call(u.autograd.grad(power), voltage, 2.0 * u.ohm)


@case(
    "brainunit",
    "units",
    "scan",
    "neuroscience",
    shows="A leaky membrane in millivolts and milliseconds, under a scan.",
)
def leaky_membrane() -> Call:
    import brainunit as u
    import jax
    import jax.numpy as jnp

    rest, tau, dt = -65.0 * u.mV, 10.0 * u.ms, 0.5 * u.ms

    def simulate(voltage, currents):
        def step(voltage, current):
            drive = (rest - voltage + current * (2.0 * u.ohm)) / tau
            voltage = voltage + drive * dt
            spiking = voltage > -50.0 * u.mV
            return u.math.where(spiking, rest, voltage), spiking

        return jax.lax.scan(step, voltage, currents)

    currents = jnp.linspace(0.0, 20.0, 40)[:, None] * jnp.ones(3) * u.mA
    return call(simulate, jnp.full(3, -65.0) * u.mV, currents)


@case(
    "brainunit",
    "units",
    "batched",
    shows="Distances between bodies in metres, batched, compared with kilometres.",
)
def batched_distances() -> Call:
    import brainunit as u
    import jax
    import jax.numpy as jnp

    def near(a, b):
        distance = u.math.sqrt(u.math.sum((a - b) ** 2))
        return distance.to_decimal(u.kmeter), distance < 1.5 * u.kmeter

    points = jnp.arange(12.0).reshape(4, 3) * 100.0 * u.meter
    return call(jax.vmap(near, (0, None)), points, points[0])


def _body() -> Any:
    """Return the class of a body, whose name and shape are static."""
    import jax_dataclasses as jdc

    @jdc.pytree_dataclass
    class Body:
        position: Any
        velocity: Any
        mass: Any
        integrator: str = jdc.static_field(default="euler")

        def step(self, dt):
            force = -self.position
            velocity = self.velocity + dt * force / self.mass
            used = velocity if self.integrator == "symplectic" else self.velocity
            with jdc.copy_and_mutate(self) as moved:
                moved.position = self.position + dt * used
                moved.velocity = velocity
            return moved

    return Body


@case(
    "jax-dataclasses",
    "dataclass",
    "scan",
    "state",
    shows="A dataclass with a static field is the carry of a scan.",
)
def oscillating_body() -> Call:
    import jax
    import jax.numpy as jnp

    body = _body()(jnp.ones(2), jnp.zeros(2), 1.5, integrator="symplectic")

    def simulate(body):
        def step(body, _):
            body = body.step(0.1)
            return body, body.position

        return jax.lax.scan(step, body, None, length=20)

    return call(simulate, body)


@case(
    "jax-dataclasses",
    "dataclass",
    "gradient",
    "batched",
    shows="A gradient that is a dataclass itself, batched over its fields.",
)
def body_gradient() -> Call:
    import jax
    import jax.numpy as jnp

    bodies = _body()(jnp.ones((3, 2)), jnp.zeros((3, 2)), jnp.array([1.0, 2.0, 3.0]))

    def energy(body):
        body = body.step(0.1).step(0.1)
        return 0.5 * body.mass * jnp.sum(body.velocity**2)

    return call(jax.vmap(jax.grad(energy)), bodies)
