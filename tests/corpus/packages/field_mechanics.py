"""Rigid bodies, particles and their far fields: mujoco-mjx, brax, jax-md, jaxfmm."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case

PENDULUM = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="hinge" type="hinge" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.5" mass="1"/>
    </body>
  </worldbody>
  <actuator><motor joint="hinge" gear="2"/></actuator>
</mujoco>
"""

FALLING_BALL = """
<mujoco>
  <worldbody>
    <geom type="plane" size="1 1 0.1"/>
    <body pos="0 0 0.15">
      <freejoint/>
      <geom type="sphere" size="0.1" mass="0.5"/>
    </body>
  </worldbody>
</mujoco>
"""


def _load(xml: str) -> tuple[Any, Any]:
    """Return the model of an XML text and its data, as MJX holds them."""
    import mujoco
    from mujoco import mjx

    model = mjx.put_model(mujoco.MjModel.from_xml_string(xml))
    return model, mjx.make_data(model)


@case(
    "mujoco-mjx",
    "physics",
    "state",
    "linear solve",
    shows="A step of a pendulum with a motor.",
)
def pendulum_step() -> Call:
    import jax.numpy as jnp
    from mujoco import mjx

    model, data = _load(PENDULUM)
    return call(mjx.step, model, data.replace(ctrl=jnp.array([0.3])))


@case(
    "mujoco-mjx",
    "physics",
    "contact",
    "while",
    shows="A step of a ball that touches the floor: collision and contact solver.",
)
def contact_step() -> Call:
    import jax.numpy as jnp
    from mujoco import mjx

    model, data = _load(FALLING_BALL)
    qpos = jnp.array([0.0, 0.0, 0.095, 1.0, 0.0, 0.0, 0.0])
    return call(mjx.step, model, data.replace(qpos=qpos))


@case(
    "mujoco-mjx",
    "physics",
    "kinematics",
    "batched",
    shows="Forward kinematics of many joint positions at once.",
)
def batched_kinematics() -> Call:
    import jax
    import jax.numpy as jnp
    from mujoco import mjx

    model, data = _load(PENDULUM)

    def tips(qpos):
        return mjx.kinematics(model, data.replace(qpos=qpos)).geom_xpos

    return call(jax.vmap(tips), jnp.linspace(-1.0, 1.0, 7)[:, None])


@case(
    "mujoco-mjx",
    "physics",
    "gradient",
    shows="The Jacobian of a step's acceleration with respect to position and torque.",
)
def forward_dynamics_jacobian() -> Call:
    import jax
    import jax.numpy as jnp
    from mujoco import mjx

    model, data = _load(PENDULUM)

    def acceleration(qpos, ctrl):
        return mjx.forward(model, data.replace(qpos=qpos, ctrl=ctrl)).qacc

    jacobian = jax.jacfwd(acceleration, argnums=(0, 1))
    return call(jacobian, jnp.array([0.4]), jnp.array([0.1]))


@case(
    "brax",
    "physics",
    "environment",
    "state",
    shows="A step of the inverted pendulum in generalized coordinates.",
)
def inverted_pendulum_step() -> Call:
    import jax
    import jax.numpy as jnp
    from brax import envs

    env = envs.get_environment("inverted_pendulum", backend="generalized")
    state = jax.jit(env.reset)(jax.random.PRNGKey(0))
    return call(env.step, state, jnp.array([0.2]))


@case(
    "brax",
    "physics",
    "environment",
    "scan",
    "contact",
    shows="A step of the ant in the spring pipeline, a scan over its substeps.",
)
def ant_spring_step() -> Call:
    import jax
    import jax.numpy as jnp
    from brax import envs

    env = envs.get_environment("ant", backend="spring")
    state = jax.jit(env.reset)(jax.random.PRNGKey(1))
    return call(env.step, state, jnp.linspace(-0.5, 0.5, 8))


@case(
    "brax",
    "physics",
    "kinematics",
    "gradient",
    shows="The Jacobian of the ant's link positions with respect to its joints.",
)
def forward_kinematics_jacobian() -> Call:
    import jax
    import jax.numpy as jnp
    from brax import envs, kinematics

    system = envs.get_environment("ant", backend="spring").sys

    def positions(q):
        x, _ = kinematics.forward(system, q, jnp.zeros(system.qd_size()))
        return x.pos

    return call(jax.jacrev(positions), system.init_q)


