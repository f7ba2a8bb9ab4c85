"""What a generated module uses strings, keywords and attributes for."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Sequence

BUILTINS = frozenset(dir(builtins))
# Keywords of JAX whose dicts have keys of JAX.
OPTIONS = frozenset(
    {"compiler_options", "compiler_params", "metadata", "cost_estimate"}
)
ARGUMENT_NAMES = frozenset({"static_argnames", "donate_argnames", "nondiff_argnames"})


class Usage:
    """What occurs in a module.

    Attributes:
      imports: The names that are imported.
      opaque: Functions that are kept as they are.
      classes: The classes that it defines.
      fields: Their fields, in order.
      keywords: Parameters that are given by keyword somewhere, in order.
      keys: The string keys of dicts.
      has_options: Whether a function takes any keyword.
    """

    def __init__(self, tree: ast.Module, kept: Collection[str]) -> None:
        self.opaque = {
            n.name
            for n in tree.body
            if isinstance(n, ast.FunctionDef) and n.name in kept
        } - {"example_args"}
        nodes = [
            node
            for part in tree.body
            if getattr(part, "name", "") not in self.opaque
            for node in ast.walk(part)
        ]
        self.imports = {
            (alias.asname or alias.name).partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        self._called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
        self._foreign = {
            id(n.value)
            for n in nodes
            if isinstance(n, ast.keyword) and n.arg in OPTIONS
        }
        kinds = [n for n in nodes if isinstance(n, ast.ClassDef)]
        self.classes = {node.name for node in kinds}
        self.fields = list(dict.fromkeys(f for node in kinds for f in _fields(node)))
        self.keys = {
            text
            for node in _without_annotations(nodes)
            for key in self.key_nodes(node)
            for text in _strings(key)
        }
        signatures = [n for n in nodes if isinstance(n, ast.arguments)]
        self.has_options = any(n.kwarg is not None for n in signatures)
        parameters = {
            a.arg for n in signatures for a in [*n.posonlyargs, *n.args, *n.kwonlyargs]
        }
        calls = [n for n in nodes if isinstance(n, ast.Call)]
        given = [
            k.arg for n in calls if self.is_own_call(n) for k in n.keywords if k.arg
        ]
        given += [str(c.value) for n in calls for c in argument_names(n)]
        self.keywords = [k for k in dict.fromkeys(given) if k in parameters]
        if self.has_options:
            self.keys |= {k for k in given if k not in parameters}

    def key_nodes(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield the keys of a dict display, a subscript, or a loop over keys."""
        if isinstance(node, ast.Dict) and id(node) not in self._foreign:
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript) and root(node) != "CONSTANTS":
            yield node.slice
        elif isinstance(node, ast.For | ast.comprehension):
            shown = [
                n for n in ast.walk(node.iter) if isinstance(n, ast.Tuple | ast.List)
            ]
            yield from (key for part in shown for key in part.elts if is_key(key))

    def is_called(self, node: ast.AST) -> bool:
        """Whether an expression is the function of a call."""
        return id(node) in self._called

    def is_own_call(self, node: ast.Call) -> bool:
        """Whether keywords are those of a function that the module defines."""
        function = node.func
        if isinstance(function, ast.Call):
            return any(self._is_own(arg) for arg in function.args[:1])
        name = getattr(function, "attr", getattr(function, "id", ""))
        if name in ("partial", "Partial"):
            return any(self._is_own(arg) for arg in node.args[:1])
        return isinstance(function, ast.Name) and self._is_own(function)

    def _is_own(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Call) and node.args:
            node = node.args[0]
        name = root(node)
        is_known = name in self.imports or name in self.classes or name in BUILTINS
        return not is_known and not (isinstance(node, ast.Attribute))

    def trees(self, body: Sequence[ast.AST]) -> set[str]:
        """Return the names of which keys or fields are taken."""
        found: set[str] = set()
        for node in (n for part in body for n in ast.walk(part)):
            if isinstance(node, ast.Subscript) and is_key(node.slice):
                found.add(root(node))
            elif isinstance(node, ast.Attribute) and node.attr in self.fields:
                found.add("" if self.is_called(node) else root(node))
        return found


def root(node: ast.AST) -> str:
    """Return the name that a path of attributes and items begins with."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_key(node: ast.AST) -> bool:
    """Whether an expression is a string, as a key may be."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def argument_names(node: ast.Call) -> Iterator[ast.Constant]:
    """Yield the strings that name arguments, as in `static_argnames=("n",)`."""
    for keyword in node.keywords:
        if keyword.arg in ARGUMENT_NAMES:
            for part in ast.walk(keyword.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            yield part.target.id


def _strings(key: ast.expr) -> Iterator[str]:
    if isinstance(key, ast.Tuple):
        for part in key.elts:
            yield from _strings(part)
    elif isinstance(key, ast.Constant) and isinstance(key.value, str):
        yield key.value


def _without_annotations(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Leave out the annotations of functions, whose strings are no keys."""
    left_out: set[int] = set()
    for node in nodes:
        wholes = (getattr(node, "annotation", None), getattr(node, "returns", None))
        for whole in wholes:
            if isinstance(whole, ast.AST):
                left_out |= {id(part) for part in ast.walk(whole)}
    return (node for node in nodes if id(node) not in left_out)
