"""What a loop is over, and its variables, found from what its turns take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from untrace.capture.dict_keys import spelled
from untrace.lifting.recorded.building import (
    attribute,
    call,
    display,
    indexed,
    literal_term,
)
from untrace.lifting.recorded.naming.held import (
    are_alike,
    item_hint,
    leaves_of,
    length_of,
)
from untrace.lifting.recorded.naming.paths import (
    index_of,
    last_word,
    part_of,
    words_of,
)
from untrace.lifting.recorded.repeats.program_turns import (
    CountedFrom,
    ProgramTurns,
    ScaledFrom,
)
from untrace.lifting.recorded.repeats.ranges import (
    bounds_of,
    numbered_words,
    progression,
    strided_words,
)
from untrace.lifting.recorded.repeats.slots import (
    Run,
    Slot,
    after_index,
    first_parts,
)
from untrace.lifting.recorded.terms import (
    PARENS,
    TUPLE_OF,
    Global,
    Group,
    Name,
    Part,
    Ref,
    Term,
)
from untrace.lifting.recorded.tree import Draft, Names, Statement, flat
from untrace.syntax.precedence import ATOM
from untrace.syntax.steps import Item, Path

ITEM, NAME, LEAF, VALUE, FUNCTION = "item", "name", "leaf", "value", "function"
"""What variables are called of which nothing is known."""
_OF_DICTS = frozenset({"values", "items"})
MIN_COMPUTED = 4
"""How many numbers are computed and not listed by chance, if the program names them."""
_COUNTERS = ("_", "i", "j", "idx", "index")


class Header:
    """The variables of a loop, and what it takes them from."""

    def __init__(self, run: Run, draft: Draft) -> None:
        self.run = run
        self.draft = draft
        self.items: dict[object, tuple[Names, Term]] = {}
        self.hints: dict[int, str] = {}
        self.program = ProgramTurns(run.turns)
        self.tuples: dict[int, int] = {}
        """How many items the variables have that are tuples, by their names."""
        self._values: dict[tuple[int, Path, tuple[Item, ...]], Ref] = {}
        """The dicts whose values variables are, by the keys of these."""
        self._wholes = self._used_wholes()
        self.ends: list[tuple[Name, Path, int]] = []
        """The lists of which all items but the last are taken, with their length."""

    # ---- items of lists ------------------------------------------------------------

    def item(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write what a turn takes from a container: its item, or one of its index."""
        owner, path = self.run.origin(ref)
        container, rest = path[: slot.start], after_index(path, slot)
        whole = self._container(ref, owner, container)
        indices = self._indices(slot)
        bounds = bounds_of(indices, length_of(owner, container))
        held = part_of(owner.held, container)
        items = [part_of(held, (Item(i),)) for i in indices]
        key = id(owner), container, tuple(indices)
        if bounds and bounds[0].stop == -1:
            self.ends.append((whole.name, whole.path, max(indices) + 1))
        over = Term([Ref(whole.name, (*whole.path, *(bounds or ())))])
        if slot.step < 0:
            over = call(Term(["reversed"]), [over])
        names = () if key in self._wholes else self.program.parts(items)
        if names and bounds is not None:
            return [self._part(key, names, over, rest, ref.level)]
        hint = self._item_hint(owner, container, items, indices)
        if bounds is not None and (hint or not bounds):
            hint = hint or item_hint(owner, container)
            if hint in self.run.functions:
                hint = f"{hint}_params"
            name = self._variable(key, hint, over)
            name.held = items[-1] if are_alike(items) else None
            return [Ref(name, rest, ref.level)]
        return self._item(whole, [self._index(indices)], rest)

    def _item_hint(
        self, owner: Name, container: Path, items: Sequence[Any], indices: Sequence[int]
    ) -> str:
        """Return what the program called an item; nothing if it only had its index."""
        known = self.program.named(items)
        if known or self.program.named(indices):
            return known
        last = self.draft.items.get((id(owner), (*container, Item(indices[-1]))), "")
        return last or self._known_variable()

    def _indices(self, slot: Slot) -> list[int]:
        return [slot.first + slot.step * turn for turn in range(self.run.n_turns)]

    def _index(self, indices: Sequence[int]) -> Part:
        """Return the variable that counts."""
        hint = self.program.named(indices) or "i"
        texts = tuple([str(index) for index in indices])
        return Ref(self._variable(texts, hint, progression(indices)))

    def _used_wholes(self) -> set[object]:
        """Return the items that are used as a whole, too, by their container."""
        found: set[object] = set()
        for part, slot in first_parts(self.run):
            if slot.kind != "index" or type(part) is not Ref:
                continue
            owner, path = self.run.origin(part.resolved())
            way = after_index(path, slot)
            if not way or index_of(way[0]) is None:
                container = path[: slot.start]
                found.add((id(owner), container, tuple(self._indices(slot))))
        return found

    def _part(
        self, key: object, hints: Sequence[str], over: Term, rest: Path, level: int
    ) -> Part:
        """Refer to a part of an item that is taken apart by the head of the loop."""
        if key not in self.items:
            names = [Name(hint, hint != "_", is_foreign=False) for hint in hints]
            self.items[key] = tuple(names), over
        name = list(flat(self.items[key][0]))[index_of(rest[0]) or 0]
        if name.hint == "_":
            name.hint, name.is_given = VALUE, True
        return Ref(name, rest[1:], level)

    # ---- other values --------------------------------------------------------------

    def key(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write what a turn takes from a dict: the item of its key."""
        owner, path = self.run.origin(ref)
        container, rest = path[: slot.start], after_index(path, slot)
        held = part_of(owner.held, container)
        words = self._words(slot)
        keys = tuple(map(Item, words))
        whole = self._container(ref, owner, container)
        is_all = type(held) is dict and list(held) == words == sorted(words)
        value = self.program.named([held[word] for word in words]) if is_all else ""
        if value and self._is_over_items():
            key = id(owner), container, keys
            over = call(attribute(Term([whole]), "values"), [])
            name = self._variable(key, value, over)
            self._values[key] = whole
            return [Ref(name, rest, ref.level)]
        over = display("()", map(literal_term, words))
        # Traced, a dict is in the order of its keys; the caller's may be in another one.
        over = call(Term(["sorted"]), [Term([whole])]) if is_all else over
        hint = self.program.named(words)
        numbered = None if hint else numbered_words(words)
        if numbered is not None and self._is_counted(numbered.numbers):
            begin, end = numbered.around
            index = self._index(numbered.numbers)
            return self._item(whole, [f'f"{begin}{{', index, f'}}{end}"'], rest)
        if not hint and (made := self._strided_word(words)) is not None:
            return self._item(whole, made, rest)
        if not hint and (made := self._made_word(words)) is not None:
            return self._item(whole, made, rest)
        name = self._variable(keys, hint or ("key" if value else NAME), over)
        return self._item(whole, [Ref(name)], rest)

    def _item(self, whole: Ref, key: Sequence[Part], rest: Path) -> list[Part]:
        """Write what stands under a key, and what is taken from that."""
        made = indexed(Term([whole]), [Term([*key])])
        return [*made.parts, *([spelled(rest)] if rest else [])]

    def _is_over_items(self) -> bool:
        """Whether the program's code takes the values of a dict where the loop is."""
        places = [p for p in self.run.turns[0][0].trail if p is not None]
        names = {name for p in places for name in p.code.co_names}
        is_nested = any(p.code.co_name.startswith("<") for p in places)
        return is_nested or not names.isdisjoint(_OF_DICTS)

    def word(self, words: Sequence[Any]) -> list[Part] | None:
        """Write the key of a dict that a turn makes; None if the loop has no such key.

        Args:
          words: The key of every turn.
        """
        keys = tuple(map(Item, words))
        if all(type(key) is int for key in words):
            return [self._index(words)]
        hint = self.program.named(words)
        if hint or keys in self.items:
            over = display("()", map(literal_term, words))
            return [Ref(self._variable(keys, hint or NAME, over))]
        numbered = numbered_words(words)
        if numbered is None or not self.program.named(numbered.numbers):
            return self._made_word(words)
        begin, end = numbered.around
        return [f'f"{begin}{{', self._index(numbered.numbers), f'}}{end}"']

    def text(self, slot: Slot) -> list[Part]:
        """Write a word that is another one in every turn."""
        words = [one.value for one in slot.literals[: self.run.n_turns]]
        made = self.word(words)
        if made is not None:
            return made
        over = display("()", map(literal_term, words))
        return [Ref(self._variable(tuple(map(Item, words)), NAME, over))]

    def function(self, slot: Slot) -> Ref:
        """Write the function of a turn, of those that the program's loop is over."""
        called = slot.functions[: self.run.n_turns]
        over = display("()", [Term([one]) for one in called])
        key = tuple([f"{one.text}()" for one in called])
        return Ref(self._variable(key, self.program.function() or FUNCTION, over))

    def _made_word(self, words: Sequence[Any]) -> list[Part] | None:
        """Write keys that are made of what a variable of the program held."""
        part = self.program.part_of_words(words)
        if part is None or not set("".join(part.around)).isdisjoint('{}"\\\n'):
            return None
        over = display("()", map(literal_term, part.held))
        name = self._variable(tuple(map(Item, part.held)), part.name, over)
        begin, end = part.around
        return [f'f"{begin}{{', Ref(name), f'}}{end}"']

    def _is_counted(self, numbers: Sequence[int]) -> bool:
        """Whether the program counts these numbers, or the keys of others need that."""
        if self.program.named(numbers):
            return True
        is_plain = list(numbers) == self._counter()
        slots = [s for _, s in first_parts(self.run) if s.kind == "key"]
        return is_plain and any(strided_words(self._words(s)) for s in slots)

    def _counter(self) -> list[int]:
        """The numbers of the turns, as a variable of the program held them, or from 0."""
        return self.program.counter() or list(range(self.run.n_turns))

    def _strided_word(self, words: Sequence[str]) -> list[Part] | None:
        """Write keys whose numbers rise by several, `f"Dense_{2 * i + 1}"`."""
        found = strided_words(words)
        if found is None:
            return None
        held = self._counter()
        step = found.numbers[1] - found.numbers[0]
        offset = found.numbers[0] - step * held[0]
        more = f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset else ""
        begin, end = found.around
        return [f'f"{begin}{{{step} * ', self._index(held), f'{more}}}{end}"']

    def _words(self, slot: Slot) -> list[str]:
        """Return the keys of the turns."""
        return slot.keys[: self.run.n_turns]

    def _container(self, ref: Ref, owner: Name, path: Path) -> Ref:
        """Refer to a container, which may have to become a parameter."""
        if owner is ref.name or self.draft.lift is None:
            return Ref(owner, path, ATOM)
        name = self.draft.lift((owner, path))
        name.is_tree = True
        return Ref(name, (), ATOM)

    def leaf(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write the leaf of a tree that a turn takes, or the item of a dict."""
        words = self._words(slot)
        is_taken = tuple(map(Item, words)) in self.items
        has_keys = len(words) == self.run.n_turns
        if has_keys and (is_taken or self.program.named(words)):
            return self.key(ref, slot)
        owner, _ = self.run.origin(ref)
        tree = self._container(ref, owner, slot.trees[0])
        over = call(Term([Global("jax"), ".tree.leaves"]), [Term([tree])])
        hint = self.program.named(leaves_of(owner, slot.trees[0])) or LEAF
        name = self._variable((id(owner), *slot.trees), hint, over)
        return [Ref(name, (), ref.level)]

    def row(self, ref: Ref, slot: Slot) -> Part:
        """Write the row of an array that a turn takes; the array has a name again."""
        array = slot.array
        assert array is not None and array.whole is not None
        whole = array.whole
        if isinstance(array.targets, tuple):
            rows = list(flat(array.targets))
            known = self.program.named([row.held for row in rows])
            self.hints[id(array)] = known or rows[-1].hint
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
        hints = {
            last_word(words_of(path)) if path else one.hint for one, path in values
        }
        common = hints.pop() if len(hints) == 1 else ITEM
        held = [part_of(name.held, path) for name, path in values]
        hint = self.program.named(held) or self._known_variable() or common
        name = self._variable(key, hint, display("[]", refs))
        return Ref(name, slot.path, level)

    def number(self, slot: Slot, index: int, is_alone: bool) -> list[Part]:
        """Write a number that is another one in every turn, in one of its statements.

        Args:
          slot: Where it stands.
          index: The position of the statement.
          is_alone: It is an argument or a bound of its own.
        """
        literals = slot.literals[: self.run.n_turns]
        numbers = tuple([one.text for one in literals])
        plain = [one.value for one in literals]
        known = [t[index].roles.get(n, "") for t, n in zip(self.run.turns, numbers)]
        roles = Counter(role for role in known if role)
        hint = self.program.named(plain)
        if not (hint or roles) and (counted := self.program.counted_from(plain)):
            made = self._counted(counted)
            return made if is_alone else [Group(PARENS, [Term(made)])]
        found = None if hint or roles else self.program.tuple_of(plain)
        if found is not None:
            return [self._item_of_tuple(*found)]
        is_long = not roles or len(plain) >= MIN_COMPUTED
        scaled = self.program.scaled_from(plain) if is_long and not hint else None
        if scaled is not None:
            made = self._scaled(scaled)
            return made if is_alone else [Group(PARENS, [Term(made)])]
        hint = hint or (roles.most_common(1)[0][0] if roles else VALUE)
        over = display("()", [literal_term(one.value, one.text) for one in literals])
        values = [one for one in plain if type(one) is int and one >= 0]
        if len(values) == len(plain):
            over = progression(values)
            is_counting = values == list(range(values[0], values[0] + len(values)))
            hint = "i" if hint == VALUE and is_counting else hint
        return [Ref(self._variable(numbers, hint, over))]

    def _counted(self, counted: CountedFrom) -> list[Part]:
        """Write a number that is computed of a variable: `i + 1`, `(i + 1) % 3`, `2**i`."""
        variable = self._index(counted.held)
        return [variable if part == "i" else part for part in counted.form]

    def _item_of_tuple(self, hint: str, position: int) -> Part:
        """Refer to a number in the tuple that a variable of the loop is."""
        held = self.program.held(hint)
        over = display("()", map(literal_term, held))
        variable = self._variable(tuple(map(repr, held)), hint, over)
        self.tuples[id(variable)] = len(held[0])
        return Ref(variable, (Item(position),))

    def whole_tuple(self, group: Group) -> Sequence[Part]:
        """Write `corner` where all of a tuple is written, `(corner[0], corner[1])`."""
        refs = [item.ref for item in group.items]
        first = refs[0] if refs and group.kind == TUPLE_OF else None
        n = self.tuples.get(id(first.name), 0) if first is not None else 0
        is_whole = n == len(refs) and all(
            ref is not None
            and first is not None
            and ref.name is first.name
            and ref.path == (Item(position),)
            for position, ref in enumerate(refs)
        )
        is_whole = is_whole and first is not None
        return [Ref(first.name, (), ATOM) if first and is_whole else group]

    def _scaled(self, scaled: ScaledFrom) -> list[Part]:
        """Write a number that is computed of a variable of the loop: `i / n`, `i * 0.1`."""
        variable: list[Part] = [self._index(scaled.held)]
        if scaled.offset:
            offset = Term([*variable, f" + {scaled.offset}"])
            variable = [Group(PARENS, [offset])]
        end = self._end(scaled.operand)
        operand = end.parts if end is not None else [str(scaled.operand)]
        written = {"i": variable, "n": operand}
        return [part for one in scaled.form for part in written.get(one, [one])]

    def _variable(self, key: object, hint: str, over: Term) -> Name:
        if key not in self.items:
            self.items[key] = Name(hint, True, is_foreign=False), over
        name = self.items[key][0]
        assert isinstance(name, Name)
        return name

    # ---- the head ------------------------------------------------------------------

    def finished(self) -> tuple[tuple[Names, ...], Term]:
        """Return the variables and what the loop is over."""
        self._join_items()
        self._order_items()
        count = self._count()
        names: list[Names] = []
        taken: list[Term] = []
        self._name_item()
        for name, term in self.items.values():
            if name is not count:
                taken.append(term)
                names.append(name)
        if not names:
            return (), self._rounds()
        if [one.parts for one in taken] == [self._plain_rounds()]:
            return tuple(names), self._rounds()
        over = call(Term(["zip"]), taken) if len(names) > 1 else taken[0]
        if count is None:
            return tuple(names), over
        inner = names[0] if len(names) == 1 else tuple(names)
        return (count, inner), call(Term(["enumerate"]), [over])

    def _join_items(self) -> None:
        """Take the key with the value of a dict, `for k, v in params.items()`."""
        for key, whole in self._values.items():
            _, _, keys = key
            if keys in self.items:
                (value, _), (name, _) = self.items[key], self.items.pop(keys)
                items = call(attribute(Term([whole]), "items"), [])
                self.items[key] = (name, value), items

    def _order_items(self) -> None:
        """Put the variables in the order that the program has them in."""
        ranks = {
            key: self.program.rank([name.hint for name in flat(names)])
            for key, (names, _) in self.items.items()
        }
        if None not in ranks.values():
            self.items = dict(
                sorted(self.items.items(), key=lambda i: ranks[i[0]] or 0)
            )

    def _name_item(self) -> None:
        """Name the only variable as that of the program's loop."""
        if len(self.items) == 1:
            ((name, _),) = self.items.values()
            if isinstance(name, Name) and name.hint in (ITEM, NAME, LEAF, VALUE):
                name.hint = self._known_variable() or name.hint

    def _known_variable(self) -> str:
        """Return the only variable of the program's loop, if it is one that tells."""
        places = [p for p in self.run.turns[0][0].trail if p is not None and p.loop]
        names = (places[-1].loop or ()) if places else ()
        return names[0] if len(names) == 1 and names[0] not in _COUNTERS else ""

    def _count(self) -> Names | None:
        """Return the variable that counts the turns beside others, if there is one."""
        texts = [(name, term.parts) for name, term in self.items.values()]
        counts = [name for name, parts in texts if parts == self._plain_rounds()]
        return counts[0] if len(counts) == 1 < len(texts) else None

    def _plain_rounds(self) -> list[Part]:
        return [f"range({self.run.n_turns})"]

    def _rounds(self) -> Term:
        """Count the turns, to the integer that the program counts to."""
        end = self._end(self.run.n_turns)
        return call(Term(["range"]), [end]) if end else Term(self._plain_rounds())

    def _end(self, end: float) -> Term | None:
        """Refer to the integer that the program's loop counts to, if it is this one."""
        variable = self.program.counted_to(end) if type(end) is int else None
        return self.draft.counted_to(int(end), variable) if variable else None
