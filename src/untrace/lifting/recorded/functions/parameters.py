"""Make the parameters of functions: of those that were passed, and of the user's own."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.attributes import Attributes, in_places
from untrace.capture.inputs import has_state
from untrace.lifting.heads import Parameter
from untrace.lifting.recorded.calls.unwrapping import followed, way
from untrace.lifting.recorded.expressions import with_numbers
from untrace.lifting.recorded.functions.attributes import attribute_parameters
from untrace.lifting.recorded.functions.function_names import snake_case
from untrace.lifting.recorded.functions.function_values import is_passed
from untrace.lifting.recorded.functions.held_values import held_values
from untrace.lifting.recorded.naming.paths import (
    first_word,
    index_of,
    last_word,
    part_of,
    words_of,
)
from untrace.lifting.recorded.naming.values import (
    Found,
    arrays_in,
    has_array,
    is_array,
    is_plain,
    tree_key,
)
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.numbers import spell_float
from untrace.objects import fields_of
from untrace.recovery.functions import is_function, starred
from untrace.recovery.record import Body, Call, is_library, is_library_class
from untrace.syntax.names import identifier
from untrace.syntax.steps import Item, Path, common

MAX_SPREAD = 16  # arguments that a starred parameter of a library takes
MAX_COLLECTIONS = 3  # of one tree that a function is given one by one


def passed_parameters(
    body: Body, dropped: frozenset[str], writer: Writer, n_bound: int = 0
) -> None:
    """Make the parameters of a function that was passed to a transformation.

    Those that are dropped may be parameters with defaults instead. Of what `*args` take,
    the first are bound.
    """
    values, code, defaults = body.parameters, body.code, body.defaults
    n = code.co_argcount
    keywords = code.co_varnames[n : n + code.co_kwonlyargcount]
    flags = code.co_flags
    names = list(values)
    plain = [i for i, name in enumerate(names) if name not in keywords]
    last = max([i for i in plain if names[i] not in dropped], default=-1)
    for position, name in enumerate(names):
        if name in dropped:
            is_behind = position > last or name in keywords
            if is_behind and values[name] is defaults.get(name, values):
                text = spell_float(defaults[name])
                made = _number_parameter(name, values[name], writer)
                parameter = Parameter(made, text, is_keyword=name in keywords)
                writer.draft.parameters.append(parameter)
            continue
        stars = ""
        if flags & inspect.CO_VARARGS and position == n + len(keywords):
            stars = "*"
        elif flags & inspect.CO_VARKEYWORDS and position == len(names) - 1:
            stars = "**"
        given = values[name][n_bound:] if stars == "*" else values[name]
        if stars and not has_array(given):
            continue
        if stars == "*" and is_spread(body):
            left = [value for value in given if not is_left_out(value)]
            spread = _spread(name, left, body, writer)
            writer.draft.parameters += map(Parameter, spread)
            continue
        is_self = name in ("self", "cls") and has_array(given)
        hint = _name_of_object(given, body) if is_self else name
        made = Name(hint, True, is_parameter=True)
        if not stars and is_passed(given, name, code, writer.program.plan):
            writer.give(given, made)
        else:
            writer.define(given, made)
            writer.arguments[id(given), name] = made
        if type(given) is float:
            writer.hold_float(given, name, made)
        writer.draft.parameters.append(Parameter(made, "", stars, name in keywords))
    # In a code object, the names of starred parameters come after those of keywords.
    writer.draft.parameters.sort(key=_rank)


def _rank(parameter: Parameter[Name]) -> int:
    """Return where Python wants a parameter to stand."""
    if parameter.stars == "**":
        return 3
    return 2 if parameter.is_keyword else len(parameter.stars)


def is_spread(body: Body) -> bool:
    """Whether a library's `*args` becomes a parameter for each of its items."""
    if not (body.code.co_flags & inspect.CO_VARARGS and is_library(body.code)):
        return False
    return 0 < len(spread_items(body)) <= MAX_SPREAD


def is_left_out(item: Any) -> bool:
    """Whether an item is a function or an object: what they do is in the body."""
    if has_array(item):
        return False
    leaves = jax.tree.leaves(item)
    return any(is_function(leaf) or not is_plain(leaf) for leaf in leaves)


def spread_items(body: Body) -> Sequence[Any]:
    """Return what a function's `*args` holds."""
    position = body.code.co_argcount + body.code.co_kwonlyargcount
    return body.parameters.get(body.code.co_varnames[position], ())


