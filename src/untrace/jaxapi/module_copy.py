# The MLIR bindings are untyped, and where they live is JAX's own affair.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""Copying modules of the MLIR bindings as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from jax._src.lib.mlir import ir as _ir
from jax._src.lib.mlir.dialects import chlo as _chlo
from jax._src.lib.mlir.dialects import hlo as _hlo

from untrace.jaxapi.module_meshes import Mesh, meshes_in, of_mesh
from untrace.jaxapi.module_types import (
    Block,
    CodePlace,
    Function,
    Module,
    ModuleError,
    Operation,
    Place,
    Record,
    Symbol,
    TensorType,
    Text,
    Type,
    Value,
)

_NAMED = re.compile(r'loc\("((?:[^"\\]|\\.)*)"(?=[()])')
_FRAME = re.compile(
    r'(?:"(?P<function>(?:[^"\\]|\\.)*)"\()?"(?P<file>(?:[^"\\]|\\.)*)"'
    r":(?P<line>\d+):(?P<column>\d+)(?: to (?P<end_line>\d*):(?P<end_column>\d+))?"
)
_ESCAPED = re.compile(r"\\(\\|[0-9A-Fa-f]{2})")


def place_of(location: str) -> Place:
    """Read a location as MLIR prints it.

    >>> place_of('loc("jit(f)/mul"("f"("/tmp/a.py":3:4 to :9)))').frames[0][:4]
    ('/tmp/a.py', 'f', 3, 4)
    """
    named = _NAMED.match(location)
    scopes = named[1] if named else ""
    # A callee stands before its caller.
    found = _FRAME.finditer(location, named.end() if named else 0)
    frames = tuple(map(_frame, found))
    if not frames:
        return Place(scopes)
    first = frames[0]
    if first.file == "-":  # the text that is parsed
        return Place(scopes, "", first.line, first.column)
    return Place(scopes, first.file, first.line, first.column, frames)


def _frame(found: re.Match[str]) -> CodePlace:
    line, column = int(found["line"]), int(found["column"])
    end_line = int(found["end_line"] or line)
    end_column = int(found["end_column"] or column)
    function = _unescaped(found["function"] or "")
    return CodePlace(
        _unescaped(found["file"]), function, line, column, end_line, end_column
    )


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(
        lambda found: "\\" if found[1] == "\\" else chr(int(found[1], 16)), text
    )


_COMPLEX = {"complex<f32>": np.complex64, "complex<f64>": np.complex128}
_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)([A-Za-z]\w*|complex<f\d+>)>")


def _dtype(name: str) -> np.dtype[Any] | None:
    """Return the dtype of an element type; None if JAX has none."""
    if name in _COMPLEX:
        return np.dtype(_COMPLEX[name])
    if name == "i1":
        return np.dtype(bool)
    if match := re.fullmatch(r"(u?i)(\d+)", name):
        full = match[1].replace("i", "int") + match[2]
    elif match := re.fullmatch(r"f(16|32|64)", name):
        full = f"float{match[1]}"
    else:
        small = re.sub(r"^f(\d+)E", r"float\1_e", name).lower()
        full = "bfloat16" if name == "bf16" else small
    found = getattr(ml_dtypes, full, None) or getattr(np, full, None)
    is_class = isinstance(found, type) and issubclass(found, np.generic)
    return np.dtype(found) if is_class else None


def parse_type(text: str) -> Type:
    """Read the text of a type.

    >>> parse_type("tensor<4x3xf32>")
    TensorType(shape=(4, 3), dtype=dtype('float32'))
    >>> parse_type("!stablehlo.token")
    '!stablehlo.token'
    """
    match = _TENSOR.fullmatch(text)
    dtype = _dtype(match[2]) if match else None
    if match is None or dtype is None:
        return Text(text)
    sizes = match[1].split("x")[:-1]
    return TensorType(tuple(None if n == "?" else int(n) for n in sizes), dtype)


_FIELDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "#stablehlo.gather": (
        _hlo.GatherDimensionNumbers,
        (
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
            "index_vector_dim",
        ),
    ),
    "#stablehlo.scatter": (
        _hlo.ScatterDimensionNumbers,
        (
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scattered_dims_to_operand_dims",
            "index_vector_dim",
        ),
    ),
    "#stablehlo.dot": (
        _hlo.DotDimensionNumbers,
        (
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
        ),
    ),
    "#stablehlo.conv": (
        _hlo.ConvDimensionNumbers,
        (
            "input_batch_dimension",
            "input_feature_dimension",
            "input_spatial_dimensions",
            "kernel_input_feature_dimension",
            "kernel_output_feature_dimension",
            "kernel_spatial_dimensions",
            "output_batch_dimension",
            "output_feature_dimension",
            "output_spatial_dimensions",
        ),
    ),
    "#stablehlo.dot_algorithm": (
        _hlo.DotAlgorithm,
        (
            "lhs_precision_type",
            "rhs_precision_type",
            "accumulation_type",
            "lhs_component_count",
            "rhs_component_count",
            "num_primitive_operations",
            "allow_imprecise_accumulation",
        ),
    ),
    "#stablehlo.channel_handle": (_hlo.ChannelHandle, ("handle", "channel_type")),
    "#chlo.ragged_dot": (
        _chlo.RaggedDotDimensionNumbers,
        (
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
            "lhs_ragged_dimensions",
            "rhs_group_dimensions",
        ),
    ),
}
_ENUM = re.compile(r"#(?:stablehlo|chlo)<\w+ (\w+)>")
_ARRAYS = tuple(
    getattr(_ir, f"Dense{kind}ArrayAttr")
    for kind in ("Bool", "I8", "I16", "I32", "I64", "F32", "F64")
)
# What an attribute that is left out stands for: some releases write it, others do not.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "api_version": (1,),
    "backend_config": ("",),
    "execution_thread": ("main",),
    "called_computations": ((),),
    "has_side_effect": (False,),
    "indices_are_sorted": (False,),
    "sort is_stable": (False,),
    "top_k is_stable": (True,),
    "output_operand_aliases": ((),),
    "precision_config": ((), ("DEFAULT", "DEFAULT")),
    "result_accuracy": ("#stablehlo.result_accuracy<mode = <DEFAULT>>",),
    "unique_indices": (False,),
}


