"""Give a program a name that is the same in every process on one JAX version.

The fingerprint covers exactly what `compare` compares: programs that `compare` tells
apart have different fingerprints; and the names and trees that a caller sees. Functions
are written by their code, and by module and name where they have none that can be read.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture.outline import Outline, Output, Static
from untrace.verification.canonical import class_name
from untrace.verification.identity import Same
from untrace.verification.interface import Interface
from untrace.verification.keys import Key, KeyMaker, KeyScope
from untrace.verification.retrace import OWN_MODULE
from untrace.verification.rules import FollowedRules, with_depth
from untrace.verification.surroundings import seen_globals, written_globals

# Changed whenever equal programs would get another fingerprint than before.
_FORMAT = "untrace 4"
_CONSTANTS = frozenset({bool, int, float, complex, str, bytes, np.float32, np.float64})


def fingerprint(jaxpr: Any, interface: Interface | None = None) -> str:
    """Compute the fingerprint of a closed or open jaxpr, and of what a caller sees of it.

    Returns:
      64 hexadecimal digits. Renaming, debug info and the order of constants do not
      change it; they may change with the JAX or Python version.
    """

    def digest(followed: FollowedRules) -> str:
        maker = FingerprintMaker(followed)
        maker.cases = jaxapi.RuleCases(jaxpr)
        with jaxapi.deep_recursion():
            _, digest = maker.jaxpr(jaxpr, None)
            seen = repr(None if interface is None else maker.interface(interface))
        whole = f"{_FORMAT} {jaxapi.jax_version()} {digest} {seen}"
        return hashlib.sha256(whole.encode()).hexdigest()

    return with_depth(digest)


class FingerprintMaker(KeyMaker):
    """Makes keys of digests, which are the same in every process."""

    def __init__(self, followed: FollowedRules) -> None:
        super().__init__(followed)
        self.digests: dict[int, str] = {}
        self.held: dict[int, int] = {}

    def interface(self, interface: Interface) -> Key:
        """Make the key of what a caller sees of a function."""
        parameters = [
            (p.name, p.kind.name, p.default is p.empty or self.value(p.default, None))
            for p in interface.parameters
        ]
        arguments = [self.outline(node) for node in interface.arguments]
        return (parameters, arguments, self.outline(interface.result))

    def outline(self, node: Outline) -> Key:
        """Make the key of a tree; its own classes have no module that lasts."""
        if isinstance(node, Output):
            return ("output", node.number)
        if isinstance(node, Static):
            return ("static", self.value(node.value, None))
        is_own = node.cls.__module__.startswith(OWN_MODULE)
        name = node.cls.__qualname__ if is_own else class_name(node.cls)
        keys = [self.value(key, None) for key in node.keys]
        children = [self.outline(child) for child in node.children]
        return (name, keys, children, self.value(node.rest, None))

    def seeing(self, kind: Key, function: Any) -> Key:
        """Take the constants that a function sees; all else it sees by name.

        What it writes itself, such as a counter of its calls, is no constant.
        """
        written = {f"global {name}" for name in written_globals(function)}
        seen = [
            (name, self.value(value, None))
            for name, value in seen_globals(function)
            if type(value) in _CONSTANTS and name not in written
        ]
        return (tuple(seen),)

    def changeable(self, parts: tuple[Any, ...]) -> Key:
        self._alive += parts
        return tuple([self.held.setdefault(id(p), len(self.held)) for p in parts])

    def jaxpr(self, jaxpr: Any, parent: KeyScope | None) -> Key:
        known = self.digests.get(id(jaxpr))
        if known is not None:
            return ("jaxpr", known)
        uses = self.n_outer_uses
        digest = self.body(Same(jaxpr), lambda: self._digest(jaxpr, parent))
        if uses == self.n_outer_uses:
            self.digests[id(jaxpr)] = digest
            self._alive.append(jaxpr)
        return ("jaxpr", digest)

    def _digest(self, jaxpr: Any, parent: KeyScope | None) -> str:
        body, consts = jaxapi.split_jaxpr(jaxpr)
        scope = KeyScope(parent, dict(zip(body.constvars, consts)))
        # An open jaxpr on its own: its constants are inputs without a value.
        inputs = [*([] if consts else body.constvars), *body.invars]
        for var in inputs:
            scope.keys[var] = len(scope.keys)
        states = [self.value(jaxapi.initial_state(var), scope) for var in inputs]
        lines = hashlib.sha256()
        lines.update(repr(([self.aval(v.aval) for v in inputs], states)).encode())
        for eqn in body.eqns:
            lines.update(repr(self.equation(eqn, scope)).encode())
            for var in eqn.outvars:
                scope.keys[var] = len(scope.keys)
        results = [self.atom(atom, scope) for atom in body.outvars]
        effects = self.effects(body.effects, scope) if body.effects else ()
        lines.update(repr((results, effects)).encode())
        return lines.hexdigest()

    def equation(self, eqn: Any, scope: KeyScope) -> Key:
        """Make the key of an equation."""
        effects = self.effects(eqn.effects, scope) if eqn.effects else ()
        return (
            self.primitive(eqn.primitive),
            self.params(eqn, scope),
            [self.atom(atom, scope) for atom in eqn.invars],
            [self.aval(var.aval) for var in eqn.outvars],
            effects,
            self.context(eqn.ctx),
        )

    def aval(self, aval: Any) -> Key:
        return self.shared(aval, self._short_aval)

    def _short_aval(self, aval: Any) -> Key:
        return self._short(self.value(aval, None))

    def context(self, context: Any) -> Key:
        return self.shared(context, lambda c: self._short(self._context(c)))

    def _short(self, key: Key) -> str:
        """Shorten a key that is written often."""
        return hashlib.sha256(repr(key).encode()).hexdigest()[:32]
