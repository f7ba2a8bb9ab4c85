"""Write numbers as the program computed them from parameters and sizes of arrays.

`0.5 * step_size` says more than `0.0125`, `math.sqrt(q.shape[-1])` more than `2.828...`, and
functions that are called with other numbers have one text then. So does `1 - TAU`. Numbers
that depend on no parameter, no array and no constant of the user's module stay numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from untrace.lifting.recorded.building import binary, call, text_term
from untrace.lifting.recorded.naming.values import Found
from untrace.lifting.recorded.numbers.numbers import constant_name
from untrace.lifting.recorded.terms import Global, Name, Term, placed
from untrace.lifting.recorded.tree import Statement, flat
from untrace.lifting.recorded.writer import TurnKey, Writer
from untrace.lifting.spelling import spell
from untrace.optional import gives, optional
from untrace.recovery.record import Bounds, Formula
from untrace.syntax.names import identifier
from untrace.syntax.precedence import ATOM, UNARY


@optional(gives(None))
def formula_term(formula: Formula, writer: Writer) -> Term | None:
    """Write how a number was computed; None if that depends on nothing with a name."""
    return _term(formula, writer) if _depends(formula, writer) else None


def _depends(formula: Formula, writer: Writer) -> bool:
    if formula.array is not None:
        return _array(formula, writer) is not None
    if _is_literal(formula) and formula.is_outer:
        return _outer(formula, writer) is not None
    if formula.is_read_again and formula.symbol == "=":
        return True
    if formula.symbol.partition(".")[0] in _MODULES:
        return True
    if _found(formula, writer) is not None or _constant(formula, writer) is not None:
        return True
    outer = _outer(formula, writer) if formula.is_outer else writer
    if outer is None:
        return False
    return any(_depends(operand, outer) for operand in formula.operands)


def _is_literal(formula: Formula) -> bool:
    """Whether it is a variable that is assigned a number, `dt = 0.05`."""
    return formula.symbol == "=" and formula.is_constant


def _array(formula: Formula, writer: Writer) -> Found | None:
    """Return the name that an array has here, or in the functions around."""
    around: Writer | None = writer
    while around is not None:  # what calls this one would have to pass it
        if around.values.find(id(formula.array)) is not None:
            return writer.find(id(formula.array))
        around = around.parent
    return None


def _term(formula: Formula, writer: Writer) -> Term:
    array = _array(formula, writer) if formula.array is not None else None
    if array is not None and formula.is_length:
        return call(Term(["len"]), [writer.ref(array)])
    if array is not None:
        index = f"[{formula.axis}]" if formula.symbol == "shape" else ""
        parts = placed(writer.ref(array), ATOM)
        return Term([*parts, f".{formula.symbol}{index}"])
    found = _found(formula, writer)
    if found is not None:
        return writer.ref(found)
    constant = _constant(formula, writer)
    if constant is not None:
        return constant
    if not formula.symbol or not _depends(formula, writer):
        return writer.number(formula.value)
    if formula.symbol == "=":
        return _variable(formula, writer)
    write = _term if any(_depends(o, writer) for o in formula.operands) else _arithmetic
    return _computed(formula, [write(one, writer) for one in formula.operands], writer)


def _arithmetic(formula: Formula, writer: Writer) -> Term:
    """Write how a number is computed of others that have no names."""
    if formula.symbol in ("", "=") or formula.array is not None:
        return writer.number(formula.value)
    terms = [_arithmetic(operand, writer) for operand in formula.operands]
    return _computed(formula, terms, writer)


_MODULES = {"math": "math", "np": "numpy"}


def _computed(formula: Formula, terms: Sequence[Term], writer: Writer) -> Term:
    """Write what a formula does to its operands."""
    module, _, name = formula.symbol.partition(".")
    if name:
        module = writer.program.lifter.imports.module(_MODULES[module])
        return call(Term([Global(f"{module}.{name}")]), list(terms))
    if len(terms) == 1:
        return Term(["-", *placed(terms[0], UNARY)], UNARY)
    return binary(terms[0], formula.symbol, terms[1])


def _found(formula: Formula, writer: Writer) -> Found | None:
    if _is_literal(formula):  # other numbers that are alike are the same object
        return None
    if formula.in_loop:
        key = _turn_key(formula.name, formula.value, formula)
        name = writer.of_turns.get(key)
        return None if name is None else (name, ())
    if type(formula.value) is int:  # it may be one object wherever it comes from
        if formula.symbol != "=" or formula.is_outer:
            return writer.find_integer(formula.name, formula.value)
        # A function around may have a variable of the same name.
        name = writer.integers.get((formula.name, formula.value))
        is_known = not formula.is_reassigned or _is_taken(formula, writer)
        return (name, ()) if name is not None and is_known else None
    return (
        None if formula.is_constant else writer.find_float(formula.value, formula.name)
    )


def _is_taken(formula: Formula, writer: Writer) -> bool:
    """Whether a variable has the sizes of the same arrays, not of others like them."""
    return (formula.name, *map(id, formula.arrays())) in writer.sized_by


def _constant(formula: Formula, writer: Writer) -> Term | None:
    """Name a constant of the user's module, `1 - TAU`, or an argument that is static.

    What an object of the user holds is called like one of the module: `0.5 * DT`.
    """
    if _is_literal(formula):
        return None
    is_static = formula.is_given and _is_static(formula.name, writer)
    is_raised = is_static or formula.is_attribute
    if not (formula.is_constant or is_raised) or writer.in_library:
        return None
    if is_static and formula.name in _POSITIONS:
        return None
    name = constant_name(formula.name) if is_raised else formula.name
    if not name:
        return None
    text = spell(formula.value, writer.program.lifter.imports)
    return writer.program.numbers.constant(formula.value, text, name)


_POSITIONS = frozenset({"axes", "axis", "dim", "ord"})
"""What says no more than the number: `jnp.sum(x, axis=0)`."""


def _is_static(name: str, writer: Writer) -> bool:
    """Whether an argument is no parameter here, since it is known when JAX traces."""
    around: Writer | None = writer
    while around is not None and name not in around.dropped:
        around = around.parent
    return around is not None


def _turn_key(name: str, value: float, formula: Formula) -> TurnKey:
    return name, value, tuple(map(id, formula.arrays()))


def _variable(formula: Formula, writer: Writer) -> Term:
    """Assign a variable as soon as its operands are known: at the beginning, if possible.

    That of a function around is assigned there, that of a turn of a loop in that turn.
    """
    if formula.is_outer:
        outer = _outer(formula, writer)
        if outer is None:
            return writer.number(formula.value)
        if _is_literal(formula):
            made = _variable(replace(formula, is_outer=False), outer)
            (ref,) = made.refs()
            return writer.reach((ref.name, ()))
        _variable(replace(formula, is_outer=False), outer)
        found = writer.find_integer(formula.name, int(formula.value))
        return writer.ref(found) if found else writer.number(formula.value)
    (operand,) = formula.operands
    is_plain = not _depends(operand, writer)
    known = writer.plain_floats.get((formula.name, repr(formula.value)))
    if is_plain and known is not None:  # a function was written here before
        return writer.ref((known, ()))
    names = formula.names or (formula.name,)
    made = [Name(identifier(name), name != "_") for name in names]
    for name in made:
        writer.own(name)
    array = _array(operand, writer) if formula.names else None
    if array is None:
        write = _arithmetic if is_plain else _term
        computed = write(operand, writer)
        if _is_literal(formula):  # the number may have another name elsewhere
            computed = text_term(spell(operand.value, writer.program.lifter.imports))
        term, sizes = computed, (formula.value,)
    else:
        term = shape_of(writer.ref(array), formula.part)
        sizes = operand.array.shape[slice(*formula.part)]
    targets = made[0] if array is None else tuple(made)
    if formula.in_loop:
        for name, hint, size in zip(made, names, sizes):
            writer.of_turns[_turn_key(hint, size, formula)] = name
        item = writer.program.item
        assert item is not None
        statement = Statement(targets, term)
        writer.stand_with(item, statement)
        statement.site = item.place, formula.name  # not the place of the call itself
        place = max(_place(term, writer), _turn_start(statement, writer))
        for following in writer.draft.statements[place:]:
            statement.trail = following.trail  # in the order of the source
            break
        writer.draft.statements.insert(place, statement)
        return writer.ref((made[names.index(formula.name)], ()))
    if array is not None and len(names) == operand.array.ndim:
        writer.sizes_taken[id(operand.array)] = names
    for name, hint, size in zip(made, names, sizes):
        if hint != "_" and not _is_literal(formula):
            writer.hold_number(size, hint, name)
            writer.sized_by.add((hint, *map(id, formula.arrays())))
    if is_plain and type(formula.value) is not int:
        writer.plain_floats[formula.name, repr(formula.value)] = made[0]
    place = _place(term, writer)
    writer.draft.statements.insert(place, Statement(targets, term))
    writer.n_formulas += place == writer.n_formulas
    return writer.ref((made[names.index(formula.name)], ()))


def shape_of(array: Term, part: Bounds) -> Term:
    """Write `x.shape`, or a part of it between two bounds."""
    ends = ["" if end is None else str(end) for end in part]
    axes = f"[{':'.join(ends)}]" if any(ends) else ""
    return Term([*placed(array, ATOM), f".shape{axes}"])


def _outer(formula: Formula, writer: Writer) -> Writer | None:
    """Return what writes the function around in which the arrays of a formula are known.

    Of a variable that is assigned a number it is the function that has this variable.
    """
    arrays = list(formula.arrays())
    around = writer if arrays else writer.around()
    while around is not None:
        code = around.draft.code
        if _is_literal(formula):
            if code is not None and formula.name in code.co_cellvars:
                return around
        elif all(around.values.find(id(array)) is not None for array in arrays):
            return around
        around = around.around()
    return None


def _turn_start(statement: Statement, writer: Writer) -> int:
    """Return where the turn of a loop begins that is being written."""
    held = [(name, id(value)) for name, value in statement.turn]
    start = len(writer.draft.statements)
    for before in reversed(writer.draft.statements):
        if [(name, id(value)) for name, value in before.turn] != held:
            break
        start -= 1
    return start


def _place(term: Term, writer: Writer) -> int:
    """Return where an expression can be evaluated: behind all that gives it a value."""
    used = {id(ref.name) for ref in term.refs()}
    places = [
        index
        for index, statement in enumerate(writer.draft.statements)
        if any(id(name) in used for name in flat(statement.targets))
    ]
    return max([writer.n_formulas, *[place + 1 for place in places]])
