"""Write values as expressions: by the names that hold them, or what makes them."""

from __future__ import annotations

import dataclasses
import enum
import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.capture.dict_keys import is_plain_key
from untrace.capture.static_fields import is_named
from untrace.capture.trees import Leaf, Node, Tree, plain, shown_settings
from untrace.lifting.recorded.building import (
    attribute,
    call,
    dict_term,
    display,
    indexed,
    keyword,
    literal_term,
    text_term,
)
from untrace.lifting.recorded.calls.tails import dtype_term, limit_term
from untrace.lifting.recorded.dict_parts import of_dicts
from untrace.lifting.recorded.functions.likeness import is_field, like, lost_fields
from untrace.lifting.recorded.masked_trees import of_masked
from untrace.lifting.recorded.naming.leaves import leaves_term, structure_term
from untrace.lifting.recorded.naming.values import (
    Found,
    has_array,
    is_array,
    is_plain,
    tree_key,
)
from untrace.lifting.recorded.numbers.formulas import formula_term
from untrace.lifting.recorded.projected_trees import of_projected
from untrace.lifting.recorded.slices import slice_term
from untrace.lifting.recorded.terms import Global, Name, Part, Term
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.unwritable import UnknownArray, Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.sizes import Dimension, Scale, Size
from untrace.lifting.spelling import spell, spell_dtype
from untrace.lifting.spelling.limits import spell_limit
from untrace.optional import gives, optional
from untrace.recovery.functions import is_function
from untrace.recovery.record import is_kept

MIN_WHOLE = 4  # fields of an object that is passed whole where all of them are needed
_INTEGERS = frozenset({"axes", "axis", "new_sizes", "reps", "shape", "shift"})
"""Arguments that hold integers only, never arrays."""
_KNOWN_MODULES = frozenset(
    {"builtins", "jax", "jaxlib", "numpy", "ml_dtypes", "types", "enum"}
)


def value_term(value: Any, writer: Writer, role: str = "") -> Term:
    """Write any value as an expression; `role` may name a number or a constant array."""
    if is_array(value):
        return _array(value, writer, role.upper() if len(role) == 1 else role)
    if type(value) is float:  # an object of its own, unlike a small integer
        return _float(value, writer, role)
    if type(value) in (int, np.float64) and (formula := writer.program.formula(value)):
        return formula_term(formula, writer) or static_term(value, writer, role)
    return _known(value, writer) or _made(value, writer, role)


def _float(value: float, writer: Writer, role: str) -> Term:
    numbers = writer.program.numbers
    is_held = numbers.is_held(value)
    found = writer.find_float(value, numbers.variable(value)) if is_held else None
    if found is not None:
        return writer.ref(found)
    formula = writer.program.formula(value)
    made = formula_term(formula, writer) if formula is not None else None
    return made or static_term(value, writer, role)


def constant_term(value: float, writer: Writer) -> Term:
    """Write a constant of the source, whatever else is the same number."""
    return literal_term(value, spell(value, writer.program.lifter.imports))


def shape_term(value: Any, writer: Writer) -> Term:
    """Write a shape that a library gave: that of an array made just before, if any.

    Functions that are alike but for the size of their arrays have one text then.
    """
    around = writer.program.open_calls
    by_library = writer.in_library or (around and is_kept(around[-1].bodies[0].code))
    if by_library and type(value) in (tuple, list):
        for array in reversed(writer.latest):
            found = writer.values.find(id(array))
            if found and array.shape == tuple(value) and _is_needed(found[0], writer):
                return attribute(writer.ref(found), "shape")
    return writer.value(value)


def static_term(value: Any, writer: Writer, role: str = "") -> Term:
    """Write a value that is no array."""
    if isinstance(value, (Size, Scale)):
        parts = [_size_part(part, writer) for part in value.expression.parts]
        return Term(parts, value.expression.level)
    imports = writer.program.lifter.imports
    if isinstance(value, np.dtype):
        return dtype_term(value, writer) or text_term(spell_dtype(value, imports))
    if isinstance(value, jaxapi.PyTreeDef) and value.num_leaves > 1:
        structure = structure_term(value, writer)
        if structure is not None:
            return structure
    if not _is_known(value) and not jaxapi.is_inside_jax(value):
        array = _converted(value)
        if array is not None:
            return writer.program.constant(array)
        sizes = _integers(value)
        if sizes is not None:
            return writer.value(sizes, role)
        raise Unwritable(f"a {type(value).__name__} is no part of the program")
    limit = limit_term(value, writer)
    if limit is not None:
        return limit
    item = _array_item(value, writer)
    if item is not None:
        return item
    value = _without_enum(value, writer)
    limit_text = spell_limit(value, imports)
    text = limit_text or spell(value, imports)
    made = writer.program.numbers.term(value, text, role, writer.in_library)
    if made is None:
        made = text_term(text) if limit_text else literal_term(value, text)
    return made


