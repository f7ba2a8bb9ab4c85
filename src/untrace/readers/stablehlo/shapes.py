"""Operations that move elements, and products of arrays: a row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from untrace.jaxapi.module_types import Record, TensorType
from untrace.readers.stablehlo.calls import Call, pairs
from untrace.readers.stablehlo.identities import keeps_order

Template = Callable[..., Any]


def broadcast_in_dim(call: Call, x: Any) -> Any:
    """State a broadcast."""
    return lax.broadcast_in_dim(x, call.shape, call["broadcast_dimensions"])


def reshape(call: Call, x: Any) -> Any:
    """State a reshape, or what it does if it only drops axes of size 1."""
    dropped = _dropped(x.shape, call.shape)
    return lax.squeeze(x, dropped) if dropped else lax.reshape(x, call.shape)


def bitcast(call: Call, x: Any) -> Any:
    """State what XLA makes of a reshape, as long as it keeps the order of elements."""
    call.ignore("source_layout", "result_layout")
    if not keeps_order(call.operation):
        raise call.refused("changes the layout in memory")
    return reshape(call, x)


def _dropped(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """Return axes of size 1 without which a shape is another, if there are such."""
    found: list[int] = []
    kept = 0
    for axis, size in enumerate(before):
        if kept < len(after) and size == after[kept]:
            kept += 1
        elif size == 1:
            found.append(axis)
        else:
            return ()
    return tuple(found) if kept == len(after) else ()


def slice_(call: Call, x: Any) -> Any:
    """State a slice."""
    strides = call["strides"]
    steps = None if all(step == 1 for step in strides) else strides
    return lax.slice(x, call["start_indices"], call["limit_indices"], steps)


def pad(call: Call, x: Any, value: Any) -> Any:
    """State a padding; negative amounts cut off."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return lax.pad(x, value, list(zip(*(call[name] for name in names))))


def dynamic_slice(call: Call, x: Any, *starts: Any) -> Any:
    """State a slice at computed indices, which are clamped."""
    sizes = call["slice_sizes"]
    return lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)


def dynamic_update_slice(call: Call, x: Any, update: Any, *starts: Any) -> Any:
    """State an update at computed indices, which are clamped."""
    return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)


