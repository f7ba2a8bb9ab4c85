"""Write JAX's own objects: avals, tree structures, dimensions, primitives.

Classes whose constructor takes their attributes need no entry here: `records`
writes them (layouts, manual axis types, effects, dimension numbers). Meshes and
shardings are in `meshes`.
"""

from __future__ import annotations

import ast
from typing import Any

import jax

from untrace import jaxapi
from untrace.jaxapi import written
from untrace.lifting.spelling.base import Speller, Unspellable, writes
from untrace.lifting.spelling.dtypes import spell_dtype
from untrace.lifting.spelling.homes import find_primitive_home
from untrace.lifting.spelling.records import (
    spell_rebuilt,
    spell_record,
    spell_reference,
)
from untrace.parsing import parse
from untrace.syntax.names import is_name

# Some classes take an integer for static; a float or an ellipsis is a leaf to them.
PLACEHOLDERS: tuple[Any, ...] = (0, 0.0, ...)


def spell_aval_struct(speller: Speller, aval: Any) -> str:
    """Write the `jax.ShapeDtypeStruct` of a `ShapedArray`."""
    kwargs: dict[str, Any] = {}
    if aval.weak_type:
        kwargs["weak_type"] = True
    if not aval.sharding.mesh.empty:
        kwargs["sharding"] = aval.sharding
    if not jaxapi.is_empty_manual_axis_type(aval.manual_axis_type):
        kwargs["manual_axis_type"] = aval.manual_axis_type
    shape = speller.spell(tuple(aval.shape))
    parts = [shape, spell_dtype(aval.dtype, speller.imports)]
    parts += [speller.keyword(k, v) for k, v in kwargs.items()]
    return f"{speller.name('jax', 'ShapeDtypeStruct')}({', '.join(parts)})"


@writes(jaxapi.ShapedArray, memo=True)
def _spell_aval(speller: Speller, value: Any) -> str:
    kwargs: dict[str, Any] = {}
    if value.weak_type:
        kwargs["weak_type"] = True
    defaults = jaxapi.ShapedArray(value.shape, value.dtype)
    for name in jaxapi.AVAL_FIELDS:
        held = getattr(value, name)
        if held != getattr(defaults, name):
            kwargs[name] = held
    return speller.call(
        speller.name("jax.core", "ShapedArray"), [value.shape, value.dtype], **kwargs
    )


@writes(jax.ShapeDtypeStruct)
def _spell_struct(speller: Speller, value: Any) -> str:
    kwargs: dict[str, Any] = {}
    if value.weak_type:
        kwargs["weak_type"] = True
    if value.sharding is not None:
        kwargs["sharding"] = value.sharding
    name = speller.name("jax", "ShapeDtypeStruct")
    parts = [speller.spell(value.shape), spell_dtype(value.dtype, speller.imports)]
    parts += [speller.keyword(k, v) for k, v in kwargs.items()]
    return f"{name}({', '.join(parts)})"


@writes(*jaxapi.NATIVE_ENUMS)
def _spell_native_enum(speller: Speller, value: Any) -> str:
    if not is_name(value.name):
        raise Unspellable(value, "its name is no attribute of its class")
    return f"{spell_reference(speller, type(value))}.{value.name}"


@writes(jaxapi.PyTreeDef)
def _spell_tree_structure(speller: Speller, value: Any) -> str:
    """Write a tree with placeholders as leaves that has this structure."""
    for leaf in PLACEHOLDERS:
        try:
            skeleton = value.unflatten([leaf] * value.num_leaves)
            structure = jax.tree.structure(skeleton)
        except (TypeError, ValueError, AttributeError, AssertionError):
            continue
        if structure == value:
            name = speller.name("jax.tree", "structure")
            return f"{name}({speller.spell(skeleton)})"
    raise Unspellable(value, "a class in the tree refuses placeholders as leaves")


@writes(*jaxapi.FLAT_PYTREES)
def _spell_flat_pytree(speller: Speller, value: Any) -> str:
    if jaxapi.flat_tree_sizes(value) is not None:
        return _spell_flat_tree(speller, value)
    return speller.call(spell_reference(speller, type(value)), [value.xs, value.tree])


