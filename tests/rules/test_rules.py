"""Every rule is reached by an example, and its text traces back to that equation."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any

import jax
import pytest

from tests.rules.examples import EXAMPLES, IS_NEW, NEWER, NEWER_PARAMS, Example
from untrace import jaxapi
from untrace.ir import Block, Equation, Value, from_jaxpr, to_jaxpr
from untrace.lifting import rules
from untrace.lifting.imports import Imports
from untrace.lifting.literals import Literals
from untrace.lifting.rules.table import RULES, Rule, candidates
from untrace.syntax.names import Scope
from untrace.verification.compare import compare

# Registered by `sharded` and `state`, and tested with them.
ELSEWHERE = frozenset(
    [
        *("freeze", "free_ref", "axis_index", "dim_as_value", "pbroadcast"),
        *("psum", "psum_invariant", "unreduced_psum"),
        *("pmax", "unreduced_pmax", "pmin", "unreduced_pmin"),
        *("pvary", "reduced_vary_cast", "preduced", "vary_unreduced_cast"),
    ]
)


def test_every_rule_is_reached_by_an_example() -> None:
    reached = {
        id(rule) for x64 in (False, True) for _, _, rule in accepted(EXAMPLES, x64)
    }
    missed = [
        f"{rule.primitive}: {rule.template}"
        for primitive in RULES.keys() - ELSEWHERE
        for rule in RULES[primitive]
        if id(rule) not in reached and (IS_NEW or not is_newer(rule))
    ]
    assert not missed, "\n".join(missed)


@pytest.mark.parametrize("x64", [False, True])
def test_every_text_traces_back_to_the_identical_equation(x64: bool) -> None:
    wrong: list[str] = []
    for expected, eqn, rule in accepted(EXAMPLES, x64):
        text, names = render(eqn, rule)
        try:
            actual = retrace(text, names, eqn, x64)
        except Exception as error:  # a text that fails is listed like one that differs
            wrong.append(f"{rule.template}\n  {text}\n  {error!r}")
            continue
        difference = compare(expected, actual)
        if difference is not None:
            wrong.append(f"{rule.template}\n  {text}\n{difference}")
    assert not wrong, "\n".join(wrong)


def test_names_are_identifiers() -> None:
    assert all(name.isidentifier() for name in rules.NAMES.values())


def is_newer(rule: Rule) -> bool:
    """Tell whether the oldest supported JAX has nothing for a rule to print."""
    return rule.primitive in NEWER or rule.template in NEWER_PARAMS


def accepted(
    examples: list[Example], x64: bool
) -> Iterator[tuple[Any, Equation, Rule]]:
    """List the equations of the examples with every rule that accepts them."""
    for example in examples:
        if x64 and example.is_x32:
            continue
        with jax.enable_x64(x64):
            traced = jax.make_jaxpr(example.function)(*example.args)
            for expected in single_equations(traced, example.primitive):
                eqn = from_jaxpr(expected).equations[0]
                for rule in candidates(eqn.name, eqn.params):
                    if rule.when is None or rule.when(eqn):
                        yield expected, eqn, rule


def single_equations(jaxpr: Any, primitive: str) -> Iterator[Any]:
    """Cut out every equation of a primitive as a jaxpr of its own."""
    block = from_jaxpr(jaxpr)
    for eqn in block.equations:
        if eqn.name == primitive:
            yield to_jaxpr(isolated(eqn, block))
        for param in eqn.params.values():
            if isinstance(param, Block) and param.is_closed:
                yield from single_equations(param.jaxpr, primitive)


def isolated(eqn: Equation, block: Block) -> Block:
    """Make a block of one equation."""
    inputs = tuple(dict.fromkeys(a for a in eqn.operands if isinstance(a, Value)))
    results = tuple(Value(aval) for aval in eqn.result_avals)
    alone = dataclasses.replace(eqn, results=results)
    debug_info = block.debug_info._replace(arg_names=None, result_paths=None)
    return dataclasses.replace(
        block,
        inputs=inputs,
        constants=(),
        equations=(alone,),
        outputs=results,
        effects=eqn.effects,
        is_closed=True,
        debug_info=debug_info,
    )


def render(eqn: Equation, rule: Rule) -> tuple[str, dict[str, Any]]:
    """Write an equation by a rule; return the text and what its names mean."""
    imports = Imports(Scope())
    literals = Literals(imports)
    form = rule.fill(eqn.params, literals.param)
    inputs = dict.fromkeys(a for a in eqn.operands if isinstance(a, Value))
    names = {value: f"x{i}" for i, value in enumerate(inputs)}

    def text_of(atom: Any) -> str:
        if isinstance(atom, Value):
            return names[atom]
        return (
            literals.bare(atom.value)
            if rule.bare
            else literals.exact(atom.value, atom.aval)
        )

    texts = [text_of(atom) for atom in eqn.operands]
    text = form.format(*texts, operands=", ".join(texts))
    for module in rule.roots:
        imports.module(module)
    meanings: dict[str, Any] = {
        bound: importlib.import_module(module)
        for module, bound in imports.modules.items()
    }
    for (module, root), bound in imports.attributes.items():
        meanings[bound] = getattr(importlib.import_module(module), root)
    return text, meanings


def retrace(text: str, names: dict[str, Any], eqn: Equation, x64: bool) -> Any:
    """Trace the text of an equation at exactly the types of its operands."""
    inputs = list(dict.fromkeys(a for a in eqn.operands if isinstance(a, Value)))

    def function(*args: Any) -> list[Any]:
        result = eval(text, names, {f"x{i}": arg for i, arg in enumerate(args)})
        if not eqn.results:
            return []
        return list(result) if eqn.primitive.multiple_results else [result]

    with jax.enable_x64(x64):
        return jaxapi.trace_flat(function, [value.aval for value in inputs])
