"""What a loop is over, and its variables, found from what its turns take."""

from __future__ import annotations

import re
from collections import Counter

from untrace.lifting.recorded.function import Draft, Names, Statement
from untrace.lifting.recorded.naming.held import item_hint, length_of
from untrace.lifting.recorded.naming.paths import last_word, steps
from untrace.lifting.recorded.repeats.slots import Run, Slot
from untrace.lifting.recorded.terms import (
    ATOM,
    Global,
    Name,
    Part,
    Ref,
    Term,
    display,
    text_term,
)

ITEM, NAME, LEAF, VALUE = "item", "name", "leaf", "value"
"""What variables are called of which nothing is known."""
_COUNTERS = ("_", "i", "j", "idx", "index")
_WHOLE = re.compile(r"\d+")


class Header:
    """The variables of a loop, and what it takes them from."""

    def __init__(self, run: Run, draft: Draft) -> None:
        self.run = run
        self.draft = draft
        self.items: dict[object, tuple[Name, Term]] = {}
        self.hints: dict[int, str] = {}

    def item(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write what a turn takes from a container: its item, or one of its index."""
        begin = int(slot.numbers[0])
        owner, path = self.run.origin(ref)
        container, rest = path[: slot.start - 1], path[slot.start :]
        rest = rest.partition("]")[2]
        stop = begin + self.run.n_turns
        length = length_of(owner, container)
        is_whole = begin == 0 and length == stop
        whole = self._container(ref, owner, container)
        hint = self.draft.items.get((id(owner), f"{container}[{stop - 1}]"), "")
        hint = hint or self._known_variable()
        if is_whole or (hint and length is not None):
            hint = hint or item_hint(owner, container)
            if hint in self.run.functions:
                hint = f"{hint}_params"
            end = "" if stop == length else str(stop)
            bounds = "" if is_whole else f"[{begin or ''}:{end}]"
            over = Term([Ref(whole.name, whole.path + bounds)])
            key = id(owner), container, bounds
            return [Ref(self._variable(key, hint, over), rest, ref.level)]
        bounds = f"{begin}, {stop}" if begin else str(stop)
        name = self._variable(bounds, "i", Term([f"range({bounds})"]))
        return [whole, "[", Ref(name), f"]{rest}"]

    def key(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write what a turn takes from a dict: the item of its key."""
        owner, path = self.run.origin(ref)
        keys = slot.keys[: self.run.n_turns]
        whole = self._container(ref, owner, path[: slot.start])
        over = Term([f"({', '.join(key[1:-1] for key in keys)})"])
        name = self._variable(tuple(keys), NAME, over)
        return [whole, "[", Ref(name), f"]{path[slot.start + len(keys[0]) :]}"]

    def _container(self, ref: Ref, owner: Name, path: str) -> Ref:
        """Refer to a container, which may have to become a parameter."""
        if owner is ref.name or self.draft.lift is None:
            return Ref(owner, path, ATOM)
        name = self.draft.lift((owner, path))
        name.is_tree = True
        return Ref(name, "", ATOM)

    def leaf(self, ref: Ref, slot: Slot) -> Part:
        """Write the leaf of a tree that a turn takes."""
        owner, _ = self.run.origin(ref)
        tree = self._container(ref, owner, slot.numbers[0])
        over = Term([Global("jax"), ".tree.leaves(", tree, ")"])
        return Ref(
            self._variable((id(owner), *slot.numbers), LEAF, over), "", ref.level
        )

    def row(self, ref: Ref, slot: Slot) -> Part:
        """Write the row of an array that a turn takes; the array has a name again."""
        array = slot.array
        assert array is not None and array.whole is not None
        whole = array.whole
        if isinstance(array.targets, tuple):
            last = array.targets[-1]
            self.hints[id(array)] = last.hint if isinstance(last, Name) else "row"
            array.targets, whole.uses = whole, 0
        over = Term([Ref(whole)])
        name = self._variable(id(array), self.hints[id(array)], over)
        return Ref(name, ref.path, ref.level)

    def next_row(self, statement: Statement) -> None:
        """Let the loop take the next row of an array, as the statement does."""
        assert isinstance(statement.targets, Name)
        (array,) = statement.term.refs()
        over = Term([Ref(array.name, array.path)])
        self.items[id(statement)] = statement.targets, over

    def each(self, slot: Slot, level: int) -> Part:
        """Write one of several values that a turn takes."""
        values = slot.each[: self.run.n_turns]
        refs = [Term([Ref(name, path)]) for name, path in values]
        key = tuple([(id(name), path) for name, path in values])
        hints = {last_word(steps(path)) if path else one.hint for one, path in values}
        common = hints.pop() if len(hints) == 1 else ITEM
        hint = self._known_variable() or common
        name = self._variable(key, hint, display("[]", refs))
        return Ref(name, slot.path, level)

    def number(self, part: Part, slot: Slot, index: int) -> list[Part]:
        """Write a number that is another one in every turn, in one of its statements."""
        assert isinstance(part, str)
        numbers = tuple(slot.numbers[: self.run.n_turns])
        known = [t[index].roles.get(n, "") for t, n in zip(self.run.turns, numbers)]
        roles = Counter(role for role in known if role)
        hint = roles.most_common(1)[0][0] if roles else VALUE
        over = Term([f"({', '.join(numbers)})"])
        if all(_WHOLE.fullmatch(number) for number in numbers):
            first, *_ = values = [int(number) for number in numbers]
            if values == list(range(first, first + len(values))):
                bounds = f"{first}, {values[-1] + 1}" if first else str(len(values))
                hint, over = (
                    hint if hint != VALUE else "i",
                    text_term(f"range({bounds})"),
                )
        return [Ref(self._variable(numbers, hint, over))]

    def _variable(self, key: object, hint: str, over: Term) -> Name:
        if key not in self.items:
            self.items[key] = Name(hint, True, is_foreign=False), over
        name = self.items[key][0]
        return name

    def finished(self) -> tuple[tuple[Names, ...], Term]:
        """Return the variables and what the loop is over."""
        count = self._count()
        names: list[Name] = []
        parts: list[Part] = []
        self._name_item()
        for name, term in self.items.values():
            if name is not count:
                parts += [*([", "] if names else []), *term.parts]
                names.append(name)
        if not self.items:
            return (), Term([f"range({self.run.n_turns})"])
        if len(names) > 1:
            parts = ["zip(", *parts, ")"]
        if count is None:
            return tuple(names), Term(parts)
        inner = names[0] if len(names) == 1 else tuple(names)
        return (count, inner), Term(["enumerate(", *parts, ")"])

    def _name_item(self) -> None:
        """Name the only variable as that of the program's loop."""
        if len(self.items) == 1:
            ((name, _),) = self.items.values()
            is_unknown = name.hint in (ITEM, NAME, LEAF, VALUE)
            name.hint = (is_unknown and self._known_variable()) or name.hint

    def _known_variable(self) -> str:
        """Return the only variable of the program's loop, if it is one that tells."""
        places = [p for p in self.run.turns[0][0].trail if p is not None and p.loop]
        names = (places[-1].loop or ()) if places else ()
        return names[0] if len(names) == 1 and names[0] not in _COUNTERS else ""

    def _count(self) -> Name | None:
        """Return the variable that counts the turns beside others, if there is one."""
        plain = f"range({self.run.n_turns})"
        texts = [(name, term.parts) for name, term in self.items.values()]
        counts = [name for name, parts in texts if parts == [plain]]
        return counts[0] if len(counts) == 1 < len(texts) else None
