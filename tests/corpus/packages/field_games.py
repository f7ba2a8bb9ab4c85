"""Board games and puzzles, and the searches that play them: pgx, mctx, jumanji."""

from __future__ import annotations

from tests.corpus.packages.cases import Call, call, case


@case(
    "pgx",
    "game",
    "state",
    "integers",
    shows="A move of tic-tac-toe.",
)
def tic_tac_toe_step() -> Call:
    import jax
    import pgx

    env = pgx.make("tic_tac_toe")
    state = env.init(jax.random.PRNGKey(0))
    return call(env.step, state, 4)


@case(
    "pgx",
    "game",
    "batched",
    "scan",
    "prng",
    shows="Random play of Connect Four until the boards are full, batched.",
)
def connect_four_random_play() -> Call:
    import jax
    import jax.numpy as jnp
    import pgx

    env = pgx.make("connect_four")

    def play(key):
        def step(carry, _):
            state, key = carry
            key, key_act = jax.random.split(key)
            logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
            action = jax.random.categorical(key_act, logits)
            return (env.step(state, action), key), state.terminated

        (state, _), ended = jax.lax.scan(step, (env.init(key), key), None, length=42)
        return state.rewards, ended

    return call(jax.vmap(play), jax.random.split(jax.random.PRNGKey(1), 16))


@case(
    "pgx",
    "game",
    "integers",
    "while",
    shows="A stone on a 9x9 board of Go, with captures and Tromp-Taylor scoring.",
)
def go_9x9_step() -> Call:
    import jax
    import pgx

    env = pgx.make("go_9x9")
    state = env.step(env.init(jax.random.PRNGKey(2)), 40)
    return call(env.step, state, 41)


@case(
    "pgx",
    "game",
    "integers",
    shows="A move of chess with legal moves, repetition and Zobrist hashes.",
)
def chess_step() -> Call:
    import jax
    import jax.numpy as jnp
    import pgx

    env = pgx.make("chess")
    state = env.init(jax.random.PRNGKey(3))
    action = jnp.argmax(state.legal_action_mask)
    return call(env.step, state, action)


@case(
    "pgx",
    "game",
    "prng",
    "batched",
    shows="A batch of moves of backgammon, whose dice are part of the state.",
)
def backgammon_batched_step() -> Call:
    import jax
    import jax.numpy as jnp
    import pgx

    env = pgx.make("backgammon")
    states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(4), 4))
    actions = jnp.argmax(states.legal_action_mask, axis=1)
    keys = jax.random.split(jax.random.PRNGKey(5), 4)
    return call(jax.vmap(env.step), states, actions, keys)


@case(
    "mctx",
    "search",
    "while",
    "prng",
    "integers",
    shows="MuZero's tree search over a linear model of the world.",
)
def muzero_search() -> Call:
    import jax
    import jax.numpy as jnp
    import mctx

    def recurrent(params, key, action, embedding):
        embedding = jnp.tanh(embedding @ params["move"] + params["act"][action])
        output = mctx.RecurrentFnOutput(
            reward=embedding.sum(-1) * 0.1,
            discount=jnp.full(embedding.shape[0], 0.99),
            prior_logits=embedding @ params["prior"],
            value=embedding @ params["value"],
        )
        return output, embedding

    def search(params, key, observation):
        root = mctx.RootFnOutput(
            prior_logits=observation @ params["prior"],
            value=observation @ params["value"],
            embedding=observation,
        )
        output = mctx.muzero_policy(params, key, root, recurrent, num_simulations=12)
        return output.action, output.action_weights

    keys = jax.random.split(jax.random.PRNGKey(0), 5)
    params = {
        "move": jax.random.normal(keys[0], (8, 8)) * 0.3,
        "act": jax.random.normal(keys[1], (4, 8)),
        "prior": jax.random.normal(keys[2], (8, 4)),
        "value": jax.random.normal(keys[3], (8,)),
    }
    return call(search, params, keys[4], jnp.ones((2, 8)))


@case(
    "mctx",
    "search",
    "game",
    "while",
    shows="Gumbel search that plays Connect Four through the game itself.",
    needs=("pgx",),
)
def gumbel_search_of_a_game() -> Call:
    import jax
    import jax.numpy as jnp
    import mctx
    import pgx

    env = pgx.make("connect_four")

    def recurrent(params, key, action, state):
        player = state.current_player
        state = jax.vmap(env.step)(state, action)
        rows = jnp.arange(action.shape[0])
        logits = jnp.where(state.legal_action_mask, 0.0, jnp.finfo(jnp.float32).min)
        discount = jnp.where(state.terminated, 0.0, -1.0)
        output = mctx.RecurrentFnOutput(
            reward=state.rewards[rows, player],
            discount=discount,
            prior_logits=logits,
            value=jnp.zeros(action.shape),
        )
        return output, state

    def search(key, state):
        logits = jnp.zeros(state.legal_action_mask.shape)
        root = mctx.RootFnOutput(
            prior_logits=logits, value=jnp.zeros(logits.shape[0]), embedding=state
        )
        output = mctx.gumbel_muzero_policy(
            params=(),
            rng_key=key,
            root=root,
            recurrent_fn=recurrent,
            num_simulations=8,
            invalid_actions=~state.legal_action_mask,
            qtransform=mctx.qtransform_completed_by_mix_value,
            gumbel_scale=1.0,
        )
        return output.action, output.action_weights

    states = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(1), 2))
    return call(search, jax.random.PRNGKey(2), states)


