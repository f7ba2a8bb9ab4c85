"""Write recorded calls: operators, methods, public functions, transformations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from untrace import jaxapi
from untrace.capture.capture import function_name
from untrace.lifting.recorded.arguments import plain_arguments, public_arguments
from untrace.lifting.recorded.callables import transformed_call
from untrace.lifting.recorded.custom_rules import custom_term
from untrace.lifting.recorded.definitions import (
    bound_parameters,
)
from untrace.lifting.recorded.equations import equation_term
from untrace.lifting.recorded.function import Draft
from untrace.lifting.recorded.library import (
    shorter,
)
from untrace.lifting.recorded.operators import (
    method_term,
    operator_term,
    update_term,
)
from untrace.lifting.recorded.own_calls import write_own_call
from untrace.lifting.recorded.runs import runs_of
from untrace.lifting.recorded.terms import (
    ATOM,
    Term,
    call,
    placed,
)
from untrace.lifting.recorded.unwrapping import unwrapped
from untrace.lifting.recorded.unwritable import UnknownArray, Unwritable
from untrace.lifting.recorded.values import arrays_in, has_array, is_array
from untrace.lifting.recorded.writer import (
    Writer,
)
from untrace.lifting.spell_homes import public_name
from untrace.recovery.record import Body, Call

if TYPE_CHECKING:
    from untrace.lifting.recorded.program import Program


class Unrolled(Exception):
    """A function that did different things for different leaves of a tree."""


class Calls:
    """Writes calls for one module."""

    def __init__(self, program: Program) -> None:
        self.program = program

    # ---- statements ----------------------------------------------------------------

    def write(self, item: Call, writer: Writer) -> None:
        """Write a call as statements of a function."""
        function = item.function
        if function is None:
            write_own_call(item, writer)
        elif isinstance(function, jaxapi.Operator):
            writer.assign(item, operator_term(item, writer))
        elif isinstance(function, jaxapi.Method):
            shown = shorter(item) if writer.in_library else item
            writer.assign(item, method_term(shown, writer))
        elif isinstance(function, jaxapi.Property):
            owner = writer.value(item.args[0])
            if function.name != "at":
                term = Term([*placed(owner, ATOM), f".{function.name}"])
                writer.assign(item, term)
        elif isinstance(function, jaxapi.Update):
            writer.assign(item, update_term(item, writer))
        elif isinstance(function, jaxapi.Primitive):
            writer.assign(item, equation_term(item, writer))
        elif not self._is_maker(item):
            shown = unwrapped(shorter(item)) if writer.in_library else item
            try:
                term = self._call(shown, writer)
            except Unrolled:
                for run in item.bodies:
                    writer.body(run.calls)
                writer.rename(item.result, item.target)
            else:
                writer.assign(item, term, shown)

    @staticmethod
    def _is_maker(item: Call) -> bool:
        """Tell whether a call only made a function, which is written where it is used."""
        return callable(item.result) and jaxapi.transformed(item.result) is not None

    # ---- public functions ----------------------------------------------------------

    def _call(self, item: Call, writer: Writer) -> Term:
        function = item.function
        is_linearized = jaxapi.is_linearized(function)
        key = id(function) if is_linearized else writer.values.key(function)
        known = writer.find(key) if key is not None else None
        if known is None and is_linearized:
            raise Unwritable("a function of `jax.linearize` that no recorded call made")
        if known is not None:
            return call(
                writer.ref(known), plain_arguments(item.args, item.kwargs, writer)
            )
        home = public_name(function)
        if home is not None and home[0].startswith("jax.tree"):
            return self._tree_call(home, item, writer)
        if home is not None:
            text = self.program.home_term(home)
            args = public_arguments(item, writer)
            return call(text, args)
        if isinstance(function, jaxapi.Transformed):
            return transformed_call(function, item, writer)
        if isinstance(function, (jaxapi.CUSTOM_JVP, jaxapi.CUSTOM_VJP)):
            made = custom_term(function, item.bodies, writer, item.args)
            fixed = set(function.nondiff_argnums)
            args = [a for i, a in enumerate(item.args) if i not in fixed]
            return call(made, plain_arguments(args, item.kwargs, writer))
        raise Unwritable(f"`{function_name(function)}` has no public name")

    def _tree_call(self, home: tuple[str, str], item: Call, writer: Writer) -> Term:
        """Write `jax.tree.map(f, tree)`, if `f` did the same for every leaf."""
        if writer.in_library and home[1] in ("map", "tree_map") and _is_leaf_map(item):
            function, *leaves = item.args
            if not item.bodies:
                operator = jaxapi.Operator(function.__name__)
                shown = replace(item, function=operator, args=tuple(leaves), kwargs={})
                return operator_term(shown, writer)
            raise Unrolled
        runs = [
            run
            for run in runs_of(item.args[0] if item.args else None, item.bodies)
            if has_array(run.result) or any(map(has_array, run.parameters.values()))
        ]
        if item.kwargs.get("is_leaf") is not None and any(map(_takes_trees, runs)):
            raise Unrolled
        if any(map(_makes_arrays, runs)):
            raise Unrolled
        if not runs and home[1] in ("map", "tree_map") and _has_more(item):
            raise Unwritable("it makes arrays of what is none")
        kwargs = {k: v for k, v in item.kwargs.items() if k != "is_leaf"}
        item = replace(item, bodies=runs, kwargs=kwargs)
        self.program.n_trials += 1
        try:
            texts = {self._run_text(run, writer) for run in runs}
            if len(texts) <= 1:
                return call(
                    self.program.home_term(home), public_arguments(item, writer)
                )
        except UnknownArray:
            raise
        except Unwritable:  # a tree of what is no array directs the function
            pass
        finally:
            self.program.n_trials -= 1
        raise Unrolled

    def _run_text(self, run: Body, writer: Writer) -> Any:
        """Return the text of one run of a function, to compare it with others."""
        draft = Draft("run")
        inner = Writer(self.program, draft, parent=writer)
        inner.parameters(run.parameters, run.code, bound_parameters(run.function, run))
        inner.unpack_parameters(run.parameters, run.code)
        inner.body(run.calls)
        draft.result = inner.value(run.result)
        draft.finish()
        made = draft.render()
        return made.parameters, tuple(made.lines)

    # ---- definitions ---------------------------------------------------------------

    @staticmethod
    def wrapper_name(item: Call, name: str) -> str:
        """Name a program that is one call of a transformed function."""
        if isinstance(item.function, jaxapi.Transformed):
            return f"{name}_{item.function.maker[1]}"
        return name


def _is_leaf_map(item: Call) -> bool:
    """Tell whether an operator, or a function that ran once, is mapped over one array."""
    function, *trees = item.args
    if item.bodies:
        is_leaf = is_array(trees[0]) and is_array(item.result)
        return is_leaf and len(item.bodies) == 1
    is_operator = getattr(function, "__module__", "") == "_operator"
    return is_operator and all(map(is_array, [*trees, item.result]))


def _takes_trees(body: Body) -> bool:
    """Tell whether a function was given what is neither an array nor None."""
    return any(
        value is not None and not is_array(value) for value in body.parameters.values()
    )


def _makes_arrays(body: Body) -> bool:
    """Tell whether a function made an array of what is none."""
    is_given = any(map(has_array, body.parameters.values()))
    return has_array(body.result) and not is_given


def _has_more(item: Call) -> bool:
    """Tell whether a result holds more arrays than the tree it was made of."""
    return len(arrays_in(item.result)) > len(arrays_in(item.args[1:2]))
