"""Level "api": functions that change state return what they make of it."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.lifting.installed import library
from untrace.capture.attributes import Attributes
from untrace.lifting.recorded.functions.handing_on import made_inside
from untrace.recovery.record import Body, Call

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


NORMS = """
class Variable:
    def __init__(self, value):
        self.value = value

class Norm:
    def __init__(self, stats):
        self.stats = {name: Variable(value) for name, value in stats.items()}

    def __call__(self, params, x):
        ra_mean, ra_var = self.stats["mean"], self.stats["var"]
        mean = jnp.mean(x, axis=0)
        var = jnp.mean(jnp.square(x), axis=0) - jnp.square(mean)
        ra_mean.value = 0.9 * ra_mean.value + 0.1 * mean
        ra_var.value = 0.9 * ra_var.value + 0.1 * var
        y = (x - mean) * jax.lax.rsqrt(var + 1e-05)
        return y * params["scale"] + params["bias"]

    def state(self):
        return {name: held.value for name, held in self.stats.items()}
"""
PARAMS = {"scale": np.ones(4, np.float32), "bias": np.zeros(4, np.float32)}
STATS = {"mean": np.zeros(4, np.float32), "var": np.ones(4, np.float32)}


def test_a_norm_returns_its_new_statistics():
    norms = library(NORMS)

    def model(params, stats, x):
        first, second = norms.Norm(stats[0]), norms.Norm(stats[1])
        x = jnp.tanh(first(params[0], x))
        x = jnp.tanh(second(params[1], x))
        return x, [first.state(), second.state()]

    text = recover(model, [PARAMS, PARAMS], [STATS, STATS], X)
    assert text.count("rsqrt") == 1
    assert "def norm(" in text
    assert "ra_mean = 0.9 * " in text
    assert '{"mean": ra_mean, "var": ra_var}' in text
    assert "stats[0]" in text and "stats[1]" in text


def test_a_function_returns_what_it_puts_into_a_list():
    def block(p, x, seen):
        hidden = jnp.tanh(x * p)
        seen.append(hidden)
        return hidden + x

    def model(p, x):
        seen = []
        x = block(p[0], x, seen)
        x = block(p[1], x, seen)
        return x, seen

    text = recover(model, np.ones((2, 4), np.float32), X)
    assert "return hidden + x, hidden\n" in text
    assert "x, hidden = block(" in text
    assert "x, hidden_2 = block(" in text


def test_a_function_that_only_changes_state_returns_that():
    def count(state, x):
        state["total"] = state["total"] + jnp.sum(x)
        state["largest"] = jnp.maximum(state["largest"], jnp.max(x))

    def model(state, x):
        state = dict(state)
        count(state, x)
        count(state, jnp.sin(x))
        return state

    state = {"total": np.float32(0.0), "largest": np.float32(0.0)}
    text = recover(model, state, X)
    assert text.count("def count(") == 1
    assert "count(count(state, x), jnp.sin(x))" in text


def test_state_is_handed_on_through_functions():
    def inner(x, seen):
        y = jnp.sin(x)
        seen["inner"] = jnp.mean(y)
        return jnp.cos(y) * x

    def outer(x, seen):
        y = inner(x, seen)
        return inner(y, {}) + y

    def model(x):
        seen = {}
        return outer(x, seen), seen

    text = recover(model, X)
    assert "def inner(x)" in text and "def outer(x)" in text


def test_new_state_is_called_as_the_old():
    norms = library(NORMS)

    def layers(params, norm, x):
        x = norm(params, x)
        return jnp.tanh(x) * jnp.cosh(x)

    def model(params, batch_stats, x):
        norm = norms.Norm(batch_stats)
        return layers(params, norm, x), norm.state()

    text = recover(model, PARAMS, STATS, X)
    assert ", batch_stats = " in text
    assert "params, batch_stats, x" in text


def test_a_function_in_a_loop_that_changes_state():
    def model(x):
        totals = []

        def body(carry, row):
            seen = []

            def step(value):
                seen.append(jnp.sum(value))
                return jnp.sin(value) + carry

            out = step(row) + step(carry)
            return out, seen[0] * seen[1]

        carry, ys = jax.lax.scan(body, jnp.zeros(4), x)
        totals.append(ys)
        return carry, totals

    recover(model, X)


BOXES = (
    NORMS
    + """
