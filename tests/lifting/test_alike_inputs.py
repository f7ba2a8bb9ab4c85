"""Large inputs with alike parts, which are written once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from untrace.lifting.alike_parts import short_dict, short_row

NOISE = np.random.default_rng(0)


def layer(n=16):
    kernel = NOISE.normal(scale=0.1, size=(n, n)).astype(np.float32)
    return {
        "kernel": kernel,
        "bias": np.zeros(n, np.float32),
        "gain": NOISE.uniform(size=n).astype(np.float32),
        "key": jax.random.key(int(NOISE.integers(2**31))),
    }


def example(*args, **options):
    """Return the text of `example_args`, and what it makes."""

    def f(*args):
        return args

    src = untrace.source(f, **options)(*args)
    scope = {}
    exec(compile(str(src), "given.py", "exec"), scope)
    made = tuple(scope["example_args"]().values())
    types = [
        [(x.shape, x.dtype) for x in jax.tree.leaves(tree)] for tree in (args, made)
    ]
    assert types[0] == types[1]
    return str(src).partition("def example_args")[2], made


def test_layers_by_number():
    given = {"layers": {i: layer() for i in range(6)}, "last": layer(4)}
    text, (made,) = example(given)
    assert "for i in range(6)" in text and text.count('"kernel"') == 2
    kernels = [made["layers"][i]["kernel"] for i in range(6)]
    assert not np.array_equal(*kernels[:2])  # each is drawn
    assert jax.tree.structure(made) == jax.tree.structure(given)
    text, _ = example({i: layer() for i in (1, 3, 4, 6, 7)})
    assert "for i in (1, 3, 4, 6, 7)" in text


def test_layers_by_name():
    given = {f"Block_{i}": layer() for i in (0, 1, 2, 3, 10)} | {"head": layer(3)}
    text, (made,) = example(given)
    assert (
        '**{\n            f"Block_{i}"' in text and "for i in (0, 1, 2, 3, 10)" in text
    )
    assert set(made) == set(given)
    text, (made,) = example({name: layer() for name in ("q", "k", "v", "o", "p")})
    assert 'for name in ("k", "o", "p", "q", "v")' in text


def test_names_are_hidden_with_the_others():
    text, _ = example({f"secret_{i}": layer() for i in range(4)}, anonymous=True)
    assert "secret" not in text


def test_layers_in_lists_and_tuples():
    text, (made,) = example([*(layer() for _ in range(5)), layer(8)])
    assert "for _ in range(5)" in text and len(made) == 6
    text, (made,) = example(tuple(layer() for _ in range(5)))
    assert "for _ in range(5)" in text and isinstance(made, tuple) and len(made) == 5


def test_parts_of_other_types_are_not_alike():
    text, _ = example([layer(n) for n in range(8, 13)])
    assert "for _ in" not in text


def test_few_small_arrays_are_exact():
    given = [{"w": np.float32([1, 2]), "b": np.float32([i])} for i in range(3)]
    text, (made,) = example(given)
    assert "for _ in" not in text
    np.testing.assert_array_equal(made[2]["b"], [2])


def test_nested_parts_have_variables_of_their_own():
    given = {i: {j: layer() for j in range(5)} for i in range(3)}
    text, (made,) = example(given)
    assert "for i in range(5)" in text and "for j in range(3)" in text
    assert jax.tree.structure(made) == jax.tree.structure(given)


class Moments(NamedTuple):
    mu: dict
    nu: dict


def zeros(tree):
    return jax.tree.map(jnp.zeros_like, tree)


def without_keys(tree):
    return {
        i: {k: v for k, v in held.items() if k != "key"} for i, held in tree.items()
    }


def test_moments_are_zeros_like_params():
    params = without_keys({i: layer() for i in range(6)})
    text, (moments, made) = example(Moments(zeros(params), zeros(params)), params)
    assert (
        text.count("jax.tree.map(np.zeros_like, args_2)") == 2
        or text.count("np.zeros_like") == 2
    )
    assert jax.tree.structure(moments.mu) == jax.tree.structure(made)
    assert not np.any(moments.nu[2]["kernel"])


def test_params_in_a_state_get_a_name():
    params = without_keys({i: layer() for i in range(6)})
    state = {"params": params, "opt_state": Moments(zeros(params), zeros(params))}
    text, _ = example(state)
    assert "    params = {" in text and '"params": params' in text
    assert text.count("jax.tree.map(np.zeros_like, params)") == 2


def test_moments_are_like_each_other():
    moments = zeros(without_keys({i: layer() for i in range(6)}))
    text, _ = example(Moments(moments, moments), {"rngs": layer()})
    assert (
        text.count(" = {") == 2
        and "mu=mu" in text
        and "nu=jax.tree.map(np.zeros_like, mu)" in text
    )


def test_variables_do_not_hide_what_is_mentioned():
    part = "f(i, name, " + "x" * 500 + ")"
    assert short_dict([0, 1], [part, part], True) == f"{{j: {part} for j in range(2)}}"
    text = short_dict(["a b", "c"], [part, part], True)
    assert text == f'{{key: {part} for key in ("a b", "c")}}'
    assert short_row("list", ["x", "x", part]) == ""
    assert short_row("tuple", [part, part]) == f"tuple({part} for _ in range(2))"


def test_argument_called_as_the_generator():
    def f(rng, mu, x):
        return jax.tree.map(jnp.add, rng, mu), x

    given = {f"w{i}": NOISE.normal(size=(8, 8)).astype(np.float32) for i in range(16)}
    zeros = jax.tree.map(np.zeros_like, given)
    src = untrace.source(f)(given, zeros, NOISE.normal(size=64).astype(np.float32))
    scope = {}
    exec(compile(str(src), "given.py", "exec"), scope)
    assert set(scope["example_args"]()) == {"rng", "mu", "x"}
