"""Idioms that are operators and elementwise functions: they promote and broadcast."""

from __future__ import annotations

from untrace.jaxapi import written
from untrace.lifting.idioms.domains import DTYPE, LITERAL, SHAPE
from untrace.lifting.idioms.table import idiom

FUNCTIONS = """sqrt rsqrt exp exp2 expm1 log log1p log2 log10 sin cos tan arcsin arccos
arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil round square reciprocal cbrt sign
isnan isfinite isinf logical_not conj real imag angle positive negative rint trunc deg2rad
rad2deg sinc nan_to_num"""
BINARY = """maximum minimum arctan2 hypot logaddexp power fmod logical_and logical_or
logical_xor copysign nextafter heaviside float_power gcd lcm fmax fmin"""
TWO = ("f32[2,3] f32[2,3]", "i32[2] i32[2]", "i32[2] f32[2]")

for symbol in ("@", "+", "-", "*", "/"):
    idiom(
        f"{{x}} {symbol} {{y}}",
        *((TWO[0],) if symbol in "/" else TWO),
        "f32[3,3] f32[3,3]",
    )
for symbol in ("+", "-", "*", "/", "**"):
    idiom(f"{{x}} {symbol} {{c}}", "f32[2,3]", "i32[2]", c=LITERAL)
    idiom(f"{{c}} {symbol} {{x}}", "f32[2,3]", "i32[2]", c=LITERAL)
idiom("{x} ** {y}", "f32[2,3] f32[2,3]", "f32[2,3] i32[]")
for symbol in ("==", "!=", "<", "<=", ">", ">="):
    idiom(f"{{x}} {symbol} {{y}}", "f32[2,3] f32[3]", "i32[2] i32[2]")
    idiom(f"{{x}} {symbol} {{c}}", "f32[2,3]", "i32[2]", c=LITERAL)
for symbol in ("&", "|", "^"):
    idiom(f"{{x}} {symbol} {{y}}", "bool[2,3] bool[3]", "i32[2] i32[2]")
    idiom(f"{{x}} {symbol} {{c}}", "i32[2]; c=1", c=LITERAL)
for symbol in ("%", "//"):
    idiom(f"{{x}} {symbol} {{y}}", "f32[2,3] f32[3]", "i32[2] i32[2]", "u32[2] u32[2]")
    idiom(f"{{x}} {symbol} {{c}}", "f32[2,3]; c=2.0", "i32[2]; c=2", c=LITERAL)
idiom("-{x}")
idiom("~{x}", "bool[2]")
idiom("jnp.abs({x})")

idiom("{x}.astype({dtype})", "i32[2]", dtype=DTYPE)
idiom("jnp.asarray({x}, {dtype})", "i32[2]", dtype=DTYPE)

for name in FUNCTIONS.split():
    if name == "rsqrt":
        idiom("jax.lax.rsqrt({x})")
        continue
    is_complex = name in ("conj", "real", "imag", "angle")
    idiom(f"jnp.{name}({{x}})", "f32[2,3]", *(["c64[2]"] if is_complex else []))
    if name in ("sqrt", "exp", "log", "sin", "cos"):
        idiom(f"jnp.{name}({{c}})", ";c=2.0", c=LITERAL)
for name in BINARY.split():
    types = "i32[2,3] i32[3]" if name in ("gcd", "lcm") else "f32[2,3] f32[3]"
    idiom(f"jnp.{name}({{x}}, {{y}})", types)
    if name in ("maximum", "minimum", "power", "logaddexp"):
        idiom(f"jnp.{name}({{x}}, {{c}})", c=LITERAL)
        idiom(f"jnp.{name}({{c}}, {{x}})", c=LITERAL)
STAGED = """add subtract multiply divide equal not_equal less less_equal greater
greater_equal maximum minimum"""
ZERO = "np.float32(0.0)"
for name in STAGED.split():
    # Python would turn a comparison with a scalar in front of it round.
    idiom(f"jnp.{name}({{k}}, {{x}})", f"f32[2,3]; k={ZERO}", k=LITERAL)
    idiom(f"jnp.{name}({{k}}, {{l}})", f"; k={ZERO}; l={ZERO}", k=LITERAL, l=LITERAL)
idiom("jax.lax.complex({x}, {y})")
idiom("add_jaxvals({x}, {y})", imports={"add_jaxvals": written.COTANGENTS_HOME})

idiom("jnp.where({c}, {x}, {y})", "bool[2,3] f32[2,3] f32[2,3]")
idiom("jnp.where({c}, {x}, {k})", "bool[2,3] f32[2,3]; k=0.0", k=LITERAL)
idiom("jnp.where({c}, {k}, {x})", "bool[2,3] f32[2,3]; k=0.0", k=LITERAL)
idiom("jnp.where({c}, {k}, {l})", "bool[2,3]; k=0.0; l=1.0", k=LITERAL, l=LITERAL)
idiom(
    "jnp.select([{c}, {d}], [{x}, {y}], {k})",
    "bool[2] bool[2] f32[2] f32[2]",
    k=LITERAL,
)
idiom("jnp.clip({x}, {a}, {b})", "f32[2,3] f32[] f32[]")
idiom(
    "jnp.clip({x}, {k}, {l})",
    "f32[2,3]; k=0.0; l=1.0",
    "i32[2]; k=0; l=1",
    k=LITERAL,
    l=LITERAL,
)
idiom("jnp.clip({x}, {k})", "f32[2,3]; k=0.0", k=LITERAL)
idiom("jnp.clip({x}, max={k})", "f32[2,3]; k=0.0", k=LITERAL)

idiom("jnp.zeros({shape})", "", shape=SHAPE)
idiom("jnp.ones({shape})", "", shape=SHAPE)
idiom("jnp.zeros({shape}, {dtype})", "", shape=SHAPE, dtype=DTYPE)
idiom("jnp.ones({shape}, {dtype})", "", shape=SHAPE, dtype=DTYPE)
idiom("jnp.full({shape}, {k})", "", shape=SHAPE, k=LITERAL)
idiom("jnp.full({shape}, {k}, {dtype})", "", shape=SHAPE, k=LITERAL, dtype=DTYPE)
idiom("jnp.broadcast_to({x}, {shape})", "f32[3]", shape=SHAPE)
idiom("jnp.full({shape}, {x})", "f32[]", shape=SHAPE)