def _spread(name: str, given: Sequence[Any], body: Body, writer: Writer) -> list[Name]:
    """Make a parameter of each argument that a library's `*args` takes."""
    made: list[Name] = []
    for value in given:
        hint = writer.program.shapes.name(value) or name_inside(value, body)
        if not hint and not is_array(value) and type(value) is not tuple:
            hint = "params"
        if type(value) is float:
            made.append(_number_parameter(hint or name, value, writer))
            continue
        one = Name(identifier(hint or name), True, is_parameter=True)
        writer.define(value, one)
        made.append(one)
    return made


def _number_parameter(hint: str, value: float, writer: Writer) -> Name:
    """Name a number that a function is given."""
    return number_name(hint, value, writer, is_parameter=True)


def number_name(
    hint: str, value: float, writer: Writer, is_parameter: bool = False
) -> Name:
    """Name a number that a variable of a function holds."""
    name = Name(identifier(hint), True, is_parameter=is_parameter, held=value)
    writer.own(name)
    hold = writer.hold_float if type(value) is float else writer.hold_number
    hold(value, hint, name)
    return name


def own_parameters(item: Call, writer: Writer) -> list[tuple[Name, Any]]:
    """Make a parameter of every argument that holds an array, is a number or a function."""
    made: list[tuple[Name, Any]] = []
    (body,) = item.bodies
    given = _given(item)
    for hint, value in body.parameters.items():
        if writer.is_library:
            path = way(value, lambda part: _is_known_outside(part, writer))
            value = followed(value, path)
            if len(path) == 1 and hint in starred(body.code):
                hint = _name_of_only(path[0], value, body) or hint
        # Beside starred parameters, one with a default would have to be given.
        is_users = not (writer.is_library or starred(body.code))
        if type(value) is float or (type(value) is int and is_users):
            made.append((_number_parameter(hint, value, writer), value))
        elif hint in given and is_passed(value, hint, body.code, writer.program.plan):
            name = Name(identifier(hint), True, is_parameter=True)
            writer.give(value, name)
            made.append((name, value))
        elif has_array(value):
            parameter = id(body.code), hint
            is_whole = parameter in writer.program.plan.whole
            can_pass = is_whole or _can_pass(value, writer)
            if _is_object(value):
                writer.program.takes(parameter, can_pass)
            if not can_pass:
                _take_apart(value, parameter, writer)
                continue
            if hint in ("self", "cls"):
                hint = _name_of_object(value, body)
            name = Name(identifier(hint), True, is_parameter=True)
            writer.define(value, name)
            if is_whole:
                _define_whole(value, name, writer)
            writer.arguments[id(value), hint] = name
            made.append((name, value))
    found = attribute_parameters if writer.is_library else _held_parameters
    return made + found(body, writer)


def _held_parameters(body: Body, writer: Writer) -> list[tuple[Name, Any]]:
    """Make a parameter of what is held elsewhere, if other runs find another value there."""
    plan = writer.program.plan
    made: list[tuple[Name, Any]] = []
    for word, value in held_values(body, plan.differing).items():
        hint = word.strip("_")
        if type(value) in (int, float):
            made.append((_number_parameter(hint, value, writer), value))
        elif type(value) is not str and is_passed(value, word, body.code, plan):
            name = Name(identifier(hint), True, is_parameter=True)
            writer.give(value, name)
            made.append((name, value))
    return made


def _name_of_object(value: Any, body: Body) -> str:
    """Name the object of a method: a layer holds parameters, an optimizer of flax state.

    What holds parameters beside others, such as the state of a training, is called after
    its class, and so is what no framework makes layers of: an object of a class that
    stands alone, or of the user's that cannot be called.
    """
    is_call = body.code.co_name == "__call__"
    bases = type(value).__mro__[1:]
    stands_alone = all(base.__module__ == "builtins" for base in bases)
    is_users = not (callable(value) or is_library_class(type(value)))
    is_more = stands_alone or has_state(value) or "params" in fields_of(value)
    is_layer = is_call or not (is_users or is_more)
    return "params" if is_layer else snake_case(type(value).__name__)


def trailing_defaults(
    made: Sequence[tuple[Name, Any]], defaults: Mapping[str, float]
) -> dict[str, float]:
    """Return the defaults of the last parameters; those before them have to be passed."""
    known: dict[str, float] = {}
    for name, value in reversed(made):
        if type(value) not in (int, float) or name.hint not in defaults:
            break
        known[name.hint] = defaults[name.hint]
    return known


def with_used_defaults(parameters: Sequence[Parameter[Name]]) -> list[Parameter[Name]]:
    """Leave out parameters that have defaults and are not used."""
    return [p for p in parameters if not p.default or p.name.uses or p.name.captured]


