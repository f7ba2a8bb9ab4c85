"""Choices over a life: dcegm."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case


def _retirement_model(n_periods: int) -> tuple[Any, Any]:
    """Return the model of when to retire, with few periods, and its parameters."""
    import dcegm
    import jax.numpy as jnp
    from dcegm import toy_models

    name = "dcegm_paper_retirement_with_shocks"
    params, specs, config = toy_models.load_example_params_model_specs_and_config(name)
    config["n_periods"] = n_periods
    config["continuous_states"] = {"assets_end_of_period": jnp.linspace(0, 50, 40)}
    functions = toy_models.load_example_model_functions(name)
    return dcegm.setup_model(config, specs, **functions), params


@case(
    "dcegm",
    "economics",
    "scan",
    "sorting",
    "interpolation",
    "float64",
    shows="When to retire: backward induction with an upper envelope of values.",
    x64=True,
)
def retirement_solution() -> Call:
    model, params = _retirement_model(5)
    solve = model.get_solve_func()

    def values(params):
        solved = solve(params)
        return solved.value, solved.policy

    return call(values, params)


@case(
    "dcegm",
    "economics",
    "gradient",
    "float64",
    shows="How consumption changes with patience and risk aversion.",
    x64=True,
)
def consumption_sensitivities() -> Call:
    import jax
    import jax.numpy as jnp

    model, params = _retirement_model(3)
    solve = model.get_solve_func()

    def consumption(varied, fixed):
        return jnp.nanmean(solve(fixed | varied).policy)

    varied = {name: params.pop(name) for name in ("discount_factor", "rho")}
    return call(jax.jacfwd(consumption), varied, params)


@case(
    "dcegm",
    "economics",
    "batched",
    "search",
    shows="What to consume, interpolated at many wealths.",
)
def interpolated_policy() -> Call:
    import jax
    import jax.numpy as jnp
    from dcegm.interpolation.interp1d import interp_policy_on_wealth

    grid = jnp.linspace(0.1, 20.0, 15) ** 1.2
    consume = jax.vmap(interp_policy_on_wealth, (0, None, None))
    return call(consume, jnp.linspace(0.0, 50.0, 9), grid, jnp.log1p(grid))
