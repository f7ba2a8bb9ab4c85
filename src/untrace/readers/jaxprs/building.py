"""Make a jaxpr of the tree of a printed one.

Every equation is made by the rules of its primitive, which say the types of its results;
these must be those that are printed. Nothing of the text is executed.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from untrace.errors import ParseError
from untrace.jaxapi import printed, short_type
from untrace.readers.jaxprs import old_spellings, references, rules
from untrace.readers.jaxprs.bodies import CALLS, Body, bodies
from untrace.readers.jaxprs.constants import with_constants_as_inputs
from untrace.readers.jaxprs.defaults import with_defaults
from untrace.readers.jaxprs.params import Params
from untrace.readers.jaxprs.syntax import (
    Binder,
    Block,
    Blocks,
    Equation,
    Literal,
    Name,
    Printed,
)
from untrace.readers.jaxprs.types import Types
from untrace.readers.jaxprs.weak import WeakTypes


def build(tree: Printed, text: str) -> Any:
    """Return the closed jaxpr of a tree, whose constants are its first arguments.

    Raises:
      ParseError: If the tree is none, or does not hold all of it.
    """
    tree = with_constants_as_inputs(tree)
    builder = Builder(text, tree.shared)
    block = tree.block
    binders = [*block.constvars, *block.invars]
    block = block._replace(constvars=[], invars=binders)
    needs = builder.weak.of(block)
    avals = [
        builder.binder_type(binder, is_weak)
        for binder, is_weak in zip(binders, needs.inputs)
    ]
    return printed.closed(builder.block(block, avals, ()))


class Builder:
    """What is known while the jaxprs of one text are made."""

    def __init__(self, text: str, shared: dict[str, Block]) -> None:
        self.text = text
        self.shared = shared
        self.types = Types()
        self.weak = WeakTypes(shared)
        self.params = Params(self)
        self._made: dict[Any, Any] = {}
        self._mixed: dict[int, int] = {}
        self.alike: dict[Any, Any] = {}
        self._active: set[int] = set()
        self._short: dict[Any, str] = {}

    def fail(self, problem: str, at: int, advice: str = "") -> NoReturn:
        """Say that something in the text cannot be made."""
        raise ParseError(problem, self.text, at, advice)

    def inner(self, tree: Printed) -> Any:
        """Return the open jaxpr of one that stands with its own shared ones."""
        return Builder(self.text, tree.shared).from_text(tree.block)

    # -- types

    def type(self, text: str, at: int) -> Any:
        """Return the aval that a type says."""
        try:
            return self.types.read(text)
        except (ValueError, TypeError, OverflowError) as error:
            self.fail(f"{error}", at)

    def binder_type(self, binder: Binder, is_weak: bool = False) -> Any:
        """Return the aval of an input that only the text tells."""
        if not binder.type:
            self.fail(
                f"the type of `{binder.name}` is not printed",
                binder.at,
                "Print the jaxpr with types, as JAX does by default.",
            )
        aval = self.type(binder.type, binder.at)
        return printed.with_weak_type(aval, True) if is_weak else aval

    def short(self, aval: Any) -> str:
        """Write a type as JAX prints it."""
        found = self._short.get(aval)
        if found is None:
            found = self._short[aval] = short_type(aval)
        return found

    # -- jaxprs

    def shared_block(self, name: str, at: int) -> Block:
        """Return the jaxpr that `let name = ...` defines."""
        found = self.shared.get(name)
        if found is None:
            self.fail(
                f"no jaxpr is called `{name}`",
                at,
                f"The text must begin with `let {name} = {{ lambda ... }} in`.",
            )
        return found

    def from_text(self, block: Block) -> Any:
        """Return the open jaxpr of a block that takes no operands of an equation."""
        needs = self.weak.of(block)
        avals = [
            self.binder_type(binder, is_weak)
            for binder, is_weak in zip(block.invars, needs.inputs)
        ]
        return self.block(block, avals, ())

    def block(self, block: Block, avals: Sequence[Any], needed: tuple[int, ...]) -> Any:
        """Return the open jaxpr of a block at the types of its inputs.

        Args:
          block: It has no constants.
          avals: The types of its inputs.
          needed: Results that must be weak.
        """
        key = (id(block), tuple(avals), needed)
        found = self._made.get(key)
        if found is None:
            if id(block) in self._active:
                self.fail("this jaxpr is used in its own definition", block.at)
            self._active.add(id(block))
            made = BlockBuilder(self, block, avals, needed)
            jaxpr = made.made()
            self._active.discard(id(block))
            found = self._made[key] = jaxpr
            self._mixed[id(jaxpr)] = made.n_mixed
        return found

    def n_mixed(self, jaxpr: Any) -> int:
        """Return how many equations of a jaxpr mix weak and strong types.

        The functions of `jax.numpy` convert what they mix: more of such equations make it
        less likely that a type was weak.
        """
        return self._mixed[id(jaxpr)]

    # -- equations

    def inferred(
        self, eqn: Equation, primitive: Any, avals: Sequence[Any], params: Any
    ) -> tuple[list[Any], Any]:
        """Return the types of the results of an equation and its effects."""
        try:
            return printed.infer(primitive, avals, params)
        except ParseError:
            raise
        except Exception as error:  # the rules of primitives raise anything
            kinds = " ".join(map(short_type, avals))
            said = (str(error) or type(error).__name__).split("\n")[0]
            self.fail(f"`{eqn.primitive}` is not possible for {kinds}: {said}", eqn.at)


class BlockBuilder:
    """What is known while one jaxpr is made."""

    def __init__(
        self,
        builder: Builder,
        block: Block,
        avals: Sequence[Any],
        needed: tuple[int, ...],
    ) -> None:
        self.builder = builder
        self.tree = block
        self.needs = builder.weak.of(block, needed)
        self.needed = needed
        self.avals = avals
        self.env: dict[str, Any] = {}
        self.equations: list[Any] = []
        self.dropped: list[Any] = []
        self.n_mixed = 0

    def made(self) -> Any:
        """Return the open jaxpr."""
        tree, builder = self.tree, self.builder
        if tree.constvars:
            first = tree.constvars[0]
            builder.fail(
                f"the value of the constant `{first.name}` of an inner jaxpr is not "
                "printed",
                first.at,
                "Pass it to the function as an argument, and print the jaxpr again.",
            )
        if len(self.avals) != len(tree.invars):
            n, count = len(tree.invars), len(self.avals)
            builder.fail(f"this jaxpr takes {n} inputs, and is given {count}", tree.at)
        inputs = [
            self.bind(binder, aval) for binder, aval in zip(tree.invars, self.avals)
        ]
        for eqn in tree.equations:
            try:
                self.equation(eqn)
            except _OF_JAX as error:  # JAX's rules trust what they are given
                said = (str(error) or type(error).__name__).split("\n")[0]
                builder.fail(f"`{eqn.primitive}` is not possible: {said}", eqn.at)
        outputs = [
            self.result(atom, position) for position, atom in enumerate(tree.outvars)
        ]
        names = [binder.name for binder in tree.invars]
        return printed.assembled(inputs, outputs, self.equations, "function", names)

    def bind(self, binder: Binder, aval: Any) -> Any:
        """Return the variable of a binder, whose type must be the one that is known."""
        if binder.type:
            self.check(binder, aval)
        var = printed.variable(aval)
        if binder.name == "_":
            self.dropped.append(var)
        else:
            self.env[binder.name] = var
        return var

    def check(self, binder: Binder, aval: Any) -> None:
        """Compare the type of a binder with the one that is inferred.

        Raises:
          ParseError: If they differ.
        """
        kind = self.builder.short(aval)
        if binder.type == kind:
            return
        said = self.builder.type(binder.type, binder.at)
        if printed.is_same_array(said, aval):
            return
        self.builder.fail(
            f"`{binder.name}` is said to be {binder.type}, and is {kind}", binder.at
        )

    def result(self, atom: Any, position: int) -> Any:
        """Return a result of the jaxpr."""
        if isinstance(atom, Name):
            found = self.env.get(atom.text)
            if found is not None:
                return found
            if atom.text == "_":  # JAX calls all so that are not used further out
                return self.only_dropped(atom)
            atom = self.named_literal(atom)
        return self.literal(atom, position in self.needed, None)

    def only_dropped(self, name: Name) -> Any:
        """Return the only variable that is called `_`."""
        if len(self.dropped) != 1:
            n = len(self.dropped)
            self.builder.fail(f"which of {n} variables `_` is, is not printed", name.at)
        return self.dropped[0]

    def named_literal(self, name: Name) -> Literal:
        """Return the constant that a name is if no variable is called so."""
        value = {"inf": float("inf"), "nan": float("nan")}.get(name.text)
        if value is None:
            self.builder.fail(f"`{name.text}` is not defined before", name.at)
        return Literal(value, "", name.at)

    def literal(self, atom: Literal, is_weak: bool, like: Any) -> Any:
        """Return a literal; `like` is the aval that it has where it says none."""
        builder = self.builder
        if atom.value is ...:
            builder.fail(
                "the values of this constant are not printed",
                atom.at,
                "Pass it to the function as an argument, and print the jaxpr again.",
            )
        if atom.type:
            aval = builder.type(atom.type, atom.at)
        elif like is not None:
            aval = printed.array_type((), like.dtype)
        else:
            aval = printed.number_type(atom.value)
        is_weak = is_weak or printed.is_rounded(atom.value, aval.dtype)
        aval = printed.with_weak_type(aval, is_weak)
        try:
            return printed.literal(atom.value, aval)
        except (TypeError, ValueError, OverflowError) as error:
            builder.fail(f"this is no {builder.short(aval)}: {error}", atom.at)

    # -- equations

    def equation(self, eqn: Equation) -> None:
        """Make an equation and bind its results."""
        env, alike = self.env, self.builder.alike
        atoms = [
            env.get(atom.text) if type(atom) is Name else None for atom in eqn.operands
        ]
        key = self.key(eqn, atoms)
        found = None if key is None else alike.get(key)
        if found is None:
            inputs, *made = self.made_equation(eqn)
            is_ordered = len(inputs) == len(atoms) and all(
                one is None or one is other for one, other in zip(atoms, inputs)
            )
            if key is not None and is_ordered:
                literals = [
                    other if one is None else None for one, other in zip(atoms, inputs)
                ]
                alike[key] = literals, *made
        else:
            literals, *made = found
            inputs = [
                other if one is None else one for one, other in zip(atoms, literals)
            ]
            self.note_mixed(inputs)
        primitive, params, results, effects = made
        outputs = [self.bind(b, aval) for b, aval in zip(eqn.binders, results)]
        params = dict(params)  # JAX changes some in place
        self.equations.append(
            printed.equation(primitive, inputs, outputs, params, effects)
        )

    def key(self, eqn: Equation, atoms: list[Any]) -> Any:
        """Return what makes an equation alike another; None if it holds jaxprs."""
        params = eqn.params
        if eqn.primitive in CALLS or eqn.primitive in _HOLDING or "indices" in params:
            return None
        for name, value in params.items():
            if type(value) in _JAXPRS or name.endswith("jaxpr"):
                return None
        needed = self.needs.names
        kinds = [
            (type(atom), repr(atom.value), atom.type)
            if type(atom) is Literal
            else getattr(var, "aval", None)
            for atom, var in zip(eqn.operands, atoms)
        ]
        if None in kinds:
            return None
        binders = [(binder.type, binder.name in needed) for binder in eqn.binders]
        return eqn.primitive, eqn.written, tuple(binders), tuple(kinds)

    def made_equation(self, eqn: Equation) -> tuple[Any, ...]:
        """Return operands, primitive, params, types of results and effects."""
        builder = self.builder
        eqn = old_spellings.modern(eqn, builder)
        if "indices" in eqn.params:
            primitive, inputs, params = references.access(eqn, self)
        else:
            primitive = printed.primitive_named(eqn.primitive)
            params, inputs = self.operands_and_params(eqn)
            if primitive is None:
                primitive, params = self.primitive(eqn, params, inputs)
        avals = [atom.aval for atom in inputs]
        results, effects = builder.inferred(eqn, primitive, avals, params)
        if len(results) != len(eqn.binders):
            n, count = len(results), len(eqn.binders)
            builder.fail(
                f"`{eqn.primitive}` has {n} result{'s' * (n != 1)}, and {count} "
                f"variable{'s are' if count != 1 else ' is'} bound",
                eqn.at,
            )
        return inputs, primitive, params, results, effects

    def primitive(
        self, eqn: Equation, params: dict[str, Any], inputs: list[Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the primitive of an equation that names a class, and its params."""
        avals = [atom.aval for atom in inputs]
        if eqn.binders and eqn.binders[0].type:
            said = self.builder.type(eqn.binders[0].type, eqn.binders[0].at)
            params = {"out_dtype": getattr(said, "dtype", None), **params}
        try:
            found = printed.class_primitive(eqn.primitive, avals, params)
        except Exception as error:  # the class is JAX's
            said = str(error).split("\n")[0]
            self.builder.fail(
                f"what `{eqn.primitive}` holds is not printed: {said}", eqn.at
            )
        if found is None:
            known = printed.primitive_names()
            near = difflib.get_close_matches(eqn.primitive, known, 3)
            advice = (
                f"Is it {' or '.join(f'`{name}`' for name in near)}? " if near else ""
            )
            self.builder.fail(
                f"no primitive is called `{eqn.primitive}`",
                eqn.at,
                f"{advice}If a package defines it, import that first.",
            )
        return found

    def operands_and_params(self, eqn: Equation) -> tuple[dict[str, Any], list[Any]]:
        """Return the params and the operands of an equation."""
        inner = bodies(eqn, self.builder.shared)
        if inner:
            inputs, jaxprs = self.called(eqn, inner)
        else:
            inputs, jaxprs = self.operands(eqn), {}
        avals = [atom.aval for atom in inputs]
        params = self.builder.params.read(eqn, jaxprs)
        params = rules.with_rules(eqn, params, avals, self.builder)
        return with_defaults(eqn, params, avals, self.builder), inputs

    def operands(self, eqn: Equation) -> list[Any]:
        """Return the operands of an equation that calls nothing."""
        atoms = eqn.operands
        found = [
            self.env.get(atom.text) if isinstance(atom, Name) else None
            for atom in atoms
        ]
        if None not in found:
            self.note_mixed(found)
            return found
        others = [var.aval for var in found if var is not None]
        is_needed = any(binder.name in self.needs.names for binder in eqn.binders)
        wanted = self.literal_types(eqn, others)
        for position, atom in enumerate(atoms):
            if found[position] is None:
                if isinstance(atom, Name):
                    atom = self.named_literal(atom)
                found[position] = self.operand_literal(atom, wanted, others, is_needed)
        self.note_mixed(found)
        return found

    def note_mixed(self, atoms: list[Any]) -> None:
        """Count an equation that computes with a weak and a strong type."""
        kinds: dict[Any, bool] = {}
        for atom in atoms:
            is_weak = printed.is_weak(atom.aval)
            dtype = getattr(atom.aval, "dtype", None)
            if kinds.setdefault(dtype, is_weak) != is_weak:
                self.n_mixed += 1
                return

    def operand_literal(
        self, atom: Literal, wanted: list[Any], others: list[Any], is_needed: bool
    ) -> Any:
        """Return a literal operand: weak if everything beside it is."""
        if atom.type:
            like = self.builder.type(atom.type, atom.at)
        else:
            fitting = (
                aval for aval in wanted if printed.can_be(atom.value, aval.dtype)
            )
            like = next(fitting, None)
        dtype = None if like is None else getattr(like, "dtype", None)
        beside = [a.weak_type for a in others if getattr(a, "dtype", None) == dtype]
        return self.literal(atom, all(beside) if beside else is_needed, like)

    def literal_types(self, eqn: Equation, others: list[Any]) -> list[Any]:
        """Return the types that literals may have which say none, likeliest first."""
        if eqn.primitive == "random_fold_in":
            return [printed.array_type((), np.dtype(np.uint32))]
        found = [aval for aval in others if printed.is_plain_array(aval)]
        if eqn.binders and eqn.binders[0].type:
            said = self.builder.type(eqn.binders[0].type, eqn.binders[0].at)
            if printed.is_plain_array(said):
                first = eqn.primitive in _LIKE_RESULT
                found = [said, *found] if first else [*found, said]
        return found

    # -- jaxprs in equations

    def called(
        self, eqn: Equation, inner: list[Body]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the operands of an equation, and the jaxprs that it calls with them."""
        needed = [i for i, b in enumerate(eqn.binders) if b.name in self.needs.names]
        wanted = [tuple(body.results(needed)) for body in inner]
        atoms = self.given(eqn, inner, wanted)
        avals = [None if atom is None else atom.aval for atom in atoms]
        first = self.body(inner[0], avals, wanted[0])
        if inner[0].carried is None:
            first = self.weaker(eqn, inner, wanted, atoms, avals, first)
        loop = inner[0].carried
        while loop is not None:
            carried = inner[0].operands[loop:]
            weaker = [
                operand
                for operand, result in zip(carried, printed.result_types(first))
                if printed.is_weak(avals[operand]) and not printed.is_weak(result)
            ]
            if not weaker:
                break
            for operand in weaker:
                avals[operand] = printed.with_weak_type(avals[operand], False)
                if isinstance(eqn.operands[operand], Literal):
                    atoms[operand] = printed.retyped(atoms[operand], avals[operand])
            first = self.body(inner[0], avals, wanted[0])
        jaxprs: dict[str, list[Any]] = {inner[0].param: [first]}
        for body, results in zip(inner[1:], wanted[1:]):
            made = self.body(body, avals, results)
            jaxprs.setdefault(body.param, []).append(made)
        self.n_mixed += sum(
            self.builder.n_mixed(jaxpr) for found in jaxprs.values() for jaxpr in found
        )
        uncalled = [i for i, atom in enumerate(atoms) if atom is None]
        for i in uncalled:
            atoms[i] = self.operand(eqn.operands[i], False, None)
        return atoms, jaxprs

    def weaker(
        self,
        eqn: Equation,
        inner: list[Body],
        wanted: list[tuple[int, ...]],
        atoms: list[Any],
        avals: list[Any],
        strong: Any,
    ) -> Any:
        """Make the literals of a call weak, as numbers of Python are, if that may be.

        Returns the first jaxpr, and changes operands and their types.
        """
        numbers = [
            position
            for position, atom in enumerate(eqn.operands)
            if isinstance(atom, Literal)
            and atoms[position] is not None
            and avals[position].dtype in printed.DEFAULT_DTYPES
            and not printed.is_weak(avals[position])
        ]
        if not numbers:
            return strong
        weak = list(avals)
        for position in numbers:
            weak[position] = printed.with_weak_type(avals[position], True)
        try:
            found = self.body(inner[0], weak, wanted[0])
        except ParseError:  # such as of branches whose results differ then
            return strong
        if self.builder.n_mixed(found) > self.builder.n_mixed(strong):
            return strong
        for position in numbers:
            avals[position] = weak[position]
            atoms[position] = printed.retyped(atoms[position], weak[position])
        return found

    def given(
        self, eqn: Equation, inner: list[Body], wanted: list[tuple[int, ...]]
    ) -> list[Any]:
        """Return the operands of a call; None for what is no input of its jaxprs.

        A literal is as weak as the jaxpr needs it; what a loop carries is weak if it can.
        """
        found: list[Any] = [None] * len(eqn.operands)
        for body, results in zip(inner, wanted):
            needs = self.builder.weak.of(body.block, results).inputs
            for place, (position, binder) in enumerate(
                zip(body.operands, body.block.invars)
            ):
                if found[position] is not None and not needs[place]:
                    continue
                kind = binder.type
                like = self.builder.type(kind, binder.at) if kind else None
                is_carried = body.carried is not None and place >= body.carried
                atom = eqn.operands[position]
                found[position] = self.operand(atom, needs[place] or is_carried, like)
        return found

    def operand(self, atom: Any, is_weak: bool, like: Any) -> Any:
        """Return a variable, or a literal as it is wanted."""
        if isinstance(atom, Name):
            var = self.env.get(atom.text)
            if var is not None:
                return var
            atom = self.named_literal(atom)
        return self.literal(atom, is_weak, like)

    def index_literal(self, value: Any) -> Any:
        """Return a number in an index as a literal."""
        return printed.literal(value, printed.number_type(int(value)))

    def body(self, body: Body, avals: list[Any], results: tuple[int, ...]) -> Any:
        """Return a jaxpr that an equation calls with operands of some types."""
        given = [avals[position] for position in body.operands]
        if body.stacked is not None:
            first = body.stacked
            given[first:] = map(printed.item_type, given[first:])
        return self.builder.block(body.block, given, results)


_OF_JAX = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_HOLDING = ("custom_linear_solve",)
_JAXPRS = (Block, Blocks, Printed)
_LIKE_RESULT = ("select_n", "broadcast_in_dim", "full")
