"""Recover one program and measure how readable the result is."""

from __future__ import annotations

import ast
import collections
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

import untrace
from benchmarks.readability import corpus, names, tokens
from untrace.capture import capture

CONTROL = {
    "scan", "map", "cond", "switch", "while_loop", "fori_loop", "associative_scan",
    "custom_root", "custom_linear_solve", "stop_gradient", "Precision",
    "GatherScatterMode", "ConvDimensionNumbers", "GatherDimensionNumbers",
    "ScatterDimensionNumbers", "DotAlgorithmPreset", "RoundingMethod",
}  # fmt: skip
"""What is taken from `jax.lax` by anyone, whatever the original says."""

BLOCK_LENGTH = 4
"""Statements that make a block, when one looks for blocks that are repeated."""

MIN_BLOCK_TOKENS = 40
"""Tokens below which a repeated block may stay as it is."""

STANDARD = {"jax", "numpy", "safetensors", *sys.stdlib_module_names}
"""What a standalone file may import."""


@dataclass
class Share:
    """How many of how many, and which are missing."""

    n_found: int = 0
    n_asked: int = 0
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, asked: Iterable[str], found: Iterable[str]) -> Share:
        """Count what was found of what was asked for."""
        asked, found = set(asked), set(found)
        return cls(len(asked & found), len(asked), tuple(sorted(asked - found)))

    def __str__(self) -> str:
        return f"{self.n_found}/{self.n_asked}"


@dataclass
class Score:
    """What was measured of one program; see `score`."""

    name: str
    is_framework: bool = False
    verdict: str = ""
    detail: str = ""
    time_s: float = 0.0
    n_lines: int = 0
    n_tokens: int = 0
    yardstick: str = ""
    n_yardstick: int = 0
    n_lax: int = 0
    n_api_statements: int = 0
    n_statements: int = 0
    low_statements: tuple[str, ...] = ()
    arguments: Share = field(default_factory=Share)
    parameters: Share = field(default_factory=Share)
    local_names: Share = field(default_factory=Share)
    functions: Share = field(default_factory=Share)
    letters: tuple[str, ...] = ()
    longest: int = 0
    longest_of_user: int = 0
    n_repeats: int = 0
    foreign_imports: tuple[str, ...] = ()
    differs: str = ""

    @property
    def to_yardstick(self) -> float | None:
        """Tokens over those of the hand-written version, if there is one."""
        return self.n_tokens / self.n_yardstick if self.n_yardstick else None

    @property
    def to_lax(self) -> float | None:
        """Tokens over those of the one-statement-per-equation print."""
        return self.n_tokens / self.n_lax if self.n_lax else None


def score(
    name: str, level: str, values: bool = False, from_jaxpr: bool = False
) -> tuple[Score, Any]:
    """Recover a program and measure the result.

    Args:
      name: Name of the program.
      level: Level of `untrace.source`.
      values: Also run both programs and compare the outputs.
      from_jaxpr: Recover it from its jaxpr alone.

    Returns:
      The score and the `Source`, or None where there is none.

    Raises:
      corpus.MissingError: If the program's framework does not import here.
    """
    program = corpus.load(name)
    observed = names.observe(program)
    result = Score(name, is_framework=not program.is_plain)
    start = time.perf_counter()
    try:
        src = recover(program, level, from_jaxpr)
    except Exception as error:  # any failure is a result here
        result.verdict = "error"
        result.detail = f"{type(error).__name__}: {error}"
        return result, None
    result.time_s = time.perf_counter() - start
    result.verdict = src.report.strength
    result.detail = " ".join(src.report.difference_lines())
    text = str(src)
    computation = tokens.computation(text)
    result.n_lines = tokens.count_lines(computation)
    result.n_tokens = tokens.count_tokens(computation)
    result.foreign_imports = tuple(sorted(corpus.imported(text) - STANDARD))
    result.n_repeats = len(repeats(computation))
    _measure_yardsticks(result, program, observed, level)
    measure_level(result, computation, observed)
    measure_names(result, computation, observed)
    if values:
        args = jax.tree.leaves(program.args) if from_jaxpr else program.args
        result.differs = compare_values(program, src, args)
    return result, src


def recover(program: corpus.Program, level: str, from_jaxpr: bool = False) -> Any:
    """Recover the source of a program, with nothing remembered from before."""
    jax.clear_caches()
    if from_jaxpr:
        try:
            jaxpr = jax.make_jaxpr(program.function)(*program.args)
        except TypeError:  # an object with leaves that are no arrays
            jaxpr = capture(program.function, program.args, {}).jaxpr
        return untrace.source(jaxpr, level=level)
    return untrace.source(program.function, level=level)(*program.args)


def _measure_yardsticks(
    result: Score, program: corpus.Program, observed: names.Observed, level: str
) -> None:
    user = tokens.computation(program.path.read_text(), observed.functions)
    ran = observed.functions | {"__call__"}
    result.longest_of_user = tokens.longest(user, ran)
    hand = corpus.HERE / "handwritten" / f"{program.name}.py"
    if hand.exists():
        result.yardstick = "hand"
        computation = tokens.computation(hand.read_text())
        result.n_yardstick = tokens.count_tokens(computation)
    elif program.is_plain:
        result.yardstick = "own"
        result.n_yardstick = tokens.count_tokens(user)
    if level == "lax":
        result.n_lax = result.n_tokens
        return
    lax = str(recover_text(program))
    result.n_lax = tokens.count_tokens(tokens.computation(lax))


