"""Fusion plasmas: torax."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case


def _tokamak(n_rho: int) -> tuple[Any, Any, Any]:
    """Return the step of a small tokamak, its first state and its first outputs."""
    import torax
    from torax import experimental

    config = torax.ToraxConfig.from_dict(
        {
            "plasma_composition": {},
            "profile_conditions": {},
            "numerics": {"t_final": 2.0, "evolve_density": True},
            "geometry": {"geometry_type": "circular", "n_rho": n_rho},
            "neoclassical": {"bootstrap_current": {}},
            "sources": {"generic_heat": {}, "ohmic": {}, "ei_exchange": {}},
            "pedestal": {},
            "transport": {"model_name": "constant"},
            "solver": {"solver_type": "linear"},
            "time_step_calculator": {"calculator_type": "fixed"},
        }
    )
    step = experimental.make_step_fn(config)
    return step, *experimental.get_initial_state_and_post_processed_outputs(step)


@case(
    "torax",
    "plasma",
    "linear solve",
    "while",
    "float64",
    shows="A time step of transport in a circular tokamak.",
    x64=True,
)
def tokamak_step() -> Call:
    step, state, outputs = _tokamak(8)
    return call(step, state, outputs)
