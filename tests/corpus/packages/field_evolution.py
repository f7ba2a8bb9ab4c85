"""Cases of evolution strategies and quality diversity: evosax, evojax and qdax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def sphere(population: jax.Array) -> jax.Array:
    """Return the squared length of each member."""
    return jnp.sum(population**2, axis=-1)


def ask_evaluate_tell(strategy: Any) -> Call:
    """Return the call of one generation of a distribution-based strategy."""
    params = strategy.default_params
    state = strategy.init(jax.random.key(0), jnp.ones(6), params)

    def generation(key, state, params):
        ask_key, tell_key = jax.random.split(key)
        population, state = strategy.ask(ask_key, state, params)
        return strategy.tell(tell_key, population, sphere(population), state, params)

    return call(generation, jax.random.key(1), state, params)


def ask_evaluate_tell_population(strategy: Any) -> Call:
    """Return the call of one generation of a population-based strategy."""
    params = strategy.default_params
    start = jax.random.normal(jax.random.key(2), (strategy.population_size, 6))
    state = strategy.init(jax.random.key(0), start, sphere(start), params)

    def generation(key, state, params):
        ask_key, tell_key = jax.random.split(key)
        population, state = strategy.ask(ask_key, state, params)
        return strategy.tell(tell_key, population, sphere(population), state, params)

    return call(generation, jax.random.key(1), state, params)


@case("evosax", "evolution", "prng", "linalg", shows="CMA-ES with its eigenvectors")
def cma_es_generation() -> Call:
    """One generation of CMA-ES: ask, evaluate, tell."""
    from evosax.algorithms import CMA_ES

    return ask_evaluate_tell(CMA_ES(population_size=10, solution=jnp.zeros(6)))


@case("evosax", "evolution", "prng", "optimizer", shows="antithetic samples and Adam")
def open_es_generation() -> Call:
    """One generation of OpenAI's strategy with ranks as fitness."""
    import optax
    from evosax.algorithms import Open_ES

    strategy = Open_ES(
        population_size=12, solution=jnp.zeros(6), optimizer=optax.adam(1e-2)
    )
    return ask_evaluate_tell(strategy)


@case("evosax", "evolution", "scan", "prng", shows="generations under scan on BBOB")
def snes_scanned_on_rastrigin() -> Call:
    """Fifteen generations of SNES on a rotated Rastrigin function."""
    from evosax.algorithms import SNES
    from evosax.problems import BBOBProblem

    problem = BBOBProblem("rastrigin", num_dims=4, seed=3)
    strategy = SNES(population_size=8, solution=jnp.zeros(4))
    params = strategy.default_params
    state = strategy.init(jax.random.key(0), jnp.zeros(4), params)
    problem_state = problem.init(jax.random.key(1))

    def run(key, state, problem_state):
        def generation(carry, key):
            state, problem_state = carry
            ask, evaluate, tell = jax.random.split(key, 3)
            population, state = strategy.ask(ask, state, params)
            fitness, problem_state, _ = problem.eval(
                evaluate, population, problem_state
            )
            state, metrics = strategy.tell(tell, population, fitness, state, params)
            return (state, problem_state), metrics["best_fitness"]

        keys = jax.random.split(key, 15)
        return jax.lax.scan(generation, (state, problem_state), keys)

    return call(run, jax.random.key(2), state, problem_state)


@case(
    "evosax", "evolution", "prng", "sorting", shows="crossover and mutation of elites"
)
def differential_evolution_generation() -> Call:
    """One generation of differential evolution."""
    from evosax.algorithms import DifferentialEvolution

    solution = jnp.zeros(6)
    return ask_evaluate_tell_population(DifferentialEvolution(16, solution))


@case(
    "evosax", "evolution", "prng", "network", shows="weights of recombination learned"
)
def learned_strategy_generation() -> Call:
    """One generation of the strategy whose weights an attention network gives."""
    from evosax.algorithms import LearnedES

    return ask_evaluate_tell(LearnedES(population_size=8, solution=jnp.zeros(6)))


