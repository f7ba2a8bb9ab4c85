"""Rules for operations that work on each element."""

from __future__ import annotations

import jax

from untrace.ir import Equation
from untrace.lifting.rules.table import rule
from untrace.lifting.rules.when import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    alike,
    all_of,
    begins_unsigned,
    dtype_name,
    has,
    of,
    on_value,
    operands,
    states,
    value_first,
)

NUMBERS = (*INTEGERS, *FLOATS, *COMPLEX)
REAL = (*INTEGERS, *FLOATS)
INEXACT = (*FLOATS, *COMPLEX)
BITS = ("bool", *INTEGERS)
SIGNED = tuple(name for name in INTEGERS if name.startswith("int"))
UNSIGNED = tuple(name for name in INTEGERS if name.startswith("uint"))

# ---- arithmetic --------------------------------------------------------------------

rule("add", "{0} + {1}", when=alike(*NUMBERS), bare=True)
rule("add", "jax.lax.add({0}, {1})")
rule("sub", "{0} - {1}", when=alike(*NUMBERS), bare=True)
rule("sub", "jax.lax.sub({0}, {1})")
rule(
    "mul",
    "{0} * {1}",
    when=all_of(has("out_dtype"), alike(*NUMBERS)),
    bare=True,
    out_dtype=None,
)
rule("mul", "jax.lax.mul({0}, {1})", when=has("out_dtype"), out_dtype=None)
rule(
    "mul",
    "jax.lax.mul({0}, {1}, out_dtype={out_dtype})",
    when=states("out_dtype"),
)
rule("div", "{0} / {1}", when=alike(*INEXACT), bare=True)
rule("div", "jax.lax.div({0}, {1})")
rule("rem", "jax.lax.rem({0}, {1})")
rule("neg", "-{0}", when=of(*NUMBERS))
rule("neg", "jax.lax.neg({0})")
rule("integer_pow", "{0}**{y}", when=of(*NUMBERS))
rule("integer_pow", "jax.lax.integer_pow({0}, {y})")
rule("pow", "{0}**{1}", when=all_of(begins_unsigned, alike(*INEXACT)), bare=True)
rule("pow", "({0})**{1}", when=alike(*INEXACT), bare=True)
rule("pow", "jax.lax.pow({0}, {1})")
rule("square", "jnp.square({0})", when=of(*NUMBERS))
rule("square", "jax.lax.square({0})")
rule("abs", "jnp.abs({0})", when=of(*NUMBERS))
rule("abs", "jax.lax.abs({0})")
rule("sign", "jnp.sign({0})", when=of(*REAL))
rule("sign", "jax.lax.sign({0})")
rule("max", "jnp.maximum({0}, {1})", when=alike(*REAL), bare=True)
rule("max", "jax.lax.max({0}, {1})")
rule("min", "jnp.minimum({0}, {1})", when=alike(*REAL), bare=True)
rule("min", "jax.lax.min({0}, {1})")
rule("mulhi", "jax.lax.mulhi({0}, {1})")
rule("nextafter", "jnp.nextafter({0}, {1})", when=alike(*FLOATS), bare=True)
rule("nextafter", "jax.lax.nextafter({0}, {1})")

# ---- comparison and selection ------------------------------------------------------

for name, operator in dict(eq="==", ne="!=").items():
    rule(name, f"{{0}} {operator} {{1}}", when=value_first("bool", *NUMBERS), bare=True)
    rule(name, f"jax.lax.{name}({{0}}, {{1}})")
for name, operator in dict(lt="<", le="<=", gt=">", ge=">=").items():
    rule(name, f"{{0}} {operator} {{1}}", when=value_first("bool", *REAL), bare=True)
    rule(name, f"jax.lax.{name}({{0}}, {{1}})")


def _is_predicate(eqn: Equation) -> bool:
    return len(eqn.operands) == 3 and dtype_name(eqn.operands[0]) == "bool"


rule("select_n", "jax.lax.select({0}, {2}, {1})", when=_is_predicate)
rule("select_n", "jax.lax.select_n({operands})")
rule("clamp", "jax.lax.clamp({0}, {1}, {2})")
rule("is_finite", "jnp.isfinite({0})", when=of(*FLOATS))
rule("is_finite", "jax.lax.is_finite({0})")

# ---- bits --------------------------------------------------------------------------

