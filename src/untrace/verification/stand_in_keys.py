"""Keys of host functions and batching rules that others stand in for.

A stand-in says whose place it takes. That function and its stand-in get one key: its name,
and which of the functions of that name it is, in the order in which they are met.
"""

from __future__ import annotations

from typing import Any

from untrace import jaxapi
from untrace.verification import rules
from untrace.verification.identity import Same, identity, is_looked_into
from untrace.verification.keys import Key, KeyMaker, KeyScope


class StandInKeys(KeyMaker):
    """Makes keys of values; the program with the stand-ins has to come first."""

    def __init__(self, followed: rules.FollowedRules | None = None) -> None:
        super().__init__(followed)
        # The host functions that others stand in for, by the names they have.
        self.stand_ins: set[str] = set()
        self.leaves_stand_ins: set[Key] = set()  # with the numbers of leaves
        self.forget_hosts()

    def forget_hosts(self) -> None:
        """Number host functions anew, as for another program."""
        self.hosts: dict[Key, dict[Key, int]] = {}

    def parts(self, value: Any, scope: KeyScope | None) -> Key:
        call = jaxapi.host_call(value)
        if call is not None:
            leaves = self._of_leaves(call.function, call.in_tree.num_leaves)
            if leaves is not None:  # by name alone: those of a helper are made anew
                return ("host call of leaves", leaves)
        if self._is_held and not is_looked_into(value):
            return ("held", identity(value))
        name = jaxapi.stand_in_for(value)
        if name is not None:
            self.stand_ins.add(name)
            self._note_stand_in(name)
        elif self.stand_ins and callable(value):
            name = jaxapi.function_origin(value)
        if name is None or name not in self.stand_ins:
            return super().parts(value, scope)
        return ("host function", name, self._ordinal(name, value, scope))

    def _of_leaves(self, function: Any, n: Key) -> Key | None:
        """Return name and leaves of a function that stands in for `n`, or has a stand-in."""
        name = jaxapi.leaves_stand_in_for(function)
        if name is not None:
            self.leaves_stand_ins.add((name, n))
            self._note_stand_in(name)
        leaves = name or jaxapi.function_origin(function), n
        return leaves if leaves in self.leaves_stand_ins else None

    def _param(self, eqn: Any, name: str, scope: KeyScope) -> Key:
        call = rules.batching_call(eqn, name)
        if call is not None and (
            not call.is_flat or jaxapi.leaves_stand_in_for(call.rule)
        ):
            leaves = self._of_leaves(call.rule, call.n_leaves)
            if leaves is not None:
                trees = call.in_tree, call.out_tree
                number = self._ordinal(leaves, call.rule, scope, trees)
                return ("batching rule of leaves", leaves, number)
        rule = rules.batching_function(eqn, name)
        if rule is None or not self._is_replaced(rule):
            return super()._param(eqn, name, scope)
        return self.value(rule, scope)  # by name; a stand-in makes no equations

    def _is_replaced(self, function: Any) -> bool:
        """Whether a host function is a stand-in, or one that has stand-ins."""
        if jaxapi.stand_in_for(function) is not None:
            return True
        is_named = bool(self.stand_ins) and callable(function)
        return is_named and jaxapi.function_origin(function) in self.stand_ins

    def _ordinal(
        self,
        name: Key,
        value: Any,
        scope: KeyScope | None,
        trees: tuple[Any, ...] = (),
    ) -> int:
        """Number the host functions of one name, in the order in which they are met."""
        if jaxapi.stand_in_for(value) is not None:
            key: Key = Same(value)
        else:
            key = super().parts(value, scope), super().parts(trees, scope)
        known = self.hosts.setdefault(name, {})
        return known.setdefault(key, len(known))

    def _note_stand_in(self, name: str) -> None:
        self.notes.append(f"the function `{name}` (a stand-in is in its place)")
