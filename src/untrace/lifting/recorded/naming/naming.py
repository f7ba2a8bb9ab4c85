"""Name the results of calls: as the user's code or a library's did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from untrace.capture.trees import Node, leaf_paths
from untrace.lifting.recorded.naming.hints import result_hint
from untrace.lifting.recorded.naming.paths import last_word, words_of
from untrace.lifting.recorded.naming.values import has_array, is_array, tree_key
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.tree import Names, flat
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.record import Call, Target, is_starred, regrouped, variable_of
from untrace.syntax.names import identifier
from untrace.syntax.steps import Item, Path

# What libraries call anything that they return.
_VAGUE = frozenset({"leaf", "out", "res", "ret", "self_", "val", "value"})


def targets(result: Any, target: Target, item: Call, writer: Writer) -> Names:
    """Make the names of a result and let them stand for its arrays."""
    if isinstance(target, tuple) and _is_unpacked(result, target):
        taken = zip(regrouped(result, target), target)
        made = tuple([targets(r, t, item, writer) for r, t in taken])
        if not item.is_own:
            _note_flags(result, made, writer)
        return made
    variable = variable_of(target)
    given = variable not in ("", "_")
    hint = variable if given else _like(result, writer)
    hint = hint or ("state" if type(result) is dict else result_hint(item))
    if writer.in_library:  # an attribute of its object, mostly
        hint = hint.lstrip("_") or hint
    known = writer.find(id(result)) if is_array(result) else None
    if known is not None and not known[1] and known[0].hint == identifier(hint):
        given = False  # it holds what the variable of this name holds already
    name = _local(hint, given, writer)
    name.is_starred = is_starred(target)
    writer.define(result, name, item.traced)
    if given and is_array(result):
        writer.arguments[id(result), hint] = name
    return name


def _note_flags(result: Sequence[Any], made: Names, writer: Writer) -> None:
    """Take note of the names of flags that stand beside arrays: `c, low = cho_factor(a)`."""
    for part, name in zip(result, made if isinstance(made, tuple) else ()):
        if type(part) is bool and isinstance(name, Name):
            for array in filter(is_array, result):
                writer.flags[id(array), part] = name


def _like(result: Any, writer: Writer) -> str:
    """Name a tree after a parameter of the same structure: the new state as the old."""
    if is_array(result) or not has_array(result) or type(result) in (tuple, list):
        return ""
    structure = jax.tree.structure(result)
    around: Writer | None = writer
    while around is not None:
        for name in around.values.names():
            if name.is_parameter and jax.tree.structure(name.held) == structure:
                return name.hint
        around = around.parent or around.caller
    return ""


def _is_unpacked(result: Any, target: tuple[Target, ...]) -> bool:
    """Whether a result is unpacked as it is written: a NamedTuple with all of it."""
    if not isinstance(result, (tuple, list)):
        return False
    if len(regrouped(result, target)) != len(target):
        return False
    return type(result) in (tuple, list) or all(map(has_array, result))


@optional(gives(None))
def name_locals(values: Mapping[str, Any], writer: Writer) -> None:
    """Name results after the local variables that held them in the end."""
    for hint, value in values.items():
        if type(value) in (list, tuple):
            _note_list(hint, value, writer)
        if type(value) in (list, tuple, dict) and not writer.in_library:
            _note_collection(hint, value, writer)
        key = _key_of_local(value, writer)
        if key is None or hint == "_":
            continue
        found = writer.values.find(key)
        origin = writer.locate(key)
        if origin is not None and origin[1]:
            writer.draft.items[id(origin[0]), origin[1]] = identifier(hint)
            if not (writer.in_library or writer.n_dissolving):
                writer.draft.parts_held[id(origin[0]), origin[1]] = identifier(hint)
        if found is None or found[1]:
            continue
        name = found[0]
        if hint != name.hint:
            writer.draft.others.setdefault(id(name), identifier(hint))
        if writer.in_library and _is_vague(hint) and _is_clear(name):
            continue
        if not name.text and id(name) in writer.owned and _can_rename(name):
            _give(name, identifier(hint), writer)
    for value in values.values():
        _name_fields(value, writer)


def _name_fields(value: Any, writer: Writer) -> None:
    """Name results after the fields of an object that holds them, if that says more."""
    name_nameless(_fields_of_local(value, writer), writer)


def name_nameless(hints: Iterable[tuple[Any, str]], writer: Writer) -> None:
    """Name results, which are told by their keys, where the program has no name for them."""
    for key, hint in hints:
        found = writer.values.find(key)
        if found is None or found[1]:
            continue
        name = found[0]
        says_less = not name.is_given or (name.is_foreign and _is_vague(name.hint))
        if says_less and not name.text and id(name) in writer.owned:
            _give(name, hint, writer)
            name.is_weak = True


def _fields_of_local(value: Any, writer: Writer) -> list[tuple[Any, str]]:
    """List the arrays in an object and the containers that are its fields, by their keys.

    With each is the name of the field that it is in.
    """
    known = writer.program.plan.fields
    if id(value) not in known:
        known[id(value)] = []
        if not (is_array(value) or type(value) in (list, tuple, dict)):
            tree, arrays = writer.values.tree(value)
            known[id(value)] = [
                (id(arrays[index]), last_word(words_of(path)))
                for index, path in leaf_paths(tree)
                if path
            ]
            if isinstance(tree, Node) and tree.kind in ("replaced", "fields"):
                known[id(value)] += [
                    (tree_key(child, arrays), str(field))
                    for field, child in zip(tree.keys, tree.children)
                    if isinstance(child, Node)
                ]
    return known[id(value)]


def _note_list(hint: str, value: Sequence[Any], writer: Writer) -> None:
    """Take note of what a list of arrays, or of containers of arrays, is called."""
    names: list[int] = []
    for item in value:  # that of a library may be long, and hold what has no name
        found = writer.values.find(_key_of_local(item, writer))
        if found is None or found[1]:
            return
        names.append(id(found[0]))
    writer.draft.lists[tuple(names)] = identifier(hint)


def _note_collection(hint: str, value: Any, writer: Writer) -> None:
    """Take note of what a container of arrays is called."""
    found = [writer.values.find(id(one)) for one in writer.values.tree(value)[1]]
    # They may be the names of its items, of which the arrays are parts.
    names = [id(one[0]) for one in found if one is not None]
    if names and len(names) == len(found):
        writer.draft.collections[frozenset(names)] = identifier(hint)


def _key_of_local(value: Any, writer: Writer) -> Any:
    """Return what identifies a local variable's value, which lives in the recording.

    Most of the locals of a framework hold large trees, and are looked at in every pass.
    """
    known = writer.program.plan.keys
    if id(value) not in known:
        known[id(value)] = writer.values.key(value)
    return known[id(value)]


def rename(result: Any, target: Target, writer: Writer) -> None:
    """Give the names of the caller to what a dissolved function returned."""
    if isinstance(target, tuple) and type(result) in (tuple, list):
        _split(result, target, writer)
        for part, name in zip(regrouped(result, target), target):
            rename(part, name, writer)
        return
    if not isinstance(target, str) or target == "_":
        return
    key = writer.values.key(result)
    found = writer.values.find(key) if key is not None else None
    if found is None or found[1]:
        return
    name = found[0]
    if writer.in_library and name.is_given and not (name.is_foreign or name.is_weak):
        return  # the user's name
    if not name.text and not name.is_parameter and id(name) in writer.owned:
        _give(name, target, writer)


def _split(result: Any, target: tuple[Target, ...], writer: Writer) -> None:
    """Unpack a result that a dissolved function had returned as a whole.

    What is returned may have become a part of that: then its own parts are unpacked.
    """
    key = writer.values.key(result)
    found = writer.values.find(key) if key is not None else None
    if found is None:
        narrowed = _narrowed(result, target, writer)
        if narrowed is not None:
            name, target = narrowed
            _unpack(name, name.held, target, writer)
    elif not found[1] and not found[0].uses and _is_unpacked(result, target):
        _unpack(found[0], result, target, writer)


def _narrowed(
    result: Any, target: tuple[Target, ...], writer: Writer
) -> tuple[Name, tuple[Target, ...]] | None:
    """Return the name of a tuple that has the parts of a result that have names at all."""
    if len(target) != len(result):
        return None
    hints: dict[Path, Target] = {}
    names: list[Name] = []
    for part, hint in zip(result, target):
        key = writer.values.key(part)
        found = writer.values.find(key) if key is not None else None
        if found is not None and found[1]:
            names.append(found[0])
            hints[found[1]] = hint
    if not names or any(name is not names[0] or name.uses for name in names):
        return None
    held = names[0].held
    places = [(Item(i),) for i in range(len(held) if type(held) is tuple else 0)]
    if len(places) < 2 or set(places) != hints.keys():
        return None
    return names[0], tuple([hints[place] for place in places])


def _unpack(name: Name, value: Any, target: tuple[Target, ...], writer: Writer) -> None:
    """Let the statement that assigns to a name assign to the parts of what it holds."""
    for statement in reversed(writer.draft.statements):
        if any(one is name for one in flat(statement.targets)):
            writer.values.forget(name)
            taken = zip(regrouped(value, target), target)
            parts = tuple([_target(v, t, writer) for v, t in taken])
            statement.targets = _with_parts(statement.targets, name, parts)
            return


def _with_parts(targets: Names | None, name: Name, parts: Names) -> Names | None:
    """Write parts instead of a name."""
    if isinstance(targets, tuple):
        return tuple([_with_parts(t, name, parts) or t for t in targets])
    return parts if targets is name else targets


def _target(result: Any, target: Target, writer: Writer) -> Name:
    hint = variable_of(target) or "value"
    name = _local(identifier(hint), hint != "_", writer)
    name.is_starred = is_starred(target)
    writer.define(result, name)
    return name


def _local(hint: str, is_given: bool, writer: Writer) -> Name:
    """Make the name of a local variable; tell whose it is."""
    is_weak = writer.n_dissolving > 0
    return Name(hint, is_given, is_weak=is_weak, is_foreign=writer.in_library)


def _give(name: Name, hint: str, writer: Writer) -> None:
    """Give a name the hint of a local variable that held its value, too."""
    name.hint, name.is_given = hint, True
    name.is_weak = writer.n_dissolving > 0
    name.is_foreign = writer.in_library


def _is_clear(name: Name) -> bool:
    """Whether somebody gave a name that says something."""
    return name.is_given and not _is_vague(name.hint)


def _is_vague(hint: str) -> bool:
    """Whether a library calls anything so: one letter, or a word for any value."""
    return len(hint) == 1 or hint in _VAGUE


def _can_rename(name: Name) -> bool:
    """Whether a better name may be given."""
    return not name.is_parameter and (name.is_weak or not name.is_given)
