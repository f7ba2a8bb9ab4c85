"""Quantum circuits and quantum dynamics."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


@case(
    "dynamiqs", "quantum", "ode", "complex", x64=True, shows="A lossy cavity's decay."
)
def lindblad_cavity() -> Call:
    import dynamiqs as dq

    n = 8
    lower = dq.destroy(n)

    def solve(omega: Any, kappa: Any) -> Any:
        result = dq.mesolve(
            omega * lower.dag() @ lower,
            [jnp.sqrt(kappa) * lower],
            dq.coherent(n, 1.0),
            jnp.linspace(0.0, 2.0, 9),
            exp_ops=[lower.dag() @ lower],
            progress_meter=False,
        )
        return result.expects, result.states.to_jax()[-1]

    return call(solve, jnp.array(1.0), jnp.array(0.2))


@case("dynamiqs", "quantum", "ode", "gradient", "complex", shows="A pulse's gradient.")
def gradient_of_pulse() -> Call:
    import dynamiqs as dq

    times = jnp.linspace(0.0, 1.0, 6)

    def infidelity(amplitudes: Any) -> Any:
        drive = dq.pwc(times, amplitudes, dq.sigmax())
        result = dq.sesolve(
            0.5 * dq.sigmaz() + drive,
            dq.basis(2, 0),
            times,
            progress_meter=False,
        )
        return 1.0 - dq.fidelity(result.final_state, dq.basis(2, 1))

    return call(jax.value_and_grad(infidelity), jnp.full(5, 1.2))


@case("dynamiqs", "quantum", "batched", "expm", "complex", shows="Rabi, many rates.")
def batched_rabi_exponential() -> Call:
    import dynamiqs as dq

    def populations(rates: Any) -> Any:
        hamiltonian = rates[:, None, None] * dq.sigmax().to_jax()
        result = dq.sesolve(
            hamiltonian,
            [dq.basis(2, 0), dq.basis(2, 1)],
            jnp.linspace(0.0, 3.0, 7),
            exp_ops=[dq.sigmaz()],
            method=dq.method.Expm(),
            progress_meter=False,
        )
        return result.expects

    return call(populations, jnp.linspace(0.5, 2.0, 4))


@case("dynamiqs", "quantum", "linear-algebra", "complex", shows="Wigner's function.")
def wigner_of_cat() -> Call:
    import dynamiqs as dq

    def wigner(alpha: Any) -> Any:
        cat = dq.unit(dq.coherent(12, alpha) + dq.coherent(12, -alpha))
        _, _, values = dq.wigner(cat, npixels=15)
        return values, dq.entropy_vn(cat), dq.purity(cat)

    return call(wigner, jnp.array(1.3))


def hardware_efficient(params: Any, qml: Any) -> None:
    """Apply layers of rotations and a ring of entanglers."""
    n_wires = params.shape[1]
    for layer in params:
        for wire in range(n_wires):
            qml.RX(layer[wire, 0], wires=wire)
            qml.RZ(layer[wire, 1], wires=wire)
        for wire in range(n_wires):
            qml.CNOT(wires=[wire, (wire + 1) % n_wires])


@case("pennylane", "quantum", "gradient", "complex", shows="A variational eigensolver.")
def variational_energy_gradient() -> Call:
    import pennylane as qml

    device = qml.device("default.qubit", wires=3)
    hamiltonian = qml.Hamiltonian(
        [0.5, -0.8, 0.3],
        [qml.PauliZ(0) @ qml.PauliZ(1), qml.PauliX(1), qml.PauliZ(2)],
    )

    @qml.qnode(device, interface="jax", diff_method="backprop")
    def energy(params: Any) -> Any:
        hardware_efficient(params, qml)
        return qml.expval(hamiltonian)

    params = 0.3 * jax.random.normal(jax.random.PRNGKey(0), (2, 3, 2))
    return call(jax.value_and_grad(energy), params)


@case(
    "pennylane", "quantum", "batched", "complex", shows="A classifier of angles, vmap."
)
def batched_classifier_probabilities() -> Call:
    import pennylane as qml

    device = qml.device("default.qubit", wires=4)

    @qml.qnode(device, interface="jax")
    def circuit(weights: Any, x: Any) -> Any:
        qml.AngleEmbedding(x, wires=range(4))
        qml.StronglyEntanglingLayers(weights, wires=range(4))
        return qml.probs(wires=[0, 1])

    shape = qml.StronglyEntanglingLayers.shape(n_layers=2, n_wires=4)
    weights = jax.random.normal(jax.random.PRNGKey(1), shape)
    inputs = jnp.linspace(0.0, 1.0, 12).reshape(3, 4)
    return call(jax.vmap(circuit, in_axes=(None, 0)), weights, inputs)


@case(
    "pennylane", "quantum", "optimizer", "complex", shows="A step of QAOA with optax."
)
def qaoa_step() -> Call:
    import optax
    import pennylane as qml

    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    optimizer = optax.adam(0.1)

    @qml.qnode(qml.device("default.qubit", wires=4), interface="jax")
    def cut(angles: Any) -> Any:
        for wire in range(4):
            qml.Hadamard(wires=wire)
        for gamma, beta in angles:
            for a, b in edges:
                qml.IsingZZ(gamma, wires=[a, b])
            for wire in range(4):
                qml.RX(2 * beta, wires=wire)
        return qml.expval(qml.sum(*(qml.Z(a) @ qml.Z(b) for a, b in edges)))

    def step(angles: Any, state: Any) -> Any:
        value, gradient = jax.value_and_grad(cut)(angles)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(angles, updates), state, value

    angles = jnp.full((2, 2), 0.4)
    return call(step, angles, optimizer.init(angles))


@case("pennylane", "quantum", "noise", "density-matrix", shows="A noisy mixed state.")
def noisy_density_matrix() -> Call:
    import pennylane as qml

    @qml.qnode(qml.device("default.mixed", wires=2), interface="jax")
    def state(theta: Any, rate: Any) -> Any:
        qml.RY(theta, wires=0)
        qml.CNOT(wires=[0, 1])
        qml.AmplitudeDamping(rate, wires=0)
        qml.DepolarizingChannel(rate, wires=1)
        return qml.density_matrix(wires=[0, 1])

    return call(state, jnp.array(0.9), jnp.array(0.1))


@case(
    "pennylane", "quantum", "hessian", shows="Shifted parameters' gradient and Hessian."
)
def hessian_of_expectation() -> Call:
    import pennylane as qml

    @qml.qnode(qml.device("default.qubit", wires=2), interface="jax")
    def expectation(angles: Any) -> Any:
        qml.RX(angles[0], wires=0)
        qml.CRY(angles[1], wires=[0, 1])
        qml.U3(angles[2], 0.1, 0.2, wires=1)
        return qml.expval(qml.PauliZ(0) @ qml.PauliX(1))

    return call(jax.hessian(expectation), jnp.array([0.3, 0.5, 0.7]))


@case("qujax", "quantum", "complex", "gradient", shows="An expectation of a circuit.")
def circuit_expectation_gradient() -> Call:
    import qujax

    gates = ["H", "Rz", "Rx", "CX", "Ry", "CZ", "Rx"]
    qubits = [[0], [0], [1], [0, 1], [1], [1, 2], [2]]
    positions = [[], [0], [1], [], [2], [], [3]]
    to_state = qujax.get_params_to_statetensor_func(gates, qubits, positions)
    to_value = qujax.get_statetensor_to_expectation_func(
        [["Z"], ["X", "Y"]], [[0], [1, 2]], [0.7, 1.1]
    )

    def energy(params: Any) -> Any:
        return to_value(to_state(params))

    return call(jax.value_and_grad(energy), jnp.array([0.1, 0.2, 0.3, 0.4]))


@case(
    "qujax", "quantum", "complex", "density-matrix", shows="A density under a channel."
)
def density_under_channel() -> Call:
    import qujax

    kraus = [jnp.sqrt(0.9) * jnp.eye(2), jnp.sqrt(0.1) * jnp.array([[0, 1], [1, 0]])]
    to_density = qujax.get_params_to_densitytensor_func(
        ["H", "Rz", kraus, "CX"], [[0], [0], [1], [0, 1]], [[], [0], [], []], 2
    )

    def density(params: Any) -> Any:
        tensor = to_density(params)
        return tensor, qujax.partial_trace(tensor, [1])

    return call(density, jnp.array([0.35]))


@case("qujax", "quantum", "random", "batched", shows="Samples of bit strings.")
def sampled_bitstrings() -> Call:
    import qujax

    to_state = qujax.get_params_to_statetensor_func(
        ["Rx", "Ry", "CX"], [[0], [1], [0, 1]], [[0], [1], []]
    )

    def sample(key: Any, params: Any) -> Any:
        return qujax.sample_integers(key, to_state(params), 20)

    keys = jax.random.split(jax.random.PRNGKey(2), 3)
    params = jnp.linspace(0.1, 0.9, 6).reshape(3, 2)
    return call(jax.vmap(sample), keys, params)
