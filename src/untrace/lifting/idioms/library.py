"""Idioms of linear algebra, Fourier transforms, convolution, pooling and special functions."""

from __future__ import annotations

from untrace.lifting.idioms.domains import AXIS, SIZE
from untrace.lifting.idioms.table import idiom

SQUARE = "f32[3,3]"
SPECIAL = """erf erfc erfinv gammaln digamma ndtr ndtri log_ndtr expit logit i0e i1e i0 i1
entr"""
for name in (
    "inv",
    "det",
    "cholesky",
    "qr",
    "eigh",
    "eigvalsh",
    "slogdet",
    "pinv",
    "matrix_rank",
):
    idiom(f"jnp.linalg.{name}({{x}})", SQUARE, "f32[2,3,3]")
idiom("jnp.linalg.svd({x})", SQUARE)
idiom("jnp.linalg.svd({x}, full_matrices=False)", SQUARE, "f32[4,3]")
idiom("jnp.linalg.svdvals({x})", SQUARE)
idiom("jnp.linalg.solve({x}, {y})", "f32[3,3] f32[3]", "f32[3,3] f32[3,2]")
idiom("jnp.linalg.matrix_power({x}, {n})", "f32[3,3]; n=3", n=SIZE)
idiom("jnp.linalg.lstsq({x}, {y})", "f32[4,3] f32[4]")
for options in (
    "",
    ", lower=True",
    ", lower=True, trans=1",
    ", trans=1",
    ', lower=True, trans="T"',
):
    idiom(
        f"jax.scipy.linalg.solve_triangular({{x}}, {{y}}{options})",
        "f32[3,3] f32[3]",
        "f32[3,3] f32[3,2]",
    )
for is_lower in (True, False):
    idiom(
        f"jax.scipy.linalg.cho_solve(({{x}}, {is_lower}), {{y}})",
        "f32[3,3] f32[3]",
        "f32[3,3] f32[3,2]",
    )
    idiom(f"jax.scipy.linalg.cholesky({{x}}, lower={is_lower})", SQUARE)
idiom("jax.scipy.linalg.expm({x})", SQUARE)
for name in ("fft", "ifft", "rfft", "irfft"):
    kind = "c64[4]" if name in ("ifft", "irfft") else "f32[4]"
    idiom(f"jnp.fft.{name}({{x}})", kind, "c64[4]")
    idiom(f"jnp.fft.{name}({{x}}, n={{n}})", kind + "; n=6", n=SIZE)
    idiom(
        f"jnp.fft.{name}({{x}}, axis={{axis}})",
        "c64[4,4]" if name != "rfft" else "f32[4,4]",
        axis=AXIS,
    )
for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn"):
    idiom(f"jnp.fft.{name}({{x}})", "c64[4,4]", "f32[4,4]")
for name in ("fftshift", "ifftshift"):
    idiom(f"jnp.fft.{name}({{x}})", "f32[4]", "f32[4,4]")
idiom("jnp.fft.fftfreq({n})", "; n=4", n=SIZE)
idiom("jnp.fft.rfftfreq({n})", "; n=4", n=SIZE)
for mode in ("", ', mode="same"', ', mode="valid"'):
    idiom(f"jnp.convolve({{x}}, {{y}}{mode})", "f32[7] f32[3]", "f32[3] f32[7]")
    idiom(f"jnp.correlate({{x}}, {{y}}{mode})", "f32[7] f32[3]")
    idiom(f"jax.scipy.signal.convolve2d({{x}}, {{y}}{mode})", "f32[7,7] f32[3,3]")
    idiom(f"jax.scipy.signal.convolve({{x}}, {{y}}{mode})", "f32[7,7] f32[3,3]")
idiom("jnp.interp({x}, {y}, {z})", "f32[4] f32[5] f32[5]")
for name in SPECIAL.split():
    idiom(f"jax.scipy.special.{name}({{x}})")
for name in (
    "xlogy",
    "xlog1py",
    "gammainc",
    "gammaincc",
    "betaln",
    "kl_div",
    "rel_entr",
):
    idiom(f"jax.scipy.special.{name}({{x}}, {{y}})")
for name in ("logpdf", "pdf", "cdf", "logcdf"):
    idiom(f"jax.scipy.stats.norm.{name}({{x}})")
    idiom(f"jax.scipy.stats.norm.{name}({{x}}, {{m}}, {{s}})")
idiom(
    "jax.scipy.stats.multivariate_normal.logpdf({x}, {m}, {s})",
    "f32[3] f32[3] f32[3,3]",
)
idiom("jax.scipy.linalg.block_diag({x}, {y})", "f32[2,2] f32[3,3]")
idiom("jnp.vander({x})", "f32[3]")
idiom("jnp.polyval({x}, {y})", "f32[3] f32[2]")
