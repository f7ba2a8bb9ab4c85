"""Parts of learning agents: rlax (losses), flashbax (replay buffers)."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case


def _normal(seed: int, *shape: int) -> Any:
    import jax

    return jax.random.normal(jax.random.PRNGKey(seed), shape)


@case(
    "rlax",
    "agent",
    "gradient",
    "batched",
    shows="The gradient of double Q-learning through a little network.",
)
def double_q_learning_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    import rlax

    def network(params, observation):
        return jax.nn.relu(observation @ params[0]) @ params[1]

    def loss(params, target, obs, action, reward, discount, next_obs):
        errors = jax.vmap(rlax.double_q_learning)(
            network(params, obs),
            action,
            reward,
            discount,
            network(target, next_obs),
            network(params, next_obs),
        )
        return jnp.mean(rlax.l2_loss(errors))

    params = (_normal(0, 6, 16), _normal(1, 16, 4))
    obs, next_obs = _normal(2, 8, 6), _normal(3, 8, 6)
    action, ones = jnp.arange(8) % 4, jnp.ones(8)
    return call(
        jax.value_and_grad(loss),
        params,
        params,
        obs,
        action,
        ones,
        ones * 0.9,
        next_obs,
    )


@case(
    "rlax",
    "agent",
    "scan",
    "batched",
    "gradient",
    shows="The loss of an actor-critic with V-trace and an entropy bonus.",
)
def vtrace_actor_critic() -> Call:
    import jax
    import jax.numpy as jnp
    import rlax

    def loss(logits, values, behaviour, actions, rewards, discounts):
        rhos = rlax.categorical_importance_sampling_ratios(logits, behaviour, actions)
        targets = rlax.vtrace_td_error_and_advantage(
            values[:-1], values[1:], rewards, discounts, rhos, lambda_=0.95
        )
        weights = jnp.ones_like(rewards)
        actor = rlax.policy_gradient_loss(
            logits, actions, targets.pg_advantage, weights
        )
        entropy = rlax.entropy_loss(logits, weights)
        return actor + 0.5 * jnp.mean(targets.errors**2) + 0.01 * entropy

    def batch_loss(*args):
        return jax.vmap(loss)(*args).mean()

    actions = jnp.arange(3 * 12).reshape(3, 12) % 5
    return call(
        jax.grad(batch_loss, argnums=(0, 1)),
        _normal(0, 3, 12, 5),
        _normal(1, 3, 13),
        _normal(2, 3, 12, 5),
        actions,
        _normal(3, 3, 12),
        jnp.full((3, 12), 0.99),
    )


@case(
    "rlax",
    "agent",
    "distribution",
    "batched",
    shows="Double Q-learning where each action's value is a distribution on atoms.",
)
def categorical_double_q_learning() -> Call:
    import jax
    import jax.numpy as jnp
    import rlax

    def loss(atoms, logits, action, reward, discount, next_logits, selector):
        return rlax.categorical_double_q_learning(
            atoms, logits, action, reward, discount, atoms, next_logits, selector
        )

    atoms = jnp.linspace(-10.0, 10.0, 21)
    return call(
        jax.vmap(loss, (None, 0, 0, 0, 0, 0, 0)),
        atoms,
        _normal(0, 6, 3, 21),
        jnp.arange(6) % 3,
        _normal(1, 6),
        jnp.full(6, 0.97),
        _normal(2, 6, 3, 21),
        _normal(3, 6, 3),
    )


@case(
    "rlax",
    "agent",
    "optimizer",
    "scan",
    shows="An epoch of proximal policy optimisation with Adam on advantages.",
    needs=("optax",),
)
def ppo_update() -> Call:
    import jax
    import jax.numpy as jnp
    import optax
    import rlax

    optimizer = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))

    def loss(params, obs, actions, old_logp, advantages, returns):
        logp = jax.nn.log_softmax(jnp.tanh(obs @ params["hidden"]) @ params["policy"])
        chosen = rlax.batched_index(logp, actions)
        values = jnp.tanh(obs @ params["hidden"]) @ params["value"]
        surrogate = rlax.clipped_surrogate_pg_loss(
            jnp.exp(chosen - old_logp), advantages, 0.2
        )
        return surrogate + 0.5 * rlax.l2_loss(values, returns).mean()

    def update(params, opt_state, obs, actions, old_logp, rewards, values):
        discounts = jnp.full_like(rewards, 0.99)
        advantages = rlax.truncated_generalized_advantage_estimation(
            rewards, discounts, 0.95, values
        )
        returns = advantages + values[:-1]

        def epoch(carry, _):
            params, opt_state = carry
            value, grads = jax.value_and_grad(loss)(
                params, obs, actions, old_logp, advantages, returns
            )
            updates, opt_state = optimizer.update(grads, opt_state, params)
            return (optax.apply_updates(params, updates), opt_state), value

        return jax.lax.scan(epoch, (params, opt_state), None, length=4)

    params = {
        "hidden": _normal(0, 5, 16),
        "policy": _normal(1, 16, 3),
        "value": _normal(2, 16),
    }
    return call(
        update,
        params,
        optimizer.init(params),
        _normal(3, 20, 5),
        jnp.arange(20) % 3,
        jnp.full(20, -1.1),
        _normal(4, 20),
        _normal(5, 21),
    )


@case(
    "rlax",
    "agent",
    "scan",
    "gradient",
    shows="The gradient of Retrace targets that correct for another policy.",
)
def retrace_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    import rlax

    def loss(q, target_q, actions, rewards, pi, mu):
        errors = rlax.retrace(
            q[:-1],
            target_q[1:],
            actions[:-1],
            actions[1:],
            rewards,
            jnp.full_like(rewards, 0.95),
            jax.nn.softmax(pi),
            mu,
            0.9,
        )
        return jnp.mean(errors**2)

    return call(
        jax.grad(loss),
        _normal(0, 11, 4),
        _normal(1, 11, 4),
        jnp.arange(11) % 4,
        _normal(2, 10),
        _normal(3, 10, 4),
        jnp.full(10, 0.25),
    )


def _transition() -> dict[str, Any]:
    import jax.numpy as jnp

    return {
        "obs": jnp.ones((3,)),
        "action": jnp.array(0, jnp.int32),
        "reward": jnp.array(0.5),
        "done": jnp.array(False),
    }


@case(
    "flashbax",
    "buffer",
    "state",
    shows="A transition added to a circular replay buffer.",
)
def flat_buffer_add() -> Call:
    import flashbax

    buffer = flashbax.make_flat_buffer(max_length=64, min_length=4, sample_batch_size=8)
    return call(buffer.add, buffer.init(_transition()), _transition())


@case(
    "flashbax",
    "buffer",
    "prng",
    "integers",
    shows="A batch of sub-sequences drawn from a buffer of trajectories.",
)
def trajectory_buffer_sample() -> Call:
    import flashbax
    import jax
    import jax.numpy as jnp

    buffer = flashbax.make_trajectory_buffer(
        add_batch_size=2,
        sample_batch_size=4,
        sample_sequence_length=5,
        period=1,
        min_length_time_axis=5,
        max_length_time_axis=40,
    )
    steps = jax.tree.map(lambda x: jnp.stack([jnp.stack([x] * 12)] * 2), _transition())
    state = buffer.add(buffer.init(_transition()), steps)
    return call(buffer.sample, state, jax.random.PRNGKey(0))


@case(
    "flashbax",
    "buffer",
    "prng",
    "while",
    "state",
    shows="Prioritised replay: sample from the sum tree, then set new priorities.",
)
def prioritised_sample_and_update() -> Call:
    import flashbax
    import jax
    import jax.numpy as jnp

    buffer = flashbax.make_prioritised_flat_buffer(
        max_length=32, min_length=4, sample_batch_size=6, add_batch_size=2
    )
    state = buffer.init(_transition())
    for _ in range(6):
        batch = jax.tree.map(lambda x: jnp.stack([x, x]), _transition())
        state = buffer.add(state, batch)

    def replay(state, key):
        sample = buffer.sample(state, key)
        errors = jnp.abs(sample.experience.first["reward"] - sample.probabilities)
        return buffer.set_priorities(state, sample.indices, errors + 0.01)

    return call(replay, state, jax.random.PRNGKey(1))


@case(
    "flashbax",
    "buffer",
    "scan",
    "prng",
    shows="A loop that adds and samples, with the buffer as its carry.",
)
def item_buffer_loop() -> Call:
    import flashbax
    import jax
    import jax.numpy as jnp

    buffer = flashbax.make_item_buffer(
        max_length=20, min_length=2, sample_batch_size=3, add_batches=False
    )
    item = {"x": jnp.zeros(2), "n": jnp.array(0)}

    def loop(state, key):
        def step(state, inputs):
            n, key = inputs
            state = buffer.add(state, {"x": jnp.full(2, n * 0.5), "n": n})
            sample = buffer.sample(state, key)
            return state, jnp.where(buffer.can_sample(state), sample.experience["x"], 0)

        return jax.lax.scan(step, state, (jnp.arange(9), jax.random.split(key, 9)))

    return call(loop, buffer.init(item), jax.random.PRNGKey(2))