@case(
    "brax",
    "agent",
    "optimizer",
    "gradient",
    shows="The loss of Brax's own PPO networks, differentiated.",
)
def ppo_loss_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    from brax.training import types
    from brax.training.agents.ppo import losses, networks

    net = networks.make_ppo_networks(
        5, 2, policy_hidden_layer_sizes=(16,), value_hidden_layer_sizes=(16,)
    )
    keys = jax.random.split(jax.random.PRNGKey(2), 4)
    params = losses.PPONetworkParams(
        policy=net.policy_network.init(keys[0]), value=net.value_network.init(keys[1])
    )
    batch, steps = 4, 6
    obs = jax.random.normal(keys[2], (batch, steps, 5))
    extras = {
        "policy_extras": {
            "raw_action": jnp.zeros((batch, steps, 2)),
            "log_prob": jnp.full((batch, steps), -1.5),
            "distribution_params": jnp.zeros((batch, steps, 4)),
        },
        "state_extras": {"truncation": jnp.zeros((batch, steps))},
    }
    data = types.Transition(
        observation=obs,
        action=jnp.zeros((batch, steps, 2)),
        reward=jnp.ones((batch, steps)),
        discount=jnp.full((batch, steps), 0.9),
        next_observation=obs,
        extras=extras,
    )

    def loss(params, data, key):
        return losses.compute_ppo_loss(params, None, data, key, net)[0]

    return call(jax.grad(loss), params, data, keys[3])


@case(
    "jax-md",
    "particles",
    "gradient",
    shows="The forces of a Lennard-Jones gas in a periodic box.",
)
def lennard_jones_forces() -> Call:
    import jax
    from jax_md import energy, quantity, space

    displacement, _ = space.periodic(6.0)
    total_energy = energy.lennard_jones_pair(displacement, r_cutoff=2.5)
    positions = jax.random.uniform(jax.random.PRNGKey(0), (24, 3), maxval=6.0)
    return call(quantity.force(total_energy), positions)


@case(
    "jax-md",
    "particles",
    "loop",
    "state",
    shows="Constant-temperature dynamics with a Nose-Hoover chain, in a loop.",
)
def nose_hoover_run() -> Call:
    import jax
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(5.0)
    total_energy = energy.soft_sphere_pair(displacement)
    init, apply = simulate.nvt_nose_hoover(total_energy, shift, 1e-3, kT=0.5)
    keys = jax.random.split(jax.random.PRNGKey(1))
    positions = jax.random.uniform(keys[0], (16, 2), maxval=5.0)

    def run(state):
        return jax.lax.fori_loop(0, 10, lambda _, state: apply(state), state)

    return call(run, init(keys[1], positions))


@case(
    "jax-md",
    "particles",
    "while",
    "integers",
    "sorting",
    shows="The update of a neighbour list and the energy over it.",
)
def neighbor_list_energy() -> Call:
    import jax
    from jax_md import energy, space

    box = 9.0
    displacement, _ = space.periodic(box)
    neighbor_fn, total_energy = energy.lennard_jones_neighbor_list(
        displacement, box, sigma=1.0, epsilon=1.0
    )
    positions = jax.random.uniform(jax.random.PRNGKey(2), (40, 3), maxval=box)
    neighbors = neighbor_fn.allocate(positions)

    def evaluate(positions, neighbors):
        neighbors = neighbors.update(positions)
        return total_energy(
            positions, neighbor=neighbors
        ), neighbors.did_buffer_overflow

    return call(evaluate, positions + 0.01, neighbors)


@case(
    "jax-md",
    "particles",
    "optimizer",
    "scan",
    shows="FIRE relaxes a packing of soft spheres of two sizes.",
)
def fire_minimization() -> Call:
    import jax
    import jax.numpy as jnp
    from jax_md import energy, minimize, space

    displacement, shift = space.periodic(4.0)
    sigma = jnp.array([[1.0, 1.2], [1.2, 1.4]])
    species = jnp.arange(18) % 2
    total_energy = energy.soft_sphere_pair(displacement, species=species, sigma=sigma)
    init, apply = minimize.fire_descent(total_energy, shift)

    def relax(positions):
        def step(state, _):
            state = apply(state)
            return state, total_energy(state.position)

        return jax.lax.scan(step, init(positions), None, length=15)[1]

    return call(relax, jax.random.uniform(jax.random.PRNGKey(3), (18, 2), maxval=4.0))


@case(
    "jaxfmm",
    "particles",
    "complex",
    "segments",
    shows="The potential of charges by a fast multipole method on a fixed tree.",
)
def multipole_potential() -> Call:
    import jax
    from jaxfmm import uniform

    keys = jax.random.split(jax.random.PRNGKey(4))
    setup = uniform.setup(jax.random.uniform(keys[0], (200, 3)), p=2, N_max=16)

    def potential(charges):
        return uniform.evaluate_setup(setup, charges)

    return call(potential, jax.random.normal(keys[1], (200,)))


@case(
    "jaxfmm",
    "particles",
    "gradient",
    "linear solve",
    shows="The gradient of an energy by a kernel-independent multipole method.",
)
def kernel_independent_energy_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    from jaxfmm import kifmm

    keys = jax.random.split(jax.random.PRNGKey(5))
    positions = jax.random.uniform(keys[0], (120, 3))
    setup = kifmm.setup(positions, p=2, N_max=16, p2p_mixed=False)

    def energy(charges):
        return 0.5 * jnp.dot(charges, kifmm.evaluate_setup(setup, charges))

    return call(jax.grad(energy), jax.random.normal(keys[1], (120,)))
