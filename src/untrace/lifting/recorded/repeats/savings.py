"""Whether a loop is shorter than its turns, which is estimated in characters."""

from __future__ import annotations

from collections.abc import Iterator

from untrace.capture.dict_keys import spelled
from untrace.lifting.recorded.repeats.ranges import strided_words
from untrace.lifting.recorded.repeats.slots import Run, Slot
from untrace.syntax.steps import Item

_HEAD, _START, _LIST = len("for  in :\n"), len("x = x\n"), len("ys = []\nys.append()\n")
_TARGET, _VARIABLE = len("x = \n"), len("item, ")


def is_shorter(run: Run) -> bool:
    """Whether a loop over a run has fewer characters than all its turns."""
    turn = sum(len(s.term.render()) + _TARGET for s in run.turns[0])
    return turn * (run.n_turns - 1) > _length_of_head(run)


def _length_of_head(run: Run) -> int:
    slots = [slot for row in run.slots for slot in row]
    starts = {(s.kind, s.local) for s in slots if s.kind in ("carry", "older")}
    taken = {_key(slot): "".join(_texts(slot, run.n_turns)) for slot in slots}
    texts = [text for text in taken.values() if text]
    length = _HEAD + _START * len(starts) + _VARIABLE * len(texts)
    length += sum(map(len, texts))
    return length + _LIST * len(run.left) * bool(starts)


def _key(slot: Slot) -> object:
    each = tuple([(id(name), path) for name, path in slot.each])
    return (
        slot.kind,
        slot.start,
        slot.first,
        *map(tuple, (slot.literals, slot.functions, slot.trees, slot.keys)),
        each,
    )


def _texts(slot: Slot, n_turns: int) -> Iterator[str]:
    """Yield what the head of a loop has to say about what its turns take."""
    if slot.kind in ("index", "leaf", "row"):
        yield "items, "
    listed = [spelled((Item(key),)) for key in slot.keys]
    if slot.kind in ("number", "word", "function"):
        listed = [one.text for one in (*slot.literals, *slot.functions)]
    elif slot.kind == "each":
        listed = [name.hint + spelled(path) for name, path in slot.each]
    if slot.kind == "key" and strided_words(slot.keys[:n_turns]):
        return  # they are counted
    for one in listed[:n_turns]:
        yield one
        yield ", "
