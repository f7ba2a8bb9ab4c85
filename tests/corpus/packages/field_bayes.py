"""Probabilistic programs and samplers: numpyro, blackjax and jaxns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case

SCHOOL_EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SCHOOL_ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(sigma: Any, y: Any = None) -> None:
    """Draw effects of schools around a common mean."""
    import numpyro
    import numpyro.distributions as dist

    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", sigma.shape[0]):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


def logistic_regression(x: Any, y: Any = None) -> None:
    """Draw weights, each with a scale, and outcomes of them."""
    import numpyro
    import numpyro.distributions as dist

    scale = numpyro.sample("scale", dist.HalfNormal(jnp.ones(x.shape[1])).to_event(1))
    weights = numpyro.sample("weights", dist.Normal(0.0, scale).to_event(1))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights), obs=y)


def regression_data(n_rows: int, n_columns: int) -> tuple[Any, Any]:
    """Return covariates and outcomes."""
    x = jax.random.normal(jax.random.PRNGKey(0), (n_rows, n_columns))
    return x, (x[:, 0] - 0.5 * x[:, 1] > 0.1).astype(jnp.int32)


@case(
    "numpyro",
    "density",
    "gradient",
    shows="A gradient of the eight schools' potential.",
)
def eight_schools_potential() -> Call:
    from numpyro.infer.util import initialize_model

    info = initialize_model(
        jax.random.PRNGKey(1),
        eight_schools,
        model_args=(SCHOOL_ERRORS,),
        model_kwargs={"y": SCHOOL_EFFECTS},
    )
    return call(jax.value_and_grad(info.potential_fn), info.param_info.z)


@case(
    "numpyro", "sampler", "while", "state", shows="One step of the No-U-Turn sampler."
)
def nuts_sample_step() -> Call:
    from numpyro.infer import NUTS

    kernel = NUTS(eight_schools, max_tree_depth=5)
    kwargs = {"y": SCHOOL_EFFECTS}
    state = kernel.init(jax.random.PRNGKey(2), 10, None, (SCHOOL_ERRORS,), kwargs)

    def step(state: Any) -> Any:
        return kernel.sample(state, (SCHOOL_ERRORS,), kwargs)

    return call(step, state)


@case("numpyro", "sampler", "scan", shows="Hamiltonian Monte Carlo, steps in a scan.")
def hmc_scan() -> Call:
    from numpyro.infer import HMC

    kernel = HMC(
        logistic_regression, step_size=0.05, num_steps=4, adapt_step_size=False
    )
    x, y = regression_data(30, 3)
    start = kernel.init(jax.random.PRNGKey(3), 0, None, (x,), {"y": y})

    def chain(state: Any, x: Any, y: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, (x,), {"y": y})
            return state, state.z

        return jax.lax.scan(step, state, None, length=5)

    return call(chain, start, x, y)


@case("numpyro", "variational", "optimizer", "state", shows="A step of automatic VI.")
def svi_update() -> Call:
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    guide = AutoMultivariateNormal(logistic_regression)
    svi = SVI(
        logistic_regression,
        guide,
        numpyro.optim.Adam(0.01),
        Trace_ELBO(num_particles=4),
    )
    x, y = regression_data(40, 4)
    state = svi.init(jax.random.PRNGKey(4), x, y=y)
    return call(svi.update, state, x, y=y)


@case("numpyro", "predictive", "batched", "random", shows="Posterior predictive draws.")
def posterior_predictive() -> Call:
    from numpyro.infer import Predictive

    samples = {
        "scale": jnp.ones((6, 3)),
        "weights": jax.random.normal(jax.random.PRNGKey(5), (6, 3)),
    }
    x, _ = regression_data(12, 3)

    def predict(key: Any, samples: Any, x: Any) -> Any:
        return Predictive(logistic_regression, samples)(key, x)

    return call(predict, jax.random.PRNGKey(6), samples, x)


@case("numpyro", "density", "gradient", "mixture", shows="A mixture of counts.")
def gradient_of_poisson_mixture() -> Call:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(y: Any) -> None:
        rates = numpyro.sample("rates", dist.Gamma(2.0, jnp.ones(2)).to_event(1))
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(2)))
        mixture = dist.MixtureSameFamily(
            dist.Categorical(probs=weights), dist.Poisson(rates)
        )
        with numpyro.plate("counts", y.shape[0]):
            numpyro.sample("y", mixture, obs=y)

    def density(params: Any, y: Any) -> Any:
        return log_density(model, (y,), {}, params)[0]

    params = {"rates": jnp.array([1.0, 6.0]), "weights": jnp.array([0.4, 0.6])}
    return call(jax.grad(density), params, jnp.array([0, 2, 5, 7, 1, 1]))


@case("numpyro", "gaussian-process", "cholesky", shows="A latent process's Hessian.")
def gaussian_process_hessian() -> Call:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(x: Any, y: Any) -> None:
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
        noise = numpyro.sample("noise", dist.LogNormal(0.0, 1.0))
        squares = (x[:, None] - x[None, :]) ** 2
        kernel = jnp.exp(-0.5 * squares / scale**2) + noise * jnp.eye(x.shape[0])
        numpyro.sample("y", dist.MultivariateNormal(0.0, kernel), obs=y)

    def density(params: Any, x: Any, y: Any) -> Any:
        return log_density(model, (x, y), {}, params)[0]

    x = jnp.linspace(0.0, 1.0, 10)
    params = {"scale": jnp.array(0.5), "noise": jnp.array(0.1)}
    return call(jax.hessian(density), params, x, jnp.sin(5 * x))


def banana(x: Any) -> Any:
    """Return the log density of a bent normal distribution."""
    return -0.5 * (x["a"] ** 2 + 10.0 * jnp.sum((x["b"] - x["a"] ** 2) ** 2))


def banana_start(n_chains: int | None = None) -> Any:
    """Return a start of one chain or of many."""
    shape = () if n_chains is None else (n_chains,)
    return {"a": jnp.full(shape, 0.3), "b": jnp.full((*shape, 3), 0.2)}


@case("blackjax", "sampler", "while", "state", shows="A step of the No-U-Turn sampler.")
def nuts_step() -> Call:
    import blackjax

    sampler = blackjax.nuts(banana, step_size=0.1, inverse_mass_matrix=jnp.ones(4))
    return call(sampler.step, jax.random.key(0), sampler.init(banana_start()))


@case("blackjax", "sampler", "scan", "batched", shows="Chains of HMC, in a scan.")
def batched_hmc_chains() -> Call:
    import blackjax

    sampler = blackjax.hmc(
        banana, step_size=0.1, inverse_mass_matrix=jnp.ones(4), num_integration_steps=5
    )

    def chain(key: Any, position: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, info = sampler.step(key, state)
            return state, (state.position, info.acceptance_rate)

        keys = jax.random.split(key, 6)
        return jax.lax.scan(step, sampler.init(position), keys)[1]

    keys = jax.random.split(jax.random.key(1), 3)
    return call(jax.vmap(chain), keys, banana_start(3))


@case("blackjax", "sampler", "adaptation", "scan", shows="Window adaptation of a step.")
def window_adaptation() -> Call:
    import blackjax

    def adapt(key: Any, position: Any) -> Any:
        warmup = blackjax.window_adaptation(
            blackjax.hmc, banana, num_integration_steps=3
        )
        (state, parameters), _ = warmup.run(key, position, num_steps=30)
        return state, parameters["step_size"], parameters["inverse_mass_matrix"]

    return call(adapt, jax.random.key(2), banana_start())


@case(
    "blackjax", "sampler", "particles", "resampling", shows="A tempered particle step."
)
def tempered_particles() -> Call:
    import blackjax
    from blackjax.smc import resampling

    sampler = blackjax.adaptive_tempered_smc(
        lambda x: -0.5 * (x["a"] ** 2 + jnp.sum(x["b"] ** 2)),
        banana,
        blackjax.hmc.build_kernel(),
        blackjax.hmc.init,
        {
            "step_size": jnp.full(1, 0.1),
            "inverse_mass_matrix": jnp.ones((1, 4)),
            "num_integration_steps": jnp.full(1, 3),
        },
        resampling.systematic,
        0.5,
        num_mcmc_steps=2,
    )
    return call(sampler.step, jax.random.key(3), sampler.init(banana_start(16)))


@case("blackjax", "sampler", "gibbs", "while", shows="Elliptical slices of a prior.")
def elliptical_slice_chain() -> Call:
    import blackjax

    def loglikelihood(x: Any) -> Any:
        return -jnp.sum((x[:2] - 1.0) ** 2) / 0.1

    sampler = blackjax.elliptical_slice(
        loglikelihood, mean=jnp.zeros(3), cov=jnp.eye(3) + 0.2
    )

    def chain(state: Any, keys: Any) -> Any:
        return jax.lax.scan(lambda s, k: sampler.step(k, s), state, keys)

    state = sampler.init(jnp.array([0.1, 0.2, 0.3]))
    return call(chain, state, jax.random.split(jax.random.key(4), 8))


@case("blackjax", "variational", "optimizer", shows="A step of mean-field VI.")
def mean_field_step() -> Call:
    import blackjax
    import optax

    vi = blackjax.meanfield_vi(banana, optax.adam(1e-2), num_samples=8)
    return call(vi.step, jax.random.key(5), vi.init(banana_start()))


@case("blackjax", "variational", "lbfgs", "while", shows="Pathfinder by L-BFGS.")
def pathfinder_approximation() -> Call:
    import blackjax

    def approximate(key: Any, position: Any) -> Any:
        state, _ = blackjax.vi.pathfinder.approximate(
            key, banana, position, num_samples=10, maxiter=8
        )
        samples, _ = blackjax.vi.pathfinder.sample(key, state, 4)
        return state.elbo, samples

    return call(approximate, jax.random.key(6), banana_start())


@case("blackjax", "statistics", "fft", shows="Effective samples and split chains.")
def diagnostics_of_chains() -> Call:
    import blackjax

    def diagnose(chains: Any) -> Any:
        return blackjax.ess(chains), blackjax.rhat(chains)

    noise = jax.random.normal(jax.random.key(7), (4, 64, 2))
    return call(diagnose, jnp.cumsum(noise, axis=1) * 0.3 + noise)


def straight_line(x: Any, y: Any) -> Any:
    """Return the log likelihood of a line under drawn parameters."""
    from jaxns.priors import Prior
    from tensorflow_probability.substrates import jax as tfp

    normal = tfp.distributions.Normal
    slope = Prior(normal(0.0, 1.0), name="slope").realise()
    shift = Prior(tfp.distributions.Uniform(-1.0, 2.0), name="shift").realise()
    return jnp.sum(normal(shift + slope * x, 0.2).log_prob(y))


@case("jaxns", "density", "gradient", needs=("tfp-nightly",), shows="A joint density.")
def gradient_of_joint_density() -> Call:
    from jaxns.model import Model

    model = Model(prior_model=straight_line)
    args = (jnp.linspace(0.0, 1.0, 6), jnp.linspace(0.1, 1.2, 6))
    unit = model.sample_U(jax.random.PRNGKey(7), args)

    def density(unit: Any, *args: Any) -> Any:
        return model.log_joint(unit, args)

    return call(jax.value_and_grad(density), unit, *args)


@case(
    "jaxns", "random", "batched", needs=("tfp-nightly",), shows="Draws and likelihoods."
)
def batched_prior_draws() -> Call:
    from jaxns.model import Model

    model = Model(prior_model=straight_line)
    args = (jnp.linspace(0.0, 1.0, 6), jnp.linspace(0.1, 1.2, 6))

    def draw(key: Any) -> Any:
        unit = model.sample_U(key, args)
        return model.transform_to_X(unit, args), model.log_likelihood(unit, args)

    return call(jax.vmap(draw), jax.random.split(jax.random.PRNGKey(8), 7))