@optional(gives(None))
def _array_item(value: Any, writer: Writer) -> Term | None:
    """Write a number of NumPy as an item of an array that the user's module names."""
    call = writer.program.item
    for item in call.items if call is not None and not writer.in_library else ():
        if item.value is value and writer.program.is_named(item.array):
            array = writer.program.constant(item.array)
            return indexed(array, [literal_term(n) for n in item.place])
    return None


def _without_enum(value: Any, writer: Writer) -> Any:
    """Return the number or string that a member of a program's enum is.

    The file needs no module of the program then. A primitive may keep the member itself.
    """
    if not isinstance(value, enum.Enum) or writer.program.options.keep_types:
        return value
    item = writer.program.item
    span = item.span if item is not None else None
    binds = span.log[span.first : span.last] if span is not None else []
    params = [param for bind in binds for param in bind.params.values()]
    parts = [part for one in params if type(one) in (tuple, list) for part in one]
    if jaxapi.is_inside_jax(value) or any(one is value for one in (*params, *parts)):
        return value
    kinds = [kind for kind in (int, str) if isinstance(value, kind)]
    return kinds[0](value.value) if kinds else value


def _size_part(part: str | Dimension, writer: Writer) -> Part:
    """Write a part of a size: a dimension, or text, which may be the module's integer."""
    if not isinstance(part, str):
        return Global(part.name)
    item = writer.program.item
    known = item.factors if item is not None and not writer.in_library else {}
    name = next((name for value, name in known.items() if str(value) == part), "")
    made = writer.program.numbers.named_integer(int(part), name) if name else None
    return part if made is None else made.parts[0]


def _converted(value: Any) -> np.ndarray | None:
    """Return the array that NumPy and JAX make of an object of another library, if any."""
    if isinstance(value, type) or not hasattr(type(value), "__array__"):
        return None
    array = np.asarray(value)
    return array if array.dtype.kind in "biufc" else None


def _integers(value: Any) -> int | tuple[int, ...] | None:
    """Return the integers that an object of another library is to JAX, such as a shape."""
    kind = type(value)
    if isinstance(value, type):
        return None
    if _has_method(kind, "__index__"):
        return operator.index(value)
    if not (_has_method(kind, "__len__") and _has_method(kind, "__iter__")):
        return None
    items = [*value]
    is_whole = all(_has_method(type(item), "__index__") for item in items)
    return tuple(map(operator.index, items)) if is_whole else None


def _has_method(kind: type, name: str) -> bool:
    """Whether instances have a method, not the class itself, as the class of an enum has."""
    return any(name in vars(base) for base in kind.__mro__)


def _known(value: Any, writer: Writer) -> Term | None:
    """Refer to a container that has a name, or is a part of one."""
    if is_plain(value):
        return None
    part = writer.shared_part(value)
    if part is not None:
        return writer.ref(part)
    key = writer.values.key(value)
    found = writer.find(key) if key is not None else None
    if found is None:
        return None
    # A key says nothing of flags and numbers: `(factor, False)`.
    is_that = not found[1] and found[0].held is value
    return writer.ref(found) if is_that or not _has_static(value) else None


def _made(value: Any, writer: Writer, role: str) -> Term:
    """Write the expression that makes a value."""
    kind = type(value)
    if kind in (tuple, list) and writer.program.shapes.knows(value):
        tree, arrays = writer.values.tree(value)
        return built(tree, arrays, writer)
    if kind in (tuple, list, dict):
        projected = of_projected(*writer.values.tree(value), writer)
        if projected is not None:
            return projected
    if kind in (tuple, list):
        part = leaves_term(value, writer)
        if part is None and not _has_static(value):
            part = slice_term(value, writer)
        if part is not None:
            return part
        brackets = "()" if kind is tuple else "[]"
        flags = [_flag(item, value, writer) for item in value]
        items = [f or _item(item, role, writer) for item, f in zip(value, flags)]
        return display(brackets, items)
    if kind is dict:
        return _of_dicts(value, writer) or _dict(value, writer)
    if kind is slice:
        items = [value.start, value.stop, value.step]
        return call(text_term("slice"), [writer.value(item) for item in items])
    if is_function(value):
        return writer.function(value, [])
    if has_array(value) or (_is_node(value) and not _is_known(value)):
        tree, arrays = writer.values.tree(value)
        return built(tree, arrays, writer)
    if kind is np.bool_ and writer.in_library:  # JAX treats both alike
        value = bool(value)
    if kind is np.int64 and role in _INTEGERS:
        return _item(value, role, writer)
    return static_term(value, writer)


