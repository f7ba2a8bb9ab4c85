"""What a file's function is, in text, without a line of `untrace`.

`portrait(module, name)` describes a function by aspects: its arguments, the trees and
types of what goes in and comes out, its equations, its constants, the equations of its
derivatives, and values. Two functions with the same portrait are the same. Nothing is
shared with the comparison that it judges: the equations are JAX's own printing, with the
types and constants that the printing leaves out.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

ROUNDED = {"f16": np.float16, "bf16": jnp.bfloat16, "f32": np.float32}

INTERFACE = ("arguments", "inputs", "result")
"""Aspects that are no equations."""


def portrait(module: Any, name: str, inputs: list[Any] | None = None) -> dict[str, str]:
    """Describe the function of a generated module, aspect by aspect.

    Args:
      module: The executed module.
      name: Of its function.
      inputs: Leaves to run the function and its derivatives on, its own examples by
        default. Others of the same types make functions comparable.

    Returns:
      Text for each aspect, the plainest first.
    """
    context = getattr(module, "tracing_context", contextlib.nullcontext)
    with context(), contextlib.redirect_stdout(io.StringIO()):
        function, examples = getattr(module, name), module.example_args()
        parameters = inspect.signature(function).parameters.values()
        args = [examples[parameter.name] for parameter in parameters]
        call = _positional(function, list(parameters))
        leaves, tree = jax.tree.flatten(args)
        aspects = {
            "arguments": "\n".join(f"{p.kind} {p}" for p in parameters),
            "inputs": f"{_show_tree(args)} {list(map(jax.typeof, leaves))!r}",
        }
        flat = lambda *leaves: call(*jax.tree.unflatten(tree, leaves))
        aspects["result"] = _attempt(lambda: _show_tree(jax.eval_shape(flat, *leaves)))
        aspects["equations"] = _traced(flat, leaves)
        for label, (derivative, floats) in _derivatives(flat, inputs or leaves).items():
            aspects[label] = _traced(derivative, floats)
            aspects[f"values of {label}"] = _values(derivative, floats)
        return {label: _normal(text) for label, text in aspects.items()}


def example_leaves(module: Any, name: str) -> list[Any]:
    """List the leaves of a module's example inputs, in the order of its parameters."""
    examples = module.example_args()
    names = inspect.signature(getattr(module, name)).parameters
    return jax.tree.leaves([examples[name] for name in names])


def _positional(function: Callable[..., Any], parameters: list[Any]) -> Any:
    def call(*args: Any) -> Any:
        pairs = list(zip(parameters, args))
        plain = [arg for p, arg in pairs if p.kind is not p.KEYWORD_ONLY]
        named = {p.name: arg for p, arg in pairs if p.kind is p.KEYWORD_ONLY}
        return function(*plain, **named)

    return call


def _derivatives(flat: Any, leaves: list[Any]) -> dict[str, tuple[Any, list[Any]]]:
    """Return the function of its inexact leaves, its derivatives, and what they take."""
    places = [i for i, leaf in enumerate(leaves) if _is_inexact(leaf)]
    floats = [jnp.asarray(leaves[i]) for i in places]

    def of_floats(*floats: Any) -> list[Any]:
        full = list(leaves)
        for place, value in zip(places, floats):
            full[place] = value
        results = jax.tree.leaves(flat(*full))
        return [leaf for leaf in results if _is_inexact(leaf)]

    def forward(*floats: Any) -> Any:
        return jax.jvp(of_floats, floats, tuple(x * 0.5 + 0.25 for x in floats))

    def backward(*floats: Any) -> Any:
        results, pull = jax.vjp(of_floats, *floats)
        return pull([jnp.cos(x) for x in results])

    # What JAX computes: methods of NumPy's arrays are other functions, with other checks.
    arrays = [jnp.asarray(x) if isinstance(x, np.ndarray) else x for x in leaves]
    found = {"function": (flat, arrays)}
    if floats:
        found |= {"jvp": (forward, floats), "vjp": (backward, floats)}
    return found


def _is_inexact(leaf: Any) -> bool:
    return jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.inexact)


def _show_tree(tree: Any) -> str:
    """Show containers, keys and the static parts of a tree, and the types of leaves."""
    paths = jax.tree_util.tree_flatten_with_path(tree)[0]
    types = [f"{jax.tree_util.keystr(p)}: {jax.typeof(x)!r}" for p, x in paths]
    return f"{jax.tree.structure(tree)} {types}"


def _traced(function: Any, inputs: list[Any]) -> str:
    def show() -> str:
        # A new function each time: JAX keeps what it traced before.
        jaxpr = jax.make_jaxpr(lambda *inputs: function(*inputs))(*inputs)
        return f"{jaxpr} {jaxpr.in_avals!r} " + "\n".join(_details(jaxpr))

    return _attempt(show)


def _details(value: Any) -> Iterator[str]:
    """List what JAX does not print: types with their weakness, and constants."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from _details(part)
    for const in getattr(value, "consts", None) or ():
        yield _digest(const)
    inner = getattr(value, "jaxpr", value)
    for eqn in getattr(inner, "eqns", None) or ():
        effects = sorted(type(effect).__name__ for effect in eqn.effects)
        types = [v.aval for v in (*eqn.invars, *eqn.outvars)]
        yield f"{eqn.primitive} {types!r} {effects}"
        for param in eqn.params.values():
            yield from _details(param)


def _digest(leaf: Any) -> str:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    try:
        array = np.asarray(jnp.asarray(leaf))  # of the type that JAX would give it
    except Exception:  # a ref, a tracer
        return f"{type(leaf).__name__} {getattr(leaf, 'aval', '')!r}"
    kept = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return f"{array.dtype}{array.shape} {kept}"


def _values(function: Any, inputs: list[Any]) -> str:
    return _attempt(lambda: str(list(map(_digest, jax.tree.leaves(function(*inputs))))))


def _attempt(show: Callable[[], str]) -> str:
    try:
        return show()
    except Exception as error:  # what a function refuses is one of its properties
        return f"{type(error).__name__}: {error}"


def _normal(text: str) -> str:
    """Leave out what has no meaning: addresses, places in files, names of jits, layout.

    Literals are rounded to their type, as JAX does when it compiles them.
    """
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"<untrace \d+>|_untrace_\d+|/[\w./]*mutant\.py", "file", text)
    text = re.sub(r"file(:| at line |, line )\d+", "file", text)
    text = re.sub(r"at /\S+:\d+", "at file", text)
    names = r"((?:jit|closed_call|custom_\w+_call|remat)\[\s*name=)\w+"
    literals = r"(?<![\w.])(-?\d[\d.e+-]*):(f16|bf16|f32)\[\]"
    text = re.sub(literals, _rounded, re.sub(names, r"\1", text))
    return " ".join(text.split())  # lines are broken where they get too long


def _rounded(match: re.Match[str]) -> str:
    return f"{ROUNDED[match[2]](float(match[1]))}:{match[2]}[]"
