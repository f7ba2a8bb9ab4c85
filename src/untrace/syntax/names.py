"""Identifiers: the one sanitiser, and scopes in which every name is unique.

Names come from anywhere (function names, argument paths, dumps), so `identifier` is
the only way from a foreign string to a name in the output. A `Scope` hands out names
that are legal, unique in their function and never shadow a name of an enclosing scope,
a builtin or an import.

Source: the idea of one namespace object per graph is that of `torch.fx`.
"""

from __future__ import annotations

import builtins
import keyword
import re
import unicodedata
from collections.abc import Iterable

_MODULE_NAMES = ("jax", "jnp", "np", "functools", "collections", "self")
_FUNCTION_NAMES = ("example_args", "tracing_context")
_PRIMITIVE_NAMES = ("convert_element_type_p", "copy_p", "jit_p")
"""Those that helpers use, or that are looked for in finished texts."""
RESERVED = frozenset(
    (
        *keyword.kwlist,
        *keyword.softkwlist,
        *dir(builtins),
        *_MODULE_NAMES,
        *_FUNCTION_NAMES,
        *_PRIMITIVE_NAMES,
    )
)
HELPER_NAMES = frozenset(
    (
        *("by_perturbed", "by_tangents", "check_errors", "check_failed", "combine"),
        *("converted_with_sharding", "error_if", "exact", "filled", "hoisted"),
        *("inexact", "instantiated", "known_as", "merged"),
        *("root_linear_map", "root_with_rule", "staged", "traced_at"),
        *("unchecked_jvp", "unchecked_vjp", "unmade", "with_zeros", "without"),
    )
)
"""The functions that a file may define, which no argument of it may hide."""
MAX_LENGTH = 48

_NOT_WORD = re.compile(r"[^A-Za-z0-9_]+")
_LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifier(text: str, default: str = "value") -> str:
    """Turn any string into a legal ASCII identifier that is not reserved.

    >>> identifier("params['Dense_0']['kernel']")
    'params_Dense_0_kernel'
    >>> identifier("f():\\n  import os")
    'f_import_os'
    >>> identifier("lambda"), identifier("2x"), identifier("λ", "fn"), identifier("x_p")
    ('lambda_', 'value_2x', 'fn', 'x_p')
    """
    text = str.__str__(text)  # never a subclass, which may show itself otherwise
    name = text
    if len(name) > MAX_LENGTH or not _LEGAL.fullmatch(name):
        name = _NOT_WORD.sub("_", text[: 8 * MAX_LENGTH]).rstrip("_")
        private = text.startswith("_")
        name = name.lstrip("_")[:MAX_LENGTH].rstrip("_")
        if not name:
            return default
        if name[0].isdigit():
            name = f"{default}_{name}"
        if private:
            name = "_" + name
    if name.startswith("__") or not name.strip("_"):
        name = name.strip("_") or default
        if name[0].isdigit():
            name = f"{default}_{name}"
    return name + "_" if name in RESERVED else name


def is_name(text: object) -> bool:
    """Whether an attribute or keyword of exactly this name can be written.

    >>> is_name("axis"), is_name("a b"), is_name("class"), is_name("__debug__")
    (True, False, False, False)
    """
    return (
        type(text) is str
        and text.isidentifier()
        and not keyword.iskeyword(text)
        and text != "__debug__"  # Python lets nobody assign to it
        and (text.isascii() or unicodedata.normalize("NFKC", text) == text)
    )


def is_dotted_name(text: object) -> bool:
    """Whether a text is made of names with dots between them."""
    return type(text) is str and all(map(is_name, text.split(".")))


class Scope:
    """The names visible in one function: its own and those of enclosing scopes."""

    __slots__ = ("_counts", "_everywhere", "_global_counts", "_own", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self._own: set[str] = set()
        self._counts: dict[str, int] = {}
        self._everywhere: set[str] = parent._everywhere if parent else set()
        self._global_counts: dict[str, int] = parent._global_counts if parent else {}

    def fresh(self, hint: str) -> str:
        """Return a new name like `hint`, which must be a legal identifier."""
        name = hint
        known = self._counts.get(hint)  # then it is taken, and these numbers are
        if known is not None or self.is_taken(name):
            count = known or 1
            while True:
                count += 1
                name = f"{hint}_{count}"
                # Most names are new in the whole module, and that is one look.
                if name not in self._everywhere or not self.is_taken(name):
                    break
            self._counts[hint] = count
        self._own.add(name)
        self._everywhere.add(name)
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names for functions: no global gets them."""
        self._everywhere.update(names)

    def fresh_global(self, hint: str) -> str:
        """Return a new name that no scope of the module has used so far."""
        name, count = hint, self._global_counts.get(hint, 1)  # those below are taken
        while name in self._everywhere:
            count += 1
            name = f"{hint}_{count}"
        self._global_counts[hint] = count
        self._own.add(name)
        self._everywhere.add(name)
        return name

    def release(self, names: Iterable[str]) -> None:
        """Let others have global names that nothing has any more."""
        released = set(names)
        self._own -= released
        self._everywhere -= released
        self._global_counts.clear()

    def is_taken(self, name: str) -> bool:
        """Whether `name` is defined here or in an enclosing scope."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._own:
                return True
            scope = scope.parent
        return False
