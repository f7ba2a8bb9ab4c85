"""What a function returns has the names of the fields, keys and variables that hold it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.lifting.test_containers import recover

X = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3)


class Contact(NamedTuple):
    normal: jax.Array
    depth: jax.Array


def test_a_container_that_is_returned_twice_is_written_once():
    def f(x, y):
        def step(carry, row):
            carry = Contact(carry.normal * row, carry.depth + row)
            return carry, carry

        scanned = jax.lax.scan(step, Contact(x[0], y[0]), y)
        out = (x * 2, y)
        return out, [out], scanned

    text = recover(f, X, X)
    assert "    out = (x * 2, y)\n    return out, [out], scan" in text, text
    assert "return carry, carry\n" in text, text


def test_one_that_no_variable_holds_any_more_is_written_twice():
    def f(x):
        out = (x * 2, jnp.sin(x))
        pair = out, out
        out = x
        return pair, out

    assert "(product, sin), (product, sin)" in recover(f, X)


def test_values_are_called_after_the_keys_that_they_were_put_into():
    def f(params):
        d = dict(params)
        d["density"] = d["mass"] / d["volume"] ** 2
        d["energy"] = d["density"] + d["mass"]
        d["k"] = 1 - d["energy"] - d["density"]
        return d

    text = recover(f, {"mass": X, "volume": X + 1})
    assert 'density = params["mass"] / params["volume"] ** 2\n' in text, text
    assert 'energy = density + params["mass"]\n' in text
    assert '{**params, "density": density, "energy": energy, "k": 1 - ' in text


def test_values_are_called_after_the_fields_that_they_are_returned_in():
    def f(x):
        return Contact(normal=x / jnp.max(x), depth=x * 2), (x * 2).sum()

    def g(x):
        contact = x / jnp.max(x)
        return Contact(contact, jnp.sin(contact) * contact)

    text = recover(f, X)
    assert "Contact(normal=x / jnp.max(x), depth=x * 2)" in text, text  # folded still
    assert "Contact(normal=contact, depth=jnp.sin(contact) * contact)" in recover(g, X)

    def h(x):
        return next(Contact(one, one * 2) for one in [x / jnp.max(x)])

    assert "normal = x / jnp.max(x)\n" in recover(h, X)


def both(x):
    return jnp.sin(x) + 1, {"a]b": jnp.cos(x) * x, "rest": [x * 2, x + 3]}


def test_a_variable_takes_the_part_of_a_result_that_it_took():
    def taking(x):
        indices = jnp.where(x > 0, size=3)[0]
        y = jnp.take(x, indices) + x[indices]
        upper = jnp.linalg.qr(x[:, None] * x)[-1]
        value, pull = jax.vjp(jnp.sin, x)
        slope = pull(x)[0]
        kept = both(x)[1]["a]b"]
        x = both(y)[0]
        return x * value, slope + kept, upper @ kept

    text = recover(taking, X[0])
    assert "    indices = jnp.where(x > 0, size=3)[0]\n" in text
    assert "    upper = jnp.linalg.qr(x[:, None] * x).R\n" in text
    assert "    slope = pull(x)[0]\n" in text
    assert '    kept = both(x)[1]["a]b"]\n' in text
    assert "    x = both(y)[0]\n" in text


def test_turns_take_parts_of_results():
    def model(x, ws):
        for w in ws:
            x = jax.lax.top_k(x @ w, 3)[0]
        return x

    text = recover(model, X[0], [np.ones((3, 3), np.float32)] * 3)
    assert "    for w in ws:\n        x = jax.lax.top_k(x @ w, 3)[0]\n" in text


def test_a_result_of_which_more_is_used_is_one():
    def model(x):
        y = pair(x)[0]
        return y + pairs[-1][1]

    def pair(x):
        pairs.append((jnp.sin(x) * 2, jnp.cos(x) @ x))
        return pairs[-1]

    pairs = []
    text = recover(model, X[0])
    assert text.count("pair(x)") == 2
