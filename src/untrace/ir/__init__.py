"""Programs in JAX's words, as small frozen values."""

from untrace.ir.blocks import all_blocks as all_blocks
from untrace.ir.blocks import all_equations as all_equations
from untrace.ir.blocks import sub_blocks as sub_blocks
from untrace.ir.convert import from_jaxpr as from_jaxpr
from untrace.ir.convert import params_of_jax as params_of_jax
from untrace.ir.convert import rebuilt as rebuilt
from untrace.ir.convert import to_jaxpr as to_jaxpr
from untrace.ir.program import Atom as Atom
from untrace.ir.program import Block as Block
from untrace.ir.program import Equation as Equation
from untrace.ir.program import Literal as Literal
from untrace.ir.program import Value as Value
