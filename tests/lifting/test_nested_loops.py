"""Loops of the program that stand inside others come back inside others."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)
LAYERS = [{"w": X * (i + 1), "b": X[i % 4]} for i in range(5)]


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.strength in ("identical", "equivalent"), str(src.report)
    return str(src)


def layer(params, x):
    return jnp.tanh(x @ params["w"] + params["b"])


def twice_each(layers, x):
    for one in layers:
        for _ in range(2):
            x = layer(one, x)
    return x


def inner_carry(layers, x):
    for one in layers:
        y = x
        for _ in range(3):
            y = jnp.tanh(y @ one["w"]) + x
        x = x + y
    return x


def all_layers_again(layers, x):
    for _ in range(3):
        for one in layers:
            x = layer(one, x)
        x = x / jnp.sum(x)
    return x


def stages(stages, x):
    for stage in stages:
        for one in stage:
            x = x + jnp.sin(layer(one, x) * 2 + x)
        x = jnp.sin(x)
    return x


def inner_list(layers, x):
    for one in layers:
        heads = []
        for scale in (1.0, 2.0, 3.0):
            y = jnp.tanh(x @ one["w"] * scale)
            y = y / jnp.sum(y)
            heads.append(y)
        x = jnp.concatenate(heads).reshape(3, 4, 4).sum(0)
    return x


def both_lists(layers, x):
    values = []
    for one in layers:
        for _ in range(3):
            x = jnp.tanh(x @ one["w"]) * 2 + jnp.sin(x)
        values.append(x)
    return values


def list_of_all(layers, x):
    values = []
    for one in layers:
        for _ in range(3):
            x = jnp.tanh(x @ one["w"]) * 2 + jnp.sin(x)
            values.append(x)
    return values


def three_deep(layers, x):
    for _ in range(2):
        for one in layers:
            for scale in (0.5, 1.5, 2.5):
                x = jnp.tanh(x @ one["w"] * scale)
            x = x + one["b"]
        x = x / jnp.sum(x)
    return x


def uneven(layers, x):
    for i, one in enumerate(layers):
        for _ in range(i + 1):
            x = layer(one, x)
        x = jnp.sin(x)
    return x


def called(layers, x):
    def refine(one, x):
        for _ in range(3):
            x = x - 0.1 * layer(one, x)
        return x

    for one in layers:
        x = refine(one, x)
    return x


def swapped_inside(layers, x):
    a, b = x, x + 1
    for one in layers:
        for _ in range(3):
            a, b = b, jnp.sin(a) @ one["w"]
        b = jnp.cos(b)
    return a, b


STAGES = [LAYERS[:3], LAYERS[1:4], LAYERS[2:]]


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (twice_each, (LAYERS, X), [inspect.getsource(twice_each)]),
        (
            inner_carry,
            (LAYERS, X),
            ["    for one in layers:", "        y = x\n        for _ in range(3):\n"],
        ),
        (
            all_layers_again,
            (LAYERS, X),
            [
                "    for _ in range(3):\n        for one in layers:\n            x = layer"
            ],
        ),
        (
            stages,
            (STAGES, X),
            [
                "    for stage in stages:\n        for one in stage:\n            x = x +"
            ],
        ),
        (
            inner_list,
            (LAYERS, X),
            ["        for scale in (1.0, 2.0, 3.0):", "heads.append(", "heads)"],
        ),
        (both_lists, (LAYERS, X), ["        for _ in range(3):\n", ".append(x)"]),
        (list_of_all, (LAYERS, X), []),
        (three_deep, (LAYERS, X), ["            for scale in (0.5, 1.5, 2.5):\n"]),
        (uneven, (LAYERS, X), []),
        (called, (LAYERS, X), ["for one in layers:", "for _ in range(3):"]),
        (swapped_inside, (LAYERS, X), []),
    ],
)
def test_loops_inside_loops_come_back(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    recover(jax.jit(function), *args)
    recover(lambda *given: jax.vmap(lambda y: function(given[0], y))(X[None]), *args)
    plain = untrace.source(function, reroll="none")(*args)
    program, _, _ = str(plain).partition("def example_args")
    assert plain.report.is_verified and "    for " not in program


@pytest.mark.parametrize("function", [inner_carry, all_layers_again, three_deep])
def test_loops_inside_loops_under_grad(function):
    recover(jax.grad(lambda layers, x: jnp.sum(function(layers, x))), LAYERS, X)
    recover(function, LAYERS, X, reroll="for")
    src = untrace.source(function, reroll="scan")(LAYERS, X)
    assert src.report.is_verified, str(src.report)


# ---- comprehensions in comprehensions ------------------------------------------------

XS, WS = [jnp.ones((2, 4))] * 3, [jnp.ones((4, 4))] * 3
ROWS = [WS, WS, WS]


def lists_of_lists(xs, ws):
    return [[jnp.sin(x @ w) for w in ws] for x in xs]


def one_list(xs, ws):
    return jnp.stack([x @ w for x in xs for w in ws])


def of_rows(xs, rows):
    return [jnp.sin(x @ w) for x, row in zip(xs, rows) for w in row]


def counted(xs, ws):
    return [jnp.sin(x @ w) * i for i, x in enumerate(xs) for w in ws]


def sums_of_sums(xs, ws):
    return sum(sum(jnp.tanh(x @ w) for w in ws) for x in xs)


def sums_in_a_list(xs, ws):
    return [sum(jnp.sin(x @ w) for w in ws) + 1 for x in xs]


def list_in_a_loop(xs, ws):
    out = []
    for x in xs:
        ys = [jnp.tanh(x @ w) for w in ws]
        out.append(jnp.stack(ys).sum(0) + x)
    return out


def sum_in_a_sum(xs, ws):
    m = 0
    for x in xs:
        h = sum(jnp.sin(x @ w) for w in ws)
        m = m + h * 2
    return m


def sum_of_two_loops(xs, ws):
    total = 0
    for x in xs:
        for w in ws:
            total = total + jnp.sin(x @ w)
    return total


def sum_over_both(xs, ws):
    return sum(jnp.sin(x @ w) for x in xs for w in ws)


def sum_over_three(xs, ws, bs):
    return sum(jnp.sin(x @ w) * b for x in xs for w in ws for b in bs) + xs[0]


def three_levels(xs, ws, bs):
    return [[[jnp.sin(x @ w) + b for b in bs] for w in ws] for x in xs]


def three_levels_in_one(xs, ws, bs):
    return [jnp.sin(x @ w) + b for x in xs for w in ws for b in bs]


def two_levels_and_one(xs, ws, bs):
    return [[jnp.sin(x @ w) + b for w in ws for b in bs] for x in xs]


def one_level_and_two(xs, ws, bs):
    return [[jnp.sin(x @ w) + b for b in bs] for x in xs for w in ws]


def four_levels(xs):
    return [[[[x * y * z + w for w in xs] for z in xs] for y in xs] for x in xs]


def grid_of_numbers(x):
    return [[x * i + j for j in range(4)] for i in range(3)]


def numbers_in_one_list(x):
    return [jnp.sin(x * i) + j for i in (1.0, 2.0, 3.0) for j in (3, 5)]


def sum_of_rows(rows):
    return sum(x**2 for row in rows for x in row)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (grid_of_numbers, (X,)),
        (numbers_in_one_list, (X,)),
        (sum_of_rows, (ROWS,)),
        (sum_over_both, (XS, WS)),
        (sum_over_both, (XS, WS[:2])),
        (sum_over_three, (XS, WS, XS)),
        (three_levels, (XS, WS, XS)),
        (three_levels, (XS, 2 * WS[:2], [*XS, XS[0] + 1, XS[1] + 2])),
        (three_levels_in_one, (XS, WS, XS)),
        (two_levels_and_one, (XS, WS, XS)),
        (one_level_and_two, (XS, WS, XS)),
        (four_levels, (XS,)),
        (lists_of_lists, (XS, WS)),
        (lists_of_lists, (XS, WS[:2])),
        (one_list, (XS, WS)),
        (of_rows, (XS, ROWS)),
        (counted, (XS, WS)),
        (sums_of_sums, (XS, WS)),
        (sums_in_a_list, (XS, WS)),
        (list_in_a_loop, (XS, WS)),
        (sum_in_a_sum, (XS, WS)),
        (sum_of_two_loops, (XS, WS)),
    ],
)
def test_comprehensions_in_comprehensions_come_back(function, args):
    source = untrace.source(function)(*args)
    assert inspect.getsource(function) in source.text, source.text
    assert source.report.strength == "identical"


def test_lists_of_which_little_is_used_leave_nothing_dead_in_loops():
    def some_items(xs, ws, bs):
        y = [[[jnp.sin(x @ w) + b for b in bs] for w in ws] for x in xs]
        return y[0][1][2] + y[2][2][0]

    text = recover(some_items, XS, WS, XS)
    assert text.count("jnp.sin") <= 2 and "        jnp.sin" not in text, text


def test_loops_of_other_lengths_in_each_turn_are_no_loop_that_begins_elsewhere():
    def pairs(xs):
        energy = 0.0
        for i in range(len(xs)):
            for j in range(i + 1, len(xs)):
                energy = energy + jnp.sin(xs[i] - xs[j])
        return energy

    def below(xs):
        return sum(jnp.sin(xs[i] * xs[j]) for i in range(4) for j in range(i))

    points = [jnp.float32(i) for i in range(4)]
    text = recover(pairs, points)
    assert "for j in range(1, 4):" in text and "zip" not in text, text
    source = untrace.source(below)(points)
    assert source.report.strength == "identical" and not source.report.notes


def test_nested_loops_over_numbers_are_not_one_over_all_pairs():
    def step(x, i, j):
        return jnp.sin(x * i + j)

    def grid(x):
        for i in range(3):
            for j in range(4):
                x = step(x, i, j)
        return x

    text = recover(grid, X)
    assert "for i in range(3):\n        for j in range(4):\n" in text, text


def test_counters_that_run_along_have_their_value_in_each_turn():
    def summed(x, n_rows, n_columns):
        total, top = jnp.zeros((n_rows, n_columns)), 0
        for _ in range(3):
            bottom = top + n_rows
            left = 0
            for _ in range(2):
                right = left + n_columns
                total = total + x[top:bottom, left:right]
                left = right
            top = bottom
        return total

    jitted = jax.jit(summed, static_argnums=(1, 2))
    text = recover(lambda x: jnp.sin(jitted(x, 2, 3)), jnp.ones((6, 6)))
    assert "total = total + x[top:bottom, left:right]" in text