def recover_text(program: corpus.Program) -> Any:
    """Return the one-statement-per-equation print, unverified."""
    jax.clear_caches()
    return untrace.source(program.function, level="lax", verify=False)(*program.args)


def measure_level(
    result: Score, computation: ast.Module, observed: names.Observed
) -> None:
    """Count the statements that spell what somebody wrote, and those that do not."""
    allowed = observed.lax_names | CONTROL
    allowed |= {"dot"} if "dot_general" in allowed else set()  # of two matrices
    statements = list(_statements(computation))
    low = [s for s in statements if _is_low(s, allowed)]
    result.n_statements = len(statements)
    result.n_api_statements = len(statements) - len(low)
    result.low_statements = tuple(map(ast.unparse, low))


def measure_names(
    result: Score, computation: ast.Module, observed: names.Observed
) -> None:
    """Count the user's names that came back."""
    written = names.written(computation)
    known = written.keys | {n for bound in written.bound.values() for n in bound}
    result.arguments = _pairs(observed.arguments, written)
    result.parameters = Share.of(observed.parameters, known)
    result.local_names = _pairs(observed.local_names, written)
    result.functions = Share.of(observed.functions, written.functions)
    result.letters = tuple(sorted(names.letters(written, observed)))
    result.longest = tokens.longest(computation)


def _pairs(asked: set[tuple[str, str]], written: names.Written) -> Share:
    label = "{}.{}".format
    found = [pair for pair in asked if written.has(*pair)]
    return Share.of((label(*p) for p in asked), (label(*p) for p in found))


def _statements(computation: ast.Module) -> Iterable[ast.stmt]:
    """List the simple statements in the functions of a computation."""
    for function in tokens.functions(computation):
        for statement in function.body:
            if not isinstance(statement, tokens.Function | ast.ClassDef | ast.Pass):
                yield from _simple(statement)


def _simple(statement: ast.stmt) -> Iterable[ast.stmt]:
    if not hasattr(statement, "body"):
        yield statement
        return
    for child in ast.walk(statement):
        if isinstance(child, ast.stmt) and not hasattr(child, "body"):
            yield child


def _is_low(statement: ast.stmt, allowed: set[str]) -> bool:
    """Tell whether a statement spells equations and not what someone wrote.

    That is: it binds a primitive, or takes from `jax.lax` what neither the user's nor
    a framework's code takes from there.
    """
    for node in ast.walk(statement):
        if not isinstance(node, ast.Attribute):
            continue
        if node.attr == "bind":
            return True
        is_lax = ast.unparse(node.value) in ("lax", "jax.lax", "jax.lax.linalg")
        if is_lax and node.attr != "linalg" and node.attr not in allowed:
            return True
    return False


def repeats(computation: ast.Module) -> list[str]:
    """List blocks of statements that occur three times or more.

    Two blocks are the same if they differ in names and keys only. A block counts once,
    at its first occurrence; occurrences do not overlap.
    """
    shapes: list[str] = []
    for function in tokens.functions(computation):
        shapes += [_shape(s) for s in function.body]
        shapes.append(f"end of {function.name}")
    places: dict[tuple[str, ...], list[int]] = collections.defaultdict(list)
    for start in range(len(shapes) - BLOCK_LENGTH + 1):
        window = tuple(shapes[start : start + BLOCK_LENGTH])
        if any(s.startswith("end of ") for s in window):
            continue
        if not places[window] or start >= places[window][-1] + BLOCK_LENGTH:
            places[window].append(start)
    found: list[str] = []
    covered = -1
    for window, starts in sorted(places.items(), key=lambda item: item[1]):
        is_large = sum(s.count(" ") + 1 for s in window) >= MIN_BLOCK_TOKENS
        if len(starts) >= 3 and is_large and starts[0] > covered:
            found.append("\n".join(window))
            covered = starts[0] + BLOCK_LENGTH - 1
    return found


def _shape(statement: ast.stmt) -> str:
    """Write a statement with names and keys left out, tokens separated by spaces."""
    if isinstance(statement, tokens.Function):
        return f"end of definition {statement.name}"
    copy = ast.parse(ast.unparse(statement))
    for node in ast.walk(copy):
        if isinstance(node, ast.Name):
            node.id = "_"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return " ".join(tokens.words(ast.unparse(copy)))


def compare_values(program: corpus.Program, src: Any, args: Any) -> str:
    """Run the original and the recovered function; say where the outputs differ."""
    expected = jax.tree.leaves(jax.jit(program.function)(*program.args))
    actual = jax.tree.leaves(jax.jit(src.load())(*args))
    return compare_leaves(expected, actual)


def compare_leaves(expected: list[Any], actual: list[Any]) -> str:
    """Say where two lists of arrays differ by more than rounding, or return ""."""
    if len(expected) != len(actual):
        return f"{len(actual)} outputs, not {len(expected)}"
    for position, (a, b) in enumerate(zip(expected, actual, strict=True)):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {position} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
        is_inexact = jnp.issubdtype(a.dtype, jnp.inexact)
        limit = rounding_limit(a) if is_inexact else 0
        error = jnp.max(jnp.abs(a - b)) if is_inexact else jnp.any(a != b)
        if not error <= limit:  # also if it is NaN
            return f"output {position} differs by {error}, more than {limit}"
    return ""


def rounding_limit(expected: Any) -> Any:
    """Return the largest error that a few dozen roundings explain.

    Relative to the largest element, and to 0.1 if that is larger: gradients that are
    zero but for rounding have no scale of their own.
    """
    scale = jnp.maximum(jnp.max(jnp.abs(expected)), 0.1)
    return 64 * jnp.finfo(expected.dtype).eps * scale
