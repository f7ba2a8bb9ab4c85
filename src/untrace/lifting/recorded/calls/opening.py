"""Write what JAX makes of a transformation that the user has named: `expand="grad"`.

The equations of a call of `jax.grad(loss)` become a function `grad_of_loss` that takes
and returns what the call did. It is called, or passed to other transformations, where
the user had written `jax.grad(loss)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.dict_keys import spelled
from untrace.capture.trees import plain
from untrace.ir import Atom, Literal, Value
from untrace.lifting.constructing import construct
from untrace.lifting.frame import Frame, module_function
from untrace.lifting.heads import Parameters, plain_head
from untrace.lifting.lift import count_blocks, open_trees
from untrace.lifting.names.source_names import source_names
from untrace.lifting.recorded.building import call, keyword
from untrace.lifting.recorded.calls.equations import RESULTS
from untrace.lifting.recorded.calls.retraced import Region
from untrace.lifting.recorded.functions.fields import without
from untrace.lifting.recorded.naming.paths import index_of, last_word, words_of
from untrace.lifting.recorded.naming.transformed import MAYBE_PUBLIC, opened_name
from untrace.lifting.recorded.naming.values import Found, arrays_in, has_array, is_array
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.terms import Global, Term
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.homes import public_name
from untrace.optional import gives, optional
from untrace.recovery.functions import given_arguments, is_function, peel
from untrace.recovery.record import Body, Call
from untrace.recovery.transformations import names_of
from untrace.syntax.names import identifier
from untrace.syntax.steps import Path, common


@dataclass(frozen=True, slots=True)
class Captured:
    """Arrays that a call closes over, as one parameter.

    Attributes:
      hint: The name of the parameter.
      found: What is passed, by a name and the path from there; None for a constant.
      parts: The arrays, and how they are reached from the parameter.
    """

    hint: str
    found: Found | None
    parts: list[tuple[Any, Path]]

    def term(self, writer: Writer) -> Term:
        """Write what is passed."""
        if self.found is None:
            return writer.value(self.parts[0][0])
        return writer.ref(self.found)


@dataclass(frozen=True, slots=True)
class Opened:
    """A function made of the equations of a call.

    Attributes:
      name: Its name in the module.
      captured: What it takes first, which the call closed over.
      arguments: What it takes then, by parameter.
    """

    name: str
    captured: list[Captured]
    arguments: dict[str, Any]

    def called(self, item: Call, writer: Writer) -> Term:
        """Write the call."""
        terms = [captured.term(writer) for captured in self.captured]
        for name, value in self.arguments.items():
            term = writer.value(value)
            terms.append(keyword(name, term) if name in item.kwargs else term)
        return call(Term([Global(self.name)]), terms)

    def value(self, writer: Writer) -> Term:
        """Write the function, to be passed to another transformation."""
        function = Term([Global(self.name)])
        if not self.captured:
            return function
        functools = writer.program.lifter.imports.module("functools")
        terms = [captured.term(writer) for captured in self.captured]
        return call(Term([f"{functools}.partial"]), [function, *terms])


@optional(gives(None))
def occurring(root: Body) -> frozenset[str] | None:
    """Return the names of the transformations that a recorded run uses."""
    found: set[str] = set()
    bodies = [root]
    while bodies:
        for item in bodies.pop().calls:
            bodies += item.bodies
            passed = [*item.args, *item.kwargs.values()]
            for function in [item.function, *filter(is_function, passed)]:
                found |= _names_in(function)
    return frozenset(found)


def _names_in(function: Any) -> frozenset[str]:
    """Name the transformations that made a function."""
    found = names_of(function)
    if found & MAYBE_PUBLIC and public_name(function) is not None:
        return frozenset()  # such as `jnp.where` and `jax.nn.relu`
    layer = peel(function)
    inner = layer.inner if layer is not None else None
    return found if inner is None else found | _names_in(inner)


@optional(gives(False))
def is_opened_whole(root: Body, expand: frozenset[str]) -> bool:
    """Whether a program is nothing but one call of a transformation to be opened.

    It may be inside calls of the user's functions, and jitted.
    """
    body = root
    while len(body.calls) == 1 and body.calls[0].is_own:
        body = body.calls[0].bodies[0]
    if len(body.calls) != 1:
        return False
    function = body.calls[0].function
    layer = peel(function)
    while layer is not None and "jit" in names_of(function):
        function = layer.inner
        layer = peel(function)
    return bool(names_of(function) & (expand - {"jit"}))


def is_whole(result: Any) -> bool:
    """Whether all that a call returned are arrays and trees of them."""
    leaves = jax.tree.leaves(result, is_leaf=_is_function_result)
    return not any(map(_is_function_result, leaves))


def _is_function_result(value: Any) -> bool:
    return isinstance(value, jaxapi.FUNCTION_RESULTS)


def opened_function(item: Call, region: Region, writer: Writer) -> Opened:
    """Write the equations of a call as a function with the arguments of the call."""
    program = writer.program
    lifter = program.lifter
    given = _arguments(item)
    found: list[Any] = []
    keep_types = program.options.keep_types
    unread = program.plan.unread
    trees = [
        without(plain(value, is_array, found, keep_types), unread)
        for value in given.values()
    ]
    captured = _captured(item, region, set(map(id, found)), writer)
    found += [array for group in captured for array, _ in group.parts]
    values = dict(zip(map(id, region.operands), region.block.inputs))
    inputs = [values.pop(id(a), None) or Value(jax.typeof(a)) for a in found]
    block = replace(region.block, inputs=tuple(inputs))
    program.alive.append(block)  # blocks are known by their id
    lifter.shared |= count_blocks(block)[1]
    lifter.hints.update(source_names(block))

    def build(frame: Frame) -> tuple[Parameters, list[str]]:
        values = dict(zip(map(id, found), inputs))
        first = [_unpack(group, values, frame) for group in captured]
        roots = [frame.names.fresh(identifier(name, "x")) for name in given]
        open_trees(trees, roots, block, frame)
        frame.read_dimensions(block.inputs)
        frame.body(block)
        texts = {id(a): frame.env[value] for a, value in zip(found, inputs)}
        for result, atom in zip(region.results, block.outputs):
            texts[id(result)] = output_text(atom, frame)
        frame.returns(_result(item.result, texts, program))
        return plain_head(*first, *roots), []

    name = module_function(lifter, block, opened_name(item.function, item.args), build)
    return Opened(name, captured, given)


def _captured(
    item: Call, region: Region, held: set[int], writer: Writer
) -> list[Captured]:
    """Group what a call needs besides its arguments by the names that hold it."""
    made = {*held, *map(id, region.results)}
    returned = [a for a in arrays_in(item.result) if isinstance(a, jaxapi.Tracer)]
    passed_on = [array for array in returned if id(array) not in made]
    needed = {id(a): a for a in [*region.operands, *passed_on] if id(a) not in held}
    groups: dict[int, list[tuple[Any, Found | None]]] = {}
    for array in needed.values():
        found = writer.find(id(array))
        key = id(array) if found is None else id(found[0])
        groups.setdefault(key, []).append((array, found))
    return list(map(_grouped, groups.values()))


def _grouped(group: list[tuple[Any, Found | None]]) -> Captured:
    """Make one parameter of the parts of what a name holds: the smallest sub-tree."""
    found = group[0][1]
    if found is None:
        return Captured("x", None, [(group[0][0], ())])
    paths = [part[1] for _, part in group if part is not None]
    shared = common(paths)
    hint = last_word(words_of(shared)) if shared else found[0].hint
    parts = [(array, path[len(shared) :]) for (array, _), path in zip(group, paths)]
    return Captured(identifier(hint, "x"), (found[0], shared), parts)


def _unpack(group: Captured, values: dict[int, Value], frame: Frame) -> str:
    """Write the access to captured arrays; return the parameter that holds them."""
    root = frame.names.fresh(group.hint)
    for array, path in group.parts:
        value = values[id(array)]
        if path:
            name = frame.define(value, last_word(words_of(path)))
            frame.lines.append(f"{name} = {root}{spelled(path)}")
        else:
            frame.env[value] = root
    return root


def _arguments(item: Call) -> dict[str, Any]:
    """Return the arguments that hold arrays by the names of their parameters."""
    named = given_arguments(_signed(item.function), item.args, item.kwargs)
    return {
        name: value
        for name, value in named.items()
        if has_array(value) and not is_function(value)
    }


def _signed(function: Any) -> Any:
    """Return the function whose signature a call follows."""
    if isinstance(function, jaxapi.Transformed):
        return _signed(function.function)
    return function


def _result(result: Any, texts: dict[int, str], program: Program) -> str:
    """Write the expression that returns what a call did."""
    arrays: list[Any] = []
    tree = plain(result, is_array, arrays, program.options.keep_types)
    tree = without(tree, program.plan.unread)
    program.define_classes(tree)
    lifter = program.lifter
    parts = [texts.get(id(a)) or lifter.constants.name(a) for a in arrays]
    return construct(tree, parts, lifter, program.classes, top=True)


def tree_target(result: Any, region: Region, program: Program) -> str:
    """Write how `RESULTS` would be assigned if a call returned what it did."""
    arrays: list[Any] = []
    tree = plain(result, is_array, arrays, program.options.keep_types)
    tree = without(tree, program.plan.unread)
    program.define_classes(tree)
    names = dict(zip(map(id, region.results), RESULTS))
    texts = [names.get(id(array), "?") for array in arrays]
    text = construct(tree, texts, program.lifter, program.classes, top=True)
    return text.replace("None", "_")


def output_text(atom: Atom, frame: Frame) -> str:
    """Write a result, which is traced even if it is a constant."""
    if type(atom) is not Literal:
        return frame.text(atom)
    is_weak = getattr(atom.aval, "weak_type", False)
    text = frame.bare_text(atom) if is_weak else frame.text(atom)
    return f"{frame.lifter.imports.module('jax.numpy')}.array({text})"


def hint_of(found: Found | None) -> str:
    """Name a parameter after what is passed."""
    if found is None:
        return "x"
    name, path = found
    is_index = len(path) == 1 and index_of(path[0]) is not None
    text = f"{name.hint}{spelled(path)}" if is_index or not path else spelled(path)
    return identifier(identifier(text), "x")
