"""Programs in JAX's words, as small frozen values."""

from untrace.ir.blocks import all_blocks, all_equations, sub_blocks
from untrace.ir.convert import from_jaxpr, params_of_jax, rebuilt, to_jaxpr
from untrace.ir.program import Atom, Block, Equation, Literal, Value

__all__ = [
    "Atom",
    "Block",
    "Equation",
    "Literal",
    "Value",
    "all_blocks",
    "all_equations",
    "from_jaxpr",
    "params_of_jax",
    "rebuilt",
    "sub_blocks",
    "to_jaxpr",
]