class ModuleCopy:
    """Copies a module; each type and value is made once."""

    def __init__(self) -> None:
        self.types: dict[str, Type] = {}
        self.values: dict[Any, Value] = {}
        self.known: dict[str, Any] = {}
        self.meshes: dict[str, Mesh] = {}

    def module(self, module: Any, source: Any) -> Module:
        self.meshes = meshes_in(module)
        functions: dict[str, Function] = {}
        filled: dict[int, Any] = {}
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                function = self.function(operation.operation)
                functions[function.name] = function
                if function.name == "main":
                    filled = _platform_index(operation.operation)
        attributes = dict(self.attributes(module.operation))
        name = attributes.pop("sym_name", "")
        if "main" not in functions:
            found = [
                str(_ir.StringAttr(operation.attributes["sym_name"]).value)
                for operation in module.body.operations
                if operation.operation.name == "func.func"
                and "private" not in str(operation.attributes.get("sym_visibility", ""))
            ]
            if len(found) != 1:
                raise ModuleError(
                    "the module has no function `main`"
                    + (f", but {', '.join(found[:5])}" if found else "")
                )
            functions["main"] = functions[found[0]]
        if filled:
            functions["main"] = _with_constants(functions["main"], filled)
        return Module(str(name), functions, attributes, source, filled)

    def function(self, operation: Any) -> Function:
        attributes = operation.attributes
        name = str(_ir.StringAttr(attributes["sym_name"]).value)
        if not len(operation.regions[0].blocks):
            raise ModuleError(f"the function `{name}` has no body")
        arguments = operation.regions[0].blocks[0].arguments
        paths = tuple(place_of(str(a.location)).scopes for a in arguments)
        told = _dicts(attributes, "arg_attrs")
        if len(told) == len(paths):
            named = (_string(one, "jax.arg_info") for one in told)
            paths = tuple(info or path for info, path in zip(named, paths))
        block = self.block(operation.regions[0])
        said = _dicts(attributes, "res_attrs")
        results = [_string(one, "jax.result_info") for one in said]
        results = results or [""] * len(block.returned)
        scopes = place_of(str(operation.location)).scopes
        marks = {mark for one in [*told, *said] for mark in _names(one)} - _READ_MARKS
        return Function(
            name, block, paths, tuple(results), scopes, tuple(sorted(marks))
        )

    def block(self, region: Any) -> Block:
        if len(region.blocks) != 1:
            where = f" ({len(region.blocks)} blocks)"
            raise ModuleError(f"a region with jumps between blocks is not read{where}")
        block = region.blocks[0]
        arguments = tuple(self.new_value(a) for a in block.arguments)
        operations = list(block.operations)
        if not operations:
            return Block(arguments, (), ())
        copied = tuple(self.operation(one.operation) for one in operations[:-1])
        last = operations[-1].operation
        return Block(arguments, copied, tuple(self.values[v] for v in last.operands))

    def operation(self, operation: Any) -> Operation:
        operands = tuple(self.values[value] for value in operation.operands)
        regions = tuple(self.block(region) for region in operation.regions)
        results = tuple(self.new_value(value) for value in operation.results)
        name = str(operation.name)
        if name == "stablehlo.constant":
            attributes = {"value": self.constant(operation, results[0].type)}
        else:
            attributes = dict(self.attributes(operation))
        place = place_of(str(operation.location))
        return Operation(name, operands, results, attributes, regions, place)

    def new_value(self, value: Any) -> Value:
        made = self.values[value] = Value(self.type(value.type))
        return made

    def type(self, mlir_type: Any) -> Type:
        text = str(mlir_type)
        if text not in self.types:
            self.types[text] = parse_type(text)
        return self.types[text]

    def constant(self, operation: Any, kind: Type) -> Any:
        """Return the content of a constant as an array; its text if that has none."""
        if isinstance(kind, TensorType) and kind.dtype.name in _BUFFERED:
            attribute = operation.attributes["value"]
            if isinstance(attribute, _ir.DenseElementsAttr):
                return np.array(attribute, kind.dtype).reshape(kind.shape)
        text = operation.get_asm(enable_debug_info=False)
        found = re.search(r"dense<(.*)> : ", text, re.DOTALL)
        if not isinstance(kind, TensorType) or found is None:
            return Text(text)
        return _elements(found[1], kind)

    def attributes(self, operation: Any) -> Iterator[tuple[str, Any]]:
        attributes = operation.attributes
        for position, name in enumerate(_names(attributes)):
            try:
                attribute = attributes[name]
            except TypeError:  # the bindings know no class for it
                text = operation.get_asm(enable_debug_info=False, use_local_scope=True)
                yield name, Text(f"{position} of {text}")
                continue
            value = self.plain(attribute)
            full = f"{operation.name.rpartition('.')[2]} {name}"
            defaults = _DEFAULTS.get(full, _DEFAULTS.get(name, ()))
            if not (
                value in defaults
                or _is_trivial(name, value, operation)
                or _is_natural(name, value, operation)
            ):
                yield name, value

    def plain(self, attribute: Any) -> Any:
        """Return an attribute as plain data."""
        if type(attribute) is _ir.Attribute:
            return self.of_dialect(attribute)
        if isinstance(attribute, _ir.IntegerAttr):
            return _integer(attribute)
        if isinstance(attribute, _ir.BoolAttr):
            return bool(attribute.value)
        if isinstance(attribute, _ir.FloatAttr):
            dtype = _dtype(str(attribute.type))
            return (
                Text(str(attribute)) if dtype is None else dtype.type(attribute.value)
            )
        if isinstance(attribute, _ir.FlatSymbolRefAttr):
            return Symbol(attribute.value)
        if isinstance(attribute, _ir.StringAttr):
            return _decoded(attribute)
        if isinstance(attribute, _ir.ArrayAttr):
            return tuple(self.plain(one) for one in attribute)
        if isinstance(attribute, _ARRAYS):
            return tuple(attribute)
        if isinstance(attribute, _ir.DictAttr):
            names = sorted(_names(attribute))
            return Record("dict", tuple((n, self.plain(attribute[n])) for n in names))
        if isinstance(attribute, _ir.UnitAttr):
            return True
        if isinstance(attribute, _ir.TypeAttr):
            return self.type(attribute.value)
        if isinstance(attribute, _ir.DenseIntElementsAttr):
            return _nested(np.array(attribute))
        return Text(str(attribute))

    def of_dialect(self, attribute: Any) -> Any:
        """Return an attribute of StableHLO or CHLO, for which there is no class."""
        text = str(attribute)
        if text not in self.known:
            enum = _ENUM.fullmatch(text)
            name = text.partition("<")[0]
            if enum is not None:
                self.known[text] = enum[1]
            elif name in _FIELDS:
                cls, names = _FIELDS[name]
                cast = cls(attribute)
                fields = tuple((f, self.field(getattr(cast, f))) for f in names)
                self.known[text] = Record(name, fields)
            else:
                named = of_mesh(attribute, self.meshes)
                self.known[text] = Text(text) if named is None else named
        return self.known[text]

    def field(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(value)
        return self.type(value) if isinstance(value, _ir.Type) else value


_BUFFERED = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "float32", "float64"),
)


_TRIVIAL: dict[str, int] = {
    **dict.fromkeys(("window_strides", "base_dilations", "window_dilations"), 1),
    **dict.fromkeys(("lhs_dilation", "rhs_dilation"), 1),
    **dict.fromkeys(("padding", "window_reversal"), 0),
}
_WINDOWED = ("reduce_window", "select_and_scatter", "convolution")


