"""Evaluating the functions of a module under a trace, by the numbers of their values.

Only what the results need is evaluated, where it is first made, and again where its block
makes it again (`variables`). A number that an idiom was found for is what that idiom
gives, so the operations behind it are not needed any more.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from untrace import jaxapi
from untrace.errors import LoadError
from untrace.jaxapi.module_types import (
    Block,
    Function,
    Module,
    Operation,
    TensorType,
    Value,
)
from untrace.readers.stablehlo.calls import Call
from untrace.readers.stablehlo.collectives import COLLECTIVES, manual_computation
from untrace.readers.stablehlo.control import CONTROL, branches, composite
from untrace.readers.stablehlo.custom_calls import custom_call
from untrace.readers.stablehlo.elementwise import ELEMENTWISE
from untrace.readers.stablehlo.identities import CALLS, has_effects
from untrace.readers.stablehlo.numbering import Constant, Numbering
from untrace.readers.stablehlo.operands import Operands
from untrace.readers.stablehlo.refusals import why_refused
from untrace.readers.stablehlo.regions import REGIONS
from untrace.readers.stablehlo.scopes import relative_scopes
from untrace.readers.stablehlo.shapes import SHAPES, is_wide
from untrace.readers.stablehlo.sizes import (
    MAX_ITEMS,
    Sizes,
    computed,
    has_dynamic,
    is_symbolic,
)
from untrace.readers.stablehlo.sources import made_at
from untrace.readers.stablehlo.static_shapes import STATIC_SHAPES
from untrace.readers.stablehlo.variables import Variables

Values = MutableMapping[int, Any]
TEMPLATES: dict[str, Callable[..., Any]] = {
    **ELEMENTWISE,
    **SHAPES,
    **STATIC_SHAPES,
    **REGIONS,
    **CONTROL,
    **COLLECTIVES,
    "stablehlo.custom_call": custom_call,
}


class WideError(Exception):
    """A value has 64 bits, and JAX computes in 32."""


class Idiom(NamedTuple):
    """What gives some values at once: a function of the values with numbers `operands`.

    An operand that the function does not use is None.
    """

    function: Callable[..., Sequence[Any]]
    operands: tuple[int | None, ...]
    results: dict[int, int]


class Frame:
    """A function of a module, its values numbered."""

    def __init__(
        self,
        module: Module,
        function: Function,
        numbering: Numbering,
        find: Callable[[Frame, Block, int], list[Idiom]],
        call: Callable[[str], Callable[..., list[Any]]],
    ) -> None:
        """Number a function.

        `find` looks for idioms in a block at a depth, and `call` returns functions of
        the module by their names.
        """
        self.module = module
        self.function = function
        self.numbering = numbering
        self.numbers: dict[Value, int] = {}
        self._find = find
        self._call = call
        self._idioms: dict[Block, dict[int, Idiom]] = {}
        self.arguments = numbering.arguments(function.name, function.block.arguments)
        numbering.function(module, function, self.arguments, self.numbers)
        self.variables = Variables(function.block, numbering, self.numbers)
        self.operands = Operands(
            module, function.block, numbering, self.numbers, self.variables
        )
        self.is_dynamic = has_dynamic(module)

    def run(self, *args: Any) -> list[Any]:
        """Evaluate the function."""
        values: Values = ChainMap(dict(zip(self.arguments, args, strict=True)))
        block = self.function.block
        wanted = [self.variables.of[value] for value in block.returned]
        return self.evaluate(block, wanted, values, 0, self.function.scopes)

    def evaluate(
        self,
        block: Block,
        wanted: Sequence[int],
        values: Values,
        depth: int,
        scopes: str,
        known: dict[int, Idiom] | None = None,
    ) -> list[Any]:
        """Evaluate what a block makes that is wanted, and return that."""
        idioms = self._idioms_in(block, depth) if known is None else known
        again: dict[int, list[int]] = {}
        for variable, number in self.variables.repeated[block].items():
            again.setdefault(number, []).append(variable)
        _share(again, values, again)  # what is known before is not made here at all
        needed = self._needed(block, wanted, values, idioms)
        for operation in block.operations:
            made = [self.variables.of[value] for value in operation.results]
            todo = [n for n in made if n in needed and not self._is_known(n, values)]
            if not todo and not has_effects(operation):
                continue
            with _named(operation, scopes), made_at(operation.place.frames):
                for number in todo:
                    if number in idioms and number not in values:
                        idiom = idioms[number]
                        args = [
                            None if n is None else self.value(n, values)
                            for n in idiom.operands
                        ]
                        results = idiom.function(*args)
                        for one, index in idiom.results.items():
                            values[one] = results[index]
                        _share(again, values, idiom.results)
                if any(n not in values for n in todo) or not todo:
                    results = self._results(operation, values, depth)
                    for number, result in zip(made, results):
                        if number not in values:
                            values[number] = result
        return [self.value(number, values) for number in wanted]

    def _is_known(self, number: int, values: Values) -> bool:
        if number in values or isinstance(self.numbering.keys[number], Constant):
            return True
        sizes = self.sizes(number, values)
        return sizes is not None and is_symbolic(sizes.items)

    def sizes(
        self, number: int, values: Values, known: dict[int, Any] | None = None
    ) -> Sizes | None:
        """Return a value as integers and symbolic dimensions; None if it is none of them."""
        if not self.is_dynamic:
            return None
        known = {} if known is None else known
        if number not in known:
            known[number] = None  # until it is found
            known[number] = self._sizes(number, values, known)
        return known[number]

    def _sizes(
        self, number: int, values: Values, known: dict[int, Any]
    ) -> Sizes | None:
        kind, key = self.numbering.type(number), self.numbering.keys[number]
        given = values.get(number)
        if isinstance(given, Sizes) or not isinstance(kind, TensorType):
            return given if isinstance(given, Sizes) else None
        if isinstance(key, Constant):
            content = self._constant(number)
            is_small = content.size <= MAX_ITEMS and kind.dtype.kind in "iub"
            return Sizes(content.astype(object), kind.dtype) if is_small else None
        made = self.numbering.made(number)
        if made is None or not made.operands or made.regions:
            return None
        if made.name == "stablehlo.get_dimension_size":
            array = values.get(made.operands[0])
            if array is None or isinstance(array, Sizes):
                return None
            item = array.shape[int(dict(made.attributes)["dimension"][1])]
            return Sizes(np.array(item, object), kind.dtype)
        operands = [self.sizes(one, values, known) for one in made.operands]
        given = [one.items for one in operands if one is not None]
        if len(given) < len(operands):
            return None
        attributes = dict(made.attributes)
        items = computed(made.name, attributes, kind, given)
        return None if items is None else Sizes(items, kind.dtype)

    def value(self, number: int, values: Values) -> Any:
        """Return a value that is known, or a constant, which each block makes itself."""
        key = self.numbering.keys[number]
        own = values.maps[0] if isinstance(values, ChainMap) else values
        if number in (own if isinstance(key, Constant) else values):
            found = values[number]
            return found.as_array() if isinstance(found, Sizes) else found
        if not isinstance(key, Constant):
            sizes = self.sizes(number, values)
            if sizes is not None:
                return sizes.as_array()
            alike = self._alike(number, values)
            if alike is not None:
                return values[alike]
            raise LoadError(
                f"cannot read `{self.function.name}`: a value is used before it is made. "
                "Please report the module."
            )
        if is_wide(key.type) and not jaxapi.is_wide():
            raise WideError
        shape, dtype = key.type
        content = np.frombuffer(key.content, dtype)
        if not shape:
            return content[0]
        if not key.element:
            return content.reshape(shape)
        made = values[number] = lax.full(shape, content[0], dtype)
        return made

    def _alike(self, number: int, values: Values) -> int | None:
        """Return the variable by which a region is given what it asks for by another."""
        first = self.numbering.first
        return next((n for n in values if first(n) == first(number)), None)

    def _known(self, number: int, values: Values) -> Any:
        """Return the content of a value that is known, or the sizes that it is."""
        if isinstance(self.numbering.keys[number], Constant):
            return self._constant(number)
        sizes = self.sizes(number, values)
        return None if sizes is None else sizes.items

    def _constant(self, number: int) -> Any:
        """Return the content of a value that is known; None if it is not."""
        key = self.numbering.keys[number]
        if not isinstance(key, Constant):
            return None
        shape, dtype = key.type
        content = np.frombuffer(key.content, dtype)
        return np.full(shape, content[0]) if key.element else content.reshape(shape)

    def region(
        self,
        block: Block,
        values: Values,
        depth: int,
        scopes: str,
        bound: Iterable[int] = (),
        is_body: bool = False,
    ) -> Callable[..., list[Any]]:
        """Return a region as a function of its arguments but for those in `bound`.

        Those are no results of the body of a loop, either.
        """
        bound = set(bound)
        free = [v for i, v in enumerate(block.arguments) if i not in bound]
        dropped = bound if is_body else ()
        kept = [v for i, v in enumerate(block.returned) if i not in dropped]
        wanted = [self.variables.of[value] for value in kept]

        def evaluated(*args: Any) -> list[Any]:
            given = dict(zip((self.numbers[v] for v in free), args, strict=True))
            inner: Values = ChainMap(given, *_maps(values))
            return self.evaluate(block, wanted, inner, depth + 1, scopes)

        return evaluated

    def _idioms_in(self, block: Block, depth: int) -> dict[int, Idiom]:
        found = self._idioms.get(block)
        if found is None:
            idioms = sorted(self._find(self, block, depth), key=_n_results)
            found = {n: idiom for idiom in idioms for n in idiom.results}
            self._idioms[block] = found
        return found

    def _needed(
        self,
        block: Block,
        wanted: Sequence[int],
        values: Values,
        idioms: dict[int, Idiom],
    ) -> set[int]:
        """Return the numbers that the wanted ones are made of."""
        needed = set(wanted)
        repeated = self.variables.repeated[block]
        for operation in reversed(block.operations):
            made = {self.variables.of[value] for value in operation.results}
            shared = {n for n in made & needed if repeated.get(n) in idioms}
            needed.update(repeated[n] for n in shared)
            rest = (made & needed) - shared
            asked = {n for n in rest if not self._is_known(n, values)}
            if not asked and not has_effects(operation):
                continue
            for number in asked & idioms.keys():
                needed.update(n for n in idioms[number].operands if n is not None)
            if asked - idioms.keys() or not asked:
                needed.update(self.operands.of(operation))
                if operation.name == "stablehlo.while":
                    needed.update(
                        self.variables.of[value] for value in operation.operands
                    )
                for inner in operation.regions:
                    needed.update(self.variables.captured(inner))
        return needed

    def _results(self, operation: Operation, values: Values, depth: int) -> list[Any]:
        """Evaluate an operation by its template, and check what comes out."""
        for value in (*operation.operands, *operation.results):
            if is_wide(value.type) and not jaxapi.is_wide():
                raise WideError
        numbers = self.operands.of(operation)
        if operation.name in CALLS:
            given = [self._passed(number, values) for number in numbers]
            return self._call(operation.attributes["callee"])(*given)
        args = [self.value(number, values) for number in numbers]
        scopes = operation.place.scopes
        if operation.name == "sdy.sharding_constraint":
            return args
        bound: list[int] = []
        if operation.name == "stablehlo.while":
            bound = self.numbering.unchanged(self.module, operation.regions[1])
        call = Call(
            operation,
            self.function.name,
            lambda block: self.region(
                block, values, depth, scopes, bound, block is operation.regions[-1]
            ),
            [self._known(self.numbers[value], values) for value in operation.operands],
            self._named_blocks(operation),
        )
        try:
            results = self._stated(call, args, values, depth)
        except (LoadError, WideError, RecursionError):
            raise
        except Exception as error:  # JAX refuses in its own ways what it does not have
            said = " ".join(str(error).split())[:300]
            raise call.refused(
                f"is refused by JAX: {type(error).__name__}: {said}"
            ) from None
        call.check()
        results = list(results) if isinstance(results, list | tuple) else [results]
        self._check(call, results, bound)
        if bound:
            changed = iter(results)
            kept = {i: self.variables.of[operation.operands[i]] for i in bound}
            results = [
                self.value(kept[i], values) if i in kept else next(changed)
                for i in range(len(operation.results))
            ]
        return results

    def _named_blocks(self, operation: Operation) -> dict[str, Block]:
        """Return the blocks of the functions that an operation computes with."""
        names: Any = operation.attributes.get("called_computations") or ()
        functions = self.module.functions
        return {name: functions[name].block for name in names if name in functions}

    def _passed(self, number: int, values: Values) -> Any:
        """Return an argument of a function: a value, or sizes as such."""
        sizes = self.sizes(number, values)
        if sizes is not None and is_symbolic(sizes.items):
            return sizes
        return self.value(number, values)

    def _stated(self, call: Call, args: list[Any], values: Values, depth: int) -> Any:
        if call.name == "mhlo.fusion":
            return self._fusion(call, args, values, depth)
        if call.name == "stablehlo.case":
            return self._case(call, args, values, depth)
        if call.name == "sdy.manual_computation":
            (block,) = call.operation.regions
            return manual_computation(call, self._apart(call, block, depth), *args)
        if call.name == "stablehlo.composite":
            return composite(call, self._call(call["decomposition"]), *args)
        template = TEMPLATES.get(call.name)
        if template is None:
            raise call.refused(*why_refused(call.name))
        return template(call, *args)

    def _apart(self, call: Call, block: Block, depth: int) -> Callable[..., Any]:
        """Return a region that takes nothing from outside but its arguments."""
        scopes = call.operation.place.scopes
        return lambda *args: self.region(block, ChainMap(), depth, scopes)(*args)

    def _fusion(self, call: Call, args: list[Any], values: Values, depth: int) -> Any:
        """State what XLA has fused by what it is made of."""
        call.ignore("fusion_kind", "output_operand_aliasing")
        (block,) = call.operation.regions
        given = {self.variables.of[v]: x for v, x in zip(block.arguments, args)}
        inner: Values = ChainMap(given, *_maps(values))
        wanted = [self.variables.of[value] for value in block.returned]
        scopes = call.operation.place.scopes
        return self.evaluate(block, wanted, inner, depth, scopes)

    def _case(self, call: Call, args: list[Any], values: Values, depth: int) -> Any:
        """State a choice by number as what of JAX makes the number as it is made here."""
        operation = call.operation
        numbers = [self.numbers[value] for value in operation.operands]
        branch = self.numbering.taken(operation, numbers)
        if branch is not None:
            return self.region(branch, values, depth - 1, operation.place.scopes)()
        made = self.numbering.made(numbers[0])
        if made is None or not self.operands.decides(made, len(operation.regions)):
            free = set[int]().union(*map(self.variables.captured, operation.regions))
            return self._unclamped(call, args[0], sorted(free), values, depth)
        if made.name == "stablehlo.clamp":
            return lax.switch(args[0], branches(call))
        no, yes = branches(call)
        return lax.cond(args[0], yes, no)

    def _unclamped(
        self, call: Call, index: Any, free: list[int], values: Values, depth: int
    ) -> Any:
        """State a choice by any number: the last branch, if it is none of a branch."""
        outer = [self.value(number, values) for number in free]

        def branch(block: Block) -> Callable[..., list[Any]]:
            def evaluated(*args: Any) -> list[Any]:
                inner: Values = ChainMap(dict(zip(free, args)))
                return self.region(block, inner, depth, call.operation.place.scopes)()

            return evaluated

        return jaxapi.unclamped_switch(
            index, [branch(block) for block in call.operation.regions], outer
        )

    def _check(self, call: Call, results: list[Any], bound: list[int]) -> None:
        """Refuse results of other types than the module has, but for those in `bound`."""
        made = [v for i, v in enumerate(call.operation.results) if i not in bound]
        wanted = [call.checked(value.type) for value in made]
        found = [TensorType(np.shape(x), np.dtype(x.dtype)) for x in results]
        if len(wanted) != len(found) or not all(map(_fits, wanted, found)):
            raise call.refused(
                f"has results {_types(wanted)}, and what JAX makes of it has {_types(found)}"
            )


def _fits(wanted: TensorType, found: TensorType) -> bool:
    """Whether a type is another one, of which some sizes may not be known."""
    if wanted.dtype != found.dtype or len(wanted.shape) != len(found.shape):
        return False
    return all(a is None or a == b for a, b in zip(wanted.shape, found.shape))


def _n_results(idiom: Idiom) -> int:
    return len(idiom.results)


def _types(types: Sequence[TensorType]) -> str:
    return ", ".join(f"{kind.dtype}{[*kind.shape]}" for kind in types) or "none"


def _maps(values: Values) -> list[Any]:
    return values.maps if isinstance(values, ChainMap) else [values]


def _share(again: dict[int, list[int]], values: Values, numbers: Iterable[int]) -> None:
    """Take for what is repeated what is known of its number, of some numbers."""
    for number in numbers:
        if number in values:
            values.update(dict.fromkeys(again.get(number, ()), values[number]))


def _named(operation: Operation, outer: str) -> Any:
    """Return the named scope that an operation is in, besides those around it."""
    names = relative_scopes(operation.place.scopes, outer)
    return jax.named_scope("/".join(names)) if names else nullcontext()
