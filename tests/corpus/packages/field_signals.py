"""Cases of signals: wavelets, spectra, audio features, signatures, the sphere."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def chirp(n: int) -> jax.Array:
    """Return a tone that rises, sampled at n points."""
    t = jnp.linspace(0.0, 1.0, n)
    return jnp.sin(2 * jnp.pi * (5 + 20 * t) * t)


@case("jaxwt", "wavelet", "convolution", shows="a transform there and back")
def wavelet_shrinkage_of_a_signal() -> Call:
    """A multilevel transform, soft thresholds on the details, and the inverse."""
    import jaxwt
    import pywt

    wavelet = pywt.Wavelet("db3")

    def denoise(x, threshold):
        approximation, *details = jaxwt.wavedec(x, wavelet, mode="reflect", level=3)
        shrunk = [jnp.sign(d) * jax.nn.relu(jnp.abs(d) - threshold) for d in details]
        return jaxwt.waverec([approximation, *shrunk], wavelet)

    return call(denoise, chirp(64)[None], jnp.array(0.1))


@case("jaxwt", "wavelet", "image", "gradient", shows="a two-dimensional transform")
def image_wavelet_sparsity_gradient() -> Call:
    """The gradient of the sum of absolute coefficients of an image."""
    import jaxwt
    import pywt

    def sparsity(image):
        leaves = jax.tree.leaves(jaxwt.wavedec2(image, pywt.Wavelet("haar"), level=2))
        return sum(jnp.abs(leaf).sum() for leaf in leaves)

    image = jax.random.normal(jax.random.key(0), (1, 16, 16))
    return call(jax.value_and_grad(sparsity), image)


@case("jaxwt", "wavelet", "convolution", shows="a stationary transform and its inverse")
def stationary_wavelet_round_trip() -> Call:
    """An undecimated transform of two levels and its inverse."""
    import jaxwt

    def round_trip(x):
        coefficients = jaxwt.swt(x, "db2", level=2)
        return coefficients, jaxwt.iswt(coefficients, "db2")

    return call(round_trip, chirp(32)[None])


@case("s2fft", "sphere", "fft", "complex", shows="harmonics forward and back", x64=True)
def spherical_transform_round_trip() -> Call:
    """A spin signal from coefficients and coefficients from the signal."""
    import jax.numpy as jnp
    import s2fft
    from s2fft.sampling import s2_samples

    bandlimit = 6

    def round_trip(flm):
        signal = s2fft.inverse_jax(flm, bandlimit, spin=2)
        return signal, s2fft.forward_jax(signal, bandlimit, spin=2)

    real = jax.random.normal(jax.random.key(0), (bandlimit, 2 * bandlimit - 1))
    assert s2_samples.flm_shape(bandlimit) == real.shape
    return call(round_trip, real + 0.5j * jnp.flip(real))


@case("s2fft", "sphere", "gradient", "rotation", shows="a loss on the sphere", x64=True)
def spherical_loss_gradient_after_rotation() -> Call:
    """The gradient of a misfit after coefficients are rotated by Wigner matrices."""
    import s2fft
    from s2fft.utils.rotation import rotate_flms

    bandlimit = 4

    def loss(flm, target):
        rotated = rotate_flms(flm, bandlimit, (0.1, 0.3, 0.5))
        signal = s2fft.inverse_jax(rotated, bandlimit, reality=True)
        return jnp.mean(jnp.abs(signal - target) ** 2)

    flm = jnp.ones((bandlimit, 2 * bandlimit - 1), jnp.complex128)
    target = jnp.zeros((bandlimit, 2 * bandlimit - 1))
    return call(jax.grad(loss), flm, target)


@case("s2fft", "sphere", "recursion", shows="Wigner functions by recursion", x64=True)
def wigner_d_by_turok_recursion() -> Call:
    """A slice of the reduced Wigner functions by Turok's recursion."""
    from s2fft.recursions.turok_jax import compute_slice

    def plane(beta):
        return compute_slice(beta, 5, 6, -2)

    return call(plane, jnp.array(0.7))


@case("librosax", "audio", "fft", "gradient", shows="mel spectra compared as a loss")
def log_mel_loss_gradient() -> Call:
    """The gradient of a distance between log-mel spectrograms."""
    import librosax
    from librosax import feature

    def loss(x, target):
        def log_mel(y):
            mel = feature.melspectrogram(
                y=y, sr=8000, n_fft=128, hop_length=64, n_mels=12
            )
            return librosax.power_to_db(mel)

        return jnp.mean(jnp.abs(log_mel(x) - log_mel(target)))

    return call(jax.value_and_grad(loss), chirp(512), jnp.cos(chirp(512)))


