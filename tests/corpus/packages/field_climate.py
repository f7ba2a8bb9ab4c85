"""Fluids, weather and climate: jax-cfd, dinosaur-dycore, coordax, jax-datetime."""

from __future__ import annotations

from typing import Any

from tests.corpus.packages.cases import Call, call, case


def _spectral_grid(n: int = 32) -> Any:
    import jax.numpy as jnp
    from jax_cfd.base import grids

    return grids.Grid((n,), domain=((0, 2 * jnp.pi),))


@case(
    "jax-cfd",
    "fluid",
    "fft",
    "complex",
    shows="A semi-implicit step of Kuramoto-Sivashinsky in Fourier space.",
)
def kuramoto_sivashinsky_step() -> Call:
    import jax.numpy as jnp
    from jax_cfd.spectral import equations, time_stepping

    grid = _spectral_grid()
    step = time_stepping.crank_nicolson_rk4(
        equations.KuramotoSivashinsky(grid, smooth=True), 0.01
    )
    (x,) = grid.axes()
    return call(step, jnp.fft.rfft(jnp.cos(x) + 0.1 * jnp.sin(2 * x)))


@case(
    "jax-cfd",
    "fluid",
    "stencil",
    shows="Advection of a scalar by a flow with van Leer's limiter.",
)
def van_leer_advection() -> Call:
    import jax.numpy as jnp
    from jax_cfd.base import advection, boundaries, grids

    grid = grids.Grid((16, 16), domain=((0, 1), (0, 1)))
    periodic = boundaries.periodic_boundary_conditions(2)
    offsets = grid.cell_faces

    def tendency(c, u, v):
        c = grids.GridVariable(grids.GridArray(c, grid.cell_center, grid), periodic)
        flow = tuple(
            grids.GridVariable(grids.GridArray(w, offset, grid), periodic)
            for w, offset in zip((u, v), offsets)
        )
        return advection.advect_van_leer(c, flow, 0.01).data

    x, y = grid.mesh()
    return call(tendency, jnp.sin(6 * x) * jnp.cos(6 * y), jnp.ones_like(x), -x)


@case(
    "jax-cfd",
    "fluid",
    "fft",
    "prng",
    shows="A divergence-free random velocity field.",
)
def random_velocity_field() -> Call:
    import jax
    from jax_cfd.base import grids, initial_conditions

    grid = grids.Grid((16, 16), domain=((0, 6.28), (0, 6.28)))

    def draw(key):
        field = initial_conditions.filtered_velocity_field(
            key, grid, maximum_velocity=2.0, peak_wavenumber=2
        )
        return tuple(u.data for u in field)

    return call(draw, jax.random.PRNGKey(0))


def _sphere(layers: int = 3) -> Any:
    """Return a small spectral grid of the globe with some levels."""
    from dinosaur import coordinate_systems, sigma_coordinates, spherical_harmonic

    return coordinate_systems.CoordinateSystem(
        horizontal=spherical_harmonic.Grid.T21(),
        vertical=sigma_coordinates.SigmaCoordinates.equidistant(layers),
    )


@case(
    "dinosaur-dycore",
    "climate",
    "transform",
    shows="Wind on the grid becomes vorticity and divergence of spherical harmonics.",
)
def vorticity_and_divergence() -> Call:
    import jax
    import jax.numpy as jnp
    from dinosaur import spherical_harmonic

    grid = spherical_harmonic.Grid.T21()
    _, sin_lat = grid.nodal_mesh

    def convert(u, v):
        return spherical_harmonic.uv_nodal_to_vor_div_modal(grid, u, v)

    u = jnp.asarray(1.0 - sin_lat**2)
    return call(convert, u, jax.random.normal(jax.random.PRNGKey(0), u.shape) * 0.1)


@case(
    "dinosaur-dycore",
    "climate",
    "loop",
    "state",
    shows="Steps of the primitive equations of an atmosphere at rest.",
)
def primitive_equations_steps() -> Call:
    import jax
    import numpy as np
    from dinosaur import (
        primitive_equations,
        primitive_equations_states,
        scales,
        time_integration,
        xarray_utils,
    )

    coords = _sphere()
    specs = primitive_equations.PrimitiveEquationsSpecs.from_si()
    init, features = primitive_equations_states.isothermal_rest_atmosphere(
        coords, specs, p1=5e3 * scales.units.pascal
    )
    equation = primitive_equations.PrimitiveEquations(
        np.asarray(features[xarray_utils.REF_TEMP_KEY]),
        coords.horizontal.to_modal(features[xarray_utils.OROGRAPHY]),
        coords,
        specs,
    )
    step = time_integration.imex_rk_sil3(equation, time_step=0.01)
    state = init(rng_key=jax.random.PRNGKey(1))
    return call(time_integration.repeated(step, 4), state)


