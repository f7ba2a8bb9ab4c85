"""Distributions, bijectors and normalizing flows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def two_moons(n: int) -> Any:
    """Return points on two half circles."""
    angle = jnp.linspace(0.0, 3.14, n)
    first = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    return jnp.concatenate([first, jnp.array([1.0, 0.5]) - first])


@case("flowjax", "flow", "training", "scan", shows="A spline flow's step.")
def spline_coupling_step() -> Call:
    import equinox as eqx
    import optax
    from flowjax.bijections import RationalQuadraticSpline
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow
    from flowjax.train.losses import MaximumLikelihoodLoss
    from paramax import NonTrainable

    flow = coupling_flow(
        jax.random.key(0),
        base_dist=Normal(jnp.zeros(2)),
        transformer=RationalQuadraticSpline(knots=4, interval=3),
        flow_layers=3,
        nn_width=16,
    )
    params, static = eqx.partition(
        flow, eqx.is_inexact_array, is_leaf=lambda leaf: isinstance(leaf, NonTrainable)
    )
    optimizer = optax.adam(1e-3)

    def step(params: Any, state: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(MaximumLikelihoodLoss())(params, static, x)
        updates, state = optimizer.update(gradient, state, params)
        return eqx.apply_updates(params, updates), state, value

    return call(step, params, optimizer.init(params), two_moons(10))


@case(
    "flowjax",
    "flow",
    "density",
    "conditional",
    "filtered",
    shows="Conditional density.",
)
def conditional_autoregressive_density() -> Call:
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow

    flow = masked_autoregressive_flow(
        jax.random.key(1),
        base_dist=Normal(jnp.zeros(3)),
        cond_dim=2,
        flow_layers=2,
        nn_width=12,
    )

    def density(flow: Any, x: Any, condition: Any) -> Any:
        return flow.log_prob(x, condition)

    x = jax.random.normal(jax.random.key(2), (6, 3))
    return call(density, flow, x, jnp.ones((6, 2)))


@case(
    "flowjax",
    "flow",
    "random",
    "root",
    "while",
    "filtered",
    shows="Samples by inversion.",
)
def block_autoregressive_samples() -> Call:
    from flowjax.distributions import Normal
    from flowjax.flows import block_neural_autoregressive_flow

    flow = block_neural_autoregressive_flow(
        jax.random.key(3), base_dist=Normal(jnp.zeros(2)), nn_block_dim=4, invert=True
    )

    def draw(flow: Any, key: Any) -> Any:
        return flow.sample_and_log_prob(key, (5,))

    return call(draw, flow, jax.random.key(4))


@case("flowjax", "flow", "variational", "gradient", shows="A flow's ELBO.")
def elbo_gradient_of_planar_flow() -> Call:
    import equinox as eqx
    from flowjax.distributions import StandardNormal
    from flowjax.flows import planar_flow
    from flowjax.train.losses import ElboLoss

    flow = planar_flow(
        jax.random.key(5),
        base_dist=StandardNormal((2,)),
        flow_layers=2,
        width_size=8,
        depth=1,
        negative_slope=0.1,
    )

    def target(x: Any) -> Any:
        return -jnp.sum((x[0] - x[1] ** 2) ** 2 + 0.5 * x**2)

    loss = ElboLoss(target, num_samples=8)
    params, static = eqx.partition(flow, eqx.is_inexact_array)

    def elbo(params: Any, key: Any) -> Any:
        return loss(params, static, key)

    return call(jax.value_and_grad(elbo), params, jax.random.key(6))


@case("distrax", "flow", "density", "gradient", shows="A chain of spline bijectors.")
def masked_spline_coupling() -> Call:
    import distrax

    mask = jnp.arange(4) % 2 == 0

    def density(weights: Any, x: Any) -> Any:
        layers = []
        for index, weight in enumerate(weights):
            layers.append(
                distrax.MaskedCoupling(
                    mask=mask if index % 2 else ~mask,
                    bijector=lambda p: distrax.RationalQuadraticSpline(p, -3.0, 3.0),
                    conditioner=lambda z, w=weight: jnp.tanh(z @ w).reshape(-1, 4, 13),
                )
            )
        base = distrax.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4))
        flow = distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))
        return jnp.mean(flow.log_prob(x))

    weights = 0.3 * jax.random.normal(jax.random.key(7), (2, 4, 52))
    x = jax.random.normal(jax.random.key(8), (6, 4))
    return call(jax.value_and_grad(density), weights, x)


@case(
    "distrax", "policy", "random", "integers", shows="A policy's draws and entropies."
)
def policy_heads() -> Call:
    import distrax

    def act(key: Any, logits: Any, means: Any) -> Any:
        greedy = distrax.EpsilonGreedy(logits, 0.1)
        discrete = distrax.Categorical(logits=logits)
        squashed = distrax.Transformed(distrax.Normal(means, 0.5), distrax.Tanh())
        action, log_prob = squashed.sample_and_log_prob(seed=key)
        return greedy.sample(seed=key), discrete.entropy(), action, log_prob

    logits = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)
    return call(act, jax.random.key(9), logits, jnp.zeros(3))


@case(
    "distrax", "state-space", "scan", shows="A hidden chain's posterior and best path."
)
def hidden_markov_posterior() -> Call:
    import distrax

    def infer(transition: Any, means: Any, observations: Any) -> Any:
        chain = distrax.HMM(
            init_dist=distrax.Categorical(probs=jnp.ones(2) / 2),
            trans_dist=distrax.Categorical(logits=transition),
            obs_dist=distrax.Normal(means, 0.5),
        )
        _, _, marginals, likelihood = chain.forward_backward(observations)
        return marginals, likelihood, chain.viterbi(observations)

    observations = jnp.array([0.1, 0.2, 1.1, 0.9, 1.3, -0.1, 0.0])
    return call(infer, 2.0 * jnp.eye(2), jnp.array([0.0, 1.0]), observations)


@case(
    "distrax", "divergence", "mixture", "gradient", shows="KL divergences and mixtures."
)
def divergences_and_mixtures() -> Call:
    import distrax

    def loss(params: Any, key: Any) -> Any:
        first = distrax.MultivariateNormalDiag(params["mean"], jnp.ones(3))
        second = distrax.MultivariateNormalTri(jnp.zeros(3), jnp.tril(params["scale"]))
        mixture = distrax.MixtureSameFamily(
            distrax.Categorical(logits=params["mean"]),
            distrax.Beta(jnp.array([1.0, 2.0, 3.0]), jnp.array([3.0, 2.0, 1.5])),
        )
        kl = second.kl_divergence(second) - first.entropy()
        return (
            kl
            + jnp.mean(mixture.log_prob(jnp.array([0.2, 0.7])))
            + jnp.sum(second.sample(seed=key, sample_shape=4) ** 2)
        )

    params = {"mean": jnp.array([0.1, 0.2, 0.3]), "scale": jnp.eye(3) + 0.1}
    return call(jax.grad(loss), params, jax.random.key(10))


@case(
    "tfp-nightly", "sampler", "scan", "random", shows="Adaptive HMC of TFP's substrate."
)
def adaptive_hmc_chain() -> Call:
    from tensorflow_probability.substrates import jax as tfp

    def target(x: Any) -> Any:
        normal = tfp.distributions.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
        return normal.log_prob(x) - 0.1 * x[..., 0] ** 4

    def run(start: Any, key: Any) -> Any:
        kernel = tfp.mcmc.SimpleStepSizeAdaptation(
            tfp.mcmc.HamiltonianMonteCarlo(target, step_size=0.3, num_leapfrog_steps=3),
            num_adaptation_steps=5,
        )
        return tfp.mcmc.sample_chain(
            8, start, kernel=kernel, num_burnin_steps=4, trace_fn=None, seed=key
        )

    return call(run, jnp.zeros((3, 2)), jax.random.PRNGKey(11))


@case(
    "tfp-nightly", "density", "gradient", "joint", shows="A joint distribution by name."
)
def joint_distribution_gradient() -> Call:
    from tensorflow_probability.substrates import jax as tfp

    tfd = tfp.distributions

    def density(scale: Any, weights: Any, x: Any, y: Any) -> Any:
        joint = tfd.JointDistributionNamed(
            {
                "scale": tfd.Gamma(2.0, 1.0),
                "weights": lambda scale: tfd.Sample(tfd.Normal(0.0, scale), 3),
                "y": lambda weights: tfd.Independent(
                    tfd.StudentT(4.0, x @ weights, 0.5), 1
                ),
            },
        )
        return joint.log_prob(scale=scale, weights=weights, y=y)

    x = jax.random.normal(jax.random.PRNGKey(12), (8, 3))
    grad = jax.value_and_grad(density, argnums=(0, 1))
    return call(grad, jnp.array(1.2), jnp.array([0.1, -0.2, 0.3]), x, x.sum(axis=1))


@case("tfp-nightly", "gaussian-process", "cholesky", shows="A regression's posterior.")
def gaussian_process_regression() -> Call:
    from tensorflow_probability.substrates import jax as tfp

    kernels = tfp.math.psd_kernels

    def predict(amplitude: Any, scale: Any, x: Any, y: Any, x_test: Any) -> Any:
        process = tfp.distributions.GaussianProcessRegressionModel(
            kernel=kernels.MaternFiveHalves(amplitude, scale),
            index_points=x_test,
            observation_index_points=x,
            observations=y,
            observation_noise_variance=0.01,
        )
        return process.mean(), process.variance()

    x = jnp.linspace(0.0, 1.0, 9)[:, None]
    y = jnp.sin(6.0 * x[:, 0])
    x_test = jnp.linspace(0.0, 1.2, 5)[:, None]
    return call(predict, jnp.array(1.0), jnp.array(0.3), x, y, x_test)


@case(
    "tfp-nightly",
    "minimise",
    "while",
    "line-search",
    shows="L-BFGS, a batch of starts.",
)
def lbfgs_batch_of_starts() -> Call:
    from tensorflow_probability.substrates import jax as tfp

    def value_and_gradient(x: Any) -> Any:
        def valley(x: Any) -> Any:
            return jnp.sum(10.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

        return jax.vmap(jax.value_and_grad(valley))(x)

    def minimise(starts: Any) -> Any:
        results = tfp.optimizer.lbfgs_minimize(
            value_and_gradient, initial_position=starts, max_iterations=15
        )
        return results.position, results.objective_value, results.converged

    return call(minimise, jnp.linspace(-1.0, 1.0, 6).reshape(2, 3))


@case("distreqx", "bijector", "gradient", shows="A squashed normal's density.")
def squashed_normal_gradient() -> Call:
    from distreqx import bijectors, distributions

    def loss(params: Any, x: Any) -> Any:
        base = distributions.Normal(params["loc"], jnp.exp(params["log_scale"]))
        squashed = distributions.Transformed(base, bijectors.Tanh())
        return -jnp.mean(jax.vmap(squashed.log_prob)(x))

    params = {"loc": jnp.array(0.1), "log_scale": jnp.array(-0.4)}
    return call(jax.value_and_grad(loss), params, jnp.linspace(-0.9, 0.9, 8))


@case(
    "flowMC", "flow", "training", "filtered", shows="A training step of flowMC's flow."
)
def real_nvp_train_step() -> Call:
    import equinox as eqx
    import optax
    from flowMC.resource.model.nf_model.realNVP import RealNVP

    model = RealNVP(2, 3, 16, jax.random.key(14))
    optimizer = optax.adam(1e-3)

    def step(model: Any, x: Any, state: Any) -> Any:
        return model.train_step(x, optimizer, state)

    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    return call(step, model, two_moons(8), state)


@case("flowMC", "sampler", "gradient", "random", shows="A chain of Langevin proposals.")
def langevin_chain() -> Call:
    from flowMC.resource.kernel.MALA import MALA

    def target(x: Any, data: Any) -> Any:
        return -0.5 * jnp.sum((x - data["mean"]) ** 2) - 0.1 * x[0] ** 4

    kernel = MALA(step_size=jnp.full(2, 0.2))

    def chain(key: Any, position: Any, data: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            position, log_prob, accepted = kernel.kernel(key, *carry, target, data)
            return (position, log_prob), (position, accepted)

        start = position, target(position, data)
        return jax.lax.scan(step, start, jax.random.split(key, 6))

    return call(chain, jax.random.key(15), jnp.zeros(2), {"mean": jnp.ones(2)})
