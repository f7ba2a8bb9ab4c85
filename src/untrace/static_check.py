"""List what a file does beyond computing, without executing it (`verify --no-run`).

The file is parsed and every name, attribute, import and statement is looked at, also
where it is not called: decorators, defaults and aliases pass functions on. What is not
known to only compute is listed. References into JAX, NumPy and the standard library are
looked up in what is installed here; methods of values are known by their names alone.
What a trusted JAX does with the arguments, such as its memory, is not looked at.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import importlib
import re
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.errors import LoadError
from untrace.jaxapi import written
from untrace.jaxapi.helpers import HELPERS
from untrace.lifting.imports import ALIASES
from untrace.lifting.spelling.sidecar import loader_function, unpacker_function
from untrace.parsing import parse
from untrace.static_tables import (
    ATTRIBUTES,
    BUILTINS,
    DENIED,
    DENIED_ATTRIBUTES,
    JAX_MODULES,
    JAX_PRIVATE,
    MODULES,
    NODES,
    SETTINGS,
    STANDARD,
)

_FORMAT = re.compile(r"\{[^{}]*[.\[]\s*_")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A line that does more than compute, or may."""

    line: int
    text: str


def check_file(content: bytes, name: str = "the file") -> list[Finding]:
    """List what a Python file imports, calls or touches beyond computing with JAX.

    Args:
      content: The file.
      name: What to call it in errors.

    Returns:
      Findings by line; empty for the files that untrace writes, unless they need host
      functions, libraries, or parts of JAX that are not public.

    Raises:
      LoadError: If it is not Python.
    """
    cookies = [_COOKIE.match(line) for line in content.split(b"\n")[:2]]
    coding = next((c[1].decode().lower() for c in cookies if c), "utf-8")
    if coding not in ("utf-8", "utf8"):
        return [Finding(1, f"is encoded as {coding!r}, which hides what it says")]
    try:
        tree = parse(content.decode("utf-8"))
        return sorted({*_Checker(tree).findings()})
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LoadError(f"{name} is not valid Python: {error}.") from error


