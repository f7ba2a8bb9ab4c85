"""Stars, waves and skies: jaxoplanet, squishyplanet, ripplegw, jax-galsim, s2fft,
jax-healpy, jaxkd."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.corpus.packages.cases import Call, call, case


@case(
    "jaxoplanet",
    "astronomy",
    "gradient",
    shows="The gradient of a transit's misfit with respect to orbit and limb darkening.",
)
def transit_fit_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    from jaxoplanet.light_curves import limb_dark_light_curve
    from jaxoplanet.orbits import TransitOrbit

    time = jnp.linspace(-0.15, 0.15, 40)

    def flux(params):
        orbit = TransitOrbit(
            period=params["period"],
            duration=params["duration"],
            time_transit=0.0,
            impact_param=params["b"],
            radius_ratio=params["ror"],
        )
        return limb_dark_light_curve(orbit, params["u"])(time)

    def misfit(params, observed):
        return jnp.sum((flux(params) - observed) ** 2)

    params = {
        "period": 3.2,
        "duration": 0.12,
        "b": 0.2,
        "ror": 0.1,
        "u": jnp.array([0.3, 0.1]),
    }
    observed = jnp.where(jnp.abs(time) < 0.06, -0.011, 0.0)
    return call(jax.grad(misfit), params, observed)


@case(
    "jaxoplanet",
    "astronomy",
    "custom derivative",
    "batched",
    shows="Kepler's equation and its derivative for many eccentricities.",
)
def kepler_equation_jacobian() -> Call:
    import jax
    import jax.numpy as jnp
    from jaxoplanet.core.kepler import kepler

    def sine(mean_anomaly, eccentricity):
        return kepler(mean_anomaly, eccentricity)[0]

    derivative = jax.vmap(jax.grad(sine, argnums=(0, 1)))
    return call(derivative, jnp.linspace(0.1, 6.0, 15), jnp.linspace(0.0, 0.9, 15))


@case(
    "jaxoplanet",
    "astronomy",
    "batched",
    shows="The radial velocity of a star with two planets.",
)
def two_planet_radial_velocity() -> Call:
    import jax
    import jax.numpy as jnp
    from jaxoplanet.orbits import keplerian

    def velocity(periods, times):
        system = keplerian.System(keplerian.Central(mass=1.0, radius=1.0))
        system = system.add_body(period=periods[0], mass=1e-3)
        system = system.add_body(
            period=periods[1], mass=3e-3, eccentricity=0.1, omega_peri=0.7
        )
        return jax.vmap(system.radial_velocity)(times).sum(axis=-1)

    return call(velocity, jnp.array([3.5, 11.0]), jnp.linspace(0.0, 20.0, 30))


@case(
    "squishyplanet",
    "astronomy",
    "custom derivative",
    "float64",
    shows="The light curve of a planet that is not round.",
    x64=True,
)
def oblate_light_curve() -> Call:
    import jax.numpy as jnp
    from squishyplanet import OblateSystem

    system = OblateSystem(
        times=jnp.linspace(-0.3, 0.3, 12),
        t_peri=0.0,
        period=10.0,
        a=15.0,
        e=0.1,
        omega=-jnp.pi / 2,
        tidally_locked=False,
        r=0.1,
        f1=0.2,
        ld_u_coeffs=jnp.array([0.3, 0.2]),
    )
    return call(system.lightcurve, {"f1": jnp.array([0.15])})


def _binary() -> Any:
    """Return chirp mass, mass ratio, spins, distance, time, phase, inclination."""
    import jax.numpy as jnp

    return jnp.array([28.0, 0.24, 0.3, -0.2, 440.0, 0.0, 0.1, 0.4])


@case(
    "ripplegw",
    "astronomy",
    "complex",
    "float64",
    shows="The gravitational wave of a binary black hole in the frequency domain.",
    x64=True,
)
def black_hole_waveform() -> Call:
    import jax.numpy as jnp
    from ripplegw.waveforms.cbc.IMRPhenomD.IMRPhenomD import gen_IMRPhenomD_hphc

    frequencies = jnp.linspace(20.0, 512.0, 64)
    return call(gen_IMRPhenomD_hphc, frequencies, _binary(), 20.0)


@case(
    "ripplegw",
    "astronomy",
    "complex",
    "gradient",
    "float64",
    shows="The Fisher matrix of a waveform from its forward derivatives.",
    x64=True,
)
def waveform_fisher_matrix() -> Call:
    import jax
    import jax.numpy as jnp
    from ripplegw.waveforms.cbc.IMRPhenomD.IMRPhenomD import gen_IMRPhenomD_hphc

    frequencies = jnp.linspace(30.0, 400.0, 50)

    def fisher(theta):
        def wave(theta):
            plus, _ = gen_IMRPhenomD_hphc(frequencies, theta, 30.0)
            return jnp.concatenate([plus.real, plus.imag]) * 1e22

        jacobian = jax.jacfwd(wave)(theta)
        return jacobian.T @ jacobian

    return call(fisher, _binary())


@case(
    "ripplegw",
    "astronomy",
    "batched",
    "float64",
    shows="Bursts shaped like sines in a Gaussian, batched over their frequency.",
    x64=True,
)
def sine_gaussian_bursts() -> Call:
    import jax
    import jax.numpy as jnp
    from ripplegw.waveforms.burst.SineGaussian import gen_SineGaussian_hphc

    times = jnp.linspace(-0.05, 0.05, 100)
    theta = jnp.array([[9.0, f0, 1e-22, 0.3, 0.2] for f0 in (60.0, 120.0, 240.0)])
    return call(jax.vmap(gen_SineGaussian_hphc, (None, 0)), times, theta)


@case(
    "s2fft",
    "transform",
    "fft",
    "complex",
    shows="The spherical harmonic transform of a real signal on the sphere.",
)
def forward_transform() -> Call:
    import jax
    import s2fft

    band = 8
    signal = jax.random.normal(
        jax.random.PRNGKey(0), s2fft.sampling.s2_samples.f_shape(band, "mw")
    )
    transform = partial(s2fft.forward_jax, L=band, sampling="mw", reality=True)
    return call(transform, signal)


@case(
    "s2fft",
    "transform",
    "fft",
    "gradient",
    shows="A gradient through the inverse transform of spin two.",
)
def inverse_transform_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    import s2fft

    band = 6

    def loss(real, imag):
        coefficients = (real + 1j * imag).at[:2].set(0.0)
        f = s2fft.inverse_jax(coefficients, L=band, spin=2, sampling="mw")
        return jnp.sum(jnp.abs(f) ** 2)

    keys = jax.random.split(jax.random.PRNGKey(1))
    parts = [jax.random.normal(key, (band, 2 * band - 1)) for key in keys]
    return call(jax.grad(loss, argnums=(0, 1)), *parts)


@case(
    "jax-healpy",
    "astronomy",
    "integers",
    shows="The pixels of directions on the sphere, and back.",
)
def pixels_of_directions() -> Call:
    import jax.numpy as jnp
    import jax_healpy as hp

    def round_trip(theta, phi):
        ring = hp.ang2pix(16, theta, phi)
        nest = hp.ring2nest(16, ring)
        return ring, nest, hp.pix2ang(16, nest, nest=True)

    return call(round_trip, jnp.linspace(0.05, 3.1, 20), jnp.linspace(0.0, 6.2, 20))


@case(
    "jax-healpy",
    "astronomy",
    "gradient",
    shows="A map's bilinear interpolation, differentiated in the map's values.",
)
def interpolated_map_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    import jax_healpy as hp

    theta, phi = jnp.linspace(0.3, 2.8, 9), jnp.linspace(0.1, 6.0, 9)

    def loss(values):
        return jnp.sum(hp.get_interp_val(values, theta, phi) ** 2)

    values = jnp.sin(jnp.arange(hp.nside2npix(4)) * 0.1)
    return call(jax.value_and_grad(loss), values)


@case(
    "jaxkd",
    "graph",
    "sorting",
    "while",
    "batched",
    shows="The nearest neighbours of points by a k-d tree.",
)
def nearest_neighbors() -> Call:
    import jax
    import jaxkd

    keys = jax.random.split(jax.random.PRNGKey(0))
    points = jax.random.uniform(keys[0], (60, 3))
    queries = jax.random.uniform(keys[1], (7, 3))
    return call(partial(jaxkd.build_and_query, k=4), points, queries)


@case(
    "jaxkd",
    "graph",
    "integers",
    "while",
    shows="How many points lie within a radius of each.",
)
def count_within_radius() -> Call:
    import jax
    import jaxkd

    points = jax.random.uniform(jax.random.PRNGKey(1), (50, 2))
    tree = jaxkd.build_tree(points)
    return call(jaxkd.count_neighbors, tree, points[:10], r=0.2)


@case(
    "jax-galsim",
    "astronomy",
    "image",
    "gradient",
    shows="The gradient of a galaxy's drawn image with respect to flux and size.",
)
def galaxy_image_gradient() -> Call:
    import jax
    import jax.numpy as jnp
    import jax_galsim as galsim

    def image(flux, size):
        galaxy = galsim.Gaussian(flux=flux, half_light_radius=size)
        galaxy = galaxy.shear(g1=0.1, g2=-0.05)
        drawn = galaxy.drawImage(nx=24, ny=24, scale=0.2, method="no_pixel")
        return drawn.array

    def loss(flux, size, data):
        return jnp.sum((image(flux, size) - data) ** 2)

    data = jnp.ones((24, 24)) * 0.01
    return call(jax.grad(loss, argnums=(0, 1)), 1.5, 0.8, data)


@case(
    "jax-galsim",
    "astronomy",
    "fft",
    "complex",
    shows="A galaxy convolved with the point spread of a telescope in Fourier space.",
)
def convolved_galaxy() -> Call:
    import jax_galsim as galsim

    def draw(flux, radius, fwhm):
        params = galsim.GSParams(minimum_fft_size=128, maximum_fft_size=128)
        galaxy = galsim.Exponential(flux=flux, half_light_radius=radius)
        psf = galsim.Moffat(beta=3.0, fwhm=fwhm)
        seen = galsim.Convolve([galaxy, psf], gsparams=params)
        return seen.drawImage(nx=20, ny=20, scale=0.3).array

    return call(draw, 2.0, 0.7, 0.6)


@case(
    "jax-galsim",
    "astronomy",
    "batched",
    shows="Surface brightness of sheared profiles, batched over their ellipticity.",
)
def sheared_profiles() -> Call:
    import jax
    import jax.numpy as jnp
    import jax_galsim as galsim

    def brightness(g1, x):
        galaxy = galsim.Exponential(flux=1.0, scale_radius=0.9).shear(g1=g1, g2=0.0)
        return jax.vmap(lambda x: galaxy.xValue(x, 0.3))(x)

    return call(
        jax.vmap(brightness, (0, None)),
        jnp.linspace(-0.3, 0.3, 5),
        jnp.linspace(-2.0, 2.0, 11),
    )
