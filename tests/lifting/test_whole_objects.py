"""Objects of libraries: built where they are passed, and returned only as far as needed."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.lifting.installed import library
from untrace.stages import measured

X = np.arange(3.0, dtype=np.float32)

SOLVER = library(
    """
class State:
    def __init__(self, y, error, step, count):
        self.y, self.error, self.step, self.count = y, error, step, count

jax.tree_util.register_pytree_with_keys(
    State,
    lambda s: ([(jax.tree_util.GetAttrKey(name), getattr(s, name))
                for name in ("y", "error", "step", "count")], None),
    lambda _, parts: State(*parts),
)

def advance(state, limit):
    scale = jnp.sqrt(jnp.sum(state.y ** 2))
    shift = jnp.tanh(state.error) * scale + jnp.cos(state.y)
    limit = jnp.where(scale > 1.0, limit * scale, limit)
    limit = jnp.minimum(limit, jnp.max(jnp.exp(shift)) + jnp.sum(jnp.abs(shift)))
    limit = jnp.clip(limit * jnp.mean(shift), 0.01, 2.0)
    state = jax.tree.map(jnp.asarray, state)

    def body(state):
        y = state.y * jnp.cos(state.step) + state.error
        return State(y, state.error * 0.5, state.step + 0.1, state.count + 1)

    final = jax.lax.while_loop(lambda s: jnp.max(jnp.abs(s.y)) > limit, body, state)
    final = State(jnp.sin(final.y), jnp.expm1(final.error), final.step, final.count)
    return final

def solve(y, limit):
    y = jnp.tanh(y) + 1.0
    final = advance(State(y, y * 0.1, jnp.sum(y), 0), limit)
    return final.y * 2.0, final

def solution(y):
    result, final = solve(y, 0.1)
    return result, final.error

def checked(y):
    final = advance(State(y, y * 0.1, jnp.sum(y), 0), 0.1)
    jnp.max(final.step + final.count)
    return jnp.tanh(final.y)

def around(state, limit):
    scale = jnp.sum(jnp.abs(state.y) * jnp.tanh(state.y)) + jnp.max(state.error)
    limit = jnp.where(scale > 1.0, limit * jnp.exp(-scale), jnp.sqrt(limit + scale))
    limit = jnp.minimum(limit, jnp.mean(jnp.cos(state.error))) + jnp.log1p(limit)
    final = advance(state, jnp.clip(limit, 0.05, 1.0))
    y = jnp.where(final.y > scale, final.y, jnp.sort(final.y))
    return State(y, final.error, final.step, final.count), scale

def surrounded(y):
    final, _ = around(State(y, y * 0.1, jnp.sum(y), 0), 0.1)
    return final.y + final.error
"""
)


def recover(function, *args, **options):
    source = untrace.source(function, **options)(*args)
    assert source.report.is_verified
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def test_an_object_is_built_where_it_is_passed():
    def f(y):
        return SOLVER.solution(y), SOLVER.checked(y)

    text = recover(f, X)
    head = text.partition("def advance(")[2].partition(")")[0]
    assert "state" in head.split(", ")
    assert "    state = State(y=y, " in text.partition("def advance")[2]


def test_of_an_object_that_is_returned_only_what_is_needed_is():
    text = recover(lambda y: SOLVER.solution(y)[0], X)
    assert "jnp.expm1(" not in text


def test_lines_that_lead_nowhere_need_nothing():
    text = recover(lambda y: SOLVER.checked(y), X)
    assert "jnp.expm1(" not in text and "jnp.max(final" not in text


def test_the_user_s_names_of_objects_stay():
    def f(y):
        final = SOLVER.advance(SOLVER.State(y, y * 0.1, jnp.sum(y), 0), 0.1)
        return final.y

    text = recover(f, X)
    assert "    final = advance(state, 0.1)\n    return final.y" in text


def test_with_types_kept_objects_are_returned_whole():
    recover(lambda y: SOLVER.solution(y)[0], X, keep_types=True)


BLOCKS = library(
    """
class Block:
    def __init__(self, *blocks):
        self.blocks = blocks
    @property
    def T(self):
        return Block(*(block.T for block in self.blocks))
    @jax.jit
    def __matmul__(self, other):
        return sum(block @ other for block in self.blocks)
    @jax.jit
    def __rmatmul__(self, other):
        return sum(other @ block for block in self.blocks)

jax.tree_util.register_pytree_with_keys(
    Block,
    lambda b: ([(jax.tree_util.GetAttrKey("blocks"), b.blocks)], None),
    lambda _, parts: Block(*parts[0]),
)

def chain(x, s):
    blocks = jax.vmap(lambda s: Block(x * s, x + s))(s)
    return lax.scan(lambda c, d: (d @ (c @ d.T), None), x, blocks)[0]
"""
)


def test_a_tuple_in_an_object_is_not_taken_for_the_object():
    x = np.ones((2, 2), np.float32)
    text = recover(lambda x, s: BLOCKS.chain(x, s), x, X)
    assert "blocks.blocks" not in text
    assert "Block(d)" not in text


@jax.tree_util.register_pytree_node_class
class Complex:
    def __init__(self, w):
        self.w = w

    def tree_flatten(self):
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

    def __mul__(self, other):
        a, b = self.w[..., 0], self.w[..., 1]
        c, d = other.w[..., 0], other.w[..., 1]
        return Complex(jnp.stack([a * c - b * d, a * d + b * c], axis=-1))

    def turned(self, v):
        return (self * Complex(jnp.stack([v, v], axis=-1)) * self).w


def test_a_method_that_is_given_objects_and_new_ones_is_one_function():
    def f(p, q, v):
        return jnp.sum((p * q).turned(v))

    given = [Complex(np.ones((3, 2), np.float32)) for _ in range(2)]
    src = untrace.source(f)(*given, np.ones(3, np.float32))
    text = str(src)
    assert src.report.strength == "identical", text
    assert text.count("def mul") == 1 and "def mul(complex" in text, text


def test_all_functions_that_pass_an_object_on_learn_of_it_at_once():
    """One builds it of its leaves; what it returns of another one is not all needed."""
    with measured() as spent:
        text = recover(lambda y: SOLVER.surrounded(SOLVER.surrounded(y)), X)
    for name in ("around", "advance"):
        head = text.partition(f"def {name}(")[2].partition(")")[0]
        assert "state" in head.split(", "), text
    assert "    return jnp.sin(final.y), jnp.expm1(final.error)\n" in text
    assert spent.parts["write"].parts["functions"].times == 2, text