@case("librosax", "audio", "fft", shows="features of the spectrum of a frame")
def spectral_features() -> Call:
    """Cepstral coefficients, centroid, roll-off and zero crossings."""
    from librosax import feature

    def features(x):
        sizes = {"n_fft": 128, "hop_length": 64}
        return (
            feature.mfcc(y=x, sr=8000, n_mfcc=6, n_mels=16, **sizes),
            feature.spectral_centroid(y=x, sr=8000, **sizes),
            feature.spectral_rolloff(y=x, sr=8000, **sizes),
            feature.zero_crossing_rate(x, frame_length=128, hop_length=64),
        )

    return call(features, chirp(512))


@case("korvax", "audio", "fft", "prng", "complex", shows="phases found by iteration")
def griffin_lim_reconstruction() -> Call:
    """A signal from its magnitudes by Griffin and Lim's iteration."""
    import korvax

    def reconstruct(x, key):
        magnitudes = jnp.abs(korvax.stft(x, n_fft=64, hop_length=16))
        return korvax.griffin_lim(magnitudes, n_iter=8, hop_length=16, key=key)

    return call(reconstruct, chirp(256), jax.random.key(0))


@case("korvax", "audio", "fft", "gradient", shows="a spectral loss at two scales")
def spectral_convergence_gradient() -> Call:
    """The gradient of spectral convergence at two window lengths."""
    import korvax
    from korvax.loss import spectral_convergence_loss

    def loss(x, y):
        total = 0.0
        for n in (32, 64):
            a = jnp.abs(korvax.stft(x, n_fft=n)) + 1e-6
            b = jnp.abs(korvax.stft(y, n_fft=n)) + 1e-6
            total += spectral_convergence_loss(a, b)
        return total

    noise = 0.1 * jax.random.normal(jax.random.key(0), (256,))
    return call(jax.value_and_grad(loss), chirp(256) + noise, chirp(256))


@case("audax", "audio", "fft", "complex", shows="a spectrogram and its mel scale")
def mel_spectrogram_of_a_batch() -> Call:
    """A power spectrogram, mel filters and decibels."""
    import audax.core.functional as functional

    window = jnp.hanning(64)
    filters = functional.melscale_fbanks(33, 10, 8000, 0.0, 4000.0)

    def features(x):
        power = functional.spectrogram(
            x, pad=0, window=window, n_fft=64, hop_length=32, win_length=64, power=2.0
        )
        mel = functional.apply_melscale(power, filters)
        return 10.0 * jnp.log10(jnp.maximum(mel, 1e-10))

    return call(features, jnp.stack([chirp(256), jnp.cos(chirp(256))]))


@case("signax", "signature", "scan", "gradient", shows="signatures of paths, backwards")
def signature_gradient_of_paths() -> Call:
    """The gradient of a distance between truncated signatures of two paths."""
    from signax import signature

    def loss(x, y):
        a = signature(x, depth=3, flatten=True)
        b = signature(y, depth=3, flatten=True)
        return jnp.sum((a - b) ** 2)

    paths = jax.random.normal(jax.random.key(0), (2, 7, 3))
    return call(jax.value_and_grad(loss), *paths)


@case("signax", "signature", "batched", "gather", shows="log-signatures of a batch")
def batched_logsignatures() -> Call:
    """Log-signatures of a batch of paths, and two signatures combined."""
    from signax import logsignature, signature, signature_combine

    def features(paths):
        logs = jax.vmap(lambda p: logsignature(p, depth=3))(paths)
        first, second = signature(paths[0], 3), signature(paths[1], 3)
        return logs, signature_combine(first, second)

    return call(features, jax.random.normal(jax.random.key(0), (4, 6, 2)))


@case("einops", "tensor", "image", shows="patches rearranged, pooled and contracted")
def patches_and_attention_by_einops() -> Call:
    """Patches of images, their means, and attention written as einsum of names."""
    from einops import einsum, pack, rearrange, reduce, repeat

    def forward(images, token):
        x = rearrange(images, "b (h p) (w q) c -> b (h w) (p q c)", p=4, q=4)
        x, _ = pack([repeat(token, "c -> b 1 c", b=x.shape[0]), x], "b * c")
        scores = einsum(x, x, "b query c, b key c -> b query key")
        y = einsum(jax.nn.softmax(scores), x, "b query key, b key c -> b query c")
        return reduce(y, "b n (c two) -> b c", "max", two=2)

    images = jax.random.normal(jax.random.key(0), (2, 12, 8, 3))
    return call(jax.jacrev(forward, argnums=1), images, jnp.linspace(0.0, 1.0, 48))