def gather(call: Call, x: Any, indices: Any) -> Any:
    """State a gather. StableHLO's own clamps, and so does what JAX promises to XLA."""
    numbers = call["dimension_numbers"]
    n = numbers["index_vector_dim"]
    if n != indices.ndim - 1:
        indices = _last(indices, n)
    return lax.gather(
        x,
        indices,
        lax.GatherDimensionNumbers(
            offset_dims=numbers["offset_dims"],
            collapsed_slice_dims=numbers["collapsed_slice_dims"],
            start_index_map=numbers["start_index_map"],
            operand_batching_dims=numbers["operand_batching_dims"],
            start_indices_batching_dims=numbers["start_indices_batching_dims"],
        ),
        call["slice_sizes"],
        indices_are_sorted=bool(call.get("indices_are_sorted")),
        mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def scatter_numbers(numbers: Record) -> lax.ScatterDimensionNumbers:
    """Return the dimension numbers of a scatter as JAX has them."""
    return lax.ScatterDimensionNumbers(
        update_window_dims=numbers["update_window_dims"],
        inserted_window_dims=numbers["inserted_window_dims"],
        scatter_dims_to_operand_dims=numbers["scattered_dims_to_operand_dims"],
        operand_batching_dims=numbers["input_batching_dims"],
        scatter_indices_batching_dims=numbers["scatter_indices_batching_dims"],
    )


def scatter_indices(call: Call, indices: Any) -> Any:
    """Return indices with their vectors along the last axis, where JAX has them."""
    n = call["scatter_dimension_numbers"]["index_vector_dim"]
    return indices if n == indices.ndim - 1 else _last(indices, n)


def _last(indices: Any, axis: int) -> Any:
    if axis == indices.ndim:
        return lax.expand_dims(indices, (axis,))
    return jnp.moveaxis(indices, axis, -1)


def precision(call: Call) -> Any:
    """Return a precision as JAX takes it; None is the default."""
    given = call.get("precision_config") or ()
    if all(one == "DEFAULT" for one in given):
        return None
    return tuple(lax.Precision[one] for one in given)


def dot_general(call: Call, x: Any, y: Any) -> Any:
    """State a product, with its precision or algorithm, and the type of its result."""
    numbers = call["dot_dimension_numbers"]
    contracted = tuple(numbers[f"{side}_contracting_dimensions"] for side in SIDES)
    batched = tuple(numbers[f"{side}_batching_dimensions"] for side in SIDES)
    algorithm = call.get("algorithm")
    asked = precision(call)
    return lax.dot_general(
        x,
        y,
        (contracted, batched),
        precision=asked if algorithm is None else _algorithm(call, algorithm),
        preferred_element_type=call.dtype,
    )


SIDES = ("lhs", "rhs")


def _preferred(call: Call, x: Any, y: Any) -> Any:
    return None if x.dtype == y.dtype == call.dtype else call.dtype


def _algorithm(call: Call, algorithm: Record) -> Any:
    named = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
    if str(algorithm["lhs_precision_type"]) == "tf32":
        steps = int(algorithm["num_primitive_operations"])
        return lax.DotAlgorithmPreset["TF32_TF32_F32" + ("_X3" if steps == 3 else "")]
    kinds = [_float_type(call, algorithm[name]) for name in named]
    counts = ("lhs_component_count", "rhs_component_count", "num_primitive_operations")
    numbers = [int(algorithm[name]) for name in counts]
    exactly = bool(algorithm["allow_imprecise_accumulation"])
    fields: list[Any] = [*kinds, *numbers, exactly]
    made = lax.DotAlgorithm(*fields)
    preset = [p for p in lax.DotAlgorithmPreset if _of_preset(p) == made]
    return preset[0] if preset else made


def _of_preset(preset: lax.DotAlgorithmPreset) -> Any:
    try:
        return preset._algorithm  # pyright: ignore
    except (AttributeError, NotImplementedError):
        return None


def _float_type(call: Call, kind: Any) -> Any:
    name = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16"}
    if str(kind) not in name:
        raise call.refused(f"has an algorithm over {kind}")
    return np.dtype(name[str(kind)])


def dot(call: Call, x: Any, y: Any) -> Any:
    """State the older product of vectors and matrices."""
    asked = precision(call)
    return lax.dot(x, y, precision=asked, preferred_element_type=_preferred(call, x, y))


def ragged_dot(call: Call, x: Any, y: Any, sizes: Any) -> Any:
    """State a product of groups of rows."""
    numbers = call["ragged_dot_dimension_numbers"]
    contracted = tuple(numbers[f"{side}_contracting_dimensions"] for side in SIDES)
    batched = tuple(numbers[f"{side}_batching_dimensions"] for side in SIDES)
    ragged = numbers["lhs_ragged_dimensions"], numbers["rhs_group_dimensions"]
    return lax.ragged_dot_general(
        x,
        y,
        sizes,
        lax.RaggedDotDimensionNumbers((contracted, batched), *ragged),
        precision=precision(call),
        preferred_element_type=_preferred(call, x, y),
    )


def convolution(call: Call, x: Any, kernel: Any) -> Any:
    """State a convolution; a reversed window is a reversed kernel."""
    numbers = call["dimension_numbers"]
    n = len(numbers["input_spatial_dimensions"])
    reversal = call.get("window_reversal") or ()
    reversed_axes = [
        axis
        for axis, is_on in zip(numbers["kernel_spatial_dimensions"], reversal)
        if is_on
    ]
    if reversed_axes:
        kernel = lax.rev(kernel, reversed_axes)
    dimensions = lax.ConvDimensionNumbers(
        _spec(numbers, "input", "batch_dimension", "feature_dimension"),
        _spec(numbers, "kernel", "output_feature_dimension", "input_feature_dimension"),
        _spec(numbers, "output", "batch_dimension", "feature_dimension"),
    )
    padding = call.get("padding")
    return lax.conv_general_dilated(
        x,
        kernel,
        call.get("window_strides") or (1,) * n,
        [(0, 0)] * n if padding is None else pairs(padding),
        call.get("lhs_dilation") or (1,) * n,
        call.get("rhs_dilation") or (1,) * n,
        dimensions,
        int(call["feature_group_count"]),
        int(call["batch_group_count"]),
        precision=precision(call),
        preferred_element_type=_preferred(call, x, kernel),
    )


def _spec(numbers: Record, side: str, first: str, second: str) -> tuple[int, ...]:
    spatial = numbers[f"{side}_spatial_dimensions"]
    return (numbers[f"{side}_{first}"], numbers[f"{side}_{second}"], *spatial)


def fft(call: Call, x: Any) -> Any:
    """State a Fourier transform."""
    return lax.fft(x, call["fft_type"], call["fft_length"])


def triangular_solve(call: Call, a: Any, b: Any) -> Any:
    """State the solution of triangular systems."""
    transpose = call["transpose_a"]
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=bool(call["left_side"]),
        lower=bool(call["lower"]),
        transpose_a=transpose in ("TRANSPOSE", "ADJOINT"),
        conjugate_a=transpose == "ADJOINT",
        unit_diagonal=bool(call["unit_diagonal"]),
    )


