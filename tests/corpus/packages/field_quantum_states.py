"""Many-body states, circuits as networks, oscillators and photonic circuits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


@case(
    "netket",
    "quantum",
    "energy",
    "complex",
    x64=True,
    shows="Local energies of a chain.",
)
def local_energies_of_ising_chain() -> Call:
    import netket as nk

    space = nk.hilbert.Spin(s=0.5, N=5)
    hamiltonian = nk.operator.IsingJax(hilbert=space, graph=nk.graph.Chain(5), h=0.8)
    model = nk.models.RBM(alpha=2, param_dtype=complex)
    samples = space.random_state(jax.random.PRNGKey(0), 12)
    params = model.init(jax.random.PRNGKey(1), samples)

    def energies(params: Any, samples: Any) -> Any:
        neighbours, elements = hamiltonian.get_conn_padded(samples)
        ratios = model.apply(params, neighbours) - model.apply(params, samples)[:, None]
        return jnp.sum(elements * jnp.exp(ratios), axis=-1)

    return call(energies, params, samples)


@case(
    "netket", "quantum", "sampler", "while", "random", x64=True, shows="A Markov chain."
)
def metropolis_exchange_sample() -> Call:
    import netket as nk

    graph = nk.graph.Square(3)
    space = nk.hilbert.Spin(s=0.5, N=9, total_sz=0.5)
    sampler = nk.sampler.MetropolisExchange(space, graph=graph, n_chains=6)
    model = nk.models.Jastrow()
    params = model.init(jax.random.PRNGKey(2), jnp.ones((1, 9)))
    state = sampler.init_state(model, params, seed=jax.random.PRNGKey(3))
    state = sampler.reset(model, params, state)

    def sample(params: Any, state: Any) -> Any:
        return sampler.sample(model, params, state=state, chain_length=4)

    return call(sample, params, state)


@case(
    "netket", "quantum", "gradient", "statistics", x64=True, shows="Energy's gradient."
)
def variational_monte_carlo_gradient() -> Call:
    import netket as nk

    space = nk.hilbert.Spin(s=0.5, N=6)
    operator = nk.operator.IsingJax(hilbert=space, graph=nk.graph.Chain(6), h=1.2)
    model = nk.models.RBM(alpha=1)
    samples = space.random_state(jax.random.PRNGKey(4), 16)
    params = model.init(jax.random.PRNGKey(5), samples)

    def gradient(params: Any, samples: Any) -> Any:
        neighbours, elements = operator.get_conn_padded(samples)
        values, pullback = nk.jax.vjp(lambda p: model.apply(p, samples), params)
        ratios = jnp.exp(model.apply(params, neighbours) - values[:, None])
        local = jnp.sum(elements * ratios, axis=-1)
        centred = (local - local.mean()) / local.shape[0]
        return nk.stats.statistics(local).mean, pullback(centred)[0]

    return call(gradient, params, samples)


@case("netket", "quantum", "linear-operator", x64=True, shows="The geometric tensor.")
def quantum_geometric_tensor_solve() -> Call:
    import netket as nk

    model = nk.models.RBM(alpha=1)
    samples = nk.hilbert.Spin(s=0.5, N=4).random_state(jax.random.PRNGKey(6), 10)
    params = model.init(jax.random.PRNGKey(7), samples)

    def natural_gradient(params: Any, samples: Any) -> Any:
        jacobian = nk.jax.jacobian(
            model.apply, params["params"], samples, mode="real", dense=True, center=True
        )
        metric = jacobian.T @ jacobian / samples.shape[0]
        metric = metric + 0.01 * jnp.eye(metric.shape[0])
        return jnp.linalg.solve(metric, jacobian.mean(axis=0) + 1.0)

    return call(natural_gradient, params, samples)


def jax_backend() -> Any:
    """Return tensorcircuit, calculating with JAX."""
    import tensorcircuit as tc

    tc.set_backend("jax")
    return tc


@case(
    "tensorcircuit-ng",
    "quantum",
    "gradient",
    "complex",
    shows="An Ising chain's energy.",
)
def contracted_circuit_energy() -> Call:
    tc = jax_backend()

    def energy(params: Any) -> Any:
        circuit = tc.Circuit(4)
        for layer in range(2):
            for wire in range(3):
                circuit.rzz(wire, wire + 1, theta=params[layer, 0, wire])
            for wire in range(4):
                circuit.rx(wire, theta=params[layer, 1, wire])
        value = sum(
            circuit.expectation((tc.gates.z(), [i]), (tc.gates.z(), [i + 1]))
            for i in range(3)
        )
        return tc.backend.real(value)

    params = 0.2 * jax.random.normal(jax.random.PRNGKey(8), (2, 2, 4))
    return call(jax.value_and_grad(energy), params)


@case(
    "tensorcircuit-ng", "quantum", "batched", "complex", shows="States of many angles."
)
def batched_ghz_states() -> Call:
    tc = jax_backend()

    def state(theta: Any) -> Any:
        circuit = tc.Circuit(3)
        circuit.ry(0, theta=theta)
        circuit.cnot(0, 1)
        circuit.cnot(1, 2)
        return circuit.state(), circuit.expectation_ps(x=[0, 1], z=[2])

    return call(jax.vmap(state), jnp.linspace(0.0, 3.0, 5))


@case("tensorcircuit-ng", "quantum", "noise", "random", shows="A noisy trajectory.")
def monte_carlo_trajectory() -> Call:
    tc = jax_backend()

    def trajectory(theta: Any, uniform: Any) -> Any:
        circuit = tc.Circuit(2)
        circuit.rx(0, theta=theta)
        circuit.cnot(0, 1)
        circuit.depolarizing(0, px=0.1, py=0.1, pz=0.1, status=uniform)
        return circuit.probability()

    return call(trajectory, jnp.array(0.8), jnp.array(0.35))


@case("jaxquantum", "quantum", "ode", "complex", x64=True, shows="A cavity's decay.")
def cavity_master_equation() -> Call:
    import jaxquantum as jqt

    def solve(kappa: Any) -> Any:
        lower = jqt.destroy(6)
        number = lower.dag() @ lower
        states = jqt.mesolve(
            2.0 * number,
            jqt.basis(6, 1).to_dm(),
            jnp.linspace(0.0, 1.0, 8),
            c_ops=jqt.Qarray.from_list([jnp.sqrt(kappa) * lower]),
            solver_options=jqt.SolverOptions.create(progress_meter=False),
        )
        return jnp.real(jqt.overlap(number, states))

    return call(solve, jnp.array(0.5))


@case("jaxquantum", "quantum", "ode", "gradient", x64=True, shows="A driven qubit.")
def driven_qubit_gradient() -> Call:
    import jaxquantum as jqt

    def infidelity(amplitude: Any, detuning: Any) -> Any:
        def hamiltonian(t: Any) -> Any:
            drive = amplitude * jnp.sin(3.0 * t)
            return 0.5 * detuning * jqt.sigmaz() + drive * jqt.sigmax()

        states = jqt.sesolve(
            hamiltonian,
            jqt.basis(2, 0),
            jnp.linspace(0.0, 1.0, 5),
            solver_options=jqt.SolverOptions.create(
                progress_meter=False, max_steps=128, rtol=1e-4, atol=1e-6
            ),
        )
        excited = jqt.basis(2, 1)
        return 1.0 - jnp.real(jqt.overlap(excited @ excited.dag(), states[-1]))

    grad = jax.value_and_grad(infidelity, argnums=(0, 1))
    return call(grad, jnp.array(1.1), jnp.array(0.3))


@case(
    "jaxquantum", "quantum", "linear-algebra", "complex", x64=True, shows="A Bell pair."
)
def bell_pair_by_gates() -> Call:
    import jaxquantum as jqt

    def prepare(theta: Any) -> Any:
        start = jqt.basis(2, 0) ^ jqt.basis(2, 0)
        turn = (-0.5j * theta * jqt.sigmax()).expm() ^ jqt.identity(2)
        down = jqt.basis(2, 1) @ jqt.basis(2, 1).dag()
        up = jqt.basis(2, 0) @ jqt.basis(2, 0).dag()
        entangle = (up ^ jqt.identity(2)) + (down ^ jqt.sigmax())
        pair = entangle @ turn @ start
        return pair.data, jqt.ptrace(pair.to_dm(), 0).data

    return call(prepare, jnp.array(1.5))


def interferometer() -> Any:
    """Return an interferometer of two couplers and a long arm."""
    import sax

    circuit, _ = sax.circuit(
        netlist={
            "instances": {
                "left": "coupler",
                "top": "straight",
                "bottom": "straight",
                "right": "coupler",
            },
            "connections": {
                "left,out0": "bottom,in0",
                "left,out1": "top,in0",
                "bottom,out0": "right,in0",
                "top,out0": "right,in1",
            },
            "ports": {"in": "left,in0", "out0": "right,out0", "out1": "right,out1"},
        },
        models={
            "coupler": sax.models.coupler_ideal,
            "straight": sax.models.straight,
        },
        backend="filipsson_gunnar",
    )
    return circuit


@case(
    "sax",
    "photonics",
    "complex",
    "linear-solve",
    shows="Spectrum of an interferometer.",
)
def interferometer_spectrum() -> Call:
    import sax

    circuit = interferometer()

    def spectrum(wavelengths: Any, length: Any) -> Any:
        scattering = sax.sdict(circuit(wl=wavelengths, top={"length": length}))
        return jnp.abs(scattering["in", "out0"]) ** 2, scattering["in", "out1"]

    return call(spectrum, jnp.linspace(1.5, 1.6, 20), jnp.array(25.0))


@case(
    "sax",
    "photonics",
    "complex",
    "training",
    x64=True,
    shows="A step of tuning a length.",
)
def interferometer_tuning_step() -> Call:
    import optax
    import sax

    circuit = interferometer()
    optimizer = optax.adam(0.1)

    def loss(params: Any, wavelength: Any) -> Any:
        scattering = sax.sdict(
            circuit(
                wl=wavelength,
                left={"coupling": jax.nn.sigmoid(params["coupling"])},
                top={"length": params["length"]},
            )
        )
        return jnp.mean(jnp.abs(scattering["in", "out0"]) ** 2)

    def step(params: Any, state: Any, wavelength: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, wavelength)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    params = {"coupling": jnp.array(0.2), "length": jnp.array(20.0)}
    return call(step, params, optimizer.init(params), jnp.array([1.53, 1.55]))
