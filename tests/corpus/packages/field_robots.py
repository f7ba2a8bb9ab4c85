"""Many agents and robot arms: jaxmarl, frax."""

from __future__ import annotations

from tests.corpus.packages.cases import Call, call, case


@case(
    "jaxmarl",
    "multi-agent",
    "environment",
    "state",
    shows="Three agents that spread over landmarks all step at once.",
)
def spread_step() -> Call:
    import jax
    import jax.numpy as jnp
    import jaxmarl

    env = jaxmarl.make("MPE_simple_spread_v3")
    key = jax.random.PRNGKey(0)
    _, state = env.reset(key)
    actions = {agent: jnp.asarray(i + 1) for i, agent in enumerate(env.agents)}
    return call(env.step, key, state, actions)


@case(
    "jaxmarl",
    "multi-agent",
    "environment",
    "integers",
    "batched",
    shows="Cooks in a shared kitchen, batched.",
)
def overcooked_batched_step() -> Call:
    import jax
    import jax.numpy as jnp
    import jaxmarl

    env = jaxmarl.make("overcooked")
    keys = jax.random.split(jax.random.PRNGKey(1), 3)
    _, states = jax.vmap(env.reset)(keys)
    actions = {agent: jnp.arange(3) for agent in env.agents}
    return call(jax.vmap(env.step), keys, states, actions)


@case(
    "jaxmarl",
    "multi-agent",
    "game",
    "scan",
    "prng",
    shows="Random legal play of Hanabi.",
)
def hanabi_random_play() -> Call:
    import jax
    import jaxmarl

    env = jaxmarl.make("hanabi")

    def play(key):
        _, state = env.reset(key)

        def step(state, key):
            legal = env.get_legal_moves(state)
            keys = jax.random.split(key, len(env.agents) + 1)
            actions = {
                agent: jax.random.categorical(k, jax.numpy.log(legal[agent]))
                for agent, k in zip(env.agents, keys)
            }
            _, state, rewards, dones, _ = env.step(keys[-1], state, actions)
            return state, (rewards["__all__"], dones["__all__"])

        return jax.lax.scan(step, state, jax.random.split(key, 8))[1]

    return call(play, jax.random.PRNGKey(2))


@case(
    "frax",
    "robotics",
    "kinematics",
    shows="The transforms of all links of a robot arm.",
)
def arm_link_transforms() -> Call:
    import frax
    import jax.numpy as jnp

    arm = frax.load_iiwa()
    q = jnp.linspace(-0.5, 0.5, arm.num_joints)
    return call(arm.link_to_world_transforms, q)


@case(
    "frax",
    "robotics",
    "linear solve",
    "batched",
    shows="The accelerations of an arm under torques, batched.",
)
def arm_forward_dynamics() -> Call:
    import frax
    import jax
    import jax.numpy as jnp

    arm = frax.load_panda()
    n = arm.num_joints

    def accelerate(q, v, torque):
        return arm.forward_dynamics(q, v, torque, None)

    q = jnp.linspace(-1.0, 1.0, 3 * n).reshape(3, n)
    return call(jax.vmap(accelerate), q, 0.1 * q, jnp.ones_like(q))


@case(
    "frax",
    "robotics",
    "gradient",
    shows="The Jacobian of the torques that inverse dynamics finds.",
)
def inverse_dynamics_jacobian() -> Call:
    import frax
    import jax
    import jax.numpy as jnp

    arm = frax.load_iiwa()
    gravity = jnp.array([0.0, 0.0, -9.81, 0.0, 0.0, 0.0])

    def torques(q, v, a):
        return arm.rnea(q, v, a, gravity, None)

    q = jnp.linspace(-0.4, 0.8, arm.num_joints)
    return call(jax.jacfwd(torques, argnums=(0, 1)), q, 0.3 * q, 0.1 * q)
