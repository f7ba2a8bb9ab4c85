"""Whether a jaxpr is the program of a module: by its StableHLO, else by its values.

The strongest answer lowers the jaxpr and compares the two modules by value numbering, so
that nothing but names, locations, order, repetition and dead code may differ. Where they
differ, both modules are compiled by XLA, with the same options, and run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.jaxapi.children import ChildError, run_child
from untrace.jaxapi.module_types import Module, TensorType
from untrace.jaxapi.modules import (
    compiled_values,
    lowered_module,
    written_module,
)
from untrace.readers.stablehlo.differences import first_difference
from untrace.readers.stablehlo.identities import calls_host, is_sharded
from untrace.readers.stablehlo.numbering import NO_EFFECT, Numbering, TooLargeError
from untrace.readers.stablehlo.read import parsed
from untrace.readers.stablehlo.shapes import is_wide as is_wide_type
from untrace.readers.stablehlo.sizes import has_dynamic
from untrace.readers.stablehlo.tokens import without_tokens

SAME_MODULE = "same StableHLO"
BUT_FOR_SHARDINGS = "same StableHLO but for shardings"
BUT_FOR_HOST = "same StableHLO but for functions on the host"
SAME_VALUES = "same values"
MAX_NUMBERED = 4_000_000


def agreement(
    module: Any,
    jaxpr: Any,
    args: Sequence[Any] | None = None,
    platform: str = "cpu",
    *,
    is_trusted: bool = True,
) -> str:
    """Compare a module with the jaxpr that was read from it.

    Args:
      module: A parsed `Module`, or its text or bytes.
      jaxpr: A closed jaxpr.
      args: Flat arguments to run both with, if that is needed; random ones by default.
      platform: What the module was lowered for, where that is known.
      is_trusted: Whether the module may be run in this process. Those of unknown origin
        run in a child process, at random arguments: XLA ends the process that compiles
        some modules.

    Returns:
      "same StableHLO" (followed by " but for shardings" if there are some, which are not
      kept, or by " but for functions on the host", which are not in a module); "same
      values": bitwise, at these arguments; or "different: ", followed by what differs.
      "different: not proved" is said of modules that are not the same and that could not
      be run.
    """
    if not isinstance(module, Module):
        module = parsed(module)
    # Values of 64 bits may stand behind an idiom alone, and counters of loops in a module.
    is_wide = any(map(_is_wide, _vars(jaxpr)))
    has_wide = any(
        is_wide_type(v.type) for one in module.operations() for v in one.results
    )
    modes = [True] if is_wide else [False, True] if has_wide else [False]
    found = ""
    with jaxapi.deep_recursion():
        for mode in modes:
            with jax.enable_x64(mode):
                found = module_difference(module, jaxpr, platform)
            if not found and calls_host(module):
                return BUT_FOR_HOST
            if not found:
                return BUT_FOR_SHARDINGS if is_sharded(module) else SAME_MODULE
        if has_dynamic(module):
            return f"different: not proved, since its sizes are not known; {found}"
        if calls_host(module):
            return f"different: not proved, since it calls the host; {found}"
        with jax.enable_x64(is_wide):
            again = lowered_again(jaxpr, platform)
            if is_trusted:
                return compare_values(module, again, args, found)
            return _compare_apart(module, again, found)


def module_difference(module: Module, jaxpr: Any, platform: str = "cpu") -> str:
    """Say what differs between a module and a jaxpr that is lowered; nothing if they agree."""
    if has_dynamic(module):
        return exported_difference(module, jaxpr, platform)
    found = structural_difference(module, lowered_again(jaxpr, platform))
    return found and exported_difference(module, jaxpr, platform) and found


def exported_difference(module: Module, jaxpr: Any, platform: str = "cpu") -> str:
    """Say what differs between a module and a jaxpr that is exported; nothing if they agree.

    A program that cannot be exported is no other one.
    """
    try:
        return structural_difference(module, lowered_again(jaxpr, platform, True))
    except Exception as error:  # JAX exports less than it lowers
        return f"it cannot be exported: {error}"


def lowered_again(
    jaxpr: Any, platform: str = "cpu", is_artefact: bool = False
) -> Module:
    """Lower a closed jaxpr, or export it."""
    body, _ = jaxapi.split_jaxpr(jaxpr)
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in body.invars]
    function = jaxapi.as_function(jaxpr)
    return without_tokens(
        lowered_module(function, types, platform, is_artefact=is_artefact)
    )


def structural_difference(one: Module, other: Module) -> str:
    """Say what differs between two modules; nothing if they are the same.

    Names, locations, the order and repetition of what has no effects, dead code, the
    cutting into functions and what `numbering` lists besides do not count.
    """
    types = [[v.type for v in module.main.block.arguments] for module in (one, other)]
    if types[0] != types[1]:
        return f"the arguments are {types[0]} and {types[1]}"
    numbering = Numbering(MAX_NUMBERED)
    arguments = numbering.arguments("main", one.main.block.arguments)
    try:
        (first, effect), (second, after) = (
            numbering.function(module, module.main, arguments, {})
            for module in (one, other)
        )
    except TooLargeError:
        return f"more than {MAX_NUMBERED:,} operations when calls are written out"
    if len(first) != len(second):
        return f"there are {len(first)} and {len(second)} results"
    for index, (a, b) in enumerate(zip(first, second)):
        if a != b:
            return f"result {index}: {first_difference(numbering, a, b)}"
    if effect != after:
        return first_difference(numbering, max(effect, 0), max(after, 0))
    return "" if effect in (NO_EFFECT, after) else "the effects differ"


def compare_values(
    one: Module, other: Module, args: Sequence[Any] | None, why: str
) -> str:
    """Compare the values of two modules by running them; `why` they may differ."""
    if any(operation.name.startswith("mhlo.") for operation in one.operations()):
        return f"different: not proved, since XLA has optimised the module; {why}"
    types = [value.type for value in one.main.block.arguments]
    given = random_values(types) if args is None else [np.asarray(x) for x in args]
    try:
        wanted = compiled_values(one, given)
    except Exception as error:  # XLA says no in its own ways
        said = " ".join(str(error).split())[:200]
        return (
            f"different: not proved, since the module does not run here ({said}); {why}"
        )
    found = compiled_values(other, given)
    for index, (a, b) in enumerate(zip(wanted, found, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            return f"different: the values of result {index} differ; {why}"
    return SAME_VALUES


_COMPARE = """
import json, sys
import jax
from untrace.jaxapi.modules import parse_module
from untrace.readers.stablehlo.agreement import compare_values
given = json.load(sys.stdin)
jax.config.update("jax_enable_x64", given["x64"])
modules = [parse_module(given[name]) for name in ("one", "other")]
sys.stdout.write(compare_values(*modules, None, given["why"]))
"""


def _compare_apart(one: Module, other: Module, why: str) -> str:
    given = {
        "one": written_module(one),
        "other": written_module(other),
        "x64": jaxapi.is_wide(),
        "why": why,
    }
    try:
        return run_child(_COMPARE, json.dumps(given).encode()).decode()
    except ChildError as error:
        return f"different: not proved, since XLA could not run it ({error}); {why}"


def random_values(types: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Return arrays of given types: small numbers of both signs, with some zeros."""
    generator = np.random.default_rng(0)
    made: list[np.ndarray[Any, Any]] = []
    for kind in types:
        assert isinstance(kind, TensorType), kind
        shape, dtype = kind
        low = -4 if dtype.kind in "if" or "float" in dtype.name else 0
        whole = generator.integers(low, 5, shape)
        if dtype.kind == "b":
            made.append(np.asarray(whole % 2 == 1))
        elif dtype.kind in "iu" or "int" in dtype.name:
            made.append(np.asarray(whole).astype(dtype))
        elif dtype.kind == "c":
            parts = generator.normal(size=(2, *shape))
            made.append(np.asarray(parts[0] + 1j * parts[1]).astype(dtype))
        else:
            some = generator.normal(size=shape) * (generator.random(shape) > 0.1)
            made.append(np.asarray(some).astype(dtype))
    return made


def _is_wide(var: Any) -> bool:
    return getattr(var.aval, "dtype", None) in _WIDE


_WIDE = tuple(map(np.dtype, ("int64", "uint64", "float64", "complex128")))


def _vars(jaxpr: Any) -> list[Any]:
    body, _ = jaxapi.split_jaxpr(jaxpr)
    found = [*body.invars, *body.constvars]
    for eqn in body.eqns:
        found += eqn.outvars
        for value in eqn.params.values():
            items = value if isinstance(value, tuple | list) else (value,)
            for item in items:
                if jaxapi.is_jaxpr(item):
                    found += _vars(item)
    return found