@writes(*jaxapi.FLAT_TREES)
def _spell_flat_tree(speller: Speller, value: Any) -> str:
    """Write the sizes of the parts; the one param that comes back only equivalent."""
    sizes = jaxapi.flat_tree_sizes(value)
    if sizes is None:
        return spell_record(speller, value)
    home = speller.name(*written.FLAT_TREES_HOME)
    parts = [f"{home}.nones({size})" for size in sizes]
    return f"{home}.pack(({', '.join(parts)}{',' if len(parts) == 1 else ''}))"


@writes(jaxapi.HashablePartial)
def _spell_hashable_partial(speller: Speller, value: Any) -> str:
    """Write the call of `ravel_pytree` that returned a function, if one did."""
    tree = jaxapi.raveled_tree(value)
    if tree is None:
        return spell_record(speller, value)
    ravel = speller.name("jax.flatten_util", "ravel_pytree")
    return f"{ravel}({speller.spell(tree)})[1]"


@writes(jaxapi.HiPrimitive)
def _spell_hi_primitive(speller: Speller, value: Any) -> str:
    """Write the call that made a typed primitive: on its avals, or as a record."""
    dtype = getattr(getattr(value, "out_aval", None), "dtype", None)
    # `SearchSorted` of jax 0.12 keeps its result type in its result's aval only.
    attempts = (value.params, {**value.params, "out_dtype": dtype})
    for args in (value.in_avals, [value.in_avals]):
        for params in attempts if dtype is not None else attempts[:1]:
            try:
                return spell_rebuilt(speller, value, args, params)
            except Unspellable:
                continue
    return spell_record(speller, value)


@writes(jaxapi.Primitive)
def _spell_primitive(speller: Speller, value: Any) -> str:
    home = find_primitive_home(value)
    if home is None:
        raise Unspellable(
            value, f"no importable module has the primitive `{value.name}`"
        )
    return speller.name(*home)


@writes(*jaxapi.JAXPR_TYPES, jaxapi.WrappedFun, jaxapi.Tracer)
def _refuse(speller: Speller, value: Any) -> str:
    raise Unspellable(value, "sub-programs and traced values are not static params")


@writes(jaxapi.SymbolicDim)
def _spell_symbolic_dim(speller: Speller, value: Any) -> str:
    """Write a symbolic dimension over the identifiers in `dims`.

    The text is parsed and rewritten, never evaluated here.
    """
    if speller.dims is None:
        raise Unspellable(value, "the symbolic dimensions have no identifiers here")
    tree = _dimension_tree(str(value))
    return ast.unparse(_DimensionText(speller, value).visit(tree))


def _dimension_tree(text: str) -> ast.expr:
    return parse(text.replace("^", "**"), "eval").body


_DIM_OPERATORS: dict[str, ast.operator] = {"floordiv": ast.FloorDiv(), "mod": ast.Mod()}
_DIM_FUNCTIONS = {"max": "max_dim", "min": "min_dim"}


class _DimensionText(ast.NodeTransformer):
    """Replace dimension names by identifiers and JAX's operators by Python's."""

    def __init__(self, speller: Speller, value: Any) -> None:
        self.speller = speller
        self.value = value
        dims = speller.dims or {}
        # Sizes have identifiers, too, whose dimensions follow from nothing.
        self.sizes = {ast.unparse(_dimension_tree(key)): dims[key] for key in dims}

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        size = self.sizes.get(ast.unparse(node))
        return ast.Name(size) if size else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        dims = self.speller.dims or {}
        if node.id not in dims:
            raise Unspellable(
                self.value, f"the dimension `{node.id}` has no identifier"
            )
        return ast.Name(dims[node.id])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        args = [self.visit(arg) for arg in node.args]
        if name in _DIM_OPERATORS:
            return ast.BinOp(args[0], _DIM_OPERATORS[name], args[1])
        if name in _DIM_FUNCTIONS:
            function = self.speller.name("jax.core", _DIM_FUNCTIONS[name])
            return ast.Call(parse(function, "eval").body, args, [])
        raise Unspellable(self.value, f"the operator `{name}` on dimensions is unknown")