def _dict(value: dict[Any, Any], writer: Writer) -> Term:
    unknown = [key for key in value if not is_plain_key(key)]
    if unknown and has_array(value):
        return tree_term(value, writer)
    if unknown:
        kind = type(unknown[0]).__name__
        raise Unwritable(f"a dict has a key of type {kind}")
    terms = [_entry(key, item, writer) for key, item in value.items()]
    return dict_term(list(zip(value, terms)))


def _entry(key: Any, item: Any, writer: Writer) -> Term:
    """Write an entry of a dict; its key may name a constant array."""
    is_named = isinstance(key, str) and is_array(item)
    return writer.value(item, key if is_named else "")


def _of_dicts(value: dict[Any, Any], writer: Writer) -> Term | None:
    """Write a dict of arrays by other dicts, if it is made of these."""
    tree, arrays = writer.values.tree(value)
    if len(arrays) < len(jax.tree.leaves(value)) or not isinstance(tree, Node):
        return None
    return of_masked(tree, arrays, writer) or of_dicts(tree, arrays, writer, built)


def tree_term(value: Any, writer: Writer) -> Term:
    """Write a tree of arrays; what is no array in it is None."""
    tree, arrays = writer.values.tree(value)
    return built(tree, arrays, writer)


def _item(value: Any, role: str, writer: Writer) -> Term:
    """Write a value in a tuple or list; an axis, or a length of a library's, plainly.

    Of other integers of NumPy JAX makes arrays, whose types are not those of integers.
    """
    if type(value) is np.int64 and (writer.in_library or role in _INTEGERS):
        return _array_item(value, writer) or writer.value(int(value))
    return writer.value(value)


def _flag(item: Any, value: Sequence[Any], writer: Writer) -> Term | None:
    """Write a flag in a tuple by its variable, if an array in it was unpacked with it."""
    if type(item) is not bool:
        return None
    for array in filter(is_array, value):
        around: Writer | None = writer
        while around is not None:
            name = around.flags.get((id(array), item))
            if name is not None:
                return writer.reach((name, ()))
            around = around.parent
    return None


def _is_needed(name: Name, writer: Writer) -> bool:
    """Whether a name is used anyway, as far as that is known by now."""
    if name.is_parameter or name.uses:
        return True
    last = writer.draft.statements[-1] if writer.draft.statements else Statement()
    return last.targets is name and any(True for _ in last.term.refs())


def _array(value: Any, writer: Writer, field: str = "") -> Term:
    part = writer.shared_part(value)
    if part is not None:
        return writer.ref(part)
    hint = writer.program.arrays.get(id(value), "")
    argument = writer.arguments.get((id(value), hint))
    if argument is not None:  # one of several that are this array
        return writer.ref((argument, ()))
    found = writer.find(id(value))
    if found is not None:
        return writer.ref(found)
    if isinstance(value, jaxapi.Tracer):
        raise UnknownArray(value)
    if isinstance(value, jax.custom_derivatives.SymbolicZero):
        return static_term(value, writer)
    if writer.in_library and isinstance(value, np.ndarray) and value.ndim == 0:
        return static_term(value[()], writer)  # JAX treats both alike
    return writer.program.constant(value, field)


