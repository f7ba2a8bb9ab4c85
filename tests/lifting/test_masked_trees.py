"""Trees with some of the leaves of others are written by what these have in common."""

import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

X = np.ones((3, 4), np.float32)
LAYER = {"kernel": np.eye(4, dtype=np.float32), "bias": np.ones(4, np.float32)}
PARAMS = {name: {**LAYER, "scale": np.ones(4, np.float32)} for name in "abc"}
OPTIMIZERS = library("""
def decayed(params, updates, mask):
    left = jax.tree.map(lambda m, u: u if m else (), mask, updates)
    only = jax.tree.map(lambda m, p: p if m else (), mask, params)
    new = jax.tree.map(lambda u, p: u + 0.1 * p, left, only)
    return jax.tree.map(lambda m, n, u: n if m else u, mask, new, updates)

def step(params, grads, mask):
    updates = jax.tree.map(lambda g: -0.01 * g, grads)
    updates = decayed(params, updates, mask)
    return jax.tree.map(lambda p, u: p + jnp.sin(u), params, updates)
""")


def recover(mask, params=PARAMS, **options):
    def step(params, grads):
        return OPTIMIZERS.step(params, grads, mask)

    src = untrace.source(step, **options)(params, params)
    assert src.report.is_verified, str(src.report)
    assert "its equations" not in str(src), src.report.notes
    return str(src)


def masked(is_kept, params=PARAMS):
    return {
        name: {key: is_kept(name, key, leaf) for key, leaf in layer.items()}
        for name, layer in params.items()
    }


@pytest.mark.parametrize(
    ("is_kept", "condition"),
    [
        (lambda name, key, leaf: leaf.ndim > 1, "x if x.ndim > 1 else ()"),
        (lambda name, key, leaf: key == "bias", 'path[-1].key == "bias"'),
        (lambda name, key, leaf: key != "bias", 'path[-1].key != "bias"'),
    ],
)
def test_leaves_are_chosen_by_rank_or_key(is_kept, condition):
    text = recover(masked(is_kept))
    assert condition in text
    assert "new if " in text
    assert '["a"]' not in text.partition("def example")[0]


def test_two_of_four_keys_are_named():
    params = {name: {**layer, "gain": X[0]} for name, layer in PARAMS.items()}
    text = recover(
        masked(lambda name, key, leaf: key in ("bias", "gain"), params), params
    )
    assert 'path[-1].key in ("bias", "gain")' in text


def test_leaves_that_have_nothing_in_common_are_written_one_by_one():
    text = recover(masked(lambda name, key, leaf: (name, key) == ("b", "bias")))
    assert "path[-1]" not in text and "ndim" not in text


@pytest.mark.parametrize("key", ["{0.real}", 'a"]["b', "a'b", "a[0]", "\\"])
def test_keys_of_any_text_stay_keys(key):
    params = {name: {**layer, key: X[0]} for name, layer in PARAMS.items()}
    is_kept = masked(lambda name, other, leaf: other == key, params)
    recover(is_kept, params)


def test_keys_are_not_told_where_names_are_removed():
    text = recover(masked(lambda name, key, leaf: key == "bias"), anonymous=True)
    assert "bias" not in text
