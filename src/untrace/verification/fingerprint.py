"""Give a program a name that is the same in every process on one JAX version.

The fingerprint covers exactly what `compare` compares: programs that `compare` tells
apart have different fingerprints. Functions are written by their code, and by module
and name where they have none that can be read.
"""

from __future__ import annotations

import hashlib
from typing import Any

from untrace import jaxapi
from untrace.verification.keys import Key, KeyMaker, KeyScope

# Changed whenever equal programs would get another fingerprint than before.
_FORMAT = "untrace 1"


def fingerprint(jaxpr: Any) -> str:
    """Compute the fingerprint of a closed or open jaxpr.

    Returns:
      64 hexadecimal digits. Renaming, debug info and the order of constants do not
      change it; they may change with the JAX or Python version.
    """
    with jaxapi.deep_recursion():
        _, digest = _FingerprintMaker().jaxpr(jaxpr, None)
    return hashlib.sha256(
        f"{_FORMAT} {jaxapi.jax_version()} {digest}".encode()
    ).hexdigest()


class _FingerprintMaker(KeyMaker):
    def __init__(self) -> None:
        super().__init__()
        self.digests: dict[int, str] = {}

    def jaxpr(self, jaxpr: Any, parent: KeyScope | None) -> Key:
        known = self.digests.get(id(jaxpr))
        if known is not None:
            return ("jaxpr", known)
        uses = self.n_outer_uses
        digest = self._digest(jaxpr, parent)
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
            lines.update(repr(self._equation(eqn, scope)).encode())
            for var in eqn.outvars:
                scope.keys[var] = len(scope.keys)
        results = [self.atom(atom, scope) for atom in body.outvars]
        effects = self.effects(body.effects, scope) if body.effects else ()
        lines.update(repr((results, effects)).encode())
        return lines.hexdigest()

    def _equation(self, eqn: Any, scope: KeyScope) -> Key:
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
