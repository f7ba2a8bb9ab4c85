"""Environments for reinforcement learning: gymnax, navix, xminigrid, craftax."""

from __future__ import annotations

from tests.corpus.packages.cases import Call, call, case


@case(
    "gymnax",
    "environment",
    "state",
    "prng",
    shows="One step of the cart and pole, with automatic reset.",
)
def cartpole_step() -> Call:
    import gymnax
    import jax

    env, params = gymnax.make("CartPole-v1")
    key = jax.random.PRNGKey(0)
    _, state = env.reset(key, params)
    return call(env.step, key, state, 1, params)


@case(
    "gymnax",
    "environment",
    "gradient",
    "scan",
    shows="The gradient of a pendulum's return with respect to its torques.",
)
def pendulum_return_gradient() -> Call:
    import gymnax
    import jax
    import jax.numpy as jnp

    env, params = gymnax.make("Pendulum-v1")
    env = env.with_transition_gradients()
    key = jax.random.PRNGKey(1)
    _, state = env.reset(key, params)

    def total_reward(torques, state):
        def step(state, torque):
            _, state, reward, _, _ = env.step_env(key, state, torque, params)
            return state, reward

        return jax.lax.scan(step, state, torques)[1].sum()

    return call(jax.grad(total_reward), jnp.zeros(20), state)


@case(
    "gymnax",
    "environment",
    "batched",
    "scan",
    "prng",
    shows="Random play of Breakout in sixteen environments for thirty steps.",
)
def breakout_random_rollout() -> Call:
    import gymnax
    import jax

    env, params = gymnax.make("Breakout-MinAtar")

    def rollout(key):
        key, key_reset = jax.random.split(key)
        _, state = env.reset(key_reset, params)

        def step(carry, _):
            state, key = carry
            key, key_act, key_step = jax.random.split(key, 3)
            action = jax.random.randint(key_act, (), 0, env.num_actions)
            _, state, reward, done, _, _ = env.step(key_step, state, action, params)
            return (state, key), (reward, done)

        return jax.lax.scan(step, (state, key), None, length=30)[1]

    keys = jax.random.split(jax.random.PRNGKey(2), 16)
    return call(jax.vmap(rollout), keys)


@case(
    "gymnax",
    "environment",
    "integers",
    "batched",
    shows="A batched step of Space Invaders, whose state is many small integer grids.",
)
def space_invaders_batched_step() -> Call:
    import gymnax
    import jax
    import jax.numpy as jnp

    env, params = gymnax.make("SpaceInvaders-MinAtar")
    keys = jax.random.split(jax.random.PRNGKey(3), 8)
    _, states = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    step = jax.vmap(env.step, in_axes=(0, 0, 0, None))
    return call(step, keys, states, jnp.arange(8) % 4, params)


