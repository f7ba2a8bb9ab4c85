"""Names for numbers that repeat: `EPS = 1e-06` at the top of the module.

A number has a name if the user's source, or the parameter that takes it, has a good one
for it. Two numbers that claim one name keep none; two names of one number are two
constants. What is written only once in the end stays a number, unless the user has written
a name like that of a constant, `GAMMA`, or one of his module's.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any

from untrace.lifting.printing import Function
from untrace.lifting.recorded.terms import Constant, Global, Literal, Term
from untrace.lifting.recorded.tree import Draft
from untrace.optional import gives, makes, optional
from untrace.recovery.numbers import NumberKey, is_plain_number, number_key
from untrace.syntax.names import Scope, identifier
from untrace.syntax.parsed import Parsed, parsed, replaced
from untrace.syntax.precedence import ATOM, UNARY, level_at

MIN_USES = 2
MIN_LETTERS = 2
# They say no more than that there is a number.
VAGUE = frozenset(
    {"val", "value", "num", "number", "scalar", "const", "constant", "arg", "other"}
    | {"fill_value", "constant_values", "initial", "init", "item", "result", "tmp"}
)


class Numbers:
    """The named numbers of one module.

    Args:
      scope: The names of the module.
      refused: Names that are not to be used; more are added.
      is_on: Whether numbers have names at all.

    Attributes:
      roles: The names that the call being written has for its numbers.
      held: The numbers that variables of its expression hold; None if that is unknown.
      module_names: The names among them that are the module's; the user's stay.
      inlined: The numbers that lost their names in the end, by these.
    """

    def __init__(self, scope: Scope, refused: set[str], is_on: bool) -> None:
        self.roles: dict[NumberKey, str] = {}
        self.held: Set[NumberKey] | None = None
        self.module_names: Set[str] = frozenset()
        self.inlined: dict[str, str] = {}
        self._scope = scope
        self._refused = refused
        self._is_on = is_on
        self._known: dict[str, tuple[NumberKey, Constant]] = {}
        self._kept: set[str] = set()
        # Written where `x + -0.5` would stand, and nowhere else.
        self._signed: set[str] = set()

    @optional(gives(None))
    def term(
        self, value: Any, text: str, role: str = "", is_library: bool = False
    ) -> Term | None:
        """Refer to a number by its name, if it has one.

        Args:
          value: The number.
          text: How to write it.
          role: What it is for, where the source has no name for it.
          is_library: Whether the source is a library's.
        """
        key = number_key(value)
        hint = role if key is None else self.roles.get(key, role)
        if key is None and hint in self.module_names and is_telling(hint):
            key = int, repr(value)
        if key is None or not self._is_on:
            return None
        is_literal = key not in self.roles and not self.is_held(value)
        if is_literal and not is_library and hint not in self.module_names:
            return None  # the user wrote the number itself
        is_negative = text.startswith("-") and not is_library
        name = constant_name(hint)
        if not name and is_negative and len(hint) == 1:
            name = constant_name(f"{hint}{hint}")[:1]
        is_users = bool(name) and hint.lstrip("_") == name  # `GAMMA`, or `_GAMMA`
        is_users = (is_users or hint in self.module_names) and not is_library
        if is_users:
            name = identifier(hint)
        if not name or name in self._refused:
            return None
        is_plain = is_plain_number(key) and not is_users
        if (is_plain and not is_negative) or not self._claim(
            name, key, Literal(text, value)
        ):
            self._refused.add(name)
            if name in self._known:
                self._known[name][1].is_refused = True
            return None
        if is_users:
            self._kept.add(name)
        elif is_negative and (is_plain or not constant_name(hint)):
            self._signed.add(name)
        return Term([Global(self._known[name][1])])

    def constant(self, value: float, text: str, name: str) -> Term | None:
        """Refer to a number of the user's module, whatever the call is given."""
        before = self.roles, self.module_names
        self.roles, self.module_names = {}, {name}
        try:
            return self.term(value, text, name)
        finally:
            self.roles, self.module_names = before

    def named_integer(self, value: int, name: str) -> Term | None:
        """Refer to an integer of the user's module."""
        return self.constant(value, str(value), name)

    def is_held(self, value: float) -> bool:
        """Whether a variable may hold a number, which else stands in the source.

        The compiler makes one object of all numbers of a file that are alike.
        """
        return self.held is None or number_key(value) in self.held

    def variable(self, value: float) -> str:
        """Return the only variable of the expression that holds a number, or ""."""
        key = number_key(value)
        return "" if key is None else self.roles.get(key, "")

    def _claim(self, name: str, key: NumberKey, literal: Literal) -> bool:
        """Take a name for a number; tell whether no other has it."""
        if name not in self._known and self._scope.fresh_global(name) == name:
            self._known[name] = key, Constant(name, literal)
        return name in self._known and self._known[name][0] == key

    @optional(gives(None))
    def inline_refused(self, functions: Sequence[Function]) -> None:
        """Write the numbers whose names were refused when they were written already."""
        refused = {name for name, (_, one) in self._known.items() if one.is_refused}
        self._inline(refused, functions)

    @optional(gives(None))
    def inline_single_uses(self, functions: Sequence[Function]) -> None:
        """Write the numbers whose names are used only once in all functions."""
        counts = Counter(
            node.id
            for function in functions
            for text in (*_defaults(function), *function.texts())
            if any(name in text for name in self._known)
            for node in _globals(parsed(text))
        )
        negative = {
            name for name, (_, one) in self._known.items() if one.number[0] == "-"
        }
        added = {name for one in functions for name in _added(one, negative)}
        single = {
            name
            for name in self._known.keys() - added
            if counts[name] < (1 if name in self._kept else MIN_USES)
            or name in self._signed
        }
        self._inline(single, functions)

    def _inline(self, names: Set[str], functions: Sequence[Function]) -> None:
        if not names:
            return
        for name in names:
            self.inlined[name] = self._known.pop(name)[1].number
        for function in functions:
            function.rewrite(self.with_inlined)

    def with_inlined(self, text: str) -> str:
        """Write numbers for the names that were used only once."""
        if not any(name in text for name in self.inlined):
            return text
        body = Parsed(text)
        return body.edited(
            replaced(body.span(node), self._operand(node, body))
            for node in _globals(body)
            if node.id in self.inlined
        )

    def _operand(self, name: ast.Name, body: Parsed) -> str:
        """Return the number in the place of its name, in parentheses where it needs some."""
        number, parent = self.inlined[name.id], body.parent(name)
        is_exponent = isinstance(parent, ast.BinOp) and parent.right is name
        level = ATOM if number[0] != "-" or is_exponent else UNARY
        is_free = parent is None or level >= level_at(name, parent)
        return number if is_free else f"({number})"

    def names(self) -> dict[str, str]:
        """Return the names of numbers, by their texts."""
        return {one.number: name for name, (_, one) in self._known.items()}

    def definitions(self) -> list[str]:
        """Write the definitions, in the order of use."""
        return [f"{name} = {one.number}" for name, (_, one) in self._known.items()]


