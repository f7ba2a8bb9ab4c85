"""Make one jaxpr of its tree, equation by equation.

Equations that are alike, operands of the same types included, are made once.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from untrace.jaxapi import new_var, printed
from untrace.readers.jaxprs import (
    old_spellings,
    pallas_calls,
    references,
    rules,
    shard_maps,
)
from untrace.readers.jaxprs.bodies import CALLS, bodies
from untrace.readers.jaxprs.calls import Calls
from untrace.readers.jaxprs.defaults import with_defaults
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import (
    Binder,
    Block,
    Blocks,
    Equation,
    Literal,
    Name,
    Printed,
)


class BlockBuilder(Calls):
    """What is known while one jaxpr is made.

    Attributes:
      dropped: Variables that are called `_`.
    """

    def __init__(
        self,
        builder: Making,
        block: Block,
        avals: Sequence[Any],
        needed: tuple[int, ...],
    ) -> None:
        super().__init__(builder, block, avals, builder.weak.of(block, needed))
        self.needed = needed
        self.equations: list[Any] = []
        self.dropped: list[Any] = []

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
        var = new_var(aval)
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

    # -- equations

    def equation(self, eqn: Equation) -> None:
        """Make an equation and bind its results."""
        env, alike = self.env, self.builder.alike
        for atom in eqn.operands:  # a result of this jaxpr that is not used further out
            if type(atom) is Name and atom.text == "_":
                env["_"] = self.only_dropped(atom)
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
        env.pop("_", None)
        primitive, params, results, effects = made
        outputs = [self.bind(b, aval) for b, aval in zip(eqn.binders, results)]
        params = dict(params)  # JAX changes some in place
        self.equations.append(
            printed.equation(
                primitive, inputs, outputs, params, effects, self.builder.line(eqn.at)
            )
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
        mesh = self.builder.mesh
        return eqn.primitive, eqn.written, tuple(binders), tuple(kinds), mesh

    def made_equation(self, eqn: Equation) -> tuple[Any, ...]:
        """Return operands, primitive, params, types of results and effects."""
        builder = self.builder
        eqn = old_spellings.modern(eqn, builder)
        if eqn.primitive == "shard_map":
            inputs = self.operands(eqn)
            return inputs, *shard_maps.made(eqn, inputs, builder)
        if eqn.primitive == "pallas_call":
            inputs = self.operands(eqn)
            return inputs, *pallas_calls.made(eqn, inputs, builder)
        if "indices" in eqn.params:
            primitive, inputs, params = references.access(eqn, self)
        else:
            primitive = printed.primitive_named(eqn.primitive)
            params, inputs = self.operands_and_params(eqn)
            if primitive is None:
                primitive, params = self.primitive(eqn, params, inputs)
        params = builder.known(eqn, primitive, params)
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


_OF_JAX = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_HOLDING = ("custom_linear_solve",)
_JAXPRS = (Block, Blocks, Printed)
