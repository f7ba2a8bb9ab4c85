"""The numbers of a function: what stands around each, and what may be written there.

Words that parameters of the program held count as numbers where they stand, and where keys
are made of them.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.printing import Function
from untrace.lifting.recorded.building import literal_term
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.unify.names import body_of
from untrace.recovery.made_keys import KeyParts
from untrace.syntax.parsed import NUMBERS, Edit, Parsed
from untrace.syntax.text import quote

_IN_KEY = re.compile(r"(?<!\d)(0|[1-9]\d*)(?!\d)")
_WORD = re.compile(r"(?![-.]?\d[\d_.e+-]*\Z)[ -~]{1,80}")
_PLAIN = (ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Await)
"""What an operator binds more tightly in than `1 - x` does."""


def numbers_in(word: str) -> list[str]:
    """List the numbers in a key, or a part of one.

    >>> numbers_in("layer_10/w2"), numbers_in("w01")
    (['10', '2'], [])
    """
    return _IN_KEY.findall(word)


def is_word(text: str) -> bool:
    """Whether a short text is a word, a mode or the like, and no number.

    >>> is_word("enc"), is_word("layer_0"), is_word("ij,jk->ik"), is_word("2_conv")
    (True, True, True, True)
    >>> is_word("-1"), is_word("1e-05"), is_word("True")
    (False, False, False)
    """
    return _WORD.fullmatch(text) is not None and text not in ("True", "False")


def passed_text(text: str) -> str:
    """Write a number, or a word, as it is passed."""
    return quote(text) if is_word(text) else text


def number_term(text: str) -> Term:
    """Write the same as an expression."""
    value = text if is_word(text) else ast.literal_eval(text)
    return literal_term(value, passed_text(text))


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a text, or a word of a key.

    Attributes:
      text: How it is written; a word is without quotes.
      node: What it is: a constant, or the key that it stands in.
      start: Where in the key; -1 if it is a constant itself.
    """

    text: str
    node: ast.Constant
    start: int = -1

    @property
    def in_key(self) -> bool:
        """Whether it is a part of a key: `params["w0"]`."""
        return self.start >= 0


def numbers_of(function: Function) -> list[Number]:
    """List the numbers of a function, in order.

    Those in keys are among them if a key has one that a parameter of the program held.
    """
    return [*_numbers(body_of(function), function)]


def _numbers(body: Parsed, function: Function) -> Iterator[Number]:
    nodes = body.nodes if function.in_keys else ()
    keys = itertools.chain.from_iterable(map(_keys_of, nodes))
    words = [text for text in function.in_keys if is_word(text)]
    found = {key: _in_key(key, words, function.key_parts) for key in keys}
    if function.in_keys.isdisjoint(n.text for ns in found.values() for n in ns):
        found = {}
    for node in body.nodes:
        if not isinstance(node, ast.Constant):
            continue
        if type(node.value) in NUMBERS:
            yield Number(body.source(node), node)
        elif node in found:
            yield from found[node]
        elif node.value in function.in_keys and _is_text(node, body):
            yield Number(str(node.value), node, 0)


def _is_text(node: ast.Constant, body: Parsed) -> bool:
    """Whether a constant is a word that stands for itself, and no part of a text."""
    is_part = isinstance(body.parent(node), ast.JoinedStr)
    return type(node.value) is str and is_word(node.value) and not is_part


def _keys_of(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings that a subscript takes, a dict has or a call is given.

    Those with special characters are left out.
    """
    keys: Sequence[ast.expr | None] = ()
    match node:
        case ast.Subscript(slice=key):
            keys = [key]
        case ast.Dict(keys=keys):
            pass
        case ast.Call(args=arguments, keywords=keywords):
            keys = [*arguments, *[one.value for one in keywords]]
        case _:
            pass
    for one in keys:
        key = one.value if isinstance(one, ast.Constant) else None
        if type(key) is str and _SPECIAL.isdisjoint(key) and quote(key)[1:-1] == key:
            yield one  # type: ignore[misc]


_SPECIAL = frozenset("\"'\\{}")


def _in_key(
    node: ast.Constant, words: Iterable[str], known: Mapping[str, KeyParts]
) -> list[Number]:
    """List the numbers of a key, and the words that stand free in it, in order.

    Of keys that the program is known to have made of some, these are all.
    """
    key = str(node.value)
    if key in known:
        return [Number(text, node, start) for start, text in known[key]]
    free = [one for word in words for one in _free(word).finditer(key)]
    free.sort(key=lambda one: one.start())
    if any(one.end() > other.start() for one, other in itertools.pairwise(free)):
        return []  # words of which one is a part of another
    inside = {n for one in free for n in range(*one.span())}
    numbers = [one for one in _IN_KEY.finditer(key) if one.start() not in inside]
    found = sorted([*free, *numbers], key=lambda one: one.start())
    return [Number(one[0], node, one.start()) for one in found]


def _free(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])")


def edits_of(body: Parsed, written: Mapping[Number, str]) -> Iterator[Edit]:
    """Yield the edits that write expressions instead of numbers.

    Args:
      body: The text that they are in.
      written: What stands for each; in keys, names: `params[f"w{i}"]`.
    """
    keys: dict[ast.Constant, list[Number]] = {}
    for number, text in written.items():
        if number.in_key:
            keys.setdefault(number.node, []).append(number)
        else:
            yield Edit(body.span(number.node), (text,))
    for node, numbers in keys.items():
        yield Edit(body.span(node), (_made_key(node, numbers, written),))


def _made_key(
    node: ast.Constant, numbers: list[Number], written: Mapping[Number, str]
) -> str:
    key, position, parts = str(node.value), 0, list[str]()
    if numbers[0].text == key and is_word(key):
        return written[numbers[0]]
    for number in sorted(numbers, key=lambda one: one.start):
        parts += [key[position : number.start], f"{{{written[number]}}}"]
        position = number.start + len(number.text)
    whole = "".join([*parts, key[position:]])
    return f"f{quote(whole)}"


def operand(body: Parsed, number: Number, text: str) -> str:
    """Write a sum for a number, in brackets where these are needed."""
    return f"({text})" if isinstance(body.parent(number.node), _PLAIN) else text


def is_index(body: Parsed, number: Number) -> bool:
    """Whether a number is the index of a tree's part: `params[0]`."""
    around = body.parent(number.node)
    is_part = isinstance(around, ast.Subscript) and around.slice is number.node
    return is_part and not number.in_key


def keyword_of(body: Parsed, number: Number) -> str:
    """Return the keyword that takes a number, or a tuple that it begins; "" if none does."""
    node: ast.AST = number.node
    while (around := body.parent(node)) is not None:
        match around:
            case ast.keyword(arg=str(name)):
                return name
            case ast.Tuple(elts=[first, *_]) | ast.List(elts=[first, *_]):
                if first is not node:
                    return ""
            case ast.UnaryOp(op=ast.USub()):
                pass
            case _:
                return ""
        node = around
    return ""


def taken_by(body: Parsed, number: Number) -> tuple[str, int]:
    """Return the function that takes a number, perhaps in a tuple, and its position.

    "" if none does.
    """
    node: ast.AST = number.node
    around = body.parent(node)
    if isinstance(around, ast.UnaryOp):
        node, around = around, body.parent(around)
    if isinstance(around, ast.Tuple):
        node, around = around, body.parent(around)
    if not isinstance(around, ast.Call) or node not in around.args:
        return "", 0
    return body.source(around.func), around.args.index(node)  # type: ignore[arg-type]
