"""Find the statements in which two programs differ, at their innermost places.

Two blocks are matched (`matching`); what is in one of them only is added or removed, and
pairs that are not the same are changed. Of a changed statement with sub-programs these
are compared in the same way, and the statement itself counts only if it differs in more.
Calls that one program makes and the other does without (plain `jit`) are opened, if that
leaves more the same. What is the same is decided by the checker's keys alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace import jaxapi
from untrace.interpreters.comparing.block_pairs import (
    aligned,
    block_pairs,
    holds_block,
    inner_inputs,
    sub_program_reason,
    title_of,
)
from untrace.interpreters.comparing.changes import Change, Hunks
from untrace.interpreters.comparing.matching import Matching
from untrace.interpreters.comparing.opening import called, may_be_opened, with_opened
from untrace.interpreters.comparing.pairing import match
from untrace.interpreters.comparing.reasons import (
    Reason,
    differing_params,
    reasons,
    value_reason,
)
from untrace.interpreters.comparing.rows import lay_out, moved
from untrace.interpreters.comparing.sides import input_count, read_side
from untrace.interpreters.comparing.statements import Writer, user_line
from untrace.ir import Block, Equation, Value, from_jaxpr
from untrace.lifting.names.source_names import source_names
from untrace.printable import printable
from untrace.verification import rules
from untrace.verification.graph import Graph, plain_call
from untrace.verification.parting import Node

MAX_ROUNDS = 16
"""How deep calls are opened."""
_COUNTS = frozenset(
    {
        *("num_consts", "num_carry", "linear", "ft_in", "ft_out", "cond_nconsts"),
        *("body_nconsts", "in_shardings", "out_shardings", "in_layouts"),
        *("out_layouts", "donated_invars"),
    }
)
"""Params that follow from how many operands and results an equation has."""


class Walk:
    """Compares blocks and, from there, their sub-programs.

    Attributes:
      changes: What differs.
      hunks: The statements around, by sub-program.
    """

    def __init__(self, graph: Graph, n_context: int) -> None:
        self.graph = graph
        self.n_context = n_context
        self.changes: list[Change] = []
        self.hunks: list[Hunks] = []
        self.n_rules = 0
        self._serial = itertools.count()
        self._seen: set[tuple[int, int]] = set()
        self._alive: list[Any] = []
        self._hints: dict[Value, str] = {}

    def programs(
        self,
        before: Block,
        after: Block,
        inputs: Mapping[int, int],
        names: tuple[Sequence[str], Sequence[str]] | None,
        has_same_data_flow: bool,
    ) -> None:
        """Compare two whole programs.

        Args:
          before: The first program.
          after: The second program.
          inputs: The input of the second that each of the first is.
          names: How to write the inputs of each.
          has_same_data_flow: Whether the checker found them equivalent: then only what
            does not count differs, and is listed.
        """
        for block in (before, after):
            self._hints |= source_names(block)
        found, n_opened = self._matched(before, after, inputs)
        if has_same_data_flow:
            writer = Writer(found, self._hints, names)
            self.changes += _harmless(found, writer, n_opened)
        else:
            self._compared(found, "", "", names)

    def blocks(
        self, before: Block, after: Block, inputs: Mapping[int, int], path: str
    ) -> int:
        """Compare two sub-programs; return in how many statements they differ."""
        pair = id(before.jaxpr), id(after.jaxpr)
        if pair in self._seen:
            return 1
        self._seen.add(pair)
        self._alive += [before.jaxpr, after.jaxpr]
        n_before = len(self.changes)
        found, _ = self._matched(before, after, inputs)
        self._compared(found, path, title_of(path, before), None)
        return len(self.changes) - n_before

    # -- matching

    def _matched(
        self, before: Block, after: Block, inputs: Mapping[int, int]
    ) -> tuple[Matching, int]:
        """Match two blocks, opening calls as far as that leaves more the same.

        Returns:
          The matched blocks, and how many calls were opened.
        """
        n_opened = 0
        found = self.match_blocks(before, after, inputs)
        for _ in range(MAX_ROUNDS):
            if not all(map(may_be_opened, (found.before.block, found.after.block))):
                break
            calls = [_unpaired_calls(found, which) for which in (0, 1)]
            if not any(calls):
                break
            blocks = [
                with_opened(side.block, some) if some else side.block
                for side, some in zip((found.before, found.after), calls)
            ]
            tried = self.match_blocks(blocks[0], blocks[1], inputs)
            if _n_left(tried) >= _n_left(found):
                break
            n_opened += sum(map(len, calls))
            found = tried
            for block, some in zip(blocks, calls):
                if some:
                    self._hints |= source_names(block)
        return found, n_opened

    def match_blocks(
        self, before: Block, after: Block, inputs: Mapping[int, int]
    ) -> Matching:
        """Match two blocks as they are, over inputs of which some are the same."""
        numbers = [self._new_numbers(input_count(block)) for block in (before, after)]
        for position, other in inputs.items():
            numbers[1][other] = numbers[0][position]
        sides = [
            read_side(block, number, self.graph)
            for block, number in zip((before, after), numbers)
        ]
        return match(sides[0], sides[1], inputs)

    def _new_numbers(self, n: int) -> list[int]:
        return [
            self.graph.number(("compared input", next(self._serial)), Node("input", ()))
            for _ in range(n)
        ]

    # -- what differs

    def _compared(
        self,
        found: Matching,
        path: str,
        title: str,
        names: tuple[Sequence[str], Sequence[str]] | None,
    ) -> None:
        exact = {i for i, other in found.partner.items() if found.is_exact(i, other)}
        writer = Writer(found, self._hints, names)
        out_of_order = _effects_out_of_order(found)
        changes: dict[int, Change] = {}
        additions: dict[int, Change] = {}
        start, first_hunk = len(self.changes), len(self.hunks)
        inner: list[tuple[int, int]] = []
        for index in found.before.sequence():
            other = found.partner.get(index)
            if other is None:
                if found.is_missing(index):
                    changes[index] = _one_sided(found, index, 0, path, writer)
            elif index in out_of_order:
                reason = Reason("effects", "takes effect in another order")
                changes[index] = _change(found, index, other, [reason], path, writer)
            elif index not in exact and found.is_live(index, other):
                inner.append((index, other))
        for index in found.new():
            additions[index] = _one_sided(found, index, 1, path, writer)
        for index, other in inner:
            writer.name_functions(index, other)
            said = self._inside(found, index, other, path, writer)
            if said:
                changes[index] = _change(found, index, other, said, path, writer)
        results = _results(found, path, writer)
        own = [*changes.values(), *additions.values(), *([results] if results else [])]
        self.changes[start:start] = own
        if own:
            rows = lay_out(found, changes, additions, results, writer, self.n_context)
            self.hunks.insert(first_hunk, Hunks(title, rows))

    def _inside(
        self, found: Matching, index: int, other: int, path: str, writer: Writer
    ) -> list[Reason]:
        """Compare the sub-programs of a pair; return in what else it differs."""
        said = reasons(found, index, other, writer)
        if said and said[0].kind == "primitive":
            return said
        eqn = found.before.block.equations[index]
        twin = found.after.block.equations[other]
        n_inside = 0
        is_known = True
        for name in differing_params(found, index, other):
            if name == "rules":
                continue
            pairs = list(block_pairs(eqn, twin, name))
            if self._are_exchanged(pairs):
                said.append(Reason("param", f"`{name}` are in another order"))
                continue
            for step, block, mate in pairs:
                inputs = inner_inputs(found, index, other, name, block, mate)
                inside = f"{path}/" * bool(path) + printable(f"{eqn.name}/{step}")
                n_inside += self.blocks(block, mate, inputs, inside)
            is_known = is_known and not (holds_block(eqn, name) and not pairs)
        is_elsewhere = n_inside or any(r.kind == "context" for r in said)
        if "rules" in differing_params(found, index, other) and not is_elsewhere:
            n_inside += self._rules(found, index, other, path)
            # A rule may call its own function, whose rules are those that are compared.
            if not n_inside and not self.n_rules:
                said.append(Reason("rule", "the derivative rules differ"))
        if n_inside:
            counts = {f"`{name}`" for name in _COUNTS}
            said = [r for r in said if r.words.partition(" ")[0] not in counts]
            return [r for r in said if r.kind not in _OF_RESULTS]
        heads = found.before.heads[index], found.after.heads[other]
        is_rule_alone = differing_params(found, index, other) == ["rules"]
        is_said = said or is_rule_alone or heads[0].params == heads[1].params
        if not is_known or not is_said:
            said.append(sub_program_reason(eqn, twin))
        return said

    def _are_exchanged(self, pairs: Sequence[tuple[str, Block, Block]]) -> bool:
        """Whether the same sub-programs come in another order."""
        jaxprs = [(block.jaxpr, mate.jaxpr) for _, block, mate in pairs]
        keys = [[self.graph.jaxpr(j, None) for j in each] for each in zip(*jaxprs)]
        if len(pairs) < 2:
            return False
        return sorted(keys[0]) == sorted(keys[1]) and keys[0] != keys[1]

    def _rules(self, found: Matching, index: int, other: int, path: str) -> int:
        """Compare derivative rules by their traces; those of rules are not followed."""
        if self.n_rules:
            return 0
        eqn, twin = found.before.eqns[index], found.after.eqns[other]
        self.n_rules += 1
        n_inside = 0
        for case in rules.cases_of(eqn, self.graph.cases):
            traced = [rules.trace_rules(e, True, case) for e in (eqn, twin)]
            self._alive += traced
            for (label, value), (mate, known) in zip(*traced):
                if label == mate and jaxapi.is_jaxpr(value) and jaxapi.is_jaxpr(known):
                    blocks = from_jaxpr(value), from_jaxpr(known)
                    inputs = aligned(blocks[0], blocks[1])
                    name = found.before.block.equations[index].name
                    inside = f"{path}/" * bool(path) + printable(f"{name}/{label}")
                    n_inside += self.blocks(*blocks, inputs, inside)
            if n_inside:
                break
        self.n_rules -= 1
        return n_inside


_OF_RESULTS = frozenset({"shape", "dtype", "weak type", "sharding", "type"})


def _unpaired_calls(found: Matching, which: int) -> list[Equation]:
    side = (found.before, found.after)[which]
    return [
        side.block.equations[i]
        for i in (found.missing() if which == 0 else found.new())
        if plain_call(side.eqns[i]) is not None
        and called(side.block.equations[i]) is not None
    ]


def _n_left(found: Matching) -> int:
    """Count statements that are in one of two programs only, or differ."""
    n_changed = sum(not found.is_exact(i, j) for i, j in found.partner.items())
    return len(found.missing()) + len(found.new()) + n_changed


def _effects_out_of_order(found: Matching) -> set[int]:
    """The statements with effects that are not in the order of the second program."""
    pairs = {i: j for i, j in found.partner.items() if found.before.heads[i].effects}
    if len(pairs) < 2:
        return set()
    kept = Matching(found.before, found.after, found.inputs, pairs)
    return set(moved(kept))


# ---- single statements ---------------------------------------------------------------


def _change(
    found: Matching,
    index: int,
    other: int,
    said: Sequence[Reason],
    path: str,
    writer: Writer,
) -> Change:
    eqn = found.before.block.equations[index]
    twin = found.after.block.equations[other]
    return Change(
        path,
        said[0].kind,
        writer.statement(0, index),
        writer.statement(1, other),
        _line(eqn),
        _line(twin),
        "; ".join(dict.fromkeys(reason.words for reason in said)),
        index,
    )


def _one_sided(
    found: Matching, index: int, which: int, path: str, writer: Writer
) -> Change:
    side = (found.before, found.after)[which]
    line, text = _line(side.block.equations[index]), writer.statement(which, index)
    if which == 0:
        return Change(path, "removed", text, "", line, "", "", index)
    return Change(path, "added", "", text, "", line, "", index)


def _line(eqn: Equation) -> str:
    where, text = user_line(eqn)
    return f"{where}: {text}" if text else where


def _results(found: Matching, path: str, writer: Writer) -> Change | None:
    """The change of what is returned, if there is one."""
    mine, theirs = found.before.results, found.after.results
    said: list[Reason] = []
    if len(mine) != len(theirs):
        said.append(Reason("result", f"{len(mine)} results became {len(theirs)}"))
    outputs = found.before.block.outputs, found.after.block.outputs
    for k, (operand, other) in enumerate(zip(mine, theirs)):
        if not found.is_same(operand, other):
            pair = outputs[0][k], outputs[1][k]
            said.append(value_reason(found, f"result {k}", *pair, writer))
    if not said:
        return None
    words = "; ".join(reason.words for reason in said[:3])
    if len(said) > 3:
        words += f"; and {len(said) - 3} more results"
    texts = writer.returned(0), writer.returned(1)
    return Change(path, "result", *texts, "", "", words)


def _harmless(found: Matching, writer: Writer, n_opened: int) -> Iterator[Change]:
    """What differs in two programs that compute the same."""
    if n_opened:
        plural = "s" * (n_opened != 1)
        words = f"{n_opened} plain call{plural} that one program does without"
        yield Change("", "call", "", "", "", "", words)
    sides = (found.before, found.partner), (found.after, found.mate)
    for which, (side, paired) in enumerate(sides):
        place = ("first", "second")[which]
        for index in side.sequence():
            if index in paired:
                continue
            kind = "repeated" if side.live[index] else "unused"
            text, line = (
                writer.statement(which, index),
                _line(side.block.equations[index]),
            )
            done = "is not used" if kind == "unused" else "computes something again"
            both = (text, "") if which == 0 else ("", text)
            lines = (line, "") if which == 0 else ("", line)
            words = f"{done}, in the {place} program"
            yield Change("", kind, *both, *lines, words, index)
    for index in moved(found):
        other = found.partner[index]
        yield _change(found, index, other, [Reason("moved", "moved")], "", writer)
