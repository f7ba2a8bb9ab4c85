"""JAX's primitive harness: what is inverted is inverted right, the rest is refused."""

from __future__ import annotations

import collections
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.corpus import harness

pytest.importorskip("absl", reason="the harness of JAX needs absl-py")

INVERTED = """
acos acosh add add_any asin asinh atan atan2 atanh bitcast_convert_type broadcast_in_dim
cbrt cholesky complex concatenate conj convert_element_type cumlogsumexp cumprod cumsum
custom_linear_solve device_put div dynamic_update_slice erf erf_inv erfc exp expm1 fft
integer_pow log log1p logistic mul neg pow qr reduce_precision reshape rev rsqrt scatter
scatter_add select_n sinh sqrt squeeze sub tanh transpose triangular_solve xor
""".split()  # noqa: SIM905
"""Groups of which some case is invertible in all arguments or in one."""


def are_close(one: Any, other: Any) -> bool:
    """Compare results, by their precision."""
    if jax.dtypes.issubdtype(one.dtype, jax.dtypes.prng_key):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    is_narrow = jnp.dtype(one.dtype).itemsize < 4
    if not jnp.issubdtype(one.dtype, jnp.inexact):
        return bool((np.asarray(one) == np.asarray(other)).all())
    wide = jnp.complex64 if jnp.iscomplexobj(one) else jnp.float32
    a, b = np.asarray(one).astype(wide), np.asarray(other).astype(wide)
    scale = np.abs(b[np.isfinite(b)]).max(initial=1.0)
    rtol, atol = (5e-2, 2e-2) if is_narrow else (2e-3, 1e-3)
    return np.allclose(a, b, rtol=rtol, atol=atol * scale, equal_nan=True)


def outcome(case: Any, args: Any, ys: Any, argnum: int | None) -> str:
    """Invert one case in all arguments or in one, and apply it to what was found."""
    known = [a for i, a in enumerate(args) if argnum is not None and i != argnum]
    results = ys if type(ys) is tuple else (ys,)
    inverted = untrace.inverse(case.dyn_fun, *args, argnums=argnum)
    try:
        found = inverted(*results, *known)
    except untrace.InverseError as error:
        assert str(error)
        return "refused"
    solved = iter(found if argnum is None and len(args) > 1 else (found,))
    full = [next(solved) if argnum in (None, i) else a for i, a in enumerate(args)]
    if all(map(are_close, full, args)):  # eigenvectors of the same have other signs
        return "inverted"
    made = jax.tree.leaves(case.dyn_fun(*full))
    wanted = jax.tree.leaves(ys)
    if all(map(are_close, made, wanted)):
        return "inverted"
    # Nothing is left of what was divided by zero; no number is given for it.
    is_lost = all(np.isnan(x[~np.isfinite(y)]).all() for x, y in zip(full, wanted))
    return "outside" if is_lost and not np.isfinite(wanted[0]).all() else "wrong"


def outcomes(step: int) -> dict[str, collections.Counter[str]]:
    """Invert every `step`-th case; count what comes of them, by groups."""
    groups: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    wrong: list[str] = []
    for position, case in enumerate(harness.sampled(step)):
        args = case.dyn_args_maker(np.random.RandomState(0))
        if case.group_name == "pow":  # outside of its domain an inverse is NaN
            args = [jnp.abs(arg) for arg in args]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ys = jax.jit(case.dyn_fun)(*args)
            except Exception:  # what JAX itself cannot run is not ours
                continue
            alone = range(len(args)) if len(args) > 1 else ()
            for argnum in (None, *alone):
                verdict = outcome(case, args, ys, argnum)
                groups[case.group_name][verdict] += 1
                if verdict == "wrong":
                    wrong.append(f"{case.fullname} {argnum}")
        if position % 300 == 299:
            jax.clear_caches()
    assert not wrong, "\n".join(wrong)
    return groups


def test_sample_of_the_harness_is_inverted_or_refused() -> None:
    groups = outcomes(60)
    inverted = {name for name, counts in groups.items() if counts["inverted"]}
    assert set(INVERTED) <= inverted, set(INVERTED) - inverted


@pytest.mark.corpus
def test_whole_harness_is_inverted_or_refused() -> None:
    groups = outcomes(1)
    inverted = {name for name, counts in groups.items() if counts["inverted"]}
    assert set(INVERTED) <= inverted
