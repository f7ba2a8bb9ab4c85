"""Filtering, spectra and principal components of a few channels."""

import jax
import jax.numpy as jnp

FRAME = 16
HOP = 8


def frames_of(signal):
    starts = jnp.arange(0, signal.shape[-1] - FRAME + 1, HOP)
    indices = starts[:, None] + jnp.arange(FRAME)[None, :]
    return signal[indices]


def spectrogram(signal):
    window = jnp.hanning(FRAME)
    spectrum = jnp.fft.rfft(frames_of(signal) * window, axis=-1)
    power = jnp.abs(spectrum) ** 2
    return 10.0 * jnp.log10(power + 1e-6)


def smooth(signal, width):
    kernel = jnp.exp(-0.5 * (jnp.linspace(-2.0, 2.0, width)) ** 2)
    kernel = kernel / kernel.sum()
    return jnp.convolve(signal, kernel, mode="same")


def low_pass(signal, cutoff):
    spectrum = jnp.fft.fft(signal)
    frequencies = jnp.fft.fftfreq(signal.shape[-1])
    kept = jnp.where(jnp.abs(frequencies) < cutoff, spectrum, 0.0)
    return jnp.fft.ifft(kept).real


def principal_components(channels, n_components):
    centred = channels - channels.mean(axis=1, keepdims=True)
    covariance = centred @ centred.T / (channels.shape[1] - 1)
    values, vectors = jnp.linalg.eigh(covariance)
    order = jnp.argsort(-values)
    vectors = vectors[:, order[:n_components]]
    return vectors.T @ centred, values[order]


def analyse(channels):
    filtered = jax.vmap(lambda signal: low_pass(signal, 0.2))(channels)
    smoothed = jax.vmap(smooth, in_axes=(0, None))(filtered, 7)
    components, variances = principal_components(smoothed, 2)
    _, singular, _ = jnp.linalg.svd(smoothed, full_matrices=False)
    return spectrogram(components[0]), variances, singular, jnp.linalg.norm(smoothed)


def program():
    time = jnp.linspace(0.0, 1.0, 64)
    rates = jnp.array([3.0, 7.0, 12.0])
    channels = jnp.sin(2.0 * jnp.pi * rates[:, None] * time)
    noise = 0.1 * jax.random.normal(jax.random.key(0), channels.shape)
    return analyse, (channels + noise,)
