"""The lines to try for a region: an idiom with its operands and params filled in.

Operands are written `v0`, `v1`, ... for the inputs of the region, and as literals.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untrace.ir import Atom, Literal, Value
from untrace.lifting.idioms.attempts import MODULES
from untrace.lifting.idioms.domains import AXIS, SHAPE, region_literals
from untrace.lifting.idioms.kinds import is_kind, kind_of, operand_kinds
from untrace.lifting.idioms.learned import learned
from untrace.lifting.idioms.regions import Region, called, function_with_rules
from untrace.lifting.idioms.table import NAMED, Idiom
from untrace.lifting.idioms.texts import literal_texts

MAX_ORDERS, MAX_OPERANDS, MAX_PARAMS, MAX_LINES = 720, 12, 24, 120
_OPERATOR = re.compile(r"[-~]?\{\w+\}( \S+ \{\w+\})?")
LEADING = ("random_wrap", "iota")
"""What a public function does before it calls the jitted function of its name."""
HOMES = (
    "jax.nn", "jax.numpy", "jax.numpy.linalg", "jax.numpy.fft", "jax.random",
    "jax.scipy.special", "jax.scipy.linalg", "jax.lax",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """A line to try, and the modules of its names."""

    text: str
    imports: tuple[tuple[str, str], ...] = ()


def lines(region: Region, look: int) -> Iterator[Line]:
    """List the lines that a region may have been."""
    return itertools.islice(_lines(region, look), MAX_LINES)


def _lines(region: Region, look: int) -> Iterator[Line]:
    name = _call_name(region)
    if name:
        for idiom in NAMED.get(name, ()):
            yield from _filled(idiom, region)
    alike = learned().by_look.get(look, ())
    wanted = f".{name.strip('_')}(" if name else ""
    for idiom in sorted(alike, key=lambda idiom: wanted not in idiom.template):
        yield from _filled(idiom, region)
    if name and len(region.equations) == 1:
        yield from _public_calls(name, region)


def is_sought(region: Region, look: int) -> bool:
    """Whether anything is to be tried for a region."""
    return look in learned().by_look or bool(_call_name(region))


def _call_name(region: Region) -> str:
    """Return the name of the jitted function, if the region is one call of it."""
    root = region.root
    if any(eqn.name not in LEADING for eqn in region.equations[:-1]):
        return ""
    if root.name == "jit":
        return str(root.params.get("name", ""))
    return function_with_rules(root)


def _filled(idiom: Idiom, region: Region) -> Iterator[Line]:
    choices = [
        [(name, text) for text in itertools.islice(domain.texts(region), 8)]
        for name, domain in idiom.params
    ]
    for operands in _operands(idiom, region):
        texts = dict(zip(idiom.operands, operands))
        for params in itertools.islice(itertools.product(*choices), MAX_PARAMS):
            fields = {**texts, **dict(params)}
            if _OPERATOR.fullmatch(idiom.template):
                fields = _in_brackets(fields, idiom.template)
            yield Line(idiom.template.format(**fields), idiom.imports)


def _in_brackets(fields: dict[str, str], template: str) -> dict[str, str]:
    """Put negative numbers in brackets, where they do not come first in a product."""
    is_power = "**" in template
    return {
        name: f"({text})"
        if text.startswith("-") and (is_power or not template.startswith(f"{{{name}}}"))
        else text
        for name, text in fields.items()
    }


def _operands(idiom: Idiom, region: Region) -> Iterator[tuple[str, ...]]:
    """List the texts of operands that use every input of the region."""
    n, kinds = len(idiom.operands), operand_kinds(idiom)
    given = {f"v{i}": kind_of(v.aval) for i, v in enumerate(region.inputs)}
    found = itertools.islice(_unlimited(n, region), MAX_ORDERS)
    fitting = (texts for texts in found if not kinds or _fits(texts, given, kinds))
    return itertools.islice(dict.fromkeys(fitting), MAX_OPERANDS)


def _fits(
    texts: tuple[str, ...], given: dict[str, str], kinds: Sequence[tuple[str, ...]]
) -> bool:
    """Whether operands have the kinds of those in an example."""
    found = [given.get(text) or _literal_kind(text) for text in texts]
    return any(all(map(is_kind, found, wanted)) for wanted in kinds)


def _literal_kind(text: str) -> str:
    return "int" if text.lstrip("-").isdigit() else "float"


def _unlimited(n: int, region: Region) -> Iterator[tuple[str, ...]]:
    inputs = [f"v{i}" for i in range(len(region.inputs))]
    if called(region.root) and len(region.equations) == 1:
        yield from _as_called(n, region)
    n_more = n - len(inputs)
    if n_more == 0:
        yield from itertools.permutations(inputs)
    elif n_more > 0:
        found = [t for lit in region_literals(region) for t in literal_texts(lit)]
        literals = list(dict.fromkeys(found))[:4]
        for extra in itertools.product([*inputs, *literals], repeat=n_more):
            yield from itertools.permutations([*inputs, *extra])


def _as_called(n: int, region: Region) -> Iterator[tuple[str, ...]]:
    """List the operands of a call in their order; literals at the end may be defaults."""
    atoms = region.root.operands
    if len(atoms) < n or any(type(atom) is Value for atom in atoms[n:]):
        return
    yield from itertools.product(*[_atom_texts(atom, region) for atom in atoms[:n]])


def _atom_texts(atom: Atom, region: Region) -> list[str]:
    if isinstance(atom, Literal):
        return list(literal_texts(atom))
    return [f"v{region.inputs.index(atom)}"]


# ---- any public function -----------------------------------------------------------


def _public_calls(name: str, region: Region) -> Iterator[Line]:
    """Write a call of the public function of this name, if there is one."""
    root = region.root
    axes = list(AXIS.texts(region))
    for function in _public_functions(name.strip("_")):
        for n in range(len(root.operands), 0, -1):
            for operands in itertools.islice(_as_called(n, region), 4):
                given = ", ".join(operands)
                yield Line(f"{function}({given})")
                for key, texts in (("axis", axes), ("shape", SHAPE.texts(region))):
                    if key in _parameters(function):
                        yield from (
                            Line(f"{function}({given}, {key}={text})") for text in texts
                        )


def _public_functions(name: str) -> Iterator[str]:
    if not (name.isidentifier() and name[0].islower()):
        return
    for home in HOMES:
        if callable(getattr(importlib.import_module(home), name, None)):
            yield f"{home.replace('jax.numpy', 'jnp')}.{name}"


def _parameters(function: str) -> tuple[str, ...]:
    found: Any = MODULES[function.partition(".")[0]]
    for part in function.split(".")[1:]:
        found = getattr(found, part)
    try:
        return tuple(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return ()