@case(
    "mctx",
    "search",
    "prng",
    shows="Stochastic MuZero with chance nodes between the decisions.",
)
def stochastic_search() -> Call:
    import jax
    import jax.numpy as jnp
    import mctx

    def decide(params, key, action, embedding):
        after = jnp.tanh(embedding + params[action])
        output = mctx.DecisionRecurrentFnOutput(
            chance_logits=after[:, :3], afterstate_value=after.mean(-1)
        )
        return output, after

    def draw(params, key, chance, after):
        state = jnp.tanh(after * (1.0 + chance[:, None]))
        output = mctx.ChanceRecurrentFnOutput(
            action_logits=state[:, :4],
            value=state.mean(-1),
            reward=state[:, 0],
            discount=jnp.full(state.shape[0], 0.9),
        )
        return output, state

    def search(params, key, embedding):
        root = mctx.RootFnOutput(
            prior_logits=embedding[:, :4], value=embedding.mean(-1), embedding=embedding
        )
        output = mctx.stochastic_muzero_policy(
            params, key, root, decide, draw, num_simulations=6
        )
        return output.action_weights

    params = jax.random.normal(jax.random.PRNGKey(3), (4, 5))
    return call(search, params, jax.random.PRNGKey(4), jnp.ones((2, 5)) * 0.2)


@case(
    "jumanji",
    "puzzle",
    "state",
    "prng",
    shows="A step of the snake that grows where it finds fruit.",
)
def snake_step() -> Call:
    import jax
    import jax.numpy as jnp
    import jumanji

    env = jumanji.make("Snake-v1")
    state, _ = env.reset(jax.random.PRNGKey(0))
    return call(env.step, state, jnp.asarray(1))


@case(
    "jumanji",
    "puzzle",
    "integers",
    "while",
    shows="A slide of the tiles of 2048.",
)
def game_2048_step() -> Call:
    import jax
    import jax.numpy as jnp
    import jumanji

    env = jumanji.make("Game2048-v1")
    state, _ = env.reset(jax.random.PRNGKey(1))
    return call(env.step, state, jnp.asarray(2))


@case(
    "jumanji",
    "puzzle",
    "scan",
    "batched",
    shows="A random walk of turns of Rubik's cube, batched.",
)
def rubiks_cube_rollout() -> Call:
    import jax
    import jax.numpy as jnp
    import jumanji

    env = jumanji.make("RubiksCube-partly-scrambled-v0")

    def rollout(key, actions):
        state, _ = env.reset(key)

        def step(state, action):
            state, timestep = env.step(state, action)
            return state, timestep.reward

        return jax.lax.scan(step, state, actions)[1]

    keys = jax.random.split(jax.random.PRNGKey(2), 3)
    turns = jnp.array([[0, 0, 1], [2, 0, 0], [5, 0, 2]])
    return call(jax.vmap(rollout, (0, None)), keys, turns)


@case(
    "jumanji",
    "puzzle",
    "combinatorics",
    shows="The reset of a travelling salesman with a few cities and his first step.",
)
def tsp_reset_and_step() -> Call:
    import jax
    import jumanji
    from jumanji.environments.routing.tsp.generator import UniformGenerator

    env = jumanji.make("TSP-v1", generator=UniformGenerator(num_cities=12))

    def start(key, city):
        state, _ = env.reset(key)
        return env.step(state, city)

    return call(start, jax.random.PRNGKey(3), 5)


@case(
    "jumanji",
    "puzzle",
    "combinatorics",
    "batched",
    shows="A batch of knapsacks filled through the wrapper that resets them.",
)
def knapsack_batched_step() -> Call:
    import jax
    import jax.numpy as jnp
    import jumanji
    from jumanji.wrappers import VmapAutoResetWrapper

    env = VmapAutoResetWrapper(jumanji.make("Knapsack-v1"))
    states, _ = env.reset(jax.random.split(jax.random.PRNGKey(4), 4))
    return call(env.step, states, jnp.array([0, 7, 13, 21]))


@case(
    "jumanji",
    "multi-agent",
    "state",
    shows="Agents that connect pairs of points on a grid all move at once.",
)
def connector_step() -> Call:
    import jax
    import jax.numpy as jnp
    import jumanji

    env = jumanji.make("Connector-v3")
    state, _ = env.reset(jax.random.PRNGKey(5))
    return call(env.step, state, jnp.arange(env.num_agents) % 5)
