"""Rename everything that a generated module names itself: functions, variables, keys.

Comes in: the text of a module. Goes out: the text with every name replaced that it binds
(imports and `kept` functions excepted), with the fields of its classes and the string
keys of its dicts. Scopes are resolved as Python does, so the text means what it meant;
keys keep their order, since JAX flattens dicts in sorted order. New names say what a
value is: `x` for a parameter, the noun of the call for a result.

Source positions are edited, so that comments and layout stay.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from untrace.parsing import parse
from untrace.syntax.names import RESERVED, identifier
from untrace.syntax.text import quote
from untrace.syntax.usage import Usage, argument_names, root

PLAIN = ("x", "y", "z", "w", "v", "u")
NOUNS: dict[type[ast.operator], str] = {
    ast.Add: "total",
    ast.Sub: "difference",
    ast.Mult: "product",
    ast.Div: "quotient",
    ast.FloorDiv: "quotient",
    ast.Mod: "remainder",
    ast.MatMult: "product",
    ast.Pow: "power",
}
# Attributes of arrays: a field of that name says nothing, and could not be told apart.
ARRAY_ATTRIBUTES = frozenset(
    {"T", "mT", "at", "real", "imag", "shape", "ndim", "size", "dtype", "sharding"}
)

FunctionNode = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Renamed:
    """A module with other names.

    Attributes:
      names: New names of its functions, classes and variables, by the old ones.
      parameters: New names of the parameters of the main function.
      keys: New string keys.
    """

    text: str
    names: dict[str, str]
    parameters: dict[str, str]
    keys: dict[str, str]


@dataclass(slots=True)
class _Scope:
    """New names in one function, and the scope around it."""

    parent: _Scope | None
    names: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


def rename(
    text: str,
    main: str,
    kept: Collection[str],
    keys: Collection[str],
    trees: Collection[str],
    nouns: Mapping[str, str],
    name: str = "function",
) -> Renamed:
    """Rename what a module names.

    Args:
      text: The module.
      main: Its main function.
      kept: Functions and variables that are not the user's, and stay as they are.
      keys: String keys that occur in arguments, besides those in the text.
      trees: The parameters of the main function that are trees.
      nouns: Nouns for results, by the name of the function called.
      name: The new name of the main function.
    """
    tree = parse(text)
    renamer = _Renamer(tree, main, kept, keys, trees, nouns, name)
    renamer.module(tree)
    made = renamer.edited(text)
    return Renamed(made, renamer.top.names, renamer.main_parameters, renamer.keys)


class _Renamer:
    def __init__(
        self,
        tree: ast.Module,
        main: str,
        kept: Collection[str],
        keys: Collection[str],
        trees: Collection[str],
        nouns: Mapping[str, str],
        name: str,
    ) -> None:
        self.usage = Usage(tree, kept)
        self.main, self.main_name, self.kept = main, name, kept
        self.trees, self.nouns = trees, nouns
        self.top = _Scope(None)
        self.main_parameters: dict[str, str] = {}
        found = sorted({*keys, *self.usage.keys})
        width = len(str(len(found) - 1))
        self.keys = {key: f"k{i:0{width}}" for i, key in enumerate(found)}
        fields = [f for f in self.usage.fields if f not in ARRAY_ATTRIBUTES]
        self.fields = {f: f"field_{i}" for i, f in enumerate(fields)}
        self.taken = {*RESERVED, *kept, *self.usage.imports}
        self.keywords: dict[str, str] = {}
        for keyword in self.usage.keywords:
            self.keywords[keyword] = self._fresh("option", ())
        self._edits: dict[tuple[int, int], tuple[int, str]] = {}

    # ---- scopes --------------------------------------------------------------------

    def module(self, tree: ast.Module) -> None:
        """Name what the module defines, then rename everything in it."""
        defined = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
        defined.sort(key=lambda node: node.name != self.main)
        for node in [*defined, *tree.body]:
            if isinstance(node, ast.FunctionDef) and node.name not in self.top.names:
                hint = self.main_name if node.name == self.main else "function"
                self._define(self.top, node.name, hint)
            elif isinstance(node, ast.ClassDef):
                self._define(self.top, node.name, "Tree")
        for old, hint in self._bound(tree.body):
            self._define(self.top, old, hint)
        self.taken |= set(self.top.names.values())
        for node in sorted(
            tree.body, key=lambda n: getattr(n, "name", "") != self.main
        ):
            self._visit(node, self.top)

    def _define(
        self, scope: _Scope, old: str, hint: str, forbidden: Collection[str] = ()
    ) -> None:
        if old in scope.names:
            return
        if old in self.kept or not old.strip("_"):
            scope.names[old] = old
            return
        scope.names[old] = self._fresh(hint, {*forbidden, *scope.names.values()})
        if scope is self.top:
            self.taken.add(scope.names[old])

    def _fresh(self, hint: str, forbidden: Collection[str]) -> str:
        hint = identifier(hint) if hint not in PLAIN else hint
        names = itertools.chain([hint], (f"{hint}_{i}" for i in itertools.count(2)))
        busy = {*self.taken, *self.keywords.values(), *forbidden}
        return next(name for name in names if name not in busy)

    def _function(self, node: FunctionNode, outer: _Scope) -> None:
        scope = _Scope(outer)
        names = [arg.arg for arg in _arguments(node)]
        body: Sequence[ast.AST] = (
            [node.body] if isinstance(node, ast.Lambda) else node.body
        )
        mentioned = {n.id for b in body for n in ast.walk(b) if isinstance(n, ast.Name)}
        around = {outer.find(name) for name in mentioned - set(names)}
        seen = {name for name in around if name is not None}
        name = getattr(node, "name", "")
        if name == "example_args":
            scope.names.update(self.main_parameters)
            scope.names["rng"] = "rng"
        trees = self.trees if name == self.main else self.usage.trees(body)
        for old in names:
            if old in self.keywords and name != self.main:
                scope.names[old] = self.keywords[old]
            elif old in trees:
                self._define(scope, old, "params", seen)
            else:
                busy = {*seen, *self.taken, *scope.names.values()}
                free = [plain for plain in PLAIN if plain not in busy]
                self._define(scope, old, free[0] if free else "x", seen)
        if name == self.main and outer is self.top:
            self.main_parameters = dict(scope.names)
        for old, hint in self._bound(body):
            self._define(scope, old, hint, seen)
        for arg in _arguments(node):
            self._edit(arg, arg.arg, scope.names[arg.arg])
        for part in body:
            self._visit(part, scope)

    # ---- what a scope binds --------------------------------------------------------

    def _bound(self, body: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
        """Yield the names that statements bind, with hints for new ones."""
        for node in _own_nodes(body):
            if isinstance(node, ast.FunctionDef):
                yield node.name, "function"
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from self._targets(target, node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                is_counter = isinstance(node.target, ast.Name)
                hint = "i" if is_counter else "item"
                yield from ((n.id, hint) for n in _stored(node.target))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, "value"

    def _targets(self, target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
        hint = self._noun(value)
        names = list(_stored(target))
        if isinstance(target, ast.Name):
            yield target.id, hint
        elif hint == "value_and_grad" and len(names) == 2:
            yield from zip((n.id for n in names), ("value", "grads"))
        else:
            yield from ((n.id, hint.removesuffix("s") or hint) for n in names)

    def _noun(self, value: ast.expr) -> str:
        """Say in a word what an expression is."""
        if isinstance(value, ast.BinOp):
            return NOUNS.get(type(value.op), "value")
        if isinstance(value, ast.Call):
            function = value.func
            while isinstance(function, ast.Call):
                function = function.func
            is_public = root(function) in self.usage.imports
            if isinstance(function, ast.Attribute) and (
                is_public or function.attr not in self.fields
            ):
                name = function.attr.strip("_")
                if name == "bind":  # of a primitive
                    name = root(function).removesuffix("_p")
                return identifier(self.nouns.get(name, name))
            return "result"
        if isinstance(value, ast.Compare):
            return "mask"
        if isinstance(value, ast.Attribute) and value.attr in ("T", "mT"):
            return "transposed"
        return "item" if isinstance(value, ast.Subscript | ast.Attribute) else "value"

    # ---- edits ---------------------------------------------------------------------

    def _visit(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.FunctionDef):
            if node.name in self.usage.opaque:
                return
            self._edit_name(node, "def ", scope.names[node.name])
            around = [*node.decorator_list, *_defaults(node)]
            for part in around:
                self._visit(part, scope)
            for part in _annotations(node):
                self._rename_names(part, scope)
            self._function(node, scope)
            return
        if isinstance(node, ast.Lambda):
            for part in _defaults(node):
                self._visit(part, scope)
            self._function(node, scope)
            return
        if isinstance(node, ast.ClassDef):
            self._class(node, scope)
            return
        if isinstance(node, ast.Name):
            self._edit(node, node.id, scope.find(node.id))
        elif isinstance(node, ast.Attribute):
            self._attribute(node)
        elif isinstance(node, ast.Call):
            self._call(node, scope)
        for key in self.usage.key_nodes(node):
            self._key(key)
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope)

    def _class(self, node: ast.ClassDef, scope: _Scope) -> None:
        self._edit_name(node, "class ", scope.names[node.name])
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                name = part.target.id
                self._edit(part.target, name, self.fields.get(name))
                self._rename_names(part.annotation, scope)

    def _rename_names(self, node: ast.AST, scope: _Scope) -> None:
        """Rename what an annotation names, whose strings are no keys."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                self._edit(part, part.id, scope.find(part.id))

    def _attribute(self, node: ast.Attribute) -> None:
        new = self.fields.get(node.attr)
        is_field = root(node) not in self.usage.imports and not self.usage.is_called(
            node
        )
        if new is not None and is_field:
            assert node.end_lineno is not None and node.end_col_offset is not None
            start = node.end_col_offset - len(node.attr)
            self._edits[node.end_lineno, start] = (node.end_col_offset, new)

    def _call(self, node: ast.Call, scope: _Scope) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.usage.classes:
            table = self.fields
        elif name == "dict":
            table = self.main_parameters  # of `example_args`
        elif self.usage.is_own_call(node):
            table = self.keywords
            if self.usage.has_options:
                table = {**self.keys, **table}
        else:
            table = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                self._edit(keyword, keyword.arg, table.get(keyword.arg))
        for constant in argument_names(node):
            self._edit_string(constant, self.keywords.get(str(constant.value)))
        if name == "known_as":
            for constant in node.args:
                self._edit_string(constant, "function")
        if _takes_name(node.func):
            for keyword in node.keywords:
                if keyword.arg == "name":
                    self._edit_string(keyword.value, "function")

    def _key(self, node: ast.AST) -> None:
        if isinstance(node, ast.Tuple):
            for part in node.elts:
                self._key(part)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._edit_string(node, self.keys.get(node.value))

    def _edit(
        self, node: ast.Name | ast.arg | ast.keyword, old: str, new: str | None
    ) -> None:
        if new is not None and new != old:
            start = node.col_offset
            self._edits[node.lineno, start] = (start + len(old.encode()), new)

    def _edit_name(
        self, node: ast.FunctionDef | ast.ClassDef, word: str, new: str
    ) -> None:
        start = node.col_offset + len(word)
        self._edits[node.lineno, start] = (start + len(node.name.encode()), new)

    def _edit_string(self, node: ast.expr, new: str | None) -> None:
        if new is not None and node.end_col_offset is not None:
            self._edits[node.lineno, node.col_offset] = node.end_col_offset, quote(new)

    def edited(self, text: str) -> str:
        """Return the text with all edits made."""
        lines = [line.encode() for line in text.split("\n")]
        for (line, start), (stop, new) in sorted(self._edits.items(), reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:start] + new.encode() + old[stop:]
        return "\n".join(line.decode() for line in lines)


def _own_nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of statements in order, without those of functions inside."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef):
            yield from _own_nodes(node.decorator_list)
        elif not isinstance(node, ast.Lambda | ast.ClassDef):
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


def _stored(target: ast.AST) -> Iterator[ast.Name]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node


def _arguments(node: FunctionNode) -> list[ast.arg]:
    args = node.args
    stars = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *stars]


def _defaults(node: FunctionNode) -> list[ast.expr]:
    return [d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None]


def _annotations(node: ast.FunctionDef) -> list[ast.expr]:
    found = [arg.annotation for arg in _arguments(node)]
    return [a for a in [*found, node.returns] if a is not None]


def _takes_name(function: ast.expr) -> bool:
    """Whether a call is given the name of a function as an option.

    That is a jitted one that is bound as it is, or a kernel.
    """
    is_kernel = isinstance(function, ast.Attribute) and function.attr == "pallas_call"
    return is_kernel or root(function) == "jit_p"