rule("not", "~{0}", when=of(*BITS))
rule("not", "jax.lax.bitwise_not({0})")
rule("and", "{0} & {1}", when=alike(*BITS), bare=True)
rule("and", "jax.lax.bitwise_and({0}, {1})")
rule("or", "{0} | {1}", when=alike(*BITS), bare=True)
rule("or", "jax.lax.bitwise_or({0}, {1})")
rule("xor", "{0} ^ {1}", when=alike(*BITS), bare=True)
rule("xor", "jax.lax.bitwise_xor({0}, {1})")
rule("shift_left", "{0} << {1}", when=alike(*INTEGERS), bare=True)
rule("shift_left", "jax.lax.shift_left({0}, {1})")
rule("shift_right_arithmetic", "{0} >> {1}", when=alike(*SIGNED), bare=True)
rule("shift_right_arithmetic", "jax.lax.shift_right_arithmetic({0}, {1})")
rule("shift_right_logical", "{0} >> {1}", when=alike(*UNSIGNED), bare=True)
rule("shift_right_logical", "jax.lax.shift_right_logical({0}, {1})")
rule("population_count", "jax.lax.population_count({0})")
rule("clz", "jax.lax.clz({0})")

# ---- rounding and parts of numbers -------------------------------------------------

rule("floor", "jnp.floor({0})", when=of(*FLOATS))
rule("floor", "jax.lax.floor({0})")
rule("ceil", "jnp.ceil({0})", when=of(*FLOATS))
rule("ceil", "jax.lax.ceil({0})")
rule(
    "round", "jax.lax.round({0})", rounding_method=jax.lax.RoundingMethod.AWAY_FROM_ZERO
)
rule("round", "jax.lax.round({0}, {rounding_method})")
rule("real", "jnp.real({0})", when=of(*COMPLEX))
rule("real", "jax.lax.real({0})")
rule("imag", "jnp.imag({0})", when=of(*COMPLEX))
rule("imag", "jax.lax.imag({0})")
rule("complex", "jax.lax.complex({0}, {1})")


def _keeps_input_dtype(eqn: Equation) -> bool:
    return eqn.params["input_dtype"] == eqn.operands[0].aval.dtype


rule("conj", "jax.lax.conj({0}){input_dtype:implied}", when=_keeps_input_dtype)
rule(
    "reduce_precision",
    "jax.lax.reduce_precision({0}, exponent_bits={exponent_bits}, "
    "mantissa_bits={mantissa_bits})",
)

# ---- functions ---------------------------------------------------------------------

rule("log2", "jnp.log2({0})", when=of(*INEXACT), accuracy=None)
rule("cbrt", "jnp.cbrt({0})", when=all_of(has("accuracy"), of(*INEXACT)), accuracy=None)
for name in [
    "sin",
    "cos",
    "tan",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "atanh",
]:
    rule(name, f"jnp.{name}({{0}})", when=of(*INEXACT), accuracy=None)
for name in [
    "sin",
    "cos",
    "tan",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "log2",
    "sqrt",
    "cbrt",
    "rsqrt",
    "logistic",
]:
    rule(name, f"jax.lax.{name}({{0}})", when=has("accuracy"), accuracy=None)
    rule(name, f"jax.lax.{name}({{0}}, accuracy={{accuracy}})", when=states("accuracy"))
for name in [
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erf_inv",
    "lgamma",
    "digamma",
    "bessel_i0e",
    "bessel_i1e",
]:
    rule(name, f"jax.lax.{name}({{0}})")
rule("erfc", "jax.lax.erfc({0})", accuracy=None)
rule("erfc", "jax.lax.erfc({0}, accuracy={accuracy})", when=states("accuracy"))
rule("one_minus_square", "jax.lax.one_minus_square({0})")
for n in range(2, 8):
    coefficients = ", ".join(f"{{{i}}}" for i in range(1, n + 1))
    rule(
        "polynomial",
        f"jax.lax.polynomial({{0}}, [{coefficients}])",
        when=operands(n + 1),
    )
rule("atan2", "jnp.arctan2({0}, {1})", when=alike(*FLOATS), bare=True)
for name in ["atan2", "igamma", "igammac", "igamma_grad_a", "zeta", "polygamma"]:
    rule(name, f"jax.lax.{name}({{0}}, {{1}})")
rule("regularized_incomplete_beta", "jax.lax.betainc({0}, {1}, {2})")
rule("stop_gradient", "jax.lax.stop_gradient({0})")
rule("copy", "jnp.copy({0})", when=on_value)