def _is_trivial(name: str, value: Any, operation: Any) -> bool:
    """Whether an attribute of a window, or a dict, says what its absence does."""
    if name == "composite_attributes":
        return value == Record("dict", ())
    is_windowed = operation.name.rpartition(".")[2] in _WINDOWED
    if not is_windowed or name not in _TRIVIAL or not isinstance(value, tuple):
        return False
    return bool(np.all(np.asarray(value) == _TRIVIAL[name]))


def _is_natural(name: str, value: Any, operation: Any) -> bool:
    """Whether a comparison is the one that the type of its operands asks for."""
    if name != "compare_type" or value == "TOTALORDER":
        return False
    kind = parse_type(str(operation.operands[0].type))
    if not isinstance(kind, TensorType):
        return False
    is_float = kind.dtype.kind in "fc" or "float" in kind.dtype.name
    is_signed = kind.dtype.kind == "i" or kind.dtype.name.startswith("int")
    return value == ("FLOAT" if is_float else "SIGNED" if is_signed else "UNSIGNED")


_PART = r"(0x[0-9A-Fa-f]+|true|false|[-+]?[\d.]+(?:[eE][-+]?\d+)?)"
_ELEMENT = re.compile(rf"\(\s*{_PART}\s*,\s*{_PART}\s*\)|{_PART}")


def _elements(text: str, kind: TensorType) -> Any:
    """Read what stands between the brackets of `dense<...>`."""
    shape, dtype = kind
    if text.startswith('"0x'):
        content = np.frombuffer(bytes.fromhex(text[3:-1]), dtype)
        n = int(np.prod(shape))
        return (
            np.broadcast_to(content, n).reshape(shape) if n else np.zeros(shape, dtype)
        )
    part = dtype
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    found: list[Any] = []
    for match in _ELEMENT.finditer(text):
        if match[3] is not None:
            found.append(_number(match[3], part))
        else:
            pair = np.array([_number(match[1], part), _number(match[2], part)], part)
            found.append(pair.view(dtype)[0])
    made = np.array(found, dtype)
    if made.size == 1:
        return np.full(shape, made[0], dtype)
    return made.reshape(shape)


def _number(text: str, dtype: np.dtype[Any]) -> Any:
    if text.startswith("0x"):
        content = int(text, 16).to_bytes(dtype.itemsize, "little")
        return np.frombuffer(content, dtype)[0]
    if text in ("true", "false"):
        return np.array(text == "true").astype(dtype)[()]
    is_whole = dtype.kind in "iu" or "int" in dtype.name
    return np.array(int(text) if is_whole else float(text)).astype(dtype)[()]


def _integer(attribute: Any) -> Any:
    """Return an integer attribute: an int if it is an i64, else a scalar of its type."""
    name = str(attribute.type)
    dtype = None if name in ("i64", "i1") else _dtype(name)
    return attribute.value if dtype is None else dtype.type(attribute.value)


def _nested(array: Any) -> Any:
    """Return an array as tuples of tuples."""
    return array.item() if not array.ndim else tuple(map(_nested, array))


def _names(attributes: Any) -> list[str]:
    """Return the names in a dict of attributes, as the bindings of any release do."""
    return [str(getattr(one, "name", one)) for one in attributes]


def _platform_index(main: Any) -> dict[int, Any]:
    """Return the arguments that are the number of a platform, which is the first."""
    told = _dicts(main.attributes, "arg_attrs")
    named = [_string(one, "jax.global_constant") for one in told]
    return {i: np.int32(0) for i, name in enumerate(named) if name == "_platform_index"}


def _with_constants(function: Function, filled: dict[int, Any]) -> Function:
    """Return a function some of whose arguments are constants."""
    block = function.block
    made = [
        Operation(
            "stablehlo.constant",
            (),
            (block.arguments[i],),
            {"value": np.asarray(value)},
            (),
            Place(),
        )
        for i, value in filled.items()
    ]
    free = [i for i in range(len(block.arguments)) if i not in filled]
    return replace(
        function,
        block=replace(
            block,
            arguments=tuple(block.arguments[i] for i in free),
            operations=(*made, *block.operations),
        ),
        argument_paths=tuple(function.argument_paths[i] for i in free),
    )


_READ_MARKS = {
    *("jax.arg_info", "jax.result_info", "jax.token", "jax.global_constant"),
    *("sdy.sharding", "mhlo.sharding"),
}
"""What is said of arguments and results that is read, or told of elsewhere."""


def _dicts(attributes: Any, name: str) -> list[Any]:
    return [*attributes[name]] if name in attributes else []


def _string(attributes: Any, name: str) -> str:
    return str(attributes[name].value) if name in attributes else ""


def _decoded(attribute: Any) -> str:
    try:
        return str(attribute.value)
    except UnicodeDecodeError:
        return Text(str(attribute))
