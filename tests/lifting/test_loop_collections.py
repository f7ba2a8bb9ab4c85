"""Lists of containers and dicts that loops fill come back as such."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)
PAIRS = [(X, X[0]), (X + 1, X[1]), (X + 2, X[2])]
NAMED = {"enc": X, "mid": X + 1, "out": X + 2}
KEY = jax.random.key(0)


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def over_items(params, x):
    return {k: jnp.sin(v) * x for k, v in params.items()}


def over_keys(params, grads):
    return {k: params[k] - 0.1 * grads[k] for k in params}


def in_a_loop(params, x):
    out = {}
    for k, v in params.items():
        v = jnp.sin(v)
        out[k] = v * jnp.sum(v) + x
    return out


def two_dicts(params, means, grads):
    new, momenta = {}, {}
    for k in params:
        momenta[k] = 0.9 * means[k] + 0.1 * grads[k]
        new[k] = params[k] - 0.1 * momenta[k]
    return new, momenta


def used_twice(params, x):
    new = {k: jnp.sin(v) * x for k, v in params.items()}
    return jax.grad(lambda p: sum(jnp.sum(v**2) for v in p.values()))(new), new


def also_alone(params, x):
    new = {k: jnp.sin(v) * x for k, v in params.items()}
    return new, jnp.sin(new["mid"])


def numbered(key):
    params = {}
    for i, n in enumerate((4, 8, 2)):
        key, sub = jax.random.split(key)
        params[f"layer{i}"] = {"w": jax.random.normal(sub, (3, n)), "b": jnp.zeros(n)}
    return params


def of_pairs(params, grads):
    return [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(params, grads)]


def of_dicts(params, x):
    return [{"w": w * x, "b": jnp.sin(b), "x": x} for w, b in params]


def appended(key):
    params = []
    for m, n in zip((4, 8, 8), (8, 8, 2)):
        key, sub = jax.random.split(key)
        w = jax.random.normal(sub, (m, n)) * 0.1
        params.append((w, jnp.zeros(n)))
    return params


def tuple_of_pairs(params):
    return tuple((jnp.sin(w), jnp.cos(b)) for w, b in params)


def with_a_late_value(params):
    pairs = [(jnp.sin(w), b * 2) for w, b in params]
    late = jnp.sum(pairs[0][1])
    return [(w, b, late) for w, b in pairs]


def several_in_a_turn(params, x):
    outs = []
    for i in (0.5, 1.5, 2.5):
        outs += [jnp.sin(x @ w) * b - x @ w for w, b in params]
        x = x + i
    return x, outs


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (several_in_a_turn, (PAIRS, X), ["= [jnp.sin(x @ w) * b - x", " += "]),
        (over_items, (NAMED, X), ["{k: jnp.sin(v) * x for k, v in params.items()}"]),
        (over_keys, (NAMED, NAMED), ["{k: params[k] - 0.1 * grads[k] for k in "]),
        (in_a_loop, (NAMED, X), ["out = {}", "k, v in params.items():", "out[k] = "]),
        (
            two_dicts,
            (NAMED, NAMED, NAMED),
            ["new[k] = params[k] - ", "momenta[k] = ", "return new, momenta"],
        ),
        (
            used_twice,
            (NAMED, X),
            ["new = {k: jnp.sin(v) * x for k, v in params.items()}"],
        ),
        (also_alone, (NAMED, X), ["return "]),
        (numbered, (KEY,), ["params = {}", 'params[f"layer{i}"] = {"w": ']),
        (
            of_pairs,
            (PAIRS, PAIRS),
            ["for (w, b), (dw, db) in zip(params, grads)]"],
        ),
        (of_dicts, (PAIRS, X), ['{"w": w * x, "b": jnp.sin(b), "x": x} for w, b in']),
        (appended, (KEY,), ["params.append((w, jnp.zeros(n)))", "return params"]),
        (tuple_of_pairs, (PAIRS,), ["tuple([(jnp.sin(w), jnp.cos(b)) for w, b in"]),
        (with_a_late_value, (PAIRS,), ["late"]),
    ],
)
def test_collections_come_back(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    plain = untrace.source(function, reroll="none")(*args)
    assert plain.report.is_verified and " for " not in str(plain).partition("def ")[2]
    recover(jax.jit(function), *args)
    recover(lambda *given: function(*given), *args)


def test_list_that_begins_with_what_is_of_no_turn():
    def encode(x):
        feats = [x, jnp.ones_like(x)]
        for f in (1.0, 2.0, 4.0):
            feats.append(jnp.sin(f * x))
            feats.append(jnp.cos(f * x))
        return jnp.concatenate(feats, axis=-1)

    text = recover(encode, X)
    assert (
        """    feats = [x, jnp.ones_like(x)]
    for f in (1.0, 2.0, 4.0):
        feats += [jnp.sin(f * x), jnp.cos(f * x)]
    return jnp.concatenate(feats, axis=-1)