@optional(makes(dict))
def named_floats(draft: Draft) -> dict[str, str]:
    """Return the names that the source of a function has for its numbers, by their text."""
    found: dict[str, set[str]] = {}
    for statement in draft.statements:
        for text, role in statement.roles.items():
            found.setdefault(text, set()).add(role)
    single = {text: names.pop() for text, names in found.items() if len(names) == 1}
    return {
        text: identifier(name.strip("_"))
        for text, name in single.items()
        if constant_name(name)
    }


def _defaults(function: Function) -> list[str]:
    return [one.default for one in function.parameters if one.default]


def _globals(body: Parsed) -> Iterator[ast.Name]:
    """Yield the names that no assignment in a text makes local ones: `MAX = 1e6`."""
    bound = {*body.bound()}
    yield from (node for node in body.names() if node.id not in bound)


def _added(function: Function, names: Set[str]) -> Iterator[str]:
    """Yield which of some names a function adds or takes away: `x - SHIFT`."""
    for text in function.texts():
        if any(name in text for name in names):
            for node in parsed(text).nodes:
                match node:
                    case ast.BinOp(op=ast.Add() | ast.Sub(), right=ast.Name(id=name)):
                        if name in names:
                            yield name
                    case _:
                        pass


def is_telling(name: str) -> bool:
    """Whether a name says more than a small integer: `HEADS` and `N` do, `n` does not."""
    return len(name) >= MIN_LETTERS or name.isupper()


def array_name(hint: str) -> str:
    """Turn a variable's name into that of a constant array; one letter stays as it is.

    `t0` and `w2` say more than that there is a constant.

    >>> array_name("X"), array_name("y"), array_name("weights"), array_name("_")
    ('X', 'y', 'WEIGHTS', '')
    >>> array_name("ª"), array_name("a/weights"), array_name("_a")
    ('', 'A_WEIGHTS', 'A')
    >>> array_name("t0"), array_name("_w12")
    ('T0', 'W12')
    """
    hint = str.__str__(hint)  # it may be a key, and a subclass shows itself otherwise
    letter = hint.strip("_")
    if len(letter) == 1 and letter.isascii() and letter.isalpha():
        return hint if hint == letter else letter.upper()  # a private attribute
    if letter.isascii() and letter[:1].isalpha() and letter[1:].isdigit():
        return letter.upper()
    return constant_name(hint)


def constant_name(hint: str) -> str:
    """Turn a variable's name into that of a constant; "" if it says nothing.

    >>> constant_name("eps"), constant_name("learningRate"), constant_name("b1")
    ('EPS', 'LEARNING_RATE', '')
    """
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", hint).strip("_")
    n_letters = sum(char.isascii() and char.isalpha() for char in words)
    if n_letters < MIN_LETTERS or words.lower() in VAGUE:
        return ""
    return identifier(words.upper(), "NUMBER")