@case(
    "gymnax",
    "environment",
    "agent",
    "gradient",
    "optimizer",
    shows="A policy gradient on Acrobot: rollout, returns, loss and Adam in one step.",
    needs=("flax", "optax"),
)
def acrobot_reinforce_step() -> Call:
    import flax.linen as nn
    import gymnax
    import jax
    import jax.numpy as jnp
    import optax

    env, env_params = gymnax.make("Acrobot-v1")
    network = nn.Sequential([nn.Dense(32), nn.tanh, nn.Dense(env.num_actions)])
    optimizer = optax.adam(1e-3)

    def collect(params, key):
        obs, state = env.reset(key, env_params)

        def step(carry, key):
            obs, state = carry
            key_act, key_step = jax.random.split(key)
            action = jax.random.categorical(key_act, network.apply(params, obs))
            new_obs, state, reward, _, _, _ = env.step(
                key_step, state, action, env_params
            )
            return (new_obs, state), (obs, action, reward)

        return jax.lax.scan(step, (obs, state), jax.random.split(key, 25))[1]

    def loss(params, key):
        obs, actions, rewards = jax.lax.stop_gradient(collect(params, key))
        returns = jnp.cumsum(rewards[::-1])[::-1]
        logp = jax.nn.log_softmax(network.apply(params, obs))
        chosen = jnp.take_along_axis(logp, actions[:, None], axis=1)[:, 0]
        return -jnp.mean(chosen * (returns - returns.mean()))

    def update(params, opt_state, keys):
        grads = jax.grad(lambda p: jax.vmap(loss, (None, 0))(p, keys).mean())(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    params = network.init(jax.random.PRNGKey(0), jnp.zeros(6))
    keys = jax.random.split(jax.random.PRNGKey(4), 4)
    return call(update, params, optimizer.init(params), keys)


@case(
    "navix",
    "environment",
    "state",
    "integers",
    shows="A step in a room of MiniGrid with a locked door and a key.",
)
def door_key_step() -> Call:
    import jax
    import jax.numpy as jnp
    import navix

    env = navix.make("Navix-DoorKey-5x5-v0")
    timestep = env.reset(jax.random.PRNGKey(0))
    return call(env.step, timestep, jnp.asarray(2))


@case(
    "navix",
    "environment",
    "prng",
    shows="The reset of a crossing with lava, which draws walls at random.",
)
def simple_crossing_reset() -> Call:
    import jax
    import navix

    env = navix.make("Navix-SimpleCrossingS9N2-v0")
    return call(env.reset, jax.random.PRNGKey(1))


@case(
    "navix",
    "environment",
    "scan",
    "batched",
    shows="Four agents among moving obstacles under a scan over their actions.",
)
def dynamic_obstacles_unroll() -> Call:
    import jax
    import jax.numpy as jnp
    import navix

    env = navix.make("Navix-Dynamic-Obstacles-6x6-v0")

    def unroll(key, actions):
        def step(timestep, action):
            timestep = env.step(timestep, action)
            return timestep, (timestep.reward, timestep.observation)

        return jax.lax.scan(step, env.reset(key), actions)[1]

    keys = jax.random.split(jax.random.PRNGKey(2), 4)
    return call(jax.vmap(unroll), keys, jnp.arange(40).reshape(4, 10) % 6)


@case(
    "navix",
    "environment",
    "rendering",
    "integers",
    shows="A step that is observed as an image of eight-bit integers.",
)
def four_rooms_pixels() -> Call:
    import jax
    import jax.numpy as jnp
    import navix

    env = navix.make(
        "Navix-FourRooms-v0", observation_fn=navix.observations.rgb_first_person
    )
    timestep = env.reset(jax.random.PRNGKey(3))
    return call(env.step, timestep, jnp.asarray(1))


@case(
    "xminigrid",
    "environment",
    "state",
    "integers",
    shows="A step in the four rooms, whose state is a grid of tiles and colours.",
)
def four_rooms_step() -> Call:
    import jax
    import xminigrid

    env, params = xminigrid.make("MiniGrid-FourRooms")
    timestep = env.reset(params, jax.random.PRNGKey(0))
    return call(env.step, params, timestep, 2)


@case(
    "xminigrid",
    "environment",
    "batched",
    "scan",
    "prng",
    shows="Random play of a meta-learning grid with production rules, batched.",
)
def xland_random_rollout() -> Call:
    import jax
    import xminigrid

    env, params = xminigrid.make("XLand-MiniGrid-R1-9x9")

    def rollout(key):
        def step(carry, _):
            key, timestep = carry
            key, key_act = jax.random.split(key)
            action = jax.random.randint(key_act, (), 0, env.num_actions(params))
            timestep = env.step(params, timestep, action)
            return (key, timestep), (timestep.reward, timestep.observation)

        first = env.reset(params, key)
        return jax.lax.scan(step, (key, first), None, length=16)[1]

    keys = jax.random.split(jax.random.PRNGKey(1), 8)
    return call(jax.vmap(rollout), keys)


@case(
    "xminigrid",
    "environment",
    "state",
    "prng",
    shows="A step through a wrapper that resets a finished episode.",
)
def unlock_with_auto_reset() -> Call:
    import jax
    import xminigrid
    from xminigrid.wrappers import GymAutoResetWrapper

    env, params = xminigrid.make("MiniGrid-Unlock")
    env = GymAutoResetWrapper(env)
    timestep = env.reset(params, jax.random.PRNGKey(2))
    return call(env.step, params, timestep, 3)


@case(
    "craftax",
    "environment",
    "state",
    "prng",
    shows="One step of an open world with crafting, mobs, plants and daylight.",
)
def classic_symbolic_step() -> Call:
    import jax
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
    key = jax.random.PRNGKey(0)
    _, state = env.reset(key, env.default_params)
    return call(env.step, key, state, 5, env.default_params)


@case(
    "craftax",
    "environment",
    "prng",
    "procedural",
    shows="The generation of a world by fractal noise.",
)
def classic_world_generation() -> Call:
    import jax
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
    return call(env.reset, jax.random.PRNGKey(1), env.default_params)


@case(
    "craftax",
    "environment",
    "rendering",
    "integers",
    shows="The symbolic observation of the full game, one-hot maps beside the inventory.",
)
def full_game_observation() -> Call:
    import jax
    from craftax.craftax.renderer import render_craftax_symbolic
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name("Craftax-Symbolic-v1", auto_reset=False)
    _, state = env.reset(jax.random.PRNGKey(2), env.default_params)
    return call(render_craftax_symbolic, state)
