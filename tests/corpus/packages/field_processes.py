"""Gaussian processes and state space models: tinygp, gpjax and dynamax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def noisy_waves(n: int) -> tuple[Any, Any]:
    """Return places and values of a noisy wave."""
    x = jnp.sort(jax.random.uniform(jax.random.PRNGKey(0), (n,), maxval=10.0))
    return x, jnp.sin(x) + 0.1 * jax.random.normal(jax.random.PRNGKey(1), (n,))


@case("tinygp", "gaussian-process", "gradient", "cholesky", shows="A likelihood's fit.")
def likelihood_gradient() -> Call:
    from tinygp import GaussianProcess, kernels

    def loss(params: Any, x: Any, y: Any) -> Any:
        scale = jnp.exp(params["log_scale"])
        kernel = jnp.exp(params["log_amplitude"]) * kernels.Matern52(scale)
        process = GaussianProcess(
            kernel, x, diag=jnp.exp(params["log_noise"]), mean=params["mean"]
        )
        return -process.log_probability(y)

    names = ("log_scale", "log_amplitude", "log_noise", "mean")
    params = {name: jnp.array(0.1) for name in names}
    return call(jax.value_and_grad(loss), params, *noisy_waves(20))


@case(
    "tinygp", "gaussian-process", "linear-solve", shows="Means and variances elsewhere."
)
def predict_elsewhere() -> Call:
    from tinygp import GaussianProcess, kernels

    def predict(x: Any, y: Any, x_test: Any) -> Any:
        kernel = 1.5 * kernels.ExpSquared(2.0) + kernels.ExpSineSquared(
            scale=3.0, gamma=0.5
        )
        process = GaussianProcess(kernel, x, diag=0.05)
        probability, conditioned = process.condition(y, x_test)
        return probability, conditioned.loc, conditioned.variance

    return call(predict, *noisy_waves(16), jnp.linspace(0.0, 10.0, 25))


@case(
    "tinygp", "gaussian-process", "scan", "gradient", x64=True, shows="A scalable one."
)
def quasiseparable_likelihood() -> Call:
    from tinygp import GaussianProcess, kernels

    def likelihood(params: Any, x: Any, y: Any) -> Any:
        kernel = kernels.quasisep.SHO(
            omega=jnp.exp(params[0]), quality=jnp.exp(params[1]), sigma=params[2]
        ) + kernels.quasisep.Matern32(scale=2.0)
        return GaussianProcess(kernel, x, diag=0.01).log_probability(y)

    params = jnp.array([0.1, 0.7, 1.1])
    return call(jax.value_and_grad(likelihood), params, *noisy_waves(40))


@case("tinygp", "gaussian-process", "random", "transform", shows="Draws of a kernel.")
def samples_of_transformed_kernel() -> Call:
    from tinygp import GaussianProcess, kernels, transforms

    def draw(key: Any, factor: Any, x: Any) -> Any:
        kernel = transforms.Cholesky(factor, kernels.Matern32())
        return GaussianProcess(kernel, x, diag=1e-3).sample(key, shape=(3,))

    x = jax.random.normal(jax.random.PRNGKey(2), (10, 2))
    factor = jnp.array([[1.0, 0.0], [0.4, 0.8]])
    return call(draw, jax.random.PRNGKey(3), factor, x)


@case("gpjax", "gaussian-process", "training", "filtered", shows="A step of a fit.")
def marginal_likelihood_step() -> Call:
    import equinox as eqx
    import gpjax as gpx
    import optax

    prior = gpx.Prior(gpx.kernels.RBF(), gpx.mean_functions.Zero())
    model = gpx.construct_model(prior, gpx.likelihoods.Gaussian(obs_stddev=0.3))
    optimizer = optax.adam(1e-2)

    def step(model: Any, state: Any, x: Any, y: Any) -> Any:
        data = gpx.Dataset(X=x, y=y)

        def loss(model: Any) -> Any:
            return -gpx.objectives.conjugate_mll(model, data)

        value, gradient = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(model, updates), state, value

    state = optimizer.init(eqx.filter(model, eqx.is_array))
    x, y = noisy_waves(20)
    return call(step, model, state, x[:, None], y[:, None])


@case("gpjax", "gaussian-process", "cholesky", shows="A posterior of a sum of kernels.")
def posterior_prediction() -> Call:
    import gpjax as gpx

    def predict(x: Any, y: Any, x_test: Any) -> Any:
        kernel = gpx.kernels.Matern32() + gpx.kernels.Periodic()
        prior = gpx.Prior(kernel, gpx.mean_functions.Constant())
        model = gpx.construct_model(prior, gpx.likelihoods.Gaussian())
        latent = model.predict(x_test, gpx.Dataset(X=x, y=y))
        return latent.mean, latent.variance

    x, y = noisy_waves(14)
    return call(predict, x[:, None], y[:, None], jnp.linspace(0.0, 9.0, 11)[:, None])


@case("gpjax", "gaussian-process", "variational", "filtered", shows="A sparse ELBO.")
def sparse_variational_gradient() -> Call:
    import equinox as eqx
    import gpjax as gpx

    prior = gpx.Prior(gpx.kernels.RBF(), gpx.mean_functions.Zero())
    model = gpx.construct_model(prior, gpx.likelihoods.Bernoulli())
    family = gpx.variational_families.VariationalGaussian(
        model=model, inducing_inputs=jnp.linspace(0.0, 10.0, 6)[:, None]
    )

    def loss(family: Any, x: Any, y: Any) -> Any:
        return -gpx.objectives.elbo(family, gpx.Dataset(X=x, y=y))

    x, y = noisy_waves(24)
    labels = (y[:, None] > 0).astype(jnp.float32)
    return call(eqx.filter_value_and_grad(loss), family, x[:, None], labels)


@case("gpjax", "gaussian-process", "fit", "scan", shows="A whole fit in one program.")
def fit_in_a_scan() -> Call:
    import gpjax as gpx
    import optax

    def train(x: Any, y: Any) -> Any:
        data = gpx.Dataset(X=x, y=y)
        prior = gpx.Prior(gpx.kernels.Matern52(), gpx.mean_functions.Zero())
        _, history = gpx.fit(
            model=gpx.construct_model(prior, gpx.likelihoods.Gaussian()),
            objective=lambda model, data: -gpx.objectives.conjugate_mll(model, data),
            train_data=data,
            optim=optax.adam(0.05),
            num_iters=12,
            verbose=False,
            safe=False,
        )
        return history

    x, y = noisy_waves(15)
    return call(train, x[:, None], y[:, None])


def rotating_point(n: int) -> tuple[Any, Any]:
    """Return the dynamics of a turning point and noisy sights of it."""
    angle = jnp.array(0.3)
    turn = jnp.array(
        [[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]]
    )
    return turn, jax.random.normal(jax.random.PRNGKey(4), (n, 2))


@case("dynamax", "state-space", "scan", "linear-solve", shows="Kalman's smoother.")
def kalman_smoother() -> Call:
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    model = LinearGaussianSSM(state_dim=2, emission_dim=2)
    turn, emissions = rotating_point(25)
    params, _ = model.initialize(jax.random.PRNGKey(5), dynamics_weights=turn)
    return call(model.smoother, params, emissions)


@case("dynamax", "state-space", "em", "batched", shows="A step of EM over sequences.")
def expectation_maximisation_step() -> Call:
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM

    model = LinearGaussianSSM(state_dim=2, emission_dim=2)
    params, properties = model.initialize(jax.random.PRNGKey(6))

    def step(params: Any, batch: Any) -> Any:
        statistics, likelihoods = jax.vmap(lambda y: model.e_step(params, y))(batch)
        state = model.initialize_m_step_state(params, properties)
        params, _ = model.m_step(params, properties, statistics, state)
        return params, likelihoods.sum()

    batch = jnp.stack([rotating_point(12)[1], 0.5 * rotating_point(12)[1]])
    return call(step, params, batch)


@case(
    "dynamax", "state-space", "gradient", "scan", shows="A hidden chain's likelihood."
)
def hidden_markov_gradient() -> Call:
    from dynamax.hidden_markov_model import GaussianHMM

    model = GaussianHMM(num_states=3, emission_dim=2)
    params, _ = model.initialize(jax.random.PRNGKey(7))

    def loss(params: Any, emissions: Any) -> Any:
        return -model.marginal_log_prob(params, emissions) / emissions.size

    return call(jax.value_and_grad(loss), params, rotating_point(20)[1])


@case("dynamax", "state-space", "scan", "integers", shows="The best path of a chain.")
def viterbi_path() -> Call:
    from dynamax.hidden_markov_model import CategoricalHMM

    model = CategoricalHMM(num_states=3, emission_dim=1, num_classes=4)
    params, _ = model.initialize(jax.random.PRNGKey(8))
    emissions = jax.random.randint(jax.random.PRNGKey(9), (18, 1), 0, 4)
    return call(model.most_likely_states, params, emissions)


@case(
    "dynamax", "state-space", "jacobian", "scan", shows="A pendulum, extended filter."
)
def extended_kalman_filter() -> Call:
    from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_smoother

    params = ParamsNLGSSM(
        initial_mean=jnp.array([1.5, 0.0]),
        initial_covariance=0.1 * jnp.eye(2),
        dynamics_function=lambda x: jnp.array(
            [x[0] + 0.05 * x[1], x[1] - 0.49 * jnp.sin(x[0])]
        ),
        dynamics_covariance=1e-3 * jnp.eye(2),
        emission_function=lambda x: jnp.sin(x[:1]),
        emission_covariance=jnp.eye(1) * 0.1,
    )

    def smooth(emissions: Any) -> Any:
        posterior = extended_kalman_smoother(params, emissions)
        return posterior.marginal_loglik, posterior.smoothed_means

    return call(smooth, jnp.sin(jnp.arange(20.0))[:, None])


@case(
    "dynamax", "state-space", "sigma-points", "batched", shows="The unscented filter."
)
def unscented_filter_batched() -> Call:
    from dynamax.nonlinear_gaussian_ssm import (
        ParamsNLGSSM,
        UKFHyperParams,
        unscented_kalman_filter,
    )

    params = ParamsNLGSSM(
        initial_mean=jnp.zeros(2),
        initial_covariance=jnp.eye(2),
        dynamics_function=lambda x: 0.9 * jnp.sin(x),
        dynamics_covariance=0.1 * jnp.eye(2),
        emission_function=lambda x: x**2,
        emission_covariance=0.2 * jnp.eye(2),
    )

    def likelihood(emissions: Any) -> Any:
        posterior = unscented_kalman_filter(params, emissions, UKFHyperParams())
        return posterior.marginal_loglik

    _, emissions = rotating_point(10)
    return call(jax.vmap(likelihood), jnp.stack([emissions, -emissions]) ** 2)


@case("dynamax", "state-space", "associative-scan", shows="The parallel smoother.")
def parallel_smoother() -> Call:
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM, parallel_inference

    model = LinearGaussianSSM(state_dim=2, emission_dim=2)
    turn, emissions = rotating_point(16)
    params, _ = model.initialize(jax.random.PRNGKey(10), dynamics_weights=turn)

    def smooth(params: Any, emissions: Any) -> Any:
        posterior = parallel_inference.lgssm_smoother(params, emissions)
        return posterior.smoothed_means, posterior.smoothed_covariances

    return call(smooth, params, emissions)
