"""What one generated module shares between its functions.

A `Lifter` holds the imports, constants and helpers of a module and the functions of all
sub-programs, each printed once. `frame.py` writes the functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Equation, Value
from untrace.jaxapi.helpers import HELPERS
from untrace.lifting.blocks.lost import LostRules
from untrace.lifting.constants import Constants
from untrace.lifting.imports import Imports, NotShared, SharedImports
from untrace.lifting.literals import Literals, spell_param
from untrace.lifting.printing import Function
from untrace.lifting.rules.table import Rule, accepted
from untrace.lifting.steps import Steps
from untrace.options import Options
from untrace.syntax.names import Scope


class Lifter:
    """Everything that one generated module shares between its functions."""

    def __init__(
        self,
        options: Options,
        steps: Steps | None = None,
        lost: LostRules | None = None,
        rule_cases: jaxapi.RuleCases | None = None,
    ) -> None:
        self.lost = lost
        self.rule_cases = rule_cases or jaxapi.RuleCases()
        self.options = options
        self.scope = Scope()
        for name in HELPERS:  # their sources name themselves
            self.scope.fresh_global(name)
        self.imports = Imports(self.scope)
        self.constants = Constants(self.scope, self.imports)
        self.literals = Literals(self.imports)
        self.functions: list[Function] = []
        self.helpers: dict[str, str] = {}
        self.notes: list[str] = []
        self.weight_lines: list[str] = []  # the function that loads stored arguments
        # Primitives of libraries that are written as what they compute.
        self.opened: Mapping[Any, bool] = {}
        # Functions in the place of primitives with their batching rules, by their blocks
        # and by their texts.
        self.batched: dict[Any, tuple[str, Any]] = {}
        self.stand_ins: dict[Any, str] = {}
        # What functions of the file are in the place of, by their names.
        self.originals: dict[str, Callable[..., Any]] = {}
        self.steps = Steps() if steps is None else steps
        self.hints: dict[Value, str] = {}
        # The names that values have where they are defined.
        self.defined: dict[Value, str] = {}
        # Whether what is used once is written where it is used.
        self.is_folding = False
        # What is done to programs that are read while others are written.
        self.rewrite: Callable[[Block], Block] = lambda block: block
        self.n_equations = 0
        self.shared: set[int] = set()
        self.selectors: dict[Equation, Any] = {}
        self.variants: dict[Any, Block] = {}
        self.named: dict[Any, str] = {}  # functions, by what they are made of
        self.rules: dict[Any, list[tuple[str, Scope]]] = {}
        self.rule_names: list[str] = []
        # The rules of equations as they were traced, for all writings of a program.
        self.traced_rules: dict[Any, Any] = {}
        self.linear_maps: list[str] = []  # of the `tangent_solve`s being written
        self.n_cut_rules = 0
        self._choices: dict[Any, Choices] = {}
        self._used_rules: set[Rule] = set()

    def step(self, eqn: Equation) -> int:
        """Return how many steps lower than usual an equation is to be printed."""
        return self.steps.of(eqn)

    def note(self, text: str) -> None:
        """Remember something that the header and the report must mention."""
        if text not in self.notes:
            self.notes.append(text)

    def helper(self, key: str) -> str:
        """Make sure that a small helper function is in the module; return its name."""
        name = self.helpers.get(key)
        if name is None:
            name = self.helpers[key] = key
            for module in HELPERS[key].imports:
                self.imports.module(module)
        return name

    def is_global(self, name: str) -> bool:
        """Whether the module has an import, a helper, a class or a number of a name."""
        imported = self.imports.modules.values()
        return name in imported or name in self.helpers or self.scope.is_taken(name)

    def spell(self, value: Any, form: str = "") -> str:
        """Write a param value as Python text, through a named format."""
        return self.literals.param(value, form)

    @property
    def is_deep(self) -> bool:
        """Whether rules of rules of rules are being written, which are long and not read.

        Their lines are looked through again by every rule around them, so nothing is done
        that only makes them shorter.
        """
        return len(self.rule_names) > jaxapi.MAX_RULE_REPEATS

    def imported(self, rule: Rule, form: str) -> str:
        """Import what a rule names; return its form with the names they have here."""
        if rule not in self._used_rules:
            self._used_rules.add(rule)
            for root in rule.roots:
                self.imports.module(root)
        for name, module in rule.imports:
            form = re.sub(rf"\b{name}\b", self.imports.attribute(module, name), form)
        return form

    def choices(self, eqn: Equation) -> Choices:
        """Return the rules that accept the params of an equation, remembering them."""
        values = eqn.params.values()
        # What a sharding is written like depends on the mesh in context.
        context = eqn.context if _has_sharding(eqn.params) else None
        key = (eqn.name, context, *values, *map(type, values))
        try:
            known = self._choices.get(key)
        except TypeError:  # a param that does not hash
            return Choices(self, eqn)
        if known is None:
            known = Choices(self, eqn)
            if not any(isinstance(v, (float, complex)) for v in values):
                self._choices[key] = known
        return known


class Choices:
    """The rules that accept some params, each filled in when it is first used."""

    __slots__ = ("_forms", "_is_shared", "_lifter", "_mesh", "_params", "accepted")

    def __init__(self, lifter: Lifter, eqn: Equation) -> None:
        self._lifter = lifter
        self._params = eqn.params
        self._forms: dict[Rule, str] = {}
        self.accepted, self._is_shared = accepted(eqn.name, eqn.params)
        # What all programs share holds no sharding.
        is_sharded = not self._is_shared and _has_sharding(eqn.params)
        self._mesh = jaxapi.context_mesh(eqn.context) if is_sharded else None

    def form(self, rule: Rule) -> str:
        """Return the format string that a rule gives for these params."""
        form = self._forms.get(rule)
        if form is None:
            filled = self._shared_form(rule) if self._is_shared else None
            filled = filled or rule.fill(self._params, self._spell)
            form = self._forms[rule] = self._lifter.imported(rule, filled)
        return form

    def _shared_form(self, rule: Rule) -> str | None:
        """Fill a rule in for all modules; None if what it names differs among them."""
        forms = self.accepted.forms
        if rule not in forms:
            forms[rule] = _shared_form(rule, self._params)
        shared = forms[rule]
        if shared is None:
            return None
        form, modules = shared
        for module in modules:
            self._lifter.imports.module(module)
        return form

    def _spell(self, value: Any, form: str) -> str:
        if self._mesh is not None and jaxapi.is_over(value, self._mesh):
            value = value.spec
        return self._lifter.spell(value, form)


def _shared_form(
    rule: Rule, params: Mapping[str, Any]
) -> tuple[str, tuple[str, ...]] | None:
    imports = SharedImports()
    try:
        form = rule.fill(params, lambda value, form: spell_param(value, form, imports))
    except NotShared:
        return None
    return form, tuple(imports.modules)


def _has_sharding(params: Mapping[str, Any]) -> bool:
    return params.get("out_sharding") is not None or params.get("sharding") is not None
