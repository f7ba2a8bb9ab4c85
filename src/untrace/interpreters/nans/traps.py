"""The classic ways to a NaN or an infinity, each with its usual mend.

A trap is recognised by the operation that made the value, the values that it was given
there, what they were computed from, and the call that the operation belongs to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Evidence:
    """An operation that made a bad value.

    Attributes:
      name: The primitive.
      values: Each operand where the first bad element is; None where that is not known.
      calls: The functions that it belongs to, such as "norm" and "sqrt"; "**" is one.
      is_derivative: Whether it belongs to a derivative, forward or backward.
      ancestors: For each operand, the primitives that it was computed by element by
        element, the nearest first.
      is_difference: Whether the first operand is a difference with a square.
      infinity: The operation that made an operand infinite.
      is_exchange: Whether devices exchange values in it.
      is_hidden: Whether a selection hides the bad value from the function's own results,
        and its gradient has it all the same.
    """

    name: str
    values: tuple[float | None, ...]
    calls: frozenset[str]
    is_derivative: bool = False
    ancestors: tuple[tuple[str, ...], ...] = ()
    is_difference: bool = False
    infinity: Evidence | None = field(default=None)
    is_exchange: bool = False
    is_hidden: bool = False

    def has(self, *values: float) -> bool:
        """Return whether some operand has one of these values."""
        return any(v in values for v in self.values if v is not None)

    @property
    def is_infinite(self) -> bool:
        """Whether some operand is infinite."""
        return self.has(math.inf, -math.inf)

    @property
    def first(self) -> float | None:
        """The first operand."""
        return self.values[0] if self.values else None

    def calls_any(self, *names: str) -> bool:
        """Return whether it belongs to one of these functions."""
        return bool(self.calls.intersection(names))


def to_facts(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as what JSON holds."""
    facts = {name: getattr(evidence, name) for name in _FACTS}
    inner = evidence.infinity
    infinity = None if inner is None else to_facts(inner)
    return {**facts, "calls": sorted(evidence.calls), "infinity": infinity}


def from_facts(facts: dict[str, Any]) -> Evidence:
    """Return the evidence that facts were made of."""
    inner = facts["infinity"]
    return Evidence(
        facts["name"],
        tuple(facts["values"]),
        frozenset(facts["calls"]),
        facts["is_derivative"],
        tuple(tuple(names) for names in facts["ancestors"]),
        facts["is_difference"],
        None if inner is None else from_facts(inner),
        facts["is_exchange"],
    )


_FACTS = (
    "name",
    "values",
    "is_derivative",
    "ancestors",
    "is_difference",
    "is_exchange",
)


class Trap(NamedTuple):
    """A classic trap.

    Attributes:
      name: What it is called.
      holds: Whether an operation is one.
      why: What happens.
      mend: What is usually done about it.
    """

    name: str
    holds: Callable[[Evidence], bool]
    why: str
    mend: str


_ROOTS = ("sqrt", "norm", "hypot", "std", "nanstd", "cbrt", "rsqrt")
_POWERS = ("power", "pow", "float_power", "**")
_ARITHMETIC = ("add", "add_any", "sub", "mul", "div", "square", "integer_pow")
_EXPONENTIALS = ("exp", "exp2", "expm1", "sinh", "cosh")
_LOGARITHMS = ("log", "log1p", "log2", "log10")
_INVERSES = ("arccos", "arcsin", "arctanh", "arccosh", "acos", "asin", "atanh", "acosh")
_SOFTMAX = ("softmax", "log_softmax", "logsumexp", "_softmax", "_softmax_deprecated")


def explain(evidence: Evidence) -> Trap | None:
    """Return the trap that an operation fell into, if it is a classic one."""
    return next((trap for trap in TRAPS if trap.holds(evidence)), None)


def _is_masked(e: Evidence) -> bool:
    """A cotangent that `where` made zero meets an infinite derivative."""
    if e.is_hidden:
        return True
    zeros = [i for i, v in enumerate(e.values) if v == 0]
    return (
        e.is_derivative
        and e.name in ("mul", "div")
        and any("select_n" in e.ancestors[i] for i in zeros if i < len(e.ancestors))
    )


def _is_by(e: Evidence, *names: str) -> bool:
    return e.calls_any(*names) or bool(e.infinity and e.infinity.calls_any(*names))


def _is_made_by(e: Evidence, *names: str) -> bool:
    """Whether an operation, or the infinity that it was given, is one of these."""
    return e.name in names or bool(e.infinity and e.infinity.name in names)


