"""Light: dLux (telescopes), fmmax (gratings and layers)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.corpus.packages.cases import Call, call, case


def _telescope() -> Any:
    """Return a telescope with a round mirror and some Zernike aberrations."""
    import dLux as dl
    import dLux.utils as dlu
    import jax.numpy as jnp

    n = 32
    coords = dlu.pixel_coords(n, 1.0)
    basis = jnp.array([dlu.zernike(i, coords, 1.0) for i in (2, 3, 4)])
    mirror = dl.layers.BasisOptic(
        basis=basis,
        transmission=dlu.circle(coords, 0.5),
        coefficients=jnp.array([0.0, 1e-8, 2e-8]),
        normalise=True,
    )
    return dl.AngularOpticalSystem(
        wf_npixels=n,
        diameter=1.0,
        layers=[("mirror", mirror)],
        psf_npixels=16,
        psf_pixel_scale=0.1,
    )


@case(
    "dlux",
    "optics",
    "complex",
    "batched",
    "filtered",
    shows="The image of a point source at several wavelengths.",
)
def polychromatic_image() -> Call:
    import jax.numpy as jnp

    optics = _telescope()

    def image(optics, wavelengths):
        return optics.propagate(wavelengths)

    return call(image, optics, jnp.linspace(500e-9, 700e-9, 3))


@case(
    "dlux",
    "optics",
    "gradient",
    "complex",
    shows="The gradient of an image's likelihood with respect to aberrations.",
)
def aberration_gradient() -> Call:
    import jax
    import jax.numpy as jnp

    optics = _telescope()
    data = jnp.ones((16, 16)) / 256

    def loss(coefficients):
        tuned = optics.set("mirror.coefficients", coefficients)
        image = tuned.propagate_mono(600e-9)
        return jnp.sum((image - data) ** 2)

    return call(jax.value_and_grad(loss), jnp.array([1e-8, -2e-8, 3e-8]))


@case(
    "dlux",
    "optics",
    "filtered",
    shows="A source through a telescope onto a detector with jitter.",
)
def detector_image() -> Call:
    import dLux as dl
    import jax.numpy as jnp

    detector = dl.LayeredDetector(
        [
            ("jitter", dl.layers.ApplyJitter(0.5, kernel_size=5)),
            ("bias", dl.layers.AddConstant(2.0)),
        ]
    )
    source = dl.PointSource(
        wavelengths=jnp.array([550e-9, 650e-9]), position=jnp.zeros(2), flux=1e4
    )

    def expose(source, optics, detector):
        return detector.model(source.model(optics, return_psf=True))

    return call(expose, source, _telescope(), detector)


def _grating(n_terms: int) -> tuple[Any, Any]:
    from fmmax import basis

    vectors = basis.LatticeVectors(u=basis.X * 0.9, v=basis.Y * 0.9)
    expansion = basis.generate_expansion(vectors, n_terms, basis.Truncation.CIRCULAR)
    return vectors, expansion


@case(
    "fmmax",
    "optics",
    "eigendecomposition",
    "complex",
    "custom derivative",
    shows="The modes of a patterned layer.",
)
def patterned_layer_modes() -> Call:
    import jax.numpy as jnp
    from fmmax import fmm

    vectors, expansion = _grating(9)
    density = jnp.zeros((20, 20)).at[5:15, 5:15].set(1.0)

    def modes(wavelength, density):
        result = fmm.eigensolve_isotropic_media(
            wavelength=wavelength,
            in_plane_wavevector=jnp.zeros(2),
            primitive_lattice_vectors=vectors,
            permittivity=(1.0 + 3.0 * density).astype(complex),
            expansion=expansion,
            formulation=fmm.Formulation.FFT,
        )
        return jnp.sort(jnp.abs(result.eigenvalues))

    return call(modes, jnp.asarray(0.6), density)


def _slab_reflection() -> Callable[..., Any]:
    """Return how much light a slab of glass reflects, of thickness and wavelength."""
    import jax.numpy as jnp
    from fmmax import fmm, scattering

    vectors, expansion = _grating(1)

    def reflection(thickness, wavelength):
        layers = [
            fmm.eigensolve_isotropic_media(
                wavelength=wavelength,
                in_plane_wavevector=jnp.zeros(2),
                primitive_lattice_vectors=vectors,
                permittivity=jnp.full((1, 1), permittivity, complex),
                expansion=expansion,
            )
            for permittivity in (1.0, 2.25, 1.0)
        ]
        thicknesses = [jnp.zeros(()), thickness, jnp.zeros(())]
        stack = scattering.stack_s_matrix(layers, thicknesses)
        return jnp.abs(stack.s21[0, 0]) ** 2

    return reflection


@case(
    "fmmax",
    "optics",
    "linear solve",
    "complex",
    shows="The light that a slab reflects.",
)
def slab_reflection() -> Call:
    import jax.numpy as jnp

    return call(_slab_reflection(), jnp.asarray(0.3), jnp.asarray(0.55))


@case(
    "fmmax",
    "optics",
    "gradient",
    "batched",
    "complex",
    shows="How the reflection changes with thickness, over wavelengths.",
)
def slab_reflection_gradient() -> Call:
    import jax
    import jax.numpy as jnp

    gradient = jax.vmap(jax.grad(_slab_reflection()), (None, 0))
    return call(gradient, jnp.asarray(0.3), jnp.linspace(0.45, 0.7, 4))