"""
        in text
    )


def test_leaves_of_a_tree_that_begins_with_tuples():
    def norm(grads):
        return jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))

    text = recover(norm, {"pi": PAIRS, "vf": PAIRS[:2]})
    assert "sum(jnp.sum(g**2) for g in jax.tree.leaves(grads))" in text


def layer_with_state(p, state, x):
    mean = state["mean"] * 0.9 + x.mean() * 0.1
    return jnp.tanh(x @ p["w"]) - mean, {"mean": mean}


def listed(layers, states, x):
    new = []
    for p, s in zip(layers, states):
        x, s = layer_with_state(p, s, x)
        new.append(s)
    return x, new


def under_keys(layers, states, x):
    new = {}
    for i in range(4):
        key = f"layer{i}"
        x, new[key] = layer_with_state(layers[i], states[i], x)
    return x, new


@pytest.mark.parametrize(
    ("program", "written"),
    [
        (listed, ["new = []", "new.append(s)", "return x, new"]),
        (under_keys, ["new = {}", 'new[f"layer{i}"] = state', "return x, new"]),
    ],
)
def test_collections_of_containers_have_their_names(program, written):
    weights = np.eye(3, dtype=np.float32)
    layers, states = [{"w": weights}] * 4, [{"mean": np.float32(0.5)}] * 4
    src = untrace.source(program)(layers, states, weights)
    assert src.report.strength == "identical", str(src.report)
    for part in written:
        assert part in src.text, src.text


def sum_of_mapped(tree):
    return jnp.sqrt(sum(jax.tree.leaves(jax.tree.map(lambda x: jnp.sum(x**2), tree))))


def sum_of_some(tree):
    total = jax.tree.map(jnp.sum, {"u": tree, "v": tree})
    return 0 + total["u"]["a"] + total["v"]["b"]


def test_two_leaves_that_are_added_to_0_are_a_sum():
    """The first turns of a loop tell less, but nobody else adds to 0."""
    tree = {"a": np.ones(3, np.float32), "b": np.ones((2, 2), np.float32)}
    src = untrace.source(sum_of_mapped)(tree)
    assert src.report.strength == "identical", str(src.report)
    part = "jnp.sqrt(sum(jax.tree.leaves(jax.tree.map(lambda x: jnp.sum(x**2), tree))))"
    assert part in " ".join(src.text.split()), src.text
    src = untrace.source(sum_of_some)(tree)
    assert '0 + total["u"]["a"] + total["v"]["b"]' in src.text, src.text


def unet(downs, ups, x):
    skips = []
    for w in downs:
        skips.append(x)
        x = jnp.tanh(x @ w)
    for w in ups:
        x = jnp.tanh(x @ w) + skips.pop()
    return x


def all_levels(downs, ups, x):
    levels = [x]
    for w in downs:
        x = jnp.tanh(x @ w)
        levels.append(x)
    for w in ups:
        x = jnp.sin(x @ w) + levels.pop()
    return x


def first_is_used_twice(downs, ups, x):
    start, skips = x, []
    for w in downs:
        skips.append(x)
        x = jnp.tanh(x @ w)
    for w in ups:
        x = jnp.tanh(x @ w) + skips.pop()
    return x + start


def test_lists_of_what_each_turn_begins_with():
    weights = [X, X + 1, X + 2]
    text = recover(unet, weights, weights, X)
    lines = [
        *("xs = []", "for w in downs:", "xs.append(x)", "x = jnp.tanh(x @ w)"),
        *("in zip(ups, reversed(xs)):", "x = jnp.tanh(x @ w) + ", "return x"),
    ]
    at = text.index("def unet")
    assert "x_2" not in text
    for line in lines:
        at = text.index(line, at)


@pytest.mark.parametrize("program", [all_levels, first_is_used_twice])
def test_lists_of_other_values_stay_as_they_were(program):
    weights = [X, X + 1, X + 2]
    text = recover(program, weights, weights, X)
    assert "for w in downs:" in text, text


def over_words(params, x):
    return jnp.concatenate([jnp.sin(x * params[k]) for k in ("a", "b", "c")])


def over_parts(params, x):
    for p in (params["a"], params["b"], params["c"]):
        x = jnp.tanh(jnp.sin(x * p) + 1.0)
    return x


@pytest.mark.parametrize("function", [over_words, over_parts])
def test_loops_over_keys_do_not_take_the_order_of_the_callers_dict(function):
    params = {k: np.full(3, v, np.float32) for k, v in zip("abc", (1.0, 2.0, 3.0))}
    x = np.ones(3, np.float32)
    namespace = {}
    exec(untrace.source(function)(params, x).text, namespace)
    reordered = dict(reversed(params.items()))
    found = namespace[function.__name__](reordered, x)
    np.testing.assert_array_equal(found, function(params, x))


class Params(dict):
    """A dict that raises a `KeyError` for attributes that it does not have."""

    __getattr__ = dict.__getitem__
    __hash__ = object.__hash__


SETTINGS = Params(scale=2.5)


def scaled(settings, x):
    return jnp.tanh(x) * settings.scale


def maps_with_settings(x):
    return jax.vmap(scaled, in_axes=(None, 0))(SETTINGS, x).sum()


jax.tree_util.register_pytree_node(
    Params, lambda d: (tuple(d.values()), tuple(d)), lambda k, v: Params(zip(k, v))
)


def test_objects_that_raise_for_attributes_may_be_given_to_mapped_functions():
    text = untrace.source(maps_with_settings)(np.ones(3, np.float32)).text
    assert "from its equations" not in text and "def scaled(" in text


def factors(lower, diag, upper):
    pivots = [diag[0]]
    multipliers = []
    for i in range(1, 7):
        m = lower[i - 1] / pivots[-1]
        multipliers.append(m)
        pivots.append(diag[i] - m * upper[i - 1])
    return 1.0 / jnp.stack(pivots), jnp.stack(multipliers)


def trajectory(z, d):
    path = [z]
    for _ in range(5):
        path.append(path[-1] - d * jnp.sin(path[-1]))
    return jnp.stack(path)


def states(w, xs):
    h = jnp.zeros(4)
    hs = [h]
    for x in xs:
        h_new = jnp.tanh(w @ h + x)
        h = 0.5 * h + 0.5 * h_new
        hs.append(h)
    return jnp.stack(hs), h


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (factors, (np.ones(6), np.full(7, 3.0), np.ones(6))),
        (trajectory, (np.ones(3), 0.5)),
        (states, (np.eye(4), [np.ones(4), np.ones(4), np.ones(4)])),
    ],
)
def test_lists_that_begin_with_an_item(function, args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    body = inspect.getsource(function).partition(":\n")[2]
    assert body in src.text, src.text


def stepped(state, params):
    x, n = state
    return {"x": jnp.tanh(x @ params), "n": n + 1}, jnp.sum(x)


def observed(params, state):
    seen, rewards = [], []
    for _ in range(4):
        state, reward = stepped((state["x"], state["n"]), params)
        seen.append(state["x"])
        rewards.append(reward)
    return jnp.stack(seen), jnp.stack(rewards), state


def test_lists_of_a_part_of_what_each_turn_leaves():
    state = {"x": X[0], "n": np.int32(0)}
    text = recover(observed, X, state)
    for line in (
        'seen.append(state["x"])',
        "jnp.stack(seen)",
        "rewards.append(reward)",
    ):
        assert line in text, text


def shrunk(coefs, rate):
    first = jnp.cos(coefs[0][0])
    rest = [tuple(jnp.sin(d) - rate for d in level) for level in coefs[1:]]
    return [coefs[0], *rest], [first] + [jnp.tanh(level[0]) for level in coefs[1:]]


def test_lists_that_begin_with_an_item_are_comprehensions_behind_it():
    text = recover(shrunk, [(X,), *[(X, X + 1, X + 2)] * 3], 0.1)
    assert "coefs[0],\n" in text and "without a step" not in text, text
    assert "tuple([jnp.sin(d) - rate for d in level]) for level in coefs[1:]" in text
