"""Make constants whose values are not printed inputs of the jaxprs around them.

What an inner jaxpr has as a constant, it is called with: its value becomes an operand, and
so a constant of the jaxpr around it, up to the outermost one, whose constants are
arguments. A constant of a jaxpr that is used several times is one argument.
"""

from __future__ import annotations

from typing import Any

from untrace.readers.jaxprs.bodies import Body, bodies, scan_split
from untrace.readers.jaxprs.syntax import (
    Binder,
    Block,
    Blocks,
    Equation,
    Literal,
    Name,
    Printed,
)


def with_constants_as_inputs(tree: Printed) -> Printed:
    """Return a tree in which only the outermost jaxpr has constants."""
    if not tree.has_constants:
        return tree
    hoisting = _Hoisting(tree.shared)
    block = hoisting.block(tree.block)
    shared = {name: _opened(hoisting.block(each)) for name, each in tree.shared.items()}
    return tree._replace(shared=shared, block=block)


def _opened(block: Block) -> Block:
    """Return a jaxpr whose constants are its first inputs."""
    return block._replace(constvars=[], invars=[*block.constvars, *block.invars])


class _Hoisting:
    """What was done with the jaxprs of a text."""

    def __init__(self, shared: dict[str, Block]) -> None:
        self._shared = shared
        self._done: dict[int, Block] = {}

    def block(self, block: Block) -> Block:
        """Return a jaxpr with the constants of those in it as its own constants."""
        found = self._done.get(id(block))
        if found is None:
            self._done[id(block)] = block  # one that is in itself is refused later
            found = self._done[id(block)] = self._changed(block)
        return found

    def _changed(self, block: Block) -> Block:
        taken = {b.name for b in (*block.constvars, *block.invars)}
        taken.update(b.name for eqn in block.equations for b in eqn.binders)
        added = _Added(taken)
        equations = [self._equation(eqn, added) for eqn in block.equations]
        outvars = [added.atom(atom) for atom in block.outvars]
        constvars = [*block.constvars, *added.binders]
        return block._replace(constvars=constvars, equations=equations, outvars=outvars)

    def _equation(self, eqn: Equation, added: _Added) -> Equation:
        """Return an equation with the constants of its jaxprs as operands."""
        eqn = eqn._replace(operands=[added.atom(atom) for atom in eqn.operands])
        inner = bodies(eqn, self._shared)
        if not inner:
            return eqn
        done = [self.block(body.block) for body in inner]
        params = dict(eqn.params)
        if eqn.primitive == "cond":
            return _cond(eqn, inner, done, added)
        operands = list(eqn.operands)
        for body, block in zip(inner, done):
            names = [added.name(block, binder) for binder in block.constvars]
            if not isinstance(params[body.param], Name):
                params[body.param] = _opened(block)
            if not names:
                continue
            start = params["cond_nconsts"] if body.param == "body_jaxpr" else 0
            operands[start:start] = names
            _count(params, body.param, len(names))
        return eqn._replace(params=params, operands=operands)


def _count(params: dict[str, Any], param: str, n: int) -> None:
    """Count operands that were added in front."""
    if param in ("cond_jaxpr", "body_jaxpr"):
        name = f"{param.partition('_')[0]}_nconsts"
        params[name] += n
        return
    split = scan_split(params)
    if split is not None:
        params.pop("ft_in", None)
        params["num_consts"], params["num_carry"] = split[0] + n, split[1]
    elif isinstance(params.get("num_consts"), int):
        params["num_consts"] += n
    if isinstance(params.get("donated_invars"), tuple):
        params["donated_invars"] = (*[False] * n, *params["donated_invars"])


def _cond(
    eqn: Equation, inner: list[Body], done: list[Block], added: _Added
) -> Equation:
    """Give every branch the constants of all of them."""
    items: list[Any] = list(eqn.params["branches"].items)
    n_all = sum(len(block.constvars) for block in done)
    if not n_all or len(done) != len(items):
        blocks = [
            item if isinstance(item, Name) else _opened(block)
            for item, block in zip(items, done)
        ]
        blocks = blocks if len(done) == len(items) else items
        return _with_branches(eqn, blocks, eqn.operands)
    operands: list[Name] = []
    branches: list[Block] = []
    for position, block in enumerate(done):
        operands += [added.name(block, binder) for binder in block.constvars]
        binders = [
            binder._replace(name=binder.name if at == position else f"_{at}_{i}")
            for at, other in enumerate(done)
            for i, binder in enumerate(other.constvars)
        ]
        branches.append(block._replace(constvars=[], invars=[*binders, *block.invars]))
    return _with_branches(
        eqn, branches, [*eqn.operands[:1], *operands, *eqn.operands[1:]]
    )


def _with_branches(eqn: Equation, items: list[Any], operands: list[Any]) -> Equation:
    branches = Blocks(tuple(items), eqn.params["branches"].at)
    params = {**eqn.params, "branches": branches}
    return eqn._replace(params=params, operands=operands)


class _Added:
    """The constants that a jaxpr gets."""

    def __init__(self, taken: set[str]) -> None:
        self.binders: list[Binder] = []
        self._taken = taken
        self._names: dict[tuple[int, str], str] = {}

    def name(self, block: Block, binder: Binder) -> Name:
        """Return the constant that one of an inner jaxpr is here."""
        key = id(block), binder.name
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = self._new(binder.name, binder.type, binder.at)
        return Name(found, binder.at)

    def atom(self, atom: Any) -> Any:
        """Return an operand; a constant that is not printed is one of this jaxpr."""
        if not isinstance(atom, Literal) or atom.value is not ...:
            return atom
        return Name(self._new("constant", atom.type, atom.at), atom.at)

    def _new(self, wanted: str, kind: str, at: int) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        self.binders.append(Binder(name, kind, at))
        return name