def cholesky(call: Call, x: Any) -> Any:
    """State a Cholesky decomposition of a triangle, which the other one follows."""
    if call.get("lower"):
        return lax.linalg.cholesky(x, symmetrize_input=False)
    flipped = jnp.conj(jnp.swapaxes(x, -1, -2))
    return jnp.conj(
        jnp.swapaxes(lax.linalg.cholesky(flipped, symmetrize_input=False), -1, -2)
    )


def rng_bit_generator(call: Call, key: Any) -> Any:
    """State the generator that advances a state."""
    name = f"RNG_{call['rng_algorithm']}"
    shape, dtype = call.types[1]
    how: Any = {"dtype": dtype, "algorithm": lax.RandomAlgorithm[name]}
    return lax.rng_bit_generator(key, shape, **how)


def rng(call: Call, low: Any, high: Any, _: Any) -> Any:
    """State a uniform sample of XLA's own."""
    if call["rng_distribution"] != "UNIFORM":
        raise call.refused("samples from a normal distribution by XLA's own state")
    return lax.rng_uniform(low, high, call.shape)


def top_k(call: Call, x: Any) -> Any:
    """State the largest elements of the last axis."""
    is_stable = call.get("is_stable")
    how = {} if is_stable is None or is_stable else {"is_stable": False}
    return lax.top_k(x, int(call["k"]), **how)


def concatenate(call: Call, *arrays: Any) -> Any:
    """State a concatenation."""
    return lax.concatenate(arrays, int(call["dimension"]))


def iota(call: Call) -> Any:
    """State an array of indices."""
    return lax.broadcasted_iota(call.dtype, call.shape, int(call["iota_dimension"]))


def torch_index_select(call: Call, x: Any, indices: Any) -> Any:
    """State a selection along an axis."""
    if int(call["batch_dims"]):
        raise call.refused("selects along an axis in batches")
    return jnp.take(x, indices, axis=int(call["dim"]), mode="clip")


def batch_norm_inference(
    call: Call, x: Any, scale: Any, offset: Any, *moments: Any
) -> Any:
    """State a normalisation by given moments."""
    axis, epsilon = int(call["feature_index"]), call["epsilon"]
    mean, variance = moments
    along = [size if i == axis else 1 for i, size in enumerate(x.shape)]
    scale, offset, mean, variance = (
        lax.reshape(v, along) for v in (scale, offset, mean, variance)
    )
    deviation = jnp.sqrt(variance + x.dtype.type(epsilon))
    return scale * ((x - mean) / deviation) + offset


def _typed(call: Call, x: Any) -> Any:
    return lax.bitcast_convert_type(x, call.dtype)


def get_dimension_size(call: Call, x: Any) -> Any:
    """State the size of an axis, which is static."""
    return np.int32(x.shape[int(call["dimension"])])


SHAPES: dict[str, Template] = {
    "stablehlo.batch_norm_inference": batch_norm_inference,
    "stablehlo.bitcast_convert": _typed,
    "stablehlo.broadcast": lambda call, x: lax.broadcast(x, call["broadcast_sizes"]),
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.cholesky": cholesky,
    "stablehlo.concatenate": concatenate,
    "stablehlo.convolution": convolution,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.einsum": lambda call, x, y: jnp.einsum(call["einsum_config"], x, y),
    "stablehlo.fft": fft,
    "stablehlo.gather": gather,
    "stablehlo.get_dimension_size": get_dimension_size,
    "stablehlo.iota": iota,
    "stablehlo.pad": pad,
    "stablehlo.reshape": reshape,
    "stablehlo.reverse": lambda call, x: lax.rev(x, call["dimensions"]),
    "stablehlo.rng": rng,
    "stablehlo.rng_bit_generator": rng_bit_generator,
    "stablehlo.slice": slice_,
    "stablehlo.torch_index_select": torch_index_select,
    "stablehlo.transpose": lambda call, x: lax.transpose(x, call["permutation"]),
    "stablehlo.triangular_solve": triangular_solve,
    "stablehlo.unary_einsum": lambda call, x: jnp.einsum(call["einsum_config"], x),
    "mhlo.bitcast": bitcast,
    "mhlo.copy": lambda call, x: x,
    "chlo.ragged_dot": ragged_dot,
    "chlo.top_k": top_k,
    "chlo.constant": lambda call: call["value"],
}


def is_wide(kind: Any) -> bool:
    """Whether a type needs JAX to compute in 64 bits."""
    return isinstance(kind, TensorType) and kind.dtype.name in WIDE


WIDE = ("int64", "uint64", "float64", "complex128")


def struct(kind: TensorType) -> jax.ShapeDtypeStruct:
    """Return a type as JAX takes it."""
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype)
