"""Nerves, evolution and cells: jaxley, vbjax, evosax, cax."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case


def _cell(n_branches: int) -> Any:
    """Return a nerve cell of some branches with the channels of Hodgkin and Huxley."""
    import jaxley as jx
    from jaxley.channels import HH

    branch = jx.Branch(jx.Compartment(), ncomp=2)
    cell = jx.Cell(branch, parents=[-1, *[0] * (n_branches - 1)])
    cell.insert(HH())
    current = jx.step_current(
        i_delay=0.1, i_dur=0.5, i_amp=0.3, delta_t=0.025, t_max=1.0
    )
    cell.branch(0).loc(0.0).stimulate(current, verbose=False)
    cell.branch(0).loc(0.0).record(verbose=False)
    return cell


@case(
    "jaxley",
    "neuroscience",
    "scan",
    "linear solve",
    shows="The voltage of a branched nerve cell, as its conductances are set.",
)
def cell_voltage() -> Call:
    import jaxley as jx

    cell = _cell(3)
    cell.make_trainable("HH_gNa", verbose=False)

    def simulate(params):
        return jx.integrate(cell, params=params, delta_t=0.025)

    return call(simulate, cell.get_parameters())


@case(
    "jaxley",
    "neuroscience",
    "gradient",
    "scan",
    shows="The gradient of a cell's mean voltage with respect to a conductance.",
)
def conductance_gradient() -> Call:
    import jax
    import jaxley as jx

    cell = _cell(1)
    cell.make_trainable("HH_gK", verbose=False)

    def loss(params):
        return jx.integrate(cell, params=params, delta_t=0.025).mean()

    return call(jax.value_and_grad(loss), cell.get_parameters())


@case(
    "jaxley",
    "neuroscience",
    "network",
    "batched",
    shows="Two cells joined by a synapse, simulated for several strengths of it.",
)
def synapse_sweep() -> Call:
    import jax
    import jax.numpy as jnp
    import jaxley as jx
    from jaxley.synapses import IonotropicSynapse

    net = jx.Network([_cell(1), _cell(1)])
    sender, receiver = (net.cell(i).branch(0).loc(0.0) for i in (0, 1))
    jx.connect(sender, receiver, IonotropicSynapse())
    sender.stimulate(jx.step_current(0.1, 0.5, 0.3, 0.025, 1.0), verbose=False)
    receiver.record(verbose=False)

    net.IonotropicSynapse.edge("all").make_trainable(
        "IonotropicSynapse_gS", verbose=False
    )

    def simulate(strength):
        params = [{"IonotropicSynapse_gS": strength[None]}]
        return jx.integrate(net, params=params, t_max=1.0, delta_t=0.025)

    return call(jax.vmap(simulate), jnp.array([1e-4, 1e-3, 1e-2]))


@case(
    "vbjax",
    "neuroscience",
    "scan",
    shows="A neural mass after Montbrio, Pazo and Roxin, by Heun's method.",
)
def neural_mass_loop() -> Call:
    import jax.numpy as jnp
    import vbjax

    def derivative(state, theta):
        return vbjax.mpr_dfun(state, (0.1, 0.0), theta)

    _, loop = vbjax.make_ode(0.01, derivative)

    def simulate(state, theta):
        return loop(state, jnp.arange(50), theta)

    return call(simulate, jnp.array([0.1, -2.0]), vbjax.mpr_default_theta)


@case(
    "vbjax",
    "neuroscience",
    "network",
    "gradient",
    "prng",
    shows="The gradient through a noisy network of neural masses, by its coupling.",
)
def noisy_network_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    import vbjax

    weights = jax.random.uniform(jax.random.PRNGKey(0), (6, 6))

    def derivative(state, coupling):
        inputs = (coupling * weights @ state[0], 0.0)
        return vbjax.mpr_dfun(state, inputs, vbjax.mpr_default_theta)

    _, loop = vbjax.make_sde(dt=0.05, dfun=derivative, gfun=0.02)

    def loss(coupling, state, noise):
        return jnp.mean(loop(state, noise, coupling)[:, 0] ** 2)

    state = jnp.stack([jnp.full(6, 0.1), jnp.full(6, -2.0)])
    noise = jax.random.normal(jax.random.PRNGKey(1), (20, 2, 6))
    return call(jax.grad(loss), 0.05, state, noise)


@case(
    "vbjax",
    "neuroscience",
    "batched",
    shows="A sweep of Jansen-Rit columns over their input.",
)
def jansen_rit_sweep() -> Call:
    import jax
    import jax.numpy as jnp
    import vbjax

    def derivative(state, drive):
        return vbjax.jr_dfun(state, drive, vbjax.jr_default_theta)

    _, loop = vbjax.make_ode(0.1, derivative)

    def simulate(drive):
        return loop(jnp.zeros(6), jnp.arange(30), drive)[-1]

    return call(jax.vmap(simulate), jnp.linspace(0.0, 0.3, 5))


def _sphere(x: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(x**2, axis=-1)


@case(
    "evosax",
    "evolution",
    "scan",
    "prng",
    "eigendecomposition",
    shows="Generations of CMA-ES, which decomposes its covariance.",
)
def cma_es_generations() -> Call:
    import jax
    import jax.numpy as jnp
    from evosax.algorithms import CMA_ES

    strategy = CMA_ES(population_size=8, solution=jnp.zeros(5))
    params = strategy.default_params

    def evolve(key, state):
        def generation(state, key):
            key_ask, key_tell = jax.random.split(key)
            population, state = strategy.ask(key_ask, state, params)
            fitness = _sphere(population)
            state, _ = strategy.tell(key_tell, population, fitness, state, params)
            return state, fitness.min()

        return jax.lax.scan(generation, state, jax.random.split(key, 6))

    key = jax.random.PRNGKey(0)
    return call(evolve, key, strategy.init(key, jnp.ones(5), params))


@case(
    "evosax",
    "evolution",
    "prng",
    "optimizer",
    shows="A step of OpenAI's evolution strategy on the weights of a policy.",
)
def open_es_step() -> Call:
    import jax
    import jax.numpy as jnp
    from evosax.algorithms import Open_ES

    solution = {"w": jnp.zeros((4, 2)), "b": jnp.zeros(2)}
    strategy = Open_ES(population_size=10, solution=solution)
    params = strategy.default_params

    def step(key, state, inputs):
        key_ask, key_tell = jax.random.split(key)
        population, state = strategy.ask(key_ask, state, params)
        outputs = jax.vmap(lambda p: jnp.tanh(inputs @ p["w"] + p["b"]))(population)
        fitness = jnp.mean((outputs - 0.5) ** 2, axis=(1, 2))
        return strategy.tell(key_tell, population, fitness, state, params)

    key = jax.random.PRNGKey(1)
    inputs = jax.random.normal(key, (6, 4))
    return call(step, key, strategy.init(key, solution, params), inputs)


@case(
    "evosax",
    "evolution",
    "prng",
    "integers",
    "batched",
    shows="Differential evolution asks for its next population.",
)
def differential_evolution_ask() -> Call:
    import jax
    import jax.numpy as jnp
    from evosax.algorithms import DifferentialEvolution

    strategy = DifferentialEvolution(population_size=8, solution=jnp.zeros(3))
    params = strategy.default_params
    key = jax.random.PRNGKey(2)
    population = jax.random.normal(key, (8, 3))
    state = strategy.init(key, population, _sphere(population), params)
    return call(strategy.ask, key, state, params)


@case(
    "cax",
    "automaton",
    "scan",
    "convolution",
    shows="Conway's game of life for some steps.",
    needs=("flax",),
)
def game_of_life() -> Call:
    import jax
    import jax.numpy as jnp
    from cax.cs.life import Life
    from flax import nnx

    birth, survival = Life.birth_survival_from_string("B3/S23")
    life = Life(birth=birth, survival=survival, rngs=nnx.Rngs(0))
    cells = jax.random.bernoulli(jax.random.PRNGKey(0), 0.4, (16, 16, 1))

    graph, variables = nnx.split(life)

    def run(variables, state):
        return nnx.merge(graph, variables)(state, num_steps=10)

    return call(run, variables, cells.astype(jnp.float32))


@case(
    "cax",
    "automaton",
    "batched",
    "convolution",
    shows="Elementary automata from a batch of rows by rule 110.",
    needs=("flax",),
)
def rule_110() -> Call:
    import jax
    import jax.numpy as jnp
    from cax.cs.elementary import Elementary
    from flax import nnx

    code = jnp.array([0, 1, 1, 0, 1, 1, 1, 0], jnp.float32)
    automaton = Elementary(wolfram_code=code, rngs=nnx.Rngs(1))
    rows = jax.random.bernoulli(jax.random.PRNGKey(1), 0.5, (3, 20, 1))

    graph, variables = nnx.split(automaton)

    def run(variables, row):
        return nnx.merge(graph, variables)(row, num_steps=5)

    return call(jax.vmap(run, (None, 0)), variables, rows.astype(jnp.float32))


@case(
    "cax",
    "automaton",
    "gradient",
    "convolution",
    "prng",
    shows="The gradient of a neural cellular automaton's loss after some steps.",
    needs=("flax",),
)
def neural_automaton_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    from cax.core.perceive import ConvPerceive
    from cax.core.update import NCAUpdate
    from flax import nnx

    rngs = nnx.Rngs(0)
    perceive = ConvPerceive(channel_size=6, perception_size=12, rngs=rngs)
    update = NCAUpdate(6, 12, (16,), rngs=rngs)
    graph, params, rest = nnx.split((perceive, update), nnx.Param, ...)

    def loss(params, state, target):
        perceive, update = nnx.merge(graph, params, rest)
        for _ in range(3):
            state = update(state, perceive(state), None)
        return jnp.mean((state[..., :3] - target) ** 2)

    state = jax.random.uniform(jax.random.PRNGKey(3), (8, 8, 6))
    return call(jax.value_and_grad(loss), params, state, jnp.ones((8, 8, 3)) * 0.5)