@case("qdax", "evolution", "prng", "scatter", shows="MAP-Elites adds to its archive")
def map_elites_update() -> Call:
    """An update of MAP-Elites on the arm task, as qdax's README runs it."""
    from functools import partial

    from qdax.core.containers.mapelites_repertoire import compute_euclidean_centroids
    from qdax.core.emitters.mutation_operators import isoline_variation
    from qdax.core.emitters.standard_emitters import MixingEmitter
    from qdax.core.map_elites import MAPElites
    from qdax.tasks.arm import arm_scoring_function
    from qdax.utils.metrics import default_qd_metrics

    variation = partial(isoline_variation, iso_sigma=0.05, line_sigma=0.1)
    emitter = MixingEmitter(
        mutation_fn=lambda x, y: (x, y),
        variation_fn=variation,
        variation_percentage=1.0,
        batch_size=16,
    )
    algorithm = MAPElites(
        scoring_function=arm_scoring_function,
        emitter=emitter,
        metrics_function=partial(default_qd_metrics, qd_offset=0.0),
    )
    centroids = compute_euclidean_centroids((6, 6), 0.0, 1.0)
    genotypes = jax.random.uniform(jax.random.key(0), (16, 10))
    repertoire, emitter_state, _ = algorithm.init(
        genotypes, centroids, jax.random.key(1)
    )
    return call(algorithm.update, repertoire, emitter_state, jax.random.key(2))


@case("qdax", "evolution", "prng", "linalg", shows="CMA-ES of qdax's own under while")
def cmaes_update() -> Call:
    """An ask and an update of qdax's CMA-ES with lazily updated eigenvectors."""
    from qdax.baselines.cmaes import CMAES

    def fitness(x):
        return -jnp.sum((x - 0.3) ** 2, axis=-1)

    cmaes = CMAES(
        population_size=8,
        search_dim=5,
        fitness_function=fitness,
        num_best=4,
        init_sigma=0.5,
        mean_init=jnp.zeros(5),
    )

    def step(state, key):
        samples = cmaes.sample(state, key)
        samples = samples[0] if isinstance(samples, tuple) else samples
        return cmaes.update(state, samples)

    return call(step, cmaes.init(), jax.random.key(0))


@case("qdax", "evolution", "sorting", "pareto", shows="a Pareto front masked")
def pareto_front_and_crowding() -> Call:
    """The non-dominated members of a population and their crowding distances."""
    from qdax.core.containers.nsga2_repertoire import NSGA2Repertoire

    genotypes = jax.random.normal(jax.random.key(0), (12, 3))
    scores = jax.random.normal(jax.random.key(1), (12, 2))
    repertoire = NSGA2Repertoire.init(genotypes, scores, population_size=12)

    def add(repertoire, genotypes, scores):
        return repertoire.add(genotypes, scores)

    return call(add, repertoire, genotypes[:4] * 0.5, scores[:4] + 0.2)


@case(
    "evojax", "evolution", "environment", "batched", "network", shows="a rollout step"
)
def cartpole_step_with_population_of_policies() -> Call:
    """One step of cart-pole, an episode and a policy for each member."""
    from evojax.policy import MLPPolicy
    from evojax.task.cartpole import CartPoleSwingUp

    task = CartPoleSwingUp(max_steps=100)
    policy = MLPPolicy(task.obs_shape[0], [8], task.act_shape[0])
    keys = jax.random.split(jax.random.PRNGKey(0), 6)
    task_state = task.reset(keys)
    policy_state = policy.reset(task_state)
    params = jax.random.normal(jax.random.key(1), (6, policy.num_params))

    def step(task_state, policy_state, params):
        actions, policy_state = policy.get_actions(task_state, params, policy_state)
        task_state, reward, done = task.step(task_state, actions)
        return task_state, policy_state, reward, done

    return call(step, task_state, policy_state, params)


@case("evojax", "evolution", "environment", "scan", shows="an episode under scan")
def cartpole_episode_rewards() -> Call:
    """The rewards of twenty steps of the harder cart-pole, rewards masked when done."""
    from evojax.task.cartpole import CartPoleSwingUp

    task = CartPoleSwingUp(max_steps=20, harder=True)
    keys = jax.random.split(jax.random.PRNGKey(0), 4)

    def episode(keys, gain):
        def step(carry, _):
            state, alive = carry
            actions = jnp.tanh(state.obs @ gain)[:, None]
            state, reward, done = task.step(state, actions)
            return (state, alive * (1 - done)), reward * alive

        start = (task.reset(keys), jnp.ones(4))
        return jax.lax.scan(step, start, length=20)[1].sum(0)

    return call(episode, keys, jnp.linspace(-1.0, 1.0, 5))


@case(
    "evojax", "evolution", "environment", "loop", shows="agents among food and poison"
)
def waterworld_step() -> Call:
    """A step of the water world: items move, are eaten and appear again."""
    from evojax.task.waterworld import WaterWorld

    task = WaterWorld(num_items=3, max_steps=50)
    state = task.reset(jax.random.split(jax.random.PRNGKey(0), 2))
    actions = jax.random.uniform(jax.random.key(1), (2, *task.act_shape))
    return call(task.step, state, actions)
