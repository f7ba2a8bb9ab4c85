"""What the idioms look like: learned by tracing each on its examples, when first needed."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.ir import Block, from_jaxpr
from untrace.lifting.idioms import load
from untrace.lifting.idioms.attempts import attempt
from untrace.lifting.idioms.regions import flattened, live, look_key, looks, tail
from untrace.lifting.idioms.table import IDIOMS, Idiom

DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i32": "int32",
    "u32": "uint32",
    "c64": "complex64",
    "bool": "bool",
}
SLACK = 3
"""Equations by which a region may exceed the examples: shapes bring some along."""


@dataclass(slots=True)
class Learned:
    """The idioms by their looks.

    Attributes:
      by_look: Idioms whose equations apply the same primitives.
      sizes: By the last primitive, how many equations an idiom may have.
    """

    by_look: dict[int, list[Idiom]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, idiom: Idiom, block: Block) -> None:
        """Remember what an idiom was traced to."""
        equations = live(block)
        if not equations:
            return
        root = equations[-1]
        look = look_key(sum(map(looks, equations)), root)
        known = self.by_look.setdefault(look, [])
        if idiom not in known:
            known.append(idiom)
        n = sum(1 for _ in flattened(tuple(equations)))
        name = tail(root)
        self.sizes[name] = max(self.sizes.get(name, 0), n + SLACK)


@functools.cache
def learned() -> Learned:
    """Trace all idioms on their examples."""
    load()
    made = Learned()
    for idiom in IDIOMS:
        if idiom.names:
            continue
        for example in idiom.examples:
            block = trace_example(idiom, example)
            if block is not None:
                made.add(idiom, block)
    return made


def trace_example(idiom: Idiom, example: str) -> Block | None:
    """Trace an idiom on one of its examples."""
    types, _, given = example.partition(";")
    chosen = dict(item.split("=", 1) for item in given.split(";") if item)
    chosen = {key.strip(): text.strip() for key, text in chosen.items()}
    avals: list[Any] = []
    texts = {name: chosen.get(name, domain.default) for name, domain in idiom.params}
    for name, item in zip(idiom.operands, types.split()):
        if "[" in item:
            texts[name] = f"v{len(avals)}"
            avals.append(_aval(item))
        else:
            texts[name] = item
    made = attempt(idiom.template.format(**texts), avals, idiom.imports)
    return None if made is None else from_jaxpr(made.jaxpr)


def _aval(text: str) -> Any:
    name, _, dims = text.rstrip("]").partition("[")
    shape = tuple(int(dim) for dim in dims.split(",") if dim)
    if name == "key":
        return jaxapi.aval_of(
            jax.eval_shape(lambda: jax.random.split(jax.random.key(0), shape))
        )
    weak = name.endswith("*")
    return jaxapi.ShapedArray(
        shape, jnp.dtype(DTYPES[name.rstrip("*")]), weak_type=weak
    )