def _is_pole(e: Evidence) -> bool:
    return e.is_infinite or e.has(0.0)


def _is_negative(e: Evidence) -> bool:
    return e.first is not None and e.first < 0


TRAPS = (
    Trap(
        "where",
        _is_masked,
        "`where` takes the other branch here, so this derivative is multiplied by 0; but it "
        "is infinite or NaN, and 0 times that is NaN.",
        "make the branch safe where it is not taken: "
        "`jnp.where(ok, f(jnp.where(ok, x, 1.0)), other)`.",
    ),
    Trap(
        "arctan2",
        lambda e: e.is_derivative and _is_by(e, "arctan2", "atan2", "angle"),
        "the derivative of `arctan2(y, x)` divides by x**2 + y**2, which is 0 at (0, 0).",
        "replace the point before: `jnp.where((x == 0) & (y == 0), 1.0, x)`.",
    ),
    Trap(
        "sqrt",
        lambda e: e.is_derivative and _is_pole(e) and _is_by(e, *_ROOTS),
        "the derivative of a square root, and so of a norm, is infinite at 0, and 0 times "
        "that is NaN.",
        "keep away from 0: `jnp.sqrt(x + 1e-12)`, or "
        "`jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)`.",
    ),
    Trap(
        "power",
        lambda e: e.is_derivative and _is_by(e, *_POWERS),
        "the derivative of x**y at x = 0 has log(0) (by y) or 0**(y - 1) (by x).",
        "keep the base positive: `jnp.where(x > 0, x, 1.0) ** y` inside a `where`, or take "
        "an integer power.",
    ),
    Trap(
        "power of a negative number",
        lambda e: e.name == "pow" and _is_negative(e),
        "a negative base has no real power with a fractional exponent.",
        "take `jnp.abs(x) ** y * jnp.sign(x)`, or an integer exponent.",
    ),
    Trap(
        "outside of the domain",
        lambda e: (
            e.name in ("acos", "asin", "atanh", "acosh")
            or (e.is_derivative and e.calls_any(*_INVERSES))
        ),
        "the argument is not in the domain: [-1, 1], and [1, inf) for arccosh.",
        "clip it, `jnp.clip(x, -1.0, 1.0)`; for gradients stay away from the ends.",
    ),
    Trap(
        "variance by difference",
        lambda e: e.is_difference and _is_negative(e),
        "mean(x**2) - mean(x)**2 is rounded to a negative number where all x are nearly "
        "the same.",
        "take `jnp.var(x)`, or mean((x - mean(x))**2); or `jnp.maximum(variance, 0.0)`.",
    ),
    Trap(
        "softmax of -inf alone",
        lambda e: (
            e.name == "sub"
            and e.values == (-math.inf, -math.inf)
            and (e.calls_any(*_SOFTMAX) or _is_shifted(e))
        ),
        "all entries are -inf: minus their maximum, that is -inf - (-inf).",
        "leave at least one entry finite in every row, mask with a large negative number "
        "(-1e9) instead of -inf, or pass `where=`.",
    ),
    Trap(
        "overflow in exp",
        lambda e: (
            (e.infinity is not None and e.infinity.name in _EXPONENTIALS)
            or (e.name in _EXPONENTIALS and not e.is_infinite)
        ),
        "`exp` overflows: in float32 above 88.7, in float16 above 11.1; inf / inf, inf - inf "
        "and 0 * inf are NaN.",
        "subtract the maximum before `exp`, or use `jax.nn.softmax`, `jax.nn.logsumexp`, "
        "`jax.nn.sigmoid` or `jax.nn.softplus`, which do.",
    ),
    Trap(
        "log of 0",
        lambda e: (
            (e.infinity is not None and e.infinity.name in _LOGARITHMS)
            or (e.name in _LOGARITHMS and e.first in (0.0, -1.0) and not _is_out(e))
            or (e.is_derivative and _is_pole(e) and _is_by(e, *_LOGARITHMS))
        ),
        "log(0) is -inf, and its derivative 1 / 0; with 0 or another infinity they make NaN.",
        "take `jnp.log(x + 1e-12)`, `jax.scipy.special.xlogy(x, y)` for x * log(y), or "
        "`jax.nn.log_softmax` for the logarithm of a softmax.",
    ),
    Trap(
        "log of a negative number",
        lambda e: e.name in _LOGARITHMS and _is_negative(e),
        "a negative number has no real logarithm.",
        "clip the argument, `jnp.log(jnp.maximum(x, 1e-12))`, or find out why it is negative.",
    ),
    Trap(
        "square root of a negative number",
        lambda e: e.name in ("sqrt", "rsqrt") and _is_negative(e),
        "a negative number has no real square root.",
        "clip the argument, `jnp.sqrt(jnp.maximum(x, 0.0))`, or find out why it is negative.",
    ),
    Trap(
        "one over the root of 0",
        lambda e: _is_made_by(e, "rsqrt") and not _is_negative(e),
        "1 / sqrt(0) is infinite, and 0 times that is NaN.",
        "add a small number inside: `jax.lax.rsqrt(x + 1e-6)`.",
    ),
    Trap(
        "pole of gamma",
        lambda e: _is_made_by(e, "lgamma", "digamma"),
        "the gamma function has poles at 0 and at negative integers, where its logarithm "
        "is infinite; the difference of two such infinities is NaN.",
        "keep arguments positive, or handle these integers by themselves with `jnp.where`.",
    ),
    Trap(
        "0 * inf",
        lambda e: e.name in ("mul", "dot_general") and e.has(0.0) and e.is_infinite,
        "0 * inf is NaN.",
        "find out where the infinity comes from: `untrace.nan_origin(f, kind='inf')`.",
    ),
    Trap(
        "0 / 0",
        lambda e: e.name == "div" and e.values == (0.0, 0.0),
        "0 / 0 is NaN.",
        "divide by something that is never 0: `x / jnp.where(y == 0, 1.0, y)`.",
    ),
    Trap(
        "division by 0",
        lambda e: e.name in ("div", "rem") and e.values[1:] == (0.0,),
        "the divisor is 0.",
        "divide by something that is never 0: `x / jnp.where(y == 0, 1.0, y)`.",
    ),
    Trap(
        "inf - inf",
        lambda e: e.name in ("sub", "add", "add_any", "div") and e.is_infinite,
        "the difference, or the quotient, of two infinities is NaN.",
        "find out where they come from: `untrace.nan_origin(f, kind='inf')`.",
    ),
    Trap(
        "too large for the dtype",
        lambda e: e.name in ("convert_element_type", "reduce_precision") and _fits(e),
        "the number is larger than the largest one of the narrower dtype: float16 ends at "
        "65504, float32 at 3.4e38.",
        "keep it in the wider dtype, take bfloat16, or scale it before.",
    ),
    Trap(
        "overflow",
        lambda e: e.name in _ARITHMETIC and _fits(e) and not e.has(0.0),
        "the result is larger than the largest number of its dtype: float16 ends at 65504, "
        "float32 at 3.4e38.",
        "scale the operands before, compute with logarithms, or take a wider dtype.",
    ),
    Trap(
        "not positive definite",
        lambda e: e.name == "cholesky",
        "the matrix is not positive definite: some eigenvalue is 0 or negative.",
        "add a small multiple of the identity, and make it symmetric.",
    ),
    Trap(
        "singular matrix",
        lambda e: e.name == "triangular_solve",
        "the matrix is singular, or nearly so: its triangle has a 0 on the diagonal, by "
        "which the solution is divided.",
        "add a small multiple of the identity, or use `jnp.linalg.lstsq` or "
        "`jnp.linalg.pinv`.",
    ),
    Trap(
        "inside of a kernel",
        lambda e: e.name in ("pallas_call", "mosaic_gpu_call", "ffi_call"),
        "the kernel makes it of what it is given here. The search ends at kernels.",
        "print in it (`pl.debug_print`; with `interpret=True` it runs on any device), or "
        "write what it does to a block as a function of arrays and ask for that.",
    ),
    Trap(
        "on the host",
        lambda e: e.name in ("pure_callback", "io_callback"),
        "the host function returns it for what it is given here. The search ends there.",
        "call the function with these operands (`.operands`) and look into it.",
    ),
    Trap(
        "several devices",
        lambda e: e.name in ("scan", "while", "cond", "shard_map") and e.is_exchange,
        "the search ends here: devices exchange values inside, or are mapped over again, and "
        "it is not run turn by turn.",
        "return what is computed in each turn as well, or look at it with "
        "`jax.debug.print`.",
    ),
)
"""The first that holds counts."""


def _fits(e: Evidence) -> bool:
    """Whether all operands are known and finite."""
    return bool(e.values) and all(v is not None and math.isfinite(v) for v in e.values)


def _is_shifted(e: Evidence) -> bool:
    return any("reduce_max" in names for names in e.ancestors)


def _is_out(e: Evidence) -> bool:
    return e.first is not None and e.first < (-1 if e.name == "log1p" else 0)
