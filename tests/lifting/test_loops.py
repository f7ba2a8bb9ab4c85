"""Loops of the program come back as loops, and make the same equations."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.lifting.recorded.repeats import turns

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)
LAYERS = [{"w": X * i, "b": X[i % 4]} for i in range(5)]


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def layer(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def over_layers(layers, x):
    for params in layers:
        x = layer(params, x)
    return x


def inline(layers, x):
    for one in layers:
        x = jnp.tanh(x @ one["w"] + one["b"])
    return x


def by_index(layers, x):
    for i in range(1, len(layers)):
        x = x + jnp.tanh(x @ layers[i]["w"])
    return x


def two_lists(layers, xs):
    x = xs[0]
    for one, y in zip(layers[:4], xs):
        x = jnp.tanh(x @ one["w"]) * y
    return x


def scaled(x):
    for scale in (0.5, 1.5, 0.25, 2.5):
        x = jnp.sin(x) * scale
    return x


def counted(x):
    for i in range(2, 7):
        x = jnp.roll(x, i) * x
    return x


def with_keys(key, x):
    for _ in range(3):
        key, subkey = jax.random.split(key)
        x = x + jax.random.normal(subkey, x.shape)
    return x


def two_carries(x):
    a, b = x, x + 1
    for _ in range(4):
        a, b = jnp.sin(b), jnp.cos(a) * b
    return a - b


def enumerated(layers, x):
    for i, one in enumerate(layers):
        x = jnp.roll(jnp.tanh(x @ one["w"]), i)
    return x


def two_enumerated(layers, x):
    for i, (one, scale) in enumerate(zip(layers, (0.5, 1.5, 2.5, 3.5, 4.5))):
        x = jnp.tanh(x @ one["w"] * scale) + i
    return x


def sliced(x):
    for low, high in ((1, 2), (1, 4), (2, 3)):
        x = x * x[low:high].sum()
    return x


def shifts(x):
    for shift in (1, 3, 4):
        x = jnp.roll(x, shift) * x
    return x


def by_key(params, x):
    for name in ("q", "k", "v"):
        x = jnp.tanh(x @ params[name]["w"] + params[name]["b"])
    return x @ params["out"]["w"]


class State(NamedTuple):
    position: jax.Array
    speed: jax.Array


def moved(state, force):
    speed = state.speed - jnp.sin(state.position) * force
    return State(state.position + speed, speed)


def states(state, forces):
    for force in forces:
        state = moved(state, force * jnp.cos(state.speed))
    return state


def three_carries(x):
    a, b, c = x, x + 1, x + 2
    for _ in range(4):
        a, b, c = b * c, jnp.cos(a) * b, -a + c
    return a - b + c


def late_carry(x):
    a, b = x, x + 1
    for _ in range(4):
        c = jnp.sin(a + b)
        b, a = jnp.tanh(a) @ b, jnp.cos(c) - b
    return a - b


def last_turn(layers, x):
    for one in layers:
        y = x @ one["w"]
        x = jnp.tanh(y) + y
    return x, y


def twice(layers, x):
    for one in layers:
        x = layer(one, x)
    for one in layers:
        x = layer(one, x * 2)
    return x


def over_rows(layers, key, x):
    for one, k in zip(layers, jax.random.split(key, len(layers))):
        x = layer(one, x) + jax.random.normal(k, x.shape)
    return x


class Model(NamedTuple):
    layers: list

    def __call__(self, x):
        for one in self.layers:
            x = layer(one, x)
        return x


def over_parts_of_a_module(layers, x):
    return jax.vmap(Model(layers))(x[None])


def over_captured(layers, x):
    def body(y):
        for one in layers:
            y = jnp.tanh(y @ one["w"])
        return y

    return jax.vmap(body)(x[None])


def decay(params, x):
    penalty = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))
    return jnp.sum(x) + 1e-4 * penalty


def decay_of_a_part(params, x):
    total = 0.0
    for p in jax.tree.leaves(params["layers"]):
        total += jnp.sum(jnp.abs(p))
    return total + jnp.sum(params["scale"] * x)


def reversed_leaves(params, x):
    total = 0.0
    for p in jax.tree.leaves(params)[::-1]:
        total += jnp.sum(jnp.abs(p))
    return total + x.sum()


TREE = {"scale": X[0], "layers": [{"w": X, "b": X[1]}, {"w": X + 1, "b": X[2]}]}
LISTS = [X, X + 1, X + 2, X + 3]


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (over_layers, (LAYERS, X), ["for params in layers:", "x = layer(params, x)"]),
        (inline, (LAYERS, X), ["for one in layers:", 'x = jnp.tanh(x @ one["w"] +']),
        (by_index, (LAYERS, X), ["for i in range(1, 5):", 'x @ layers[i]["w"]']),
        (two_lists, (LAYERS[:4], LISTS), ["in zip(layers, xs):"]),
        (scaled, (X,), ["for scale in (0.5, 1.5, 0.25, 2.5):", "jnp.sin(x) * scale"]),
        (counted, (X,), ["for i in range(2, 7):", "jnp.roll(x, i)"]),
        (
            with_keys,
            (jax.random.key(0), X),
            ["for _ in range(3):", "key, subkey = jax.random.split(key)"],
        ),
        (
            two_carries,
            (X,),
            ["a = x", "a, b = jnp.sin(b), jnp.cos(a) * b", "return a - b"],
        ),
        (enumerated, (LAYERS, X), ["for i, one in enumerate(layers):"]),
        (
            two_enumerated,
            (LAYERS, X),
            ["for i, (one, scale) in enumerate(zip(layers, (0.5, 1.5,"],
        ),
        (sliced, (X,), ["for low, high in zip((1, 1, 2), (2, 4, 3)):"]),
        (shifts, (X,), ["for shift in (1, 3, 4):"]),
        (
            by_key,
            (dict(zip("qkv", LAYERS), out=LAYERS[0]), X),
            ['for name in ("q", "k", "v"):', 'x @ params[name]["w"]'],
        ),
        (
            states,
            (State(X, X + 1), LISTS),
            ["for force in forces:", "moved(state, force * jnp.cos(state.speed))"],
        ),
        (three_carries, (X,), ["a, b, c = b * c, jnp.cos(a) * b, -a + c"]),
        (
            late_carry,
            (X,),
            ["for _ in range(4):", "b, a = jnp.tanh(a) @ b, jnp.cos(c) - b"],
        ),
        (last_turn, (LAYERS, X), ["for one in layers:", "return x, y"]),
        (twice, (LAYERS, X), ["x = layer(one, x * 2)"]),
        (
            over_rows,
            (LAYERS, jax.random.key(0), X),
            ["for one, k in zip(layers, keys):", "keys = jax.random.split(key, 5)"],
        ),
        (
            over_parts_of_a_module,
            (LAYERS, X),
            ["for one in layers:", "x = layer(one, x)"],
        ),
        (
            decay,
            (TREE, X),
            ["penalty = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))"],
        ),
        (decay_of_a_part, (TREE, X), ['in jax.tree.leaves(params["layers"]):']),
        (reversed_leaves, (TREE, X), ["def reversed_leaves(params, x):"]),
        (over_captured, (LAYERS, X), ["for one in layers:", "y = jnp.tanh(y @ one"]),
    ],
)
def test_loops_come_back(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    plain = untrace.source(function, reroll="none")(*args)
    program, _, _ = str(plain).partition("def example_args")
    assert plain.report.is_verified and "    for " not in program


@pytest.mark.parametrize("function", [decay, decay_of_a_part, reversed_leaves])
def test_loops_over_leaves_under_grad(function):
    recover(jax.grad(function), TREE, X)
    recover(lambda p, x: jax.value_and_grad(function)(p, x), TREE, X)


@pytest.mark.parametrize("function", [over_layers, inline, by_index, last_turn])
def test_loops_under_grad(function):
    def loss(layers, x):
        return jnp.sum(jax.tree.leaves(function(layers, x))[0])

    recover(jax.grad(loss), LAYERS, X)


def test_statements_that_were_no_loop_are_none():
    def unrolled(layers, x):
        x = layer(layers[0], x)
        x = layer(layers[1], x)
        x = layer(layers[2], x)
        return x

    assert "for " not in recover(unrolled, LAYERS, X)
    assert "for " in recover(unrolled, LAYERS, X, reroll="for")


def collected(layers, x):
    found = []
    for one in layers:
        x = layer(one, x)
        found.append(x)
    return jnp.stack(found), x


def collected_from_the_first(x):
    found = [x]
    for _ in range(4):
        x = jnp.sin(x) * 2
        found.append(x)
    return found


def two_collected(layers, x):
    sums, means = [], []
    for one in layers:
        x = layer(one, x)
        sums.append(x.sum())
        means.append(x.mean())
    return jnp.stack(sums), means


def collected_and_summed(layers, x):
    scales = []
    for one in layers:
        y = jnp.tanh(x @ one["w"])
        x = x + y * 2
        scales.append(jnp.mean(y))
    return x * sum(scales)


def comprehension(layers, x):
    return jnp.stack([jnp.tanh(x @ one["w"]) for one in layers])


def tuple_of_turns(layers, x):
    return tuple(layer(one, x) for one in layers), x


def named_comprehension(layers, x):
    outputs = [layer(one, x) for one in layers]
    return sum(outputs)


def unpacked(params, x):
    q, k, v = ((x @ params[name]["w"]).reshape(2, 2, 4) for name in ("q", "k", "v"))
    return q * k - v


def unpacked_values(x, y):
    a, b = (jnp.sin(one) + 3 * jnp.cos(one) for one in (x, y))
    return a * b


def two_turns(layers, x):
    for one in layers[:2]:
        y = layer(one, x)
        x = x + jnp.tanh(y) * 2
    return x


def two_turns_of_a_sum(layers, x):
    return sum(jnp.mean((layer(one, x) - x) ** 2) for one in layers[:2])


def two_turns_of_a_map(params, x):
    for _ in range(2):
        grads = jax.grad(lambda p: jnp.sum(jnp.tanh(x @ p["w"]) ** 2))(params)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params


def inner_comprehension(layers, x):
    for one in layers:
        q, k = (jnp.tanh(x @ one["w"]) * scale for scale in (2.0, 3.0))
        x = jnp.sin(q) @ k
    return x


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (
            collected,
            (LAYERS, X),
            ["found = []", "x = layer(one, x)\n", "jnp.stack(found)"],
        ),
        (
            collected_from_the_first,
            (X,),
            ["found = [x]", "in range(4):", "return found"],
        ),
        (
            two_collected,
            (LAYERS, X),
            ["sums.append(x.sum())", "means.append(x.mean())"],
        ),
        (
            collected_and_summed,
            (LAYERS, X),
            ["scales.append(jnp.mean(y))", "return x * sum(scales)"],
        ),
        (
            comprehension,
            (LAYERS, X),
            ['return jnp.stack([jnp.tanh(x @ one["w"]) for one in layers])'],
        ),
        (tuple_of_turns, (LAYERS, X), ["tuple([layer(one, x) for one in layers])"]),
        (
            named_comprehension,
            (LAYERS, X),
            ["outputs = [layer(one, x) for one in layers]", "return sum(outputs)"],
        ),
        (
            unpacked,
            (dict(zip("qkv", LAYERS)), X),
            ["q, k, v = (", 'for name in ("q", "k", "v")'],
        ),
        (
            unpacked_values,
            (X, X + 1),
            ["a, b = (jnp.sin(one) + 3 * jnp.cos(one) for one in [x, y])"],
        ),
        (two_turns, (LAYERS, X), ["for one in layers[:2]:", "y = layer(one, x)"]),
        (two_turns_of_a_sum, (LAYERS, X), ["return sum(", "for one in layers[:2]"]),
        (two_turns_of_a_map, (LAYERS[1], X), ["for _ in range(2):"]),
        (
            inner_comprehension,
            (LAYERS, X),
            ["for one in layers:", "q, k = (", "for scale in (2.0, 3.0))"],
        ),
    ],
)
def test_lists_sums_and_loops_of_two_turns_come_back(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    plain = untrace.source(function, reroll="none")(*args)
    assert plain.report.is_verified and " for " not in str(plain).partition("def ")[2]


def test_two_calls_in_a_row_are_no_loop():
    def called_twice(layers, x):
        x = jnp.tanh(layer(layers[0], x) @ layers[0]["w"] * 3)
        x = jnp.tanh(layer(layers[1], x) @ layers[1]["w"] * 3)
        return x

    assert "for " not in recover(called_twice, LAYERS, X)


def test_stretches_between_what_is_needed_later_are_loops():
    def checkpoints(x):
        found = []
        for i in range(12):
            x = jnp.sin(x) * 2.0
            if i in (4, 5):
                found.append(x)
        return x, found

    text = recover(checkpoints, X)
    assert text.count("for _ in range(5):") == 1
    assert text.count("for _ in range(6):") == 1


def test_a_value_of_the_turn_before_the_last_is_no_loop():
    def fibonacci(x):
        a, b = x, x
        for _ in range(5):
            c = a * b
            a = b
            b = jnp.sin(c)
        return a, b

    recover(fibonacci, X)


def test_a_dict_with_numbers_for_keys_is_no_list():
    def f(layers, x):
        for i in range(3):
            x = jnp.sin(x) + layers[i]
        return x

    text = recover(f, {0: X, 1: X + 1, 2: X + 2}, X)
    assert "for i in range(3):" in text


def normalized(x):
    v = x[0]
    for _ in range(4):
        v = x @ v
        v = v / jnp.sum(v)
    return v


def half_steps(x):
    position, speed = x[0], x[1]
    for _ in range(3):
        speed = speed - 0.5 * position
        position = position + 0.1 * speed
        speed = speed - 0.5 * position
    return position, speed


def kept_for_later(x):
    v = x[0]
    for _ in range(4):
        w = v
        v = jnp.sin(v)
        v = v * w
    return v


def test_a_value_has_the_name_of_the_variable_that_it_becomes():
    assert "v = x @ v\n" in recover(normalized, X)
    text = recover(half_steps, X)
    assert text.count("        speed = speed - 0.5 * position\n") == 2
    assert "v = v_2 * v" in recover(kept_for_later, X)


def test_an_index_that_is_not_used_has_no_name():
    def f(x, y):
        def double(_, v):
            return v * y

        return jax.lax.fori_loop(0, 3, double, x)

    assert "def double(_, v):" in recover(f, X, X)


def test_the_turns_of_a_long_loop_are_looked_at_a_few_times_each(monkeypatch):
    def f(x):
        for _ in range(200):
            x = jnp.sin(x) * 2.0 + 1.0
            x = jnp.tanh(x)
        return x

    seen = []
    take = turns._takes_turn
    counted = lambda run, turn: (seen.append(turn), take(run, turn))[1]
    monkeypatch.setattr(turns, "_takes_turn", counted)
    src = untrace.source(f)(jnp.ones(3))
    assert "for _ in range(200):" in str(src)
    assert len(seen) < 200 * 12


def test_dicts_by_number_are_filled_in_loops():
    def numbered(layers, x):
        sums = {}
        for i, layer in enumerate(layers):
            x = jnp.tanh(x @ layer["w"]) + layer["b"]
            sums[i] = jnp.sum(x)
        return x, sums

    text = recover(numbered, LAYERS, X)
    assert "sums = {}" in text and "sums[i] = jnp.sum(x)" in text


def test_a_comprehension_may_give_its_result_the_name_of_what_it_is_over():
    def heads(x):
        q, k, v = jnp.split(x, 3)
        q, k, v = (jnp.sin(a.reshape(-1, 1)) for a in (q, k, v))
        return q @ k.T @ v

    assert "q, k, v = (" in recover(heads, np.ones(12, np.float32))


def test_asking_for_loops_keeps_those_of_the_program():
    def sgd(params, grads):
        return [(w - 0.1 * g, b - 0.1 * h) for (w, b), (g, h) in zip(params, grads)]

    pairs = [(jnp.eye(3) * i, jnp.ones(3)) for i in range(4)]
    auto = str(untrace.source(sgd)(pairs, pairs))
    assert "for (w, b), (g, h) in zip(params, grads)]" in auto
    assert str(untrace.source(sgd, reroll="for")(pairs, pairs)) == auto


def unrolled_loss(w, x, ref):
    total = 0.0
    for _ in range(3):
        p = jnp.tanh(x @ w)
        q = jnp.sin(ref) * 2
        total = total + jnp.mean((p - q) ** 2)
        x = jnp.exp(-p) + x
        ref = jnp.sin(q) - ref
    return total


def test_the_last_turn_has_what_only_the_next_one_would_need():
    text = recover(unrolled_loss, X, X, X)
    assert "for _ in range(3):" in text
    assert text.count("jnp.tanh(") == 1 and text.count("jnp.exp(") == 1


def test_what_only_the_last_turn_is_asked_for_is_computed_once():
    def last_output(w, x):
        y = x
        for _ in range(4):
            x = jnp.tanh(x @ w) + jnp.sin(x)
            y = jnp.exp(x) * 2 - jnp.cos(x)
        return y

    src = untrace.source(last_output)(X, X)
    assert src.report.is_verified
    assert "for _ in range(4):" in str(src) and str(src).count("jnp.exp(") == 1
    assert "    y = jnp.exp(x) * 2 - jnp.cos(x)\n    return y\n" in str(src)


def test_dead_code_of_the_last_turn_vanishes_where_no_loop_is_found():
    def f(x):
        for function in (jnp.sin, jnp.tanh):
            y = function(x) * 2
            x = jnp.exp(y) + x
        return y

    src = untrace.source(f)(X)
    assert src.report.is_verified and str(src).count("jnp.exp(") == 1


def test_keys_in_brackets_are_no_indices():
    def over_keys(params, x):
        for i in range(4):
            x = jnp.tanh(x @ params[f"w[{i}]"])
        return x

    params = {f"w[{i}]": X * i for i in range(4)}
    assert "for leaf in jax.tree.leaves(params):" in recover(over_keys, params, X)


def pasted(x, a):
    y = jnp.sin(x) * a
    z = jnp.cos(y) + x
    x = z / jnp.sum(y * z)
    x = x * jnp.mean(x)
    y = jnp.sin(x) * a
    z = jnp.cos(y) + x
    x = z / jnp.sum(y * z)
    x = x * jnp.mean(x)
    y = jnp.sin(x) * a
    z = jnp.cos(y) + x
    x = z / jnp.sum(y * z)
    x = x * jnp.mean(x)
    return x


def test_what_the_program_wrote_three_times_is_no_function():
    text = recover(pasted, X, X[0])
    assert text.count("y = jnp.sin(x) * a") == 3 and "pasted_step" not in text


def long_turns(layers, x):
    for layer in layers:
        a = jnp.sin(x) * layer["b"] + jnp.cos(x) * 2.0
        b = jnp.tanh(a) / (1 + jnp.abs(a)) - x * 0.5
        c = jnp.sin(b) * layer["b"] + jnp.cos(b) * 2.0
        d = jnp.tanh(c) / (1 + jnp.abs(c)) - a * 0.5
        x = a * b + c * d - x
    return x


def test_turns_of_many_statements_are_a_loop():
    text = recover(long_turns, LAYERS, X[0])
    assert "for layer in layers:" in text and "long_turns_step" not in text, text
    assert "x = a * b + c * d - x" in text, text