class _Checker:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        known = _known_functions()
        self.trusted = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and ast.dump(node) in known
        ]
        self.bound = {node.name for node in self.trusted}
        self.fields: set[str] = set()
        self.imported: dict[str, str] = {}
        for node in self._nodes(tree):
            self._bind(node)
        for name in self.bound & self.imported.keys():
            del self.imported[name]  # it may be either: it is known by its attributes

    def findings(self) -> Iterator[Finding]:
        """Yield what is found, in no order."""
        inner: set[int] = set()  # parts of dotted names that are looked at as a whole
        for node in self._nodes(self.tree):
            if id(node) in inner:
                continue
            for text in self._about(node, inner):
                yield Finding(getattr(node, "lineno", 1), text)

    def _nodes(self, tree: ast.AST) -> Iterator[ast.AST]:
        """Yield nodes from the outside to the inside, but for functions of our own."""
        nodes: list[ast.AST] = [tree]
        while nodes:
            node = nodes.pop()
            yield node
            nodes += [n for n in ast.iter_child_nodes(node) if n not in self.trusted]

    # ---- what names mean ------------------------------------------------------------

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._import(name, alias.name if alias.asname else name)
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    self._import(alias.asname or alias.name, f"{module}.{alias.name}")
            case ast.ClassDef(body=body):
                targets = [n.target for n in body if isinstance(n, ast.AnnAssign)]
                self.fields |= {t.id for t in targets if isinstance(t, ast.Name)}
            case _:
                pass
        self.bound.update(_defined(node))

    def _import(self, name: str, dotted: str) -> None:
        if self.imported.setdefault(name, dotted) != dotted:
            self.bound.add(name)

    # ---- what is said about a node --------------------------------------------------

    def _about(self, node: ast.AST, inner: set[int]) -> Iterator[str]:
        for name in _defined(node):
            if name.startswith("__") or name in _NOT_COMPUTING:
                yield f"defines `{name}`"
        if type(node).__name__ not in NODES:
            yield f"has a statement or expression `{type(node).__name__}`"
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as docstring):
                inner.add(id(docstring))  # nothing is done with it
            case ast.Import(names=names):
                for alias in names:
                    yield from self._about_import(alias.name)
            case ast.ImportFrom():
                yield from self._about_import_from(node)
            case ast.Call(func=function, args=args, keywords=keywords):
                if self._dotted(function) == "jax.config.update" and _is_setting(args):
                    inner.update(id(n) for n in ast.walk(function))
                if any(k.arg == "compiler_options" for k in keywords):
                    yield "passes options to the compiler"
            case ast.Attribute():
                yield from self._about_attribute(node, inner)
            case ast.Name(id=name, ctx=ast.Load()):
                yield from self._about_name(name)
            case ast.ClassDef(keywords=[*keywords]) if keywords:
                yield f"gives the class `{node.name}` a metaclass or keywords"
            case ast.Constant(value=str(text)) if _FORMAT.search(text):
                yield f"has a format that reads private attributes: {text!r}"
            case _:
                pass

    def _about_import(self, name: str) -> Iterator[str]:
        if not (name in MODULES or name in STANDARD):
            yield f"imports `{name}`"

    def _about_import_from(self, node: ast.ImportFrom) -> Iterator[str]:
        for alias in node.names:
            home = "." * node.level + f"{node.module or ''}."
            dotted = (
                f"{home.removesuffix('.') if node.module is None else home}{alias.name}"
            )
            why = "" if node.level else judged(dotted, is_imported=True)
            if node.level or alias.name == "*" or why:
                yield f"imports `{dotted}`{why and ': ' + why}"

    def _about_name(self, name: str) -> Iterator[str]:
        if name in self.imported:
            why = judged(self.imported[name])
            if why:
                yield f"uses `{name}`: {why}"
        elif name in _NOT_COMPUTING:
            yield f"uses `{name}`"
        elif name not in self.bound and name not in BUILTINS:
            yield f"uses `{name}`, which it does not define"

    def _about_attribute(self, node: ast.Attribute, inner: set[int]) -> Iterator[str]:
        dotted = self._dotted(node)
        if dotted is None:
            if not self._is_known_attribute(node.attr):
                yield f"uses the attribute `{node.attr}` of a value"
        else:
            inner.update(id(n) for n in ast.walk(node.value))
            why = judged(dotted)
            if why:
                yield f"uses `{ast.unparse(node)}`: {why}"
        if not isinstance(node.ctx, ast.Load):
            yield f"changes `{ast.unparse(node)}`"

    def _is_known_attribute(self, name: str) -> bool:
        is_field = name in self.fields and not name.startswith("__")
        return name not in DENIED_ATTRIBUTES and (name in ATTRIBUTES or is_field)

    def _dotted(self, node: ast.AST) -> str | None:
        """Return what an expression means, if it is a name that was imported, dotted."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        return ".".join([self.imported[node.id], *reversed(parts)])


_NOT_COMPUTING = frozenset(vars(builtins)) - BUILTINS


def _defined(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds, other than by an import."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name
        case _:
            pass


def judged(dotted: str, is_imported: bool = False) -> str:
    """Say what is wrong with a dotted name that begins with a module, or return "".

    Args:
      dotted: Such as "jax.numpy.sin".
      is_imported: It is named in an import, where modules may be.
    """
    root, _, rest = dotted.partition(".")
    if root in STANDARD:
        is_known = rest in STANDARD[root] and not rest.startswith("_")
        return "" if is_known else "it may do more than compute"
    if dotted in JAX_PRIVATE or dotted.startswith(f"{written.PRIVATE}."):
        is_module = dotted in JAX_MODULES and not is_imported
        is_known = dotted in JAX_PRIVATE or _is_record(dotted)
        return _A_MODULE if is_module else "" if is_known else "it is private"
    home = max((m for m in MODULES if f"{dotted}.".startswith(f"{m}.")), default="")
    if not home:
        return "it is neither JAX, NumPy nor the standard mathematics"
    names = dotted.removeprefix(home).split(".")[1:]
    if not names:
        return "" if is_imported else _A_MODULE
    if names[0] in DENIED.get(home, ()) or DENIED_ATTRIBUTES & set(names):
        return "it reaches the host, its files or its settings"
    return _missing(home, names)


def _is_record(dotted: str) -> bool:
    """Whether a private name of JAX is a primitive (or its `bind`) or a class of records."""
    module, _, name = dotted.removesuffix(".bind").rpartition(".")
    if name in DENIED[written.PRIMITIVES]:
        return False
    found = getattr(sys.modules.get(module), name, None)
    if isinstance(found, jaxapi.Primitive):
        return True
    if not isinstance(found, type) or dotted.endswith(".bind"):
        return False
    return issubclass(found, (tuple, enum.Enum)) or dataclasses.is_dataclass(found)


_A_MODULE = "it is a module, used as a value"


def _missing(home: str, names: list[str]) -> str:
    """Say why a name of a module does not lead to a public object, or return ""."""
    try:
        found: Any = importlib.import_module(home)
    except ImportError:
        return "it is not installed here"
    for name in names:
        if name.startswith("_"):
            return "it is private"
        found = getattr(found, name, None)
        if found is None:
            return "there is no such thing"
        if isinstance(found, types.ModuleType):
            return "it does more than compute, or may"
    return ""


def _is_setting(args: list[ast.expr]) -> bool:
    """Whether a setting that computations depend on is set to a constant."""
    values = [a.value for a in args if isinstance(a, ast.Constant)]
    return len(values) == len(args) == 2 and values[0] in SETTINGS


def _known_functions() -> set[str]:
    """Return the functions that untrace itself writes into files, whole."""
    readers = [make(ALIASES["numpy"]) for make in (loader_function, unpacker_function)]
    texts = [*readers, *(h.source for h in HELPERS.values())]
    return {ast.dump(node) for text in texts for node in parse(text).body}
