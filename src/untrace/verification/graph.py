"""Number what programs compute: a value by its primitive, its params and its operands.

The method is value numbering, Cocke & Schwartz 1970.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.verification import difference, rules
from untrace.verification.canonical import literal_key
from untrace.verification.compare import see_the_same
from untrace.verification.identity import Same
from untrace.verification.keys import NONE_KNOWN, Key, KeyScope
from untrace.verification.parting import Node, Summary
from untrace.verification.readers import Reader, readers
from untrace.verification.rule_stack import RuleStack
from untrace.verification.stand_in_keys import StandInKeys

# Calls that only group equations, and the param that holds what they call.
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
}

# Primitives that give another value each time, in order, though they declare no effect.
DRAWS = frozenset({"rng_uniform", "prng_random_bits", "semaphore_read"})

# Primitives whose cotangents go through code of the user, which may not be linear: what is
# called twice clips two cotangents, and what is called once clips their sum. What a
# function does to batches may be such a call.
PULLED_BACK = frozenset(
    {
        "custom_vjp_call",
        "custom_vmap_call",
        "linear_call",
        "custom_transpose_call",
        "custom_linear_solve",
        "call_hi_primitive",
    }
)


Pairs = tuple[tuple[int, int], ...]


class Graph(StandInKeys):
    """Numbers values; `keys` of variables are these numbers."""

    def __init__(
        self,
        opened: Mapping[Any, bool],
        are_refs_anew: bool,
        followed: rules.FollowedRules | None = None,
    ) -> None:
        super().__init__(followed)
        self.opened = dict(opened)
        self.is_recovered = False  # whether the program at hand is, not the original
        self.are_refs_anew = are_refs_anew
        # How often something was drawn anew, and the bodies that do so.
        self.n_draws = 0
        self.drawing: set[int] = set()
        # Functions of one code that see other globals, whatever program they are of.
        self.same_code: dict[Key, list[Any]] = {}
        self.has_effects = False
        # How often cotangents of the user's own are made in the jaxpr at hand, by calls.
        self.pulled: collections.Counter[Key] = collections.Counter()
        self.pulling: dict[int, tuple[Any, bool]] = {}
        self.is_foreign: dict[Any, bool] = {}  # primitives
        self.rules_of: dict[
            Hashable, list[Any]
        ] = {}  # jaxprs, by functions of the user
        # How often host functions were met that hold something, and the bodies with them:
        # they are gone through once for each program.
        self.n_held = 0
        self.holding: set[Any] = set()
        self.numbers: dict[Key, int] = {}
        self.nodes: list[Node] = []
        self.bodies: dict[Key, int] = {}
        self.calls: dict[Key, tuple[int, ...]] = {}
        self.reading: dict[int, frozenset[int]] = {}
        # Types of the values that are known, by their numbers.
        self.known: dict[int, Key] = {}
        # Effectful equations of the jaxpr at hand, in order.
        self.sequence: list[int] = []

    def program(self, jaxpr: Any, is_recovered: bool = False) -> Summary:
        """Number a program of its own."""
        self.is_recovered = is_recovered
        self.notes, self._refs, self._rules = [], {}, RuleStack(True)
        for key in self.holding:
            self.bodies.pop(key, None)
            self.reading.pop(key, None)
        self.holding.clear()
        self.forget_hosts()
        self.held: dict[int, set[Key]] = {}
        self.raising = {}
        self.meshes: set[Any] = set()  # of devices, around calls that are opened
        inputs, effects, results = self._enter(jaxpr, None)
        body, _ = jaxapi.split_jaxpr(jaxpr)
        return Summary(inputs, effects, results, body, tuple(self.notes))

    def counts(self) -> Key:
        return self.n_draws, self.n_held

    def ref(self, ref: Any) -> Key:
        if self.are_refs_anew:
            return super().ref(ref)
        self._alive.append(ref)
        return ("ref itself", id(ref))

    def primitive(self, primitive: Any) -> Key:
        return self.shared(primitive, Same)

    def witnessed(self, kind: Key, witness: Any) -> Key:
        return (*kind, Same(witness))

    def opaque(self, value: Any, kind: Key) -> Key:
        return ("object", Same(value))

    def seeing(self, kind: Key, function: Any) -> Key:
        known = self.same_code.setdefault(kind, [])
        for number, other in enumerate(known):
            if see_the_same(function, other, self.are_refs_anew):
                return (number,)
        known.append(function)
        return (len(known) - 1,)

    def changeable(self, parts: tuple[Any, ...]) -> Key:
        if self.has_effects:  # a host function without has no state that counts
            for part in parts:
                self.held.setdefault(id(part), set()).add(self._holder)
            self._alive += parts
            self.n_held += len(parts)
        return ()

    def _ordinal(
        self,
        name: Key,
        value: Any,
        scope: KeyScope | None,
        trees: tuple[Any, ...] = (),
    ) -> int:
        # A stand-in holds nothing: what the function holds is taken on trust with it,
        # as in `compare`.
        outer, self.has_effects = self.has_effects, False
        number = super()._ordinal(name, value, scope, trees)
        self.has_effects = outer
        return number

    def shared_objects(self) -> collections.Counter[frozenset[Key]]:
        """Count the objects that the same host functions hold."""
        return collections.Counter(map(frozenset, self.held.values()))

    def params(
        self, eqn: Any, scope: KeyScope, known: Mapping[str, Key] = NONE_KNOWN
    ) -> Key:
        key = super().params(eqn, scope, known)
        if _CALLS.get(jaxapi.primitive_name(eqn.primitive)) != "jaxpr":
            return key
        return tuple([item for item in key if item[0] != "name"])

    def jaxpr(
        self,
        jaxpr: Any,
        parent: KeyScope | None,
        unread: frozenset[int] = frozenset(),
        repeated: Pairs = (),
        fixed: Pairs = (),
        order: tuple[int, ...] = (),
    ) -> Key:
        memo = (id(jaxpr), unread, repeated, fixed, order)
        known = self.bodies.get(memo)
        if known is not None:
            self.n_held += memo in self.holding
            self.n_draws += known in self.drawing
            self.raising |= self.raised[memo]
            return ("jaxpr", known)
        uses, n_draws, n_held = self.n_outer_uses, self.n_draws, self.n_held
        outer, self.raising = self.raising, {}

        def make() -> int:
            avals, effects, results = self._enter(
                jaxpr, parent, unread, repeated, fixed, order
            )
            node = Node(("body", avals, len(effects)), (*effects, *results))
            return self.number(("body", avals, effects, results), node)

        number = self.body((Same(jaxpr), unread, repeated, fixed, order), make)
        raised, self.raising = self.raising, outer | self.raising
        if n_draws < self.n_draws:
            self.drawing.add(number)
        if uses == self.n_outer_uses:
            self.bodies[memo], self.raised[memo] = number, raised
            self._alive.append(jaxpr)
            if n_held < self.n_held:
                self.holding.add(memo)
        return ("jaxpr", number)

    def number(self, key: Key, node: Node) -> int:
        """Find or make the number of what `key` describes."""
        number = self.numbers.setdefault(key, len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(node)
        return number

    def _enter(
        self,
        jaxpr: Any,
        parent: KeyScope | None,
        unread: frozenset[int] = frozenset(),
        repeated: Pairs = (),
        fixed: Pairs = (),
        order: tuple[int, ...] = (),
    ) -> tuple[tuple[Key, ...], tuple[int, ...], tuple[int, ...]]:
        """Number a jaxpr over inputs of its own.

        Only dead equations use those that are `unread`. `repeated` pairs inputs with
        earlier ones that are given the same value, `fixed` with constants that they are.
        The first inputs are counted in an `order`.
        """
        body, consts = jaxapi.split_jaxpr(jaxpr)
        inputs = _inputs(jaxpr)
        dropped = unread | {i for i, _ in (*repeated, *fixed)}
        counted = [*order, *range(len(order), len(inputs))]
        read = [inputs[i] for i in counted if i not in dropped]
        avals = tuple([self.aval(var.aval) for var in read])
        positions = {var: i for i, var in enumerate(read)}
        arguments = [self._input(positions.get(var), var) for var in inputs]
        for i, number in fixed:
            arguments[i] = number
        for i, earlier in repeated:
            arguments[i] = arguments[earlier]
        outer = self.sequence, self.pulled
        self.sequence, self.pulled = [], collections.Counter()
        results = self._run(body, consts, inputs, arguments, parent)
        effects = tuple(self.sequence)
        self.sequence, self.pulled = outer
        return avals, effects, results

    def _input(self, position: int | None, var: Any) -> int:
        """Number an input; None is the position of one that is not read."""
        state = self.value(jaxapi.initial_state(var), None)
        text = f"input {position} {difference.short_type(var.aval)}"
        key = ("input", position, self.aval(var.aval), state)
        return self.number(key, Node("input", (), text=text))

    def _unread(self, jaxpr: Any, n: int, scope: KeyScope) -> frozenset[int]:
        """Return which of the first inputs of a jaxpr no live equation reads."""
        if not n:
            return frozenset()
        known = self.reading.get(id(jaxpr))
        self.n_held += id(jaxpr) in self.holding
        if known is None:
            uses, n_held = self.n_outer_uses, self.n_held
            name = ("unread", Same(jaxpr))
            known = self.body(name, lambda: self._not_read(jaxpr, scope))
            if uses == self.n_outer_uses:
                self.reading[id(jaxpr)] = known
                self._alive.append(jaxpr)
                if n_held < self.n_held:
                    self.holding.add(id(jaxpr))
        return frozenset([i for i in known if i < n])

    def _not_read(self, jaxpr: Any, scope: KeyScope) -> frozenset[int]:
        """Go through a jaxpr to find the inputs that no live equation reads.

        What raises has other numbers here than once these inputs are gone.
        """
        raising, self.raising = self.raising, {}
        _, effects, results = self._enter(jaxpr, scope)
        self.raising = raising
        live = self._operands_of([*effects, *results])
        numbers = [self._input(i, var) for i, var in enumerate(_inputs(jaxpr))]
        return frozenset([i for i, n in enumerate(numbers) if n not in live])

    def _repeated(
        self, jaxprs: Sequence[Any], operands: Sequence[int], unread: frozenset[int]
    ) -> tuple[Pairs, Pairs]:
        """Pair the first inputs of jaxprs with earlier ones that are the same value.

        Returns:
          These pairs, and those of inputs and constants that are all they are given.
        """
        first: dict[Key, int] = {}
        repeated: list[tuple[int, int]] = []
        fixed: list[tuple[int, int]] = []
        each = [_inputs(jaxpr) for jaxpr in jaxprs]
        for i, operand in enumerate(operands):
            if i in unread:
                continue
            avals = tuple([self.aval(inputs[i].aval) for inputs in each])
            earlier = first.setdefault((operand, avals), i)
            if {*avals} == {self.known.get(operand)}:
                fixed.append((i, operand))
            elif earlier != i:
                repeated.append((i, earlier))
        return tuple(repeated), tuple(fixed)

    def _operands_of(self, numbers: list[int]) -> set[int]:
        """Return all that some values are computed from, and these themselves."""
        seen: set[int] = set()
        stack = numbers
        while stack:
            number = stack.pop()
            if number not in seen:
                seen.add(number)
                stack.extend(self.nodes[number].operands)
        return seen

    def _read(
        self, eqn: Any, operands: tuple[int, ...], scope: KeyScope
    ) -> tuple[Key, tuple[int, ...]]:
        """Make the key of the params, and list the operands that are read."""
        kept = list(range(len(operands)))
        dropped: set[int] = set()
        changed: dict[str, Key] = {}
        found = tuple(readers(eqn))
        for reader in found:
            n = reader.n_operands
            with self.inside(eqn):
                unread, repeated, fixed = self._left_out(eqn, reader, operands, scope)
                left = unread | {i for i, _ in (*repeated, *fixed)}
                dropped.update(reader.first + i for i in left)
                order: tuple[int, ...] = ()
                if not reader.are_needed:  # their order is no part of the data flow
                    first, end = reader.first, reader.first + int(n)
                    ranked = sorted(range(first, end), key=operands.__getitem__)
                    order = tuple([i - first for i in ranked])
                    kept[first:end] = ranked
                keys = [
                    self.jaxpr(j, scope, unread, repeated, fixed, order)
                    for j in reader.jaxprs
                ]
            changed[reader.param] = tuple(keys)
            if reader.counted:
                changed[reader.counted] = (n - len(left), reader.more, type(n))
        if not changed:
            return self.params(eqn, scope), operands
        kept = [i for i in kept if i not in dropped]
        for param in ("linear", *[reader.placed for reader in found]):
            if param in eqn.params:  # an item for each operand
                items = tuple([eqn.params[param][i] for i in kept])
                changed[param] = self.value(items, None)
        # A body is only gone through as it is without what is dropped.
        params = self.params(eqn, scope, changed)
        return params, tuple([operands[i] for i in kept])

    def _left_out(
        self, eqn: Any, reader: Reader, operands: tuple[int, ...], scope: KeyScope
    ) -> tuple[frozenset[int], Pairs, Pairs]:
        """Return which inputs of sub-programs are not read, which others, which known."""
        n = reader.n_operands
        unread: frozenset[int] = frozenset()
        if not reader.are_needed:
            each = [self._unread(jaxpr, n, scope) for jaxpr in reader.jaxprs]
            unread = frozenset.intersection(*each)
        end = reader.first + int(n)  # a program made by hand may have 1.0 there
        given = operands[reader.first : end]
        repeated, fixed = ((), ())
        if not reader.placed:
            repeated, fixed = self._repeated(reader.jaxprs, given, unread)
        if unread or repeated or fixed:
            cases = rules.cases_of(eqn, self.cases)
            if rules.names_constants(eqn, self._check_vma, cases):
                return frozenset(), (), ()
        return unread, repeated, fixed

    def traced_rules(self, eqn: Any, case: jaxapi.RuleCase) -> rules.Rules:
        traced = rules.without_known_residuals(super().traced_rules(eqn, case))
        found = self.rules_of.setdefault(rules.identify_rules(eqn, False), [])
        found += [value for _, value in traced if jaxapi.is_jaxpr(value)]
        return rules.count_arguments_only(traced, eqn.params["num_consts"])

    def _run(
        self,
        body: Any,
        consts: list[Any],
        inputs: list[Any],
        arguments: list[int],
        parent: KeyScope | None,
    ) -> tuple[int, ...]:
        """Number the equations of a jaxpr over given arguments."""
        scope = KeyScope(parent, dict(zip(body.constvars, consts)))
        scope.keys.update(zip(inputs, arguments))
        for index, eqn in enumerate(body.eqns):
            operands = tuple([self.atom(atom, scope) for atom in eqn.invars])
            call = self._opened(eqn)
            if call is not None:
                self._note_mesh(eqn.params.get("ctx_mesh"))
                results = self._open(call, operands, scope)
            else:
                results = self._equation(eqn, operands, scope, body, index)
            scope.keys.update(zip(eqn.outvars, results))
        return tuple([self.atom(atom, scope) for atom in body.outvars])

    def _opened(self, eqn: Any) -> Any:
        """The jaxpr that an equation stands for; None if it stands for itself."""
        call = plain_call(eqn)
        if call is None and eqn.primitive in self.opened:
            call = _implementation(eqn, self.opened[eqn.primitive])
        if call is None and self.is_recovered and self.opened:
            call = self._in_place(eqn)
        return call

    def _in_place(self, eqn: Any) -> Any:
        """What a function in the place of a library's primitive computes.

        It is one of the recovered program, called like the primitive, with the batching
        rule that the primitive has; like that one, the rule is no part of what is compared.
        The original has no such function: what it has is never opened.
        """
        if jaxapi.primitive_name(eqn.primitive) != "custom_vmap_call":
            return None
        call = eqn.params.get("call")
        if not jaxapi.is_jaxpr(call):
            return None
        info = jaxapi.split_jaxpr(call)[0].debug_info
        name = getattr(info, "func_name", None) or ""
        names = {jaxapi.primitive_name(primitive) for primitive in self.opened}
        stem, _, number = name.rpartition("_")
        is_one = name in names or (number.isdecimal() and stem in names)
        return call if is_one else None

    def _note_mesh(self, mesh: Any) -> None:
        if isinstance(mesh, jax.sharding.Mesh) and not mesh.empty:
            self.meshes.add(mesh)

    def _open(
        self, jaxpr: Any, arguments: tuple[int, ...], scope: KeyScope
    ) -> tuple[int, ...]:
        key = (id(jaxpr), arguments)
        known = self.calls.get(key)
        if known is not None:
            return known
        before = self._counted()
        outer, self.raising = self.raising, {}
        body, consts = jaxapi.split_jaxpr(jaxpr)
        results = self._run(body, consts, list(body.invars), list(arguments), scope)
        raised, self.raising = self.raising, outer | self.raising
        if before == self._counted() and not raised:
            self.calls[key] = results
            self._alive.append(jaxpr)
        return results

    def _counted(self) -> Key:
        """Count what keeps a call from being the same as the one before it."""
        return self.n_outer_uses, len(self.sequence), self.pulled.total()

    def _pulls_back(self, eqn: Any) -> bool:
        """Whether two calls of an equation have other derivatives than one used twice."""
        return self._is_pulled_back(eqn.primitive) or any(
            map(self._holds_pulled, self._within(eqn))
        )

    def _is_pulled_back(self, primitive: Any) -> bool:
        """Whether cotangents go through code of the user, or of a library."""
        known = self.is_foreign.get(primitive)
        if known is None:
            known = jaxapi.primitive_name(primitive) in PULLED_BACK
            known = known or jaxapi.derivative_is_of_library(primitive)
            self.is_foreign[primitive] = known
        return known

    def _within(self, eqn: Any) -> Iterator[Any]:
        """Yield the jaxprs in the params of an equation, and those of its jvp rule."""
        yield from jaxapi.sub_jaxprs_of([eqn])
        if jaxapi.primitive_name(eqn.primitive) == "custom_jvp_call":
            # Its params have been numbered, and so its rules were traced.
            yield from self.rules_of.get(rules.identify_rules(eqn, False), ())

    def _holds_pulled(self, jaxpr: Any) -> bool:
        """Whether a jaxpr leads to a call whose cotangents go through code of the user.

        Rules may lead back to themselves, so only of all that one leads to, together, is
        it known that there is none.
        """
        seen: dict[int, Any] = {}
        stack = [jaxpr]
        is_found = False
        while stack and not is_found:
            inner = stack.pop()
            known = self.pulling.get(id(inner))
            if known is not None:
                is_found = known[1]
            elif id(inner) not in seen:
                seen[id(inner)] = inner
                for eqn in jaxapi.split_jaxpr(inner)[0].eqns:
                    call = self._opened(eqn)
                    if call is not None:
                        stack.append(call)
                        continue
                    is_found |= self._is_pulled_back(eqn.primitive)
                    stack += self._within(eqn)
        for inner in [jaxpr] if is_found else seen.values():
            self.pulling[id(inner)] = inner, is_found
        return is_found

    def _equation(
        self,
        eqn: Any,
        operands: tuple[int, ...],
        scope: KeyScope,
        body: Any,
        index: int,
    ) -> list[int]:
        n_draws, outer = self.n_draws, self.has_effects
        self.has_effects = bool(eqn.effects)
        params, operands = self._read(eqn, operands, scope)
        self.has_effects = outer
        self.n_draws += jaxapi.primitive_name(eqn.primitive) in DRAWS
        has_order = n_draws < self.n_draws
        effects: Key = ()
        if eqn.effects:
            effects = self.effects(eqn.effects, scope)
            names = jaxapi.NamedAxisEffect
            has_order |= not all(isinstance(e, names) for e in eqn.effects)
        if has_order:
            effects = (len(self.sequence), effects)
        head: Key = (
            self.primitive(eqn.primitive),
            params,
            self.context(eqn.ctx),
            tuple([self.aval(var.aval) for var in eqn.outvars]),
            effects,
        )
        if self._pulls_back(eqn):
            call = head, operands
            head = (*head, self.pulled[call])
            self.pulled[call] += 1
        node = Node(head, operands, body, index)
        number = self.number((head, operands), node)
        if raises_differentiated(eqn):
            text = f"`{jaxapi.primitive_name(eqn.primitive)}` has no derivative"
            self.raising[number] = text
        if effects and isinstance(effects[0], int):
            self.sequence.append(number)
        return [
            self.number(("result", i, number), Node(("result", i), (number,)))
            for i in range(len(eqn.outvars))
        ]

    def literal(self, atom: Any) -> int:
        bits = literal_key(atom.val, atom.aval) or self.value(atom.val, None)
        return self._known(bits, atom.aval)

    def const(self, value: Any, aval: Any, scope: KeyScope) -> int:
        if isinstance(value, jaxapi.Tracer | jaxapi.Ref):
            return self._constant(self.value(value, scope), aval)
        sharding = jaxapi.kept_on(value)
        bits = self.shared(
            value, lambda v: literal_key(v, aval) or self.value(v, scope)
        )
        placed = bits if sharding is None else (bits, self.value(sharding, None))
        return self._known(placed, aval)

    def _known(self, bits: Key, aval: Any) -> int:
        """Number an array that is no tracer and never changes."""
        number = self._constant(bits, aval)
        self.known[number] = self.aval(aval)
        return number

    def _constant(self, bits: Key, aval: Any) -> int:
        key = ("constant", bits, self.aval(aval))
        text = f"constant {difference.short_type(aval)}"
        return self.number(key, Node("constant", (), text=text))


def _inputs(jaxpr: Any) -> list[Any]:
    """List the inputs of a jaxpr, before them what it closes over without its value."""
    body, consts = jaxapi.split_jaxpr(jaxpr)
    return [*([] if consts else body.constvars), *body.invars]


def raises_differentiated(eqn: Any) -> bool:
    """Whether JAX raises where the operands of an equation are differentiated."""
    return jaxapi.refuses_derivative(eqn.primitive) and any(
        jax.numpy.issubdtype(getattr(atom.aval, "dtype", bool), jax.numpy.inexact)
        for atom in eqn.invars
    )


def plain_call(eqn: Any) -> Any:
    """Return what an equation calls, if the call itself means nothing."""
    param = _CALLS.get(jaxapi.primitive_name(eqn.primitive))
    if param is None or eqn.ctx.compute_type or eqn.ctx.xla_metadata:
        return None
    params = eqn.params
    jaxpr = params.get(param)
    if jaxpr is None or len(jaxpr.in_avals) != len(eqn.invars):
        return None  # not as JAX makes it
    if param == "jaxpr" and not (
        all(jaxapi.is_unspecified(s) for s in params["in_shardings"])
        and all(jaxapi.is_unspecified(s) for s in params["out_shardings"])
        and all(layout is None for layout in params["in_layouts"])
        and all(layout is None for layout in params["out_layouts"])
        and not any(params["donated_invars"])
        and not params["compiler_options_kvs"]
    ):
        return None
    return jaxpr


def _implementation(eqn: Any, is_pulled_back: bool) -> Any:
    """Return what the primitive of a library computes, if it is known."""
    if eqn.ctx.compute_type or eqn.ctx.xla_metadata:
        return None
    avals = [atom.aval for atom in eqn.invars]
    results = [var.aval for var in eqn.outvars]
    compute = jaxapi.pulled_back if is_pulled_back else jaxapi.implementation
    return compute(eqn.primitive, eqn.params, avals, results)