def built(tree: Tree, arrays: Sequence[Any], writer: Writer, field: str = "") -> Term:
    """Write the expression that builds a tree; known sub-trees by their names.

    Args:
      arrays: Its leaves.
      writer: Writes the function that it stands in.
      field: What it is in what holds it.
    """
    if isinstance(tree, Leaf):
        return _array(arrays[tree.index], writer, field)
    key = tree_key(tree, arrays)
    found = writer.find(key) if key is not None else None
    if found is not None:
        return writer.ref(found)
    if tree.kind in ("replaced", "fields") and len(tree.children) >= MIN_WHOLE:
        writer.needs_whole(key)
    base = like(tree, arrays, writer)
    if base is not None:
        return _updated(base, tree, arrays, writer)
    shorter = of_masked(tree, arrays, writer) or of_projected(tree, arrays, writer)
    shorter = shorter or of_dicts(tree, arrays, writer, built)
    if shorter is not None:
        return shorter
    fields = [key if isinstance(key, str) else field for key in tree.keys]
    children = zip(tree.children, fields)
    parts = [built(child, arrays, writer, field) for child, field in children]
    if tree.kind == "none":
        return Term(["None"])
    if tree.kind == "number":
        return writer.value(tree.keys[0])
    if tree.kind in ("tuple", "list"):
        return display("()" if tree.kind == "tuple" else "[]", parts)
    if tree.kind == "dict":
        return dict_term(list(zip(tree.keys, parts)))
    name = writer.program.class_name(tree)
    if tree.kind == "items":
        items = dict_term(list(zip(tree.keys, parts)))
        given = [writer.value(value) for _, value in tree.settings]
        return call(Term([name]), [*given, items])
    if tree.kind == "sparse":
        given = [keyword(k, writer.value(v, k)) for k, v in shown_settings(tree)]
        return call(Term([name]), [display("()", parts), *given])
    if len(parts) == 1 and tree.kind == "replaced" and _has_one_field(tree.cls):
        return call(Term([name]), parts)
    given = [keyword(str(k), part) for k, part in zip(tree.keys, parts)]
    given += [keyword(k, _static_field(k, v, writer)) for k, v in tree.settings]
    return call(Term([name]), given)


def _static_field(name: str, value: Any, writer: Writer) -> Term:
    """Write a static field; its functions are the very ones, since trees compare them."""
    if is_named(value):
        return text_term(writer.program.lifter.spell(value))
    return writer.value(value, name)


def _has_one_field(kind: type) -> bool:
    """Whether objects of a class never have another field."""
    if dataclasses.is_dataclass(kind):
        return len(dataclasses.fields(kind)) == 1
    return len(getattr(kind, "_fields", ())) == 1


def _updated(base: Found, tree: Tree, arrays: Sequence[Any], writer: Writer) -> Term:
    """Write `state._replace(count=count)`."""
    assert isinstance(tree, Node)
    changed = [
        keyword(key, built(child, arrays, writer))
        for key, child in zip(tree.keys, tree.children)
        if not is_field(base, key, child, tree, arrays, writer)
    ]
    lost = lost_fields(base, tree, writer)
    changed += [keyword(key, text_term("None")) for key in lost]
    return call(attribute(writer.ref(base), "_replace"), changed)


def with_numbers(value: Any, writer: Writer) -> tuple[Tree, list[Any]]:
    """Describe a tree, with the numbers that objects of libraries hold."""
    arrays: list[Any] = []
    keep_types = writer.program.options.keep_types
    return plain(value, is_array, arrays, keep_types, in_modules=True), arrays


def _is_known(value: Any) -> bool:
    """Whether a value is one of Python's or JAX's own, which can be spelled."""
    module = type(value).__module__.partition(".")[0]
    return is_plain(value) or module in _KNOWN_MODULES


def without_objects(value: Any) -> Any:
    """Return a result with None for objects in it that are no part of the program."""
    if not any(map(_is_foreign, jax.tree.leaves(value))):
        return value
    return jax.tree.map(lambda leaf: None if _is_foreign(leaf) else leaf, value)


def _is_foreign(leaf: Any) -> bool:
    """Whether a leaf is a function or an object of the program, which JAX hands on."""
    if is_array(leaf) or jaxapi.is_inside_jax(leaf):
        return False
    if is_function(leaf) and not is_plain(leaf):
        return True
    is_spelled = _is_known(leaf) or _converted(leaf) is not None
    return not is_spelled and _integers(leaf) is None


def _is_node(value: Any) -> bool:
    return not is_plain(value) and not jax.tree_util.all_leaves([value])


def _has_static(value: Any) -> bool:
    """Whether a plain container holds what is no array, besides None."""
    if type(value) in (tuple, list, dict):
        items = value.values() if type(value) is dict else value
        return any(_has_static(item) for item in items)
    return isinstance(value, (bool, int, float, complex, str, bytes, slice))
