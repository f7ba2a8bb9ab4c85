"""Random programs of Python loops come back from their calls, verified."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

N_PROGRAMS = 60
X = np.linspace(0.1, 1, 16, dtype=np.float32).reshape(4, 4)
PARAMS = [{"w": X * (i + 1), "b": X[i]} for i in range(4)]

START = """
def layer(p, x, s=0.5):
    t = s * 2
    return jnp.tanh(x @ p["w"] + p["b"]) * t - s


def program(params, key, x):
    a, b = x, x * 0.5
    outs, terms = [], []
"""
# What a loop is over, and statements that use it.
LOOPS = {
    "for i in range(4):": ["b = b * (i + 1)", "b = layer(params[i], b)"],
    "for p in params:": ["a = layer(p, a)", "a = layer(p, b, 0.3)"],
    "for p in params[::-1]:": ["b = b + p['b']"],
    "for p, k in zip(params, jax.random.split(key, 4)):": [
        "a = layer(p, a) + jax.random.normal(k, a.shape)"
    ],
    "for p, row in zip(params, x):": ["b = layer(p, b) + row"],
    "for i in (0.5, 1.5, 2.0, 0.25):": ["a = a + i", "a = layer(params[0], a, i)"],
    "for leaf in jax.tree.leaves(params[0]):": ["a = a * jnp.mean(leaf)"],
    "for name in ('w', 'b', 'w'):": ["b = b + params[0][name]"],
    "for p in params[:2]:": ["a = layer(p, a) + a", "b = layer(p, layer(p, b))"],
    "for p, s in zip(params[1:3], (0.5, 2.0)):": ["b = layer(p, b * s) - s"],
    "for c in (a, b):": ["outs.append(jnp.sin(c) * jnp.cos(c))"],
}
STATEMENTS = [
    "a = jnp.sin(a) + b",
    "b = jnp.cos(b) * a",
    "a, b = b, a",
    "outs.append(a.sum())",
    "a = a + sum(jnp.sum(q**2) for q in jax.tree.leaves(params))",
    "a = a + sum(jnp.mean(layer(q, b)) for q in params[:2])",
    "outs.append(jnp.stack([jnp.tanh(a @ q['w']) for q in params]))",
    "a, b = (jnp.sin(c) + jnp.cos(c) * 2 for c in (a, b))",
    "terms.append(b)",
    "b = b + sum(terms)",
    "outs += [layer(q, a, s) for q, s in zip(params, (0.5, 1.5, 2.5, 3.5))]",
]


def made(seed):
    choices = random.Random(seed)
    lines: list[str] = []
    for head in choices.sample(list(LOOPS), choices.randint(1, 3)):
        body = choices.sample(STATEMENTS, choices.randint(0, 3))
        lines.append(f"    {head}")
        lines += [f"        {line}" for line in [*body, choices.choice(LOOPS[head])]]
    return "\n".join([START.rstrip(), *lines, "    return a, b, outs, terms", ""])


@pytest.mark.parametrize("seed", range(N_PROGRAMS))
def test_loops_come_back_from_their_calls(seed, tmp_path):
    text, path = made(seed), tmp_path / "program.py"
    path.write_text(text)  # names of numbers are read from the source
    space = {"jax": jax, "jnp": jnp}
    exec(compile(text, str(path), "exec"), space)
    program = space["program"]
    function = program
    if seed % 3 == 0:

        def function(params, key, x):
            return jax.grad(lambda p: jnp.sum(program(p, key, x)[0]))(params)

    src = untrace.source(function)(PARAMS, jax.random.key(0), X)
    assert src.report.is_verified, f"{text}\n{src.report}"
    notes = [note for note in src.report.notes if "from its equations" in note]
    assert not notes, f"{text}\n{notes}"
