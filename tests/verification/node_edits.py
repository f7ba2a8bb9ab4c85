"""Edit what the syntax tree of a generated file consists of.

Names, attributes, constants, operators, operands, arguments, keywords, containers,
keys, parameters, defaults, results, decorators and statements: each is dropped,
exchanged with its neighbour, or becomes another.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator

from tests.verification.text_file import TextEdit, TextFile, containers

OTHER_ATTRIBUTE = {
    "sin": "cos",
    "cos": "sin",
    "tanh": "sinh",
    "exp": "expm1",
    "log": "log1p",
    "sum": "max",
    "max": "min",
    "min": "max",
    "mean": "sum",
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "multiply": "divide",
    "scan": "map",
    "set": "add",
    "add": "set",
    "vmap": "jit",
    "grad": "value_and_grad",
    "float32": "bfloat16",
    "int32": "uint32",
    "custom_jvp": "jit",
    "custom_vjp": "jit",
    "jit": "checkpoint",
}
OTHER_OPERATOR = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.MatMult: ("@", "*"),
    ast.Pow: ("**", "*"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
MAX_TOKENS_OF_ARRAY = 6
"""Elements of a list of numbers that are edited one by one."""


def node_edits(node: ast.AST, file: TextFile) -> Iterator[TextEdit]:
    match node:
        case ast.Name():
            yield from _name_edits(node, file)
        case ast.Attribute():
            yield from _attribute_edits(node, file)
        case ast.Constant():
            for new in _constant_edits(node.value):
                kind = "string" if isinstance(node.value, str) else "constant"
                yield file.edit(kind, node, new)
        case ast.BinOp():
            yield from _operator_edits(node.left, node.op, node.right, file)
            for part in (node.left, node.right):
                yield file.edit("operand", node, f"({file.segment(part)})")
        case ast.Compare():
            yield from _operator_edits(
                node.left, node.ops[0], node.comparators[0], file
            )
        case ast.UnaryOp():
            yield file.edit("operator", node, f"({file.segment(node.operand)})")
        case ast.Call():
            yield from _call_edits(node, file)
        case ast.Tuple() | ast.List():
            yield from _sequence_edits(node, file)
        case ast.Dict():
            yield from _dict_edits(node, file)
        case ast.Slice():
            for part in (node.lower, node.upper, node.step):
                if part is not None:
                    yield file.edit("index", part, "")
        case ast.Subscript():
            yield file.edit("index", node, file.segment(node.value))
            if isinstance(node.slice, ast.Constant) and type(node.slice.value) is str:
                yield file.edit("key", node.slice, repr(node.slice.value + "_"))
        case ast.arguments():
            yield from _parameter_edits(node, file)
        case ast.Return():
            yield from _return_edits(node, file)
        case _:
            yield from _statement_edits(node, file)


def _neighbours(names: list[str], name: str) -> set[str]:
    place = names.index(name)
    near = {names[place - 1], names[(place + 1) % len(names)]}
    return near - {name}


def _name_edits(node: ast.Name, file: TextFile) -> Iterator[TextEdit]:
    for other in sorted(_neighbours(file.names, node.id)):
        yield file.edit("name", node, other)
    yield file.edit("name", node, f"{node.id}_")


def _attribute_edits(node: ast.Attribute, file: TextFile) -> Iterator[TextEdit]:
    others = _neighbours(file.attributes, node.attr)
    others |= {OTHER_ATTRIBUTE.get(node.attr, node.attr)} - {node.attr}
    stop = file.stretch(node)[1]
    for other in sorted(others):
        yield TextEdit("attribute", stop - len(node.attr.encode()), stop, other)


def _constant_edits(value: object) -> Iterator[str]:
    match value:
        case bool():
            yield repr(not value)
            yield repr(int(value))
        case int():
            yield from (f"{value + 1}", f"({value - 1})", f"{value}.0", f"(-{value})")
        case float():
            yield repr(math.nextafter(value, math.inf))
            yield from (f"(-{value!r})", f"{value * 2 + 1!r}", f"{value!r} + 0j")
        case str():
            yield from (repr(value + "_"), repr(value[1:]), "None")
        case None:
            yield from ("0", "True", "()")
        case _:
            pass


def _operator_edits(
    left: ast.expr, operator: ast.AST, right: ast.expr, file: TextFile
) -> Iterator[TextEdit]:
    yield file.exchange("operands", left, right)
    old, new = OTHER_OPERATOR.get(type(operator), ("", ""))
    start, stop = file.stretch(left)[1], file.stretch(right)[0]
    between = file.raw[start:stop].decode()
    if old:
        yield TextEdit("operator", start, stop, between.replace(old, new, 1))


def _call_edits(node: ast.Call, file: TextFile) -> Iterator[TextEdit]:
    function = file.segment(node.func)
    keywords = [file.segment(k) for k in node.keywords]
    parts = [file.segment(a) for a in node.args] + keywords

    def call(parts: list[str]) -> str:
        return f"{function}({', '.join(parts)})"

    for first, second in itertools.pairwise(node.args):
        yield file.exchange("argument order", first, second)
    for i in range(len(parts)):
        kind = "argument" if i < len(node.args) else "keyword"
        yield file.edit(kind, node, call(parts[:i] + parts[i + 1 :]))
        yield file.edit(kind, node, call([*parts[: i + 1], *parts[i:]]))
    for keyword in node.keywords:
        if keyword.arg is not None:
            new = f"{keyword.arg}_={file.segment(keyword.value)}"
            yield file.edit("keyword", keyword, new)
            yield file.edit("keyword", keyword, file.segment(keyword.value))
    for one, two in itertools.pairwise(node.keywords):
        yield file.exchange("keyword", one.value, two.value)
        yield file.exchange("keyword order", one, two)
    if node.args:
        yield file.edit("call", node, f"({file.segment(node.args[0])})")


def _sequence_edits(node: ast.Tuple | ast.List, file: TextFile) -> Iterator[TextEdit]:
    kind = "result" if id(node) in file.returned else "container"
    parts = [file.segment(part) for part in node.elts]
    numbers = all(isinstance(part, ast.Constant | ast.UnaryOp) for part in node.elts)
    few = MAX_TOKENS_OF_ARRAY if numbers else len(parts)
    for first, second in itertools.pairwise(node.elts[:few]):
        yield file.exchange(kind, first, second)
    opening, closing = ("[", "]") if isinstance(node, ast.Tuple) else ("(", ",)")
    if parts and isinstance(node.ctx, ast.Load):
        yield file.edit(kind, node, f"{opening}{', '.join(parts)}{closing}")
    for i in range(min(len(parts), few)):
        for rest in (parts[:i] + parts[i + 1 :], [*parts[: i + 1], *parts[i:]]):
            yield file.edit(kind, node, _sequence_text(node, rest))


def _sequence_text(node: ast.Tuple | ast.List, parts: list[str]) -> str:
    if isinstance(node, ast.List):
        return f"[{', '.join(parts)}]"
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _dict_edits(node: ast.Dict, file: TextFile) -> Iterator[TextEdit]:
    kind = "result" if id(node) in file.returned else "key"
    keys = [key for key in node.keys if key is not None]
    for key in keys:
        yield file.edit(kind, key, f"({file.segment(key)}, 0)")
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield file.edit(kind, key, repr(key.value + "_"))
    for first, second in itertools.pairwise(keys):
        yield file.exchange(kind, first, second)
    for first, second in itertools.pairwise(node.values):
        yield file.exchange(kind, first, second)
    items = list(zip(map(file.segment, keys), map(file.segment, node.values)))
    for i in range(len(items)):
        rest = ", ".join(f"{k}: {v}" for k, v in items[:i] + items[i + 1 :])
        yield file.edit(kind, node, f"{{{rest}}}")


def _parameter_edits(node: ast.arguments, file: TextFile) -> Iterator[TextEdit]:
    for first, second in itertools.pairwise(node.args):
        yield file.exchange("parameters", first, second)
    for parameter in node.args:
        yield file.edit("parameters", parameter, f"{parameter.arg}_")
    if node.args and not node.defaults:
        last = file.segment(node.args[-1])
        yield file.edit("default", node.args[-1], f"{last}=None")
        yield file.edit("parameters", node.args[-1], f"*, {last}")
        yield file.edit("parameters", node.args[-1], f"{last}, /")
        yield file.edit("parameters", node.args[-1], f"{last}, *rest")
    for default in [*node.defaults, *filter(None, node.kw_defaults)]:
        start, stop = file.stretch(default)
        before = file.raw[:start].rstrip()
        if before.endswith(b"="):
            yield TextEdit("default", len(before) - 1, stop, "")
        yield file.edit("default", default, "12345")


def _return_edits(node: ast.Return, file: TextFile) -> Iterator[TextEdit]:
    if node.value is None:
        return
    value = file.segment(node.value)
    for new in (f"({value},)", f"[{value}]", f'{{"out": {value}}}', "None"):
        yield file.edit("result", node.value, new)
    yield file.edit("result", node.value, f"({value}), None")
    for part in containers(node.value):
        inner = file.segment(part)
        if part is not node.value:
            yield file.edit("result", part, f"[{inner}]")
            yield file.edit("result", part, f"({inner}, None)")


def _statement_edits(node: ast.AST, file: TextFile) -> Iterator[TextEdit]:
    for part in getattr(node, "decorator_list", []):
        start, stop = file.stretch(part)
        yield TextEdit("decorator", start - 1, stop, "")
    body = [n for n in _body(node) if not isinstance(n, ast.Return)]
    for statement in body:
        yield file.edit("statement", statement, "pass")
        text, indent = file.segment(statement), " " * statement.col_offset
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield file.edit("statement", statement, f"{text}\n{indent}{text}")
    for first, second in itertools.pairwise(body):
        yield file.exchange("statement order", first, second)
    if isinstance(node, ast.FunctionDef):
        yield from _rename_edits(node, file)


def _body(node: ast.AST) -> list[ast.stmt]:
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def _rename_edits(node: ast.FunctionDef, file: TextFile) -> Iterator[TextEdit]:
    """Rename a parameter or a local variable wherever a function has it."""
    locals_ = {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    stored = {
        n.id
        for n in ast.walk(node)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    text = file.segment(node)
    for name in sorted(locals_ | stored):
        kind = "parameter name" if name in locals_ else "local name"
        yield file.edit(kind, node, re.sub(rf"\b{name}\b", f"{name}_z", text))