@case(
    "dinosaur-dycore",
    "climate",
    "gradient",
    shows="The gradient of the kinetic energy in a truncated spectral field.",
)
def kinetic_energy_gradient() -> Call:
    import jax
    from dinosaur import spherical_harmonic

    grid = spherical_harmonic.Grid.T21()

    def kinetic_energy(vorticity, divergence):
        clipped = grid.clip_wavenumbers((vorticity, divergence))
        u, v = spherical_harmonic.vor_div_to_uv_nodal(grid, *clipped)
        return 0.5 * grid.integrate(u**2 + v**2).sum()

    keys = jax.random.split(jax.random.PRNGKey(2))
    fields = [jax.random.normal(key, grid.modal_shape) * grid.mask for key in keys]
    return call(jax.grad(kinetic_energy, argnums=(0, 1)), *fields)


@case(
    "dinosaur-dycore",
    "climate",
    "semi-implicit",
    "linear solve",
    shows="The implicit half of a step of the shallow water equations.",
)
def shallow_water_implicit_solve() -> Call:
    import jax
    import numpy as np
    from dinosaur import shallow_water

    coords = _sphere(2)
    specs = shallow_water.ShallowWaterSpecs.from_si()
    equation = shallow_water.ShallowWaterEquations(
        coords,
        specs,
        np.zeros(coords.horizontal.modal_shape),
        np.array([1.0, 0.5]),
    )
    keys = jax.random.split(jax.random.PRNGKey(3), 3)
    state = shallow_water.State(
        *(jax.random.normal(key, coords.modal_shape) for key in keys)
    )

    def step(state):
        explicit = equation.explicit_terms(state)
        moved = jax.tree.map(lambda x, dx: x + 0.01 * dx, state, explicit)
        return equation.implicit_inverse(moved, 0.01)

    return call(step, state)


@case(
    "coordax",
    "labels",
    "batched",
    shows="A column function mapped over the labelled axes of a field.",
)
def mapped_column_mean() -> Call:
    import coordax as cx
    import jax.numpy as jnp

    level = cx.SizedAxis("level", 5)
    column = cx.SizedAxis("x", 7)

    def anomaly(field):
        untagged = field.untag("level")
        mapped = cx.cmap(lambda profile: profile - profile.mean())(untagged)
        return mapped.tag("level")

    data = jnp.arange(35.0).reshape(5, 7) ** 1.5
    return call(anomaly, cx.field(data, level, column))


@case(
    "coordax",
    "labels",
    "gradient",
    shows="The gradient of a loss of labelled fields that are broadcast by name.",
)
def broadcast_loss_gradient() -> Call:
    import coordax as cx
    import jax
    import jax.numpy as jnp

    x = cx.LabeledAxis("x", jnp.linspace(0.0, 1.0, 6).__array__())
    y = cx.SizedAxis("y", 4)

    def loss(weights, field):
        product = cx.cmap(jnp.tanh)(weights * field)
        return jnp.sum(product.data**2)

    weights = cx.field(jnp.linspace(0.1, 1.0, 6), x)
    return call(jax.grad(loss), weights, cx.field(jnp.ones((6, 4)), x, y))


@case(
    "jax-datetime",
    "time",
    "integers",
    shows="Dates and differences of time as integers of days and seconds.",
)
def add_hours() -> Call:
    import jax.numpy as jnp
    import jax_datetime as jdt

    def shift(start, hours):
        later = start + jdt.Timedelta(seconds=3600) * hours
        return later, later - start, later > start

    return call(shift, jdt.to_datetime("2024-02-28T18:30:00"), jnp.arange(12))


@case(
    "jax-datetime",
    "time",
    "sorting",
    "integers",
    shows="A series interpolated at dates.",
)
def interpolate_at_dates() -> Call:
    import jax.numpy as jnp
    import jax_datetime as jdt

    start = jdt.to_datetime("2020-01-01")
    knots = start + jdt.Timedelta(days=1) * jnp.arange(10)
    wanted = start + jdt.Timedelta(seconds=30_000) * jnp.arange(1, 8)
    return call(jdt.interp, wanted, knots, jnp.sin(jnp.arange(10.0)))