@jax.tree_util.register_pytree_with_keys_class
class Box(Variable):
    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("value"), self.value)], None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

class Boxed(Norm):
    def __init__(self, stats):
        self.stats = stats
"""
)


def test_new_statistics_in_boxes_are_returned_once():
    norms = library(BOXES)

    def model(params, stats, x):
        x = norms.Boxed(stats)(params, x)
        return x, stats, {name: box.value for name, box in stats.items()}

    boxes = {name: norms.Box(value) for name, value in STATS.items()}
    text = recover(model, PARAMS, boxes, X)
    assert text.count('{"mean": ra_mean, "var": ra_var}') == 1
    assert "return x, stats, stats\n" in text


def test_what_a_function_returns_was_not_made_there():
    code = (lambda x: x).__code__
    run = Body(None, code, {"x": X}, result=X)
    item = Call(None, (), {}, None, bodies=[run], result=X)
    assert made_inside(Body(None, code, {}, calls=[item])) == {}


def test_a_function_that_changes_many_fields_is_called_many_times():
    # One that is found at a time would be more than `MAX_PASSES`.
    solver = library("""
class Problem:
    def __init__(self, n, x):
        self.fields = [x * (i + 1.0) for i in range(n)]

def scale(problem, factor):
    total = sum(problem.fields)
    for i, field in enumerate(problem.fields):
        problem.fields[i] = jnp.tanh(field) * factor + total / (i + 2.0)

def solve(x, n):
    problem = Problem(n, x)
    for step in range(12):
        scale(problem, x[0] + step)
        problem.fields[0] = problem.fields[0] - jnp.sin(problem.fields[-1])
    return problem.fields
""")
    recover(lambda x: solver.solve(x, 8), X)


def test_objects_are_searched_for_names_without_running_their_code():
    class Loud(dict):
        def __getattribute__(self, name):
            raise RuntimeError(f"{name} was read")

        def items(self):
            raise RuntimeError("items were asked for")

    class Louder:
        def __getattribute__(self, name):
            raise RuntimeError(f"{name} was read")

    assert Attributes().holding(X, [Loud(a=X), Louder(), Loud(b=1)]) == "a"
    assert Attributes().holding(X, [Louder()]) == ""


def test_what_is_used_in_a_transformed_function_is_handed_on_there():
    layers = library("""
TRACE = {}

class Site:
    def __init__(self, loc):
        self.loc = loc

    def log_prob(self, x):
        return -0.5 * jnp.sum(jnp.square(x - self.loc)) - jnp.log(1.0 + jnp.sum(x))

def sample(name, site):
    TRACE[name] = site

def density(model, params):
    TRACE.clear()
    model(params)
    return sum(site.log_prob(params[name]) for name, site in TRACE.items())
""")

    def model(params):
        for name in params:
            layers.sample(name, layers.Site(jnp.zeros(4)))

    def gradient(params):
        return jax.grad(lambda p: layers.density(model, p))(params)

    src = untrace.source(gradient)({name: X[0] for name in "abc"})
    assert src.report.is_verified, str(src.report)
    text = str(src)
    # It was computed before `jax.grad`, once for each site, and passed down.
    assert "def density(params):" in text and "zeros_2" not in text
    assert "[jnp.zeros(4) for _ in range(3)]" in text


class Modulated:
    """What no one has told JAX to flatten."""

    def __init__(self, out):
        self.shift, self.scale = out


class Modulation(nn.Module):
    def setup(self):
        self.lin = nn.Dense(8)

    def __call__(self, x):
        return Modulated(jnp.split(self.lin(nn.silu(x)), 2, axis=-1))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mod = Modulation()(x)
        return nn.Dense(4)(x) * mod.scale + mod.shift


def test_what_a_function_was_given_is_not_handed_on():
    block = Block()
    text = recover(block.apply, block.init(jax.random.key(0), X), X)
    # `jnp.asarray` returns what it is given, and so makes nothing.
    assert "_ = " not in text and ", params\n" not in text
    assert "shift, scale = modulation(params[" in text


def test_attributes_of_tracers_are_no_names():
    def looked(x):
        block = Modulated([jnp.sin(x), jnp.cos(x)])
        names.append(Attributes().holding(x, [block]))
        names.append(Attributes().holding(block.scale, [block]))
        return x

    names = []
    jax.make_jaxpr(looked)(X)
    assert names == ["", "scale"]