def _given(item: Call) -> frozenset[str]:
    """Return the parameters of a user's function that did not take their defaults."""
    (body,) = item.bodies
    names = list(body.parameters)
    if is_library(body.code):
        return frozenset()
    if item.spelling is None:
        return frozenset(names)
    n_given = item.spelling.n_positional + (names[:1] in (["self"], ["cls"]))
    return frozenset({*names[:n_given], *item.spelling.keywords})


def _name_of_only(key: Any, value: Any, body: Body) -> str:
    """Name the only argument of a starred parameter; "" if no name is known.

    That is its keyword, or the name of the parameter that it is passed on to.
    """
    return key if isinstance(key, str) else name_inside(value, body)


def name_inside(value: Any, body: Body) -> str:
    """Return the parameter that takes a value in the functions that a run calls."""
    for item in body.calls:
        if not item.is_own:
            continue
        (run,) = item.bodies
        names = [name for name, held in run.parameters.items() if _is_same(held, value)]
        if names:
            return names[0]
        stars = [run.parameters.get(name, ()) for name in starred(run.code)]
        if any(part is value for held in stars for part in held):
            name = name_inside(value, run)
            if name:
                return name
    return ""


def _is_same(first: Any, second: Any) -> bool:
    """Whether two values are one, or dicts of the same arrays."""
    if first is second:
        return True
    if not type(first) is type(second) is dict:
        return False
    arrays, others = arrays_in(first), arrays_in(second)
    return bool(arrays) and list(map(id, arrays)) == list(map(id, others))


def _is_known_outside(value: Any, writer: Writer) -> bool:
    """Whether the caller has a name for a container."""
    key = writer.values.key(value)
    return writer.caller is None or writer.caller.find(key) is not None


def _is_object(value: Any) -> bool:
    """Whether a value is of a class that files have something for: no plain container."""
    is_plain_tree = is_array(value) or type(value) in (tuple, list, dict)
    return not (is_plain_tree or jax.tree_util.all_leaves([value]))


def _can_pass(value: Any, writer: Writer) -> bool:
    """Whether a caller can write a value.

    An object that has no name there would have to be built first; its arrays come as
    parameters of their own instead.
    """
    if is_array(value):
        return True
    key = writer.values.key(value)
    if writer.caller is not None and key is not None and writer.caller.find(key):
        return True
    return _is_constructible(value) or (not writer.is_library and _is_named(value))


def _take_apart(value: Any, parameter: tuple[int, str], writer: Writer) -> None:
    """Take note of an object that is not passed, in case that all of it is needed."""
    for tree, arrays in (writer.values.tree(value), with_numbers(value, writer)):
        writer.apart[tree_key(tree, arrays)] = parameter


def _define_whole(value: Any, name: Name, writer: Writer) -> None:
    """Let a parameter stand for an object with its numbers; constants are written."""
    tree, arrays = with_numbers(value, writer)
    writer.values.add(tree_key(tree, arrays), name)
    for array in arrays:
        if not isinstance(array, jaxapi.Tracer):
            writer.values.forget_array(array)


def _is_named(value: Any) -> bool:
    """Whether a value is of named arrays, as programs build them: in objects, too."""
    if type(value) in (tuple, list):
        return all(map(_is_named, value))
    if type(value) is dict:
        return all(map(_is_named, value.values()))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return all(map(_is_named, value))
    if is_array(value) or is_plain(value):
        return True
    if not dataclasses.is_dataclass(value) or is_library_class(type(value)):
        return False
    held = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return all(map(_is_named, held))


def _is_constructible(value: Any) -> bool:
    if type(value) in (tuple, list):
        return all(map(_is_constructible, value))
    if type(value) is dict:
        return all(map(_is_constructible, value.values()))
    return is_array(value) or is_plain(value)


def _attribute(
    origin: Name, path: Path, holders: Sequence[Any], attributes: Attributes
) -> str:
    """Return the attribute that holds what has no name of its own; "" if none does.

    A result that nobody named is called so in the function that made it, too.
    """
    is_named = index_of(path[-1]) is None if path else origin.is_given
    held = None if is_named else part_of(origin.held, path)
    word = attributes.holding(held, holders) if is_array(held) else ""
    if word and not path:
        origin.hint = identifier(word)
    return word and identifier(word)


_Lifted = tuple[Name, Found]
"""A value from outside a function: its name inside, and where it is."""


