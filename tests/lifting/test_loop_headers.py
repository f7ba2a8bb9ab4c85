"""What a loop is over, and its variables, are written as the program had them."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import untrace

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)
LAYERS = [{"w": X * (i + 1), "b": X[i % 4]} for i in range(5)]
PAIRS = [(X, X[0]), (X + 1, X[1]), (X + 2, X[2])]
NAMED = {"enc": X, "mid": X + 1, "out": X + 2}
UNSORTED = {"w": X, "b": X + 1, "a": X + 2}
NUMBERED = {f"layer_{i}": LAYERS[i] for i in range(3)}


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def layer(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def from_the_end(layers, x):
    for one in reversed(layers):
        x = layer(one, x)
    return x


def from_the_end_but_one(layers, x):
    for one in layers[-2::-1]:
        x = layer(one, x)
    return x


def all_but_the_last(layers, x):
    for i, one in enumerate(layers):
        x = x @ one["w"] + one["b"]
        if i < len(layers) - 1:
            x = jax.nn.relu(x)
    return x


def indices_from_the_end(x):
    v = x[0]
    for i in range(3, -1, -1):
        v = jnp.tanh(v * x[i])
    return v


def every_second(x):
    for i in range(0, 8, 2):
        x = jnp.roll(x, i) * x
    return x


def neighbours(layers, x):
    for before, after in zip(layers[:-1], layers[1:]):  # noqa: RUF007
        x = x + x @ before["w"] @ after["w"]
    return x


def taken_apart(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return x


def partly_taken_apart(params, x):
    for i, (w, _) in enumerate(params):
        x = jnp.tanh(x @ w) + i
    return x


def taken_apart_and_whole(params, x):
    def apply(pair, x):
        return jnp.tanh(x @ pair[0] + pair[1])

    for w, b in params:
        x = apply((w, b), x) * w
    return x


def two_lists(first, second):
    return sum(jnp.sum((p - q) ** 2) for p, q in zip(first, second))


def late_first(first, second):
    return [q + jnp.sin(p) for p, q in zip(first, second)]


def keys(key):
    keys = jax.random.split(key, 3)
    return [jax.random.normal(k, (4, 4)) for k in keys]


def items(params, x):
    for _, v in params.items():
        x = jnp.tanh(x @ v)
    return x


def items_of_two(params, grads):
    total = 0.0
    for k, v in params.items():
        total = total + jnp.sum(v * grads[k])
    return total


def some_keys(params, x):
    for name in ("mid", "out"):
        x = jnp.tanh(x @ params[name])
    return x


def numbered_keys(params, x):
    for i in range(3):
        x = layer(params[f"layer_{i}"], x)
    return x


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (from_the_end, (LAYERS, X), ["for one in reversed(layers):"]),
        (from_the_end_but_one, (LAYERS, X), ["in reversed(layers[:-1]):"]),
        (
            all_but_the_last,
            (LAYERS, X),
            ["for one in layers[:-1]:", 'x @ layers[-1]["w"] + layers[-1]["b"]'],
        ),
        (indices_from_the_end, (X,), ["for i in reversed(range(4)):"]),
        (every_second, (X,), ["for i in range(0, 8, 2):"]),
        (neighbours, (LAYERS, X), ["before, after in zip(layers[:-1], layers[1:]):"]),
        (taken_apart, (PAIRS, X), ["for w, b in params:", "x = jnp.tanh(x @ w + b)"]),
        (partly_taken_apart, (PAIRS, X), ["for i, (w, _) in enumerate(params):"]),
        (taken_apart_and_whole, (PAIRS, X), [" in params:", "apply("]),
        (two_lists, (PAIRS[0], PAIRS[0]), ["def two_lists(first, second):"]),
        (two_lists, ([X, X, X], [X, X, X]), ["for p, q in zip(first, second))"]),
        (late_first, ([X, X, X], [X, X, X]), ["for p, q in zip(first, second)]"]),
        (keys, (jax.random.key(0),), ["for k in keys]"]),
        (items_of_two, (NAMED, NAMED), ["for k, v in params.items():", "v * grads[k]"]),
        (some_keys, (NAMED, X), []),
        (numbered_keys, (NUMBERED, X), ["in range(3):", 'layer(params[f"layer_{i}"]']),
    ],
)
def test_heads_of_loops(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text


@pytest.mark.parametrize("params", [NAMED, UNSORTED])
def test_items_of_dicts_come_in_the_order_of_the_run(params):
    recover(items, params, X)
    recover(jax.jit(items), params, X)
    recover(jax.grad(lambda p, x: jnp.sum(items(p, x))), params, X)
    recover(lambda x: items({"w": x, "b": x + 1, "a": x * 2}, x), X)


def test_words_that_are_no_numbered_ones_stay_words():
    odd = {'a"{0}': X, 'a"{1}': X + 1, 'a"{2}': X + 2}

    def braces(params, x):
        for i in range(3):
            x = jnp.tanh(x @ params[f'a"{{{i}}}'])
        return x

    recover(braces, odd, X)


SHIFTS = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]])


def test_axes_and_lengths_of_numpy_are_plain_integers():
    def stream(x):
        moved = [jnp.roll(x[i], tuple(SHIFTS[i]), axis=(0, 1)) for i in range(5)]
        return jnp.reshape(jnp.stack(moved), (5, SHIFTS[1, 0] * 16))

    text = recover(stream, np.stack([X] * 5))
    assert "np.int64" not in text
    assert "(0, 1, 0, -1, 0), (0, 0, 1, 0, -1)" in text


def test_integers_of_numpy_that_are_operands_keep_their_type():
    def f(x):
        first, second = SHIFTS[1]
        stacked = jnp.stack((first, second)) * x
        branches = [lambda pair: pair[0] * x, lambda pair: pair[1] * x]
        chosen = jax.lax.cond(x > 0, *branches, (first, second))
        total = jax.lax.fori_loop(
            0, 3, lambda _, c: (c[0] + c[1], c[1]), tuple(SHIFTS[1])
        )
        return stacked + chosen + total[0]

    source = untrace.source(f)(jnp.float32(2.0))
    assert source.report.strength == "identical"
    assert not source.report.notes


LETTERS = {f"layer{c}_{k}": X if k == "w" else X[0] for c in "abcd" for k in "wb"}
PARTS = {
    f"{c}/{k}": X if k == "w" else X[0] for c in ("enc", "mid", "out") for k in "wb"
}


def letters_in_keys(params, x):
    for c in ("a", "b", "c", "d"):
        x = jnp.tanh(x @ params[f"layer{c}_w"] + params[f"layer{c}_b"])
    return x


def words_in_keys(params, x):
    for name in ("enc", "mid", "out"):
        x = jnp.tanh(x @ params[f"{name}/w"] + params[f"{name}/b"])
    return x


def words_in_new_keys(params, x):
    state = {}
    for name in ("enc", "mid", "out"):
        x = jnp.tanh(x @ params[f"{name}/w"])
        state[f"{name}/mean"] = x.mean(0)
    return x, state


@pytest.mark.parametrize(
    ("function", "params"),
    [(letters_in_keys, LETTERS), (words_in_keys, PARTS), (words_in_new_keys, PARTS)],
)
def test_keys_are_made_of_the_variable_that_the_program_made_them_of(function, params):
    assert inspect.getsource(function) in recover(function, params, X)


def flat_layer(params, name, x):
    return x @ params[f"{name}_w"] + params[f"{name}_b"]


def layers_of_letters(params, x):
    for c in "abcd":
        x = flat_layer(params, f"layer{c}", x)
    return x


def layers_of_words(params, x):
    for part in ("mid", "enc", "out"):
        x = x + plain_layer(params, jnp.sin(x), part)
    return x


def plain_layer(params, x, name):
    return x @ params[name + "/w"] + params[name + "/b"]


def test_functions_that_are_given_a_word_of_their_keys_are_called_in_a_loop():
    text = recover(layers_of_letters, LETTERS, X)
    assert inspect.getsource(flat_layer) in text, text
    assert '    for c in ("a", "b", "c", "d"):\n' in text
    assert '        x = flat_layer(params, f"layer{c}", x)\n' in text
    text = recover(layers_of_words, PARTS, X)
    assert inspect.getsource(layers_of_words) in text
    text = recover(jax.grad(lambda p, x: layers_of_words(p, x).sum()), PARTS, X)
    assert inspect.getsource(layers_of_words) in text


def test_words_are_passed_where_there_is_no_loop():
    def program(params, x):
        x = jax.nn.relu(flat_layer(params, "layera", x))
        return flat_layer(params, "layerb", x)

    text = recover(program, LETTERS, X)
    assert 'flat_layer(params, "layera", x)' in text and "flat_layer_2" not in text


def test_words_are_static_arguments_of_jitted_functions():
    jitted = jax.jit(plain_layer, static_argnames="name")

    def program(params, x):
        for part in ("mid", "enc"):
            x = jitted(params, x, part)
        return x

    text = recover(program, PARTS, X)
    assert '@functools.partial(jax.jit, static_argnames="name")' in text
    assert 'return x @ params[f"{name}/w"] + params[f"{name}/b"]' in text
    assert 'x = plain_layer(params, x, "enc")' in text


def test_keys_that_are_words_are_the_parameter():
    def part(params, x, key):
        return jnp.tanh(x * jnp.sin(params[key]) + jnp.cos(params[key]) @ x.T)

    def program(params, x):
        for key in ("up", "down", "gate"):
            x = part(params, x, key)
        return x

    text = recover(program, {key: X for key in ("up", "down", "gate")}, X)
    assert "def part(x, up)" not in text and "jnp.sin(params[key])" in text, text
    assert 'for key in ("up", "down", "gate"):' in text


def test_parts_of_flat_states_are_called_after_their_last_words():
    def flat_layer(params, names, x):
        return x @ params[f"{names[0]}_w"] + params[f"{names[1]}_b"]

    def program(params, x):
        x = jax.nn.relu(flat_layer(params, ("layera",) * 2, x))
        return flat_layer(params, ("layerb",) * 2, x)

    assert "def flat_layer(w, b, x):" in recover(program, LETTERS, X)


def letter_layer(params, c, x):
    return jnp.tanh(x @ params[f"layer{c}_w"] + params[f"layer{c}_b"])


def test_keys_are_made_of_letters_that_stand_among_others():
    def in_a_loop(params, x):
        for c in "abc":
            x = letter_layer(params, c, x)
        return x

    def one_by_one(params, x):
        x = letter_layer(params, "a", x)
        x = letter_layer(params, "b", jnp.sin(x))
        return letter_layer(params, "c", x)

    text = recover(in_a_loop, LETTERS, X)
    assert text.count("def letter_layer(params, c, x):") == 1, text
    assert 'params[f"layer{c}_w"] + params[f"layer{c}_b"]' in text
    assert 'for c in ("a", "b", "c"):\n        x = letter_layer(params, c, x)' in text
    text = recover(one_by_one, LETTERS, X)
    assert 'letter_layer(params, "b", jnp.sin(x))' in text, text


def test_keys_are_made_of_words_with_other_numbers():
    names = ("enc1", "dec2", "out")
    params = {f"{n}_{k}": X for n in names for k in ("w", "b", "scale", "shift")}

    def dense(params, name, x):
        y = jnp.tanh(x @ params[name + "_w"] + params[name + "_b"])
        return y * params[name + "_scale"] + params[name + "_shift"]

    def program(params, x):
        for name in names:
            x = dense(params, name, x)
        return x

    text = recover(program, params, X)
    assert text.count("def dense") == 1, text
    assert 'for name in ("enc1", "dec2", "out"):' in text


def test_keys_are_made_of_the_variables_of_two_loops():
    params = {f"{a}{b}w": X for a in "kq" for b in "xyz"}

    def mix(params, a, b, x):
        return jnp.sin(x @ params[f"{a}{b}w"])

    def program(params, x):
        for a in "kq":
            for b in "xyz":
                x = mix(params, a, b, x)
        return x

    text = recover(program, params, X)
    assert 'params[f"{a}{b}w"]' in text and "def mix(params, a, b, x):" in text, text
    assert 'for a in ("k", "q"):\n        for b in ("x", "y", "z"):' in text


def splines(x, g, k):
    b = ((x >= g[:, :-1]) & (x < g[:, 1:])).astype(float)
    for K in range(1, k + 1):
        left = (x - g[:, : -K - 1]) / (g[:, K:-1] - g[:, : -K - 1])
        right = (g[:, K + 1 :] - x) / (g[:, K + 1 :] - g[:, 1:-K])
        b = left * b[:, :-1] + right * b[:, 1:]
    return b


def beside_a_dict(layers, x):
    for i, one in enumerate(layers):
        x = jnp.roll(layer(one, x), 5 - i)
    return x


def factors(x):
    for i in range(4):
        x = jnp.sin(x * (i + 2)) + jnp.roll(x, 5 - i) * (3 - i)
    return x


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (
            lambda x, g: splines(x, g, 3),
            (X[:, :1], X[:, :1] * np.ones((4, 12), "f")),
            [],
        ),
        (beside_a_dict, (LAYERS, X), ["jnp.roll(layer(one, x), 5 - i)"]),
        (factors, (X,), ["x * (i + 2)", "jnp.roll(x, 5 - i) * (3 - i)"]),
    ],
)
def test_numbers_are_counted_from_the_variable_of_the_loop(function, args, lines):
    text = recover(function, *args)
    body = inspect.getsource(splines).partition("range(1, k + 1):\n")[2]
    for line in lines or [body]:
        assert line in text, text


def euler(w, x, n=5):
    dt = 1.0 / n
    for i in range(n):
        t = i / n
        x = x + jnp.tanh(x @ w + t) * dt
    return x


def sampled(w, x):
    for i in range(10, 0, -1):
        t = jnp.array([i / 10, i / 10])
        x = x + t.sum() * (w @ x)
    return x


def decayed(w, x):
    for i in range(5):
        x = x + (1 - i / 5) * (w @ x)
    return x


def at_middles(w, x):
    for i in range(4):
        x = x + jnp.sin(w @ x) * ((i + 0.5) / 4)
    return x


def frequencies(w, x):
    for i in range(4):
        x = x + jnp.sin(2.0**i * x) @ w
    return x


def listed(w, x):
    for rate in (0.1, 0.2, 0.3, 0.4):
        x = x + rate * (w @ x)
    return x


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (euler, "        t = i / n\n"),
        (sampled, "        t = jnp.array([i / 10, i / 10])\n"),
        (decayed, "x = x + (1 - i / 5) * (w @ x)"),
        (at_middles, "x = x + jnp.sin(w @ x) * ((i + 0.5) / 4)"),
        (frequencies, "x = x + jnp.sin((2.0**i) * x) @ w"),
        (listed, "for rate in (0.1, 0.2, 0.3, 0.4):"),
    ],
)
def test_floats_are_computed_of_what_counts(function, line):
    src = untrace.source(function)(np.eye(2, dtype=np.float32), np.ones(2, np.float32))
    assert src.report.strength == "identical", str(src.report)
    assert line in src.text and ("for i in range(" in src.text) is (
        function is not listed
    ), src.text


def of_corners(f, index):
    total = jnp.zeros(f.shape[0])
    for corner in ((0, 0), (0, 1), (1, 0), (1, 1)):
        at = jnp.array(corner, dtype=jnp.int32)
        w = jnp.prod(jnp.where(jnp.array(corner) == 1, f, 1.0 - f), axis=-1)
        total = total + w * (index + at).sum(-1)
    return total


def of_shifts(f, index):
    out = 0.0
    for shift in ((0, 1), (1, 0), (0, -1), (-1, 0)):
        out = out + jnp.roll(f, shift, axis=(0, 1)) * shift[0]
    return out + index.sum()


def of_one_that_stays(f, index):
    out = 0.0
    for shift in ((0, 1), (0, 2), (0, 4)):
        out = out + jnp.roll(f, shift, axis=(0, 1))
    return out + index.sum()


@pytest.mark.parametrize("function", [of_corners, of_shifts, of_one_that_stays])
def test_variables_that_are_tuples_of_integers(function):
    src = untrace.source(function)(X[:, :2], np.ones((4, 2), np.int32))
    assert src.report.strength == "identical", str(src.report)
    body = inspect.getsource(function).partition(":\n")[2]
    assert (body in src.text) is (function is not of_one_that_stays), src.text


def counting_down(x):
    for i in reversed(range(1, 900, 100)):
        x = x * (5.0 if i == 1 else float(i) + 0.25)
    return x


def test_floats_that_would_be_too_large_are_listed():
    """`5.0**801` is none, and the loop stays all the same."""
    src = untrace.source(counting_down)(np.ones(3, np.float32))
    assert not src.report.notes and "for value in (801.25, 701.25," in src.text, (
        src.text
    )


def test_integers_that_begin_again_are_rests():
    def edges(p):
        total = 0.0
        for i in range(len(p)):
            edge = p[(i + 1) % len(p)] - p[i]
            total = total + jnp.sqrt(edge @ edge + 1) * jnp.cos(p[i - 1, 0])
        return total

    def alternating(x, ws):
        for i in range(6):
            x = jnp.tanh(x @ ws[i % 2]) + x
        return x

    square = np.linspace(0, 1, 8, dtype=np.float32).reshape(4, 2)
    text = str(untrace.source(edges)(square))
    assert "edge = p[(i + 1) % 4] - p[i]" in text
    ws = np.ones((2, 3, 3), np.float32)
    src = untrace.source(alternating)(np.ones(3, np.float32), ws)
    assert src.report.strength == "identical"
    assert "    for i in range(6):\n        x = jnp.tanh(x @ ws[i % 2]) + x" in str(src)


def test_a_loop_is_over_the_expression_that_the_program_wrote_there():
    def over(images):
        image = images[0]
        for other in images[1:]:
            image = other + image - other * image
        return image

    text = recover(over, X)
    assert "    image = images[0]\n    for other in images[1:]:\n" in text


class Stack(nn.Module):
    n: int

    @nn.compact
    def __call__(self, x, t):
        for _ in range(self.n):
            x = jnp.tanh(nn.Dense(3)(x) + nn.Dense(3)(t))
            x = nn.LayerNorm()(x)
        return x


def paired(params, x):
    for i in range(1, 4):
        x = jnp.tanh(x @ params[f"w{2 * i}"] + params[f"b{i}"])
        x = jnp.sin(x @ params[f"w{2 * i + 1}"])
    return x


@pytest.mark.parametrize("n", [2, 3])
def test_keys_of_several_layers_in_a_turn_are_counted(n):
    module = Stack(n)
    x = np.ones((2, 3), np.float32)
    params = module.init(jax.random.key(0), x, x)
    src = untrace.source(lambda params, x: module.apply(params, x, x))(params, x)
    assert src.report.strength == "identical", str(src.report)
    for key in ("Dense_{2 * i}", "Dense_{2 * i + 1}", "LayerNorm_{i}"):
        assert f'params[f"{key}"]' in src.text, src.text
    assert f"for i in range({n}):" in src.text, src.text


def test_keys_that_rise_by_several_are_counted_from_the_variable():
    weights = {f"w{i}": np.eye(3, dtype=np.float32) * i for i in range(2, 8)}
    biases = {f"b{i}": np.ones(3, np.float32) * i for i in range(1, 4)}
    src = untrace.source(paired)(weights | biases, np.ones((2, 3), np.float32))
    assert src.report.strength == "identical", str(src.report)
    for key in ("w{2 * i}", "b{i}", "w{2 * i + 1}"):
        assert f'params[f"{key}"]' in src.text, src.text
    assert "for i in range(1, 4):" in src.text, src.text


def dilated(x, ws):
    for i, w in enumerate(ws):
        x = x + jnp.tanh(jnp.roll(x, 2**i) * w)
    return x


def odd(x, ws):
    for n in range(1, len(ws)):
        x = x + ws[n] * jnp.cos(x) / (2 * n + 1)
    return x


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (dilated, "jnp.roll(x, 2**i) * w"),
        (odd, "jnp.cos(x) / (2 * n + 1)"),
    ],
)
def test_integers_that_are_computed_of_a_variable(function, line):
    ws = [np.float32(n) for n in range(1, 6)]
    assert line in recover(function, X, ws)
