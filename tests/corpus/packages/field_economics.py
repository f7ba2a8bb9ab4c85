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
    shows="How the values of the first period change with patience and risk aversion.",
    x64=True,
)
def value_sensitivities() -> Call:
    import jax
    import jax.numpy as jnp

    model, params = _retirement_model(3)
    solve = model.get_solve_func()

    def value(varied, fixed):
        solved = solve(fixed | varied)
        return jnp.nanmean(jnp.where(jnp.isfinite(solved.value), solved.value, 0.0))

    varied = {name: params.pop(name) for name in ("discount_factor", "rho")}
    return call(jax.jacfwd(value), varied, params)


@case(
    "dcegm",
    "economics",
    "batched",
    "search",
    shows="Interpolated values and policies at many wealths.",
)
def interpolated_values() -> Call:
    import jax
    import jax.numpy as jnp
    from dcegm.interpolation.interp1d import linear_interpolation_with_extrapolation

    def at(wealth, grid, values):
        return linear_interpolation_with_extrapolation(x=grid, y=values, x_new=wealth)

    grid = jnp.linspace(0.1, 20.0, 15) ** 1.2
    return call(
        jax.vmap(at, (0, None, None)), jnp.linspace(0.0, 50.0, 9), grid, jnp.log(grid)
    )