def _collections(group: list[_Lifted]) -> list[list[_Lifted]]:
    """Split what is needed of a tree that holds several of one form.

    Of `{"params": ..., "batch_stats": ...}` a layer is given its own entry of each.
    """
    ways = [found[1] for _, found in group]
    firsts = list(dict.fromkeys(way[:1] for way in ways))
    has_tree = len(group) > len(firsts) or any(name.is_tree for name, _ in group)
    is_split = 1 < len(firsts) <= MAX_COLLECTIONS and has_tree
    if not is_split or not common([way[1:] for way in ways]):
        return [group]  # or all of the tree is needed
    firsts.sort(key=lambda first: first != (Item("params"),))
    return [[one for one, way in zip(group, ways) if way[:1] == f] for f in firsts]


def _as_held(
    groups: list[list[_Lifted]], holders: Sequence[Any], attributes: Attributes
) -> list[list[_Lifted]]:
    """Put the arrays that objects hold in the order in which they do, as in every run."""
    single = [group for group in groups if not _is_tree(group)]
    if len(single) < 2 or not holders:
        return groups
    places = attributes.order(holders)

    def place(group: list[_Lifted]) -> int | None:
        origin, path = group[0][1]
        return None if _is_tree(group) else places.get(id(part_of(origin.held, path)))

    return in_places(groups, [place(group) for group in groups])


def _shared(group: Sequence[_Lifted]) -> Path:
    """Return the way that leads to all of a group."""
    return common([found[1] for _, found in group])


def _is_tree(group: Sequence[_Lifted]) -> bool:
    return len(group) > 1 or group[0][0].is_tree


def _takers(body: Body) -> dict[int, str]:
    """Return the first parameters that take values within a run, by the `id` of these."""
    found: dict[int, str] = {}
    stack = [body]
    while stack:
        inner = [run for item in stack.pop().calls for run in item.bodies]
        for run in inner:
            for name, value in run.parameters.items():
                found.setdefault(id(value), identifier(name))
        stack += reversed(inner)
    return found


def grouped(writer: Writer, body: Body | None = None) -> list[tuple[Name, Any]]:
    """Turn the values that a function needs into few parameters: whole sub-trees.

    Args:
      writer: Writes the function.
      body: Its run: what it was given, such as an object, has attributes that name what it
        holds; where these are all called alike, parameters of functions that it calls do.
    """
    holders = list(body.parameters.values()) if body is not None else []
    groups: dict[int, list[_Lifted]] = {}
    for name, found in writer.lifted:
        if not (name.uses or name.captured):
            continue  # the item of a container that a loop is over
        groups.setdefault(id(found[0]), []).append((name, found))
    made: list[tuple[Name, Any]] = []
    ordered = sorted(groups.values(), key=lambda group: writer.rank(group[0][1][0]))
    ordered = [part for group in ordered for part in _collections(group)]
    ordered = _as_held(ordered, holders, writer.program.plan.attributes)
    n_trees = sum(map(_is_tree, ordered))
    given = [parameter.name.hint for parameter in writer.draft.parameters]
    has_params = n_trees > 1 or "params" in given
    hints: list[str] = []
    for group in ordered:
        origin = group[0][1][0]
        shared = _shared(group)
        is_tree = _is_tree(group)
        hint = origin.hint
        if shared:  # the same for every layer, so that layers can share a function
            if sum(other[0][1][0] is origin for other in ordered) > 1:
                hint = first_word(words_of(shared))
            elif not is_tree:
                hint = last_word(words_of(shared))
            elif n_trees == 1:
                hint = "params"
        attributes = writer.program.plan.attributes
        word = "" if is_tree else _attribute(origin, shared, holders, attributes)
        if word:
            hint = word
        if is_tree and hint in writer.program.modules and has_params:
            hint = "state"  # of a module, beside its parameters
        hints.append(hint)
    takers: dict[int, str] | None = None
    for group, hint in zip(ordered, hints):
        origin = group[0][1][0]
        shared = _shared(group)
        held = part_of(origin.held, shared)
        is_telling = hints.count(hint) == 1 or not origin.is_foreign
        if is_array(held) and not (is_telling or body is None):
            takers = _takers(body) if takers is None else takers
            hint = takers.get(id(held), hint)
        name = Name(hint, True, is_tree=_is_tree(group))
        name.held = held
        for inner, found in group:
            inner.alias = name, found[1][len(shared) :]
            name.uses += inner.uses
            name.last_use = max(name.last_use, inner.last_use)
            name.captured = name.captured or inner.captured
        made.append((name, (origin, shared)))
    return made
