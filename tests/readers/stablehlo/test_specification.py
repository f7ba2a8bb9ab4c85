"""Modules that JAX did not make, with the values that the specification gives them.

They are written for this test, in the manner of the examples in the specification of
StableHLO: what an operation does at its edges (windows beyond the array, indices out of
bounds, negative operands) and what JAX never emits.
"""

import re

import jax
import numpy as np
import pytest

from untrace import jaxapi
from untrace.readers.stablehlo.agreement import SAME_MODULE, SAME_VALUES, agreement
from untrace.readers.stablehlo.read import read_module


def run(text, *args, x64=False):
    """Read a module, prove it, and run what was read."""
    reading = read_module(text)
    assert reading.is_wide == x64
    with jax.enable_x64(x64):
        args = [np.asarray(x) for x in args]
        assert agreement(reading.module, reading.jaxpr, args) in (
            SAME_MODULE,
            SAME_VALUES,
        )
        return [np.asarray(x) for x in jaxapi.as_function(reading.jaxpr)(*args)]


def elementwise(name, kind, n_operands):
    """Return the text of a function that applies one operation."""
    names = [f"%x{i}" for i in range(n_operands)]
    taken = ", ".join(f"{n}: {kind}" for n in names)
    kinds = ", ".join([kind] * n_operands)
    return (
        f"func.func @main({taken}) -> {kind} {{\n"
        f'  %y = "{name}"({", ".join(names)}) : ({kinds}) -> {kind}\n'
        f"  func.return %y : {kind}\n}}"
    )


DTYPES = {"i1": bool, "i8": "i1", "i16": "i2", "i32": "i4", "ui8": "u1", "ui16": "u2"}


@pytest.mark.parametrize(
    ("name", "kind", "operands", "wanted"),
    [
        (
            "stablehlo.remainder",
            "i32",
            ([7, -7, 7, -7], [4, 4, -4, -4]),
            [3, -3, 3, -3],
        ),
        ("stablehlo.divide", "i32", ([7, -7, 7, -7], [4, 4, -4, -4]), [1, -1, -1, 1]),
        ("stablehlo.power", "i32", ([-1, 2, -2, 1], [3, -1, 5, -9]), [-1, 0, -32, 1]),
        ("stablehlo.power", "ui8", ([3, 0, 2], [5, 0, 8]), [243, 1, 0]),
        ("stablehlo.shift_right_arithmetic", "i8", ([-128, 64], [3, 6]), [-16, 1]),
        ("stablehlo.shift_right_logical", "i8", ([-128, 64], [3, 6]), [16, 1]),
        ("stablehlo.shift_left", "i16", ([1, 3], [15, 1]), [-32768, 6]),
        ("stablehlo.add", "i1", ([True, False], [True, False]), [True, False]),
        ("stablehlo.multiply", "i1", ([True, True], [True, False]), [True, False]),
        ("stablehlo.not", "ui8", ([0, 200],), [255, 55]),
        ("stablehlo.not", "i1", ([True, False],), [False, True]),
        ("stablehlo.popcnt", "i16", ([-1, 10],), [16, 2]),
        ("stablehlo.count_leading_zeros", "i16", ([1, 0, -1],), [15, 16, 0]),
        ("stablehlo.sign", "i32", ([-5, 0, 9],), [-1, 0, 1]),
        ("stablehlo.abs", "i8", ([-5, 0, 9],), [5, 0, 9]),
        ("stablehlo.round_nearest_even", "f32", ([-1.5, 0.5, 3.5],), [-2.0, 0.0, 4.0]),
        ("stablehlo.round_nearest_afz", "f32", ([-1.5, 0.5, 3.5],), [-2.0, 1.0, 4.0]),
        ("chlo.mulhi", "i8", ([100, -100, -128], [100, 100, -128]), [39, -40, 64]),
        ("chlo.mulhi", "ui16", ([65535, 256], [65535, 256]), [65534, 1]),
    ],
)
def test_elements(name, kind, operands, wanted):
    text = elementwise(name, f"tensor<{len(wanted)}x{kind}>", len(operands))
    (found,) = run(text, *(np.array(x, DTYPES.get(kind, "f4")) for x in operands))
    np.testing.assert_array_equal(found, np.asarray(wanted, found.dtype))


WINDOW = """
func.func @main(%x: tensor<4x2xi32>) -> tensor<3x2xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %y = "stablehlo.reduce_window"(%x, %zero) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) {
    base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 2, 1>,
    window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 3, 1>,
    padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>
  } : (tensor<4x2xi32>, tensor<i32>) -> tensor<3x2xi32>
  func.return %y : tensor<3x2xi32>
}"""


def test_windows_with_dilated_arrays():
    x = np.arange(1, 9, dtype=np.int32).reshape(4, 2)
    padded = np.zeros((9, 2), np.int32)
    padded[1:8:2] = x
    wanted = [padded[i] + padded[i + 2] for i in (0, 3, 6)]
    np.testing.assert_array_equal(run(WINDOW, x)[0], wanted)


def test_windows_over_two_arrays_at_once():
    text = """
    func.func @main(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<2xf32>, tensor<2xi32>) {
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %none = stablehlo.constant dense<-1> : tensor<i32>
      %y:2 = "stablehlo.reduce_window"(%x, %i, %low, %none) ({
      ^bb0(%a: tensor<f32>, %p: tensor<i32>, %b: tensor<f32>, %q: tensor<i32>):
        %t = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %v = stablehlo.select %t, %a, %b : tensor<i1>, tensor<f32>
        %w = stablehlo.select %t, %p, %q : tensor<i1>, tensor<i32>
        stablehlo.return %v, %w : tensor<f32>, tensor<i32>
      }) {window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}
        : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>)
          -> (tensor<2xf32>, tensor<2xi32>)
      func.return %y#0, %y#1 : tensor<2xf32>, tensor<2xi32>
    }"""
    x, i = np.float32([1, 5, 4, 2]), np.int32([10, 11, 12, 13])
    values, indices = run(text, x, i)
    assert values.tolist() == [5, 4] and indices.tolist() == [11, 12]


def sorting(direction, kind="i32", compare=""):
    return f"""
    func.func @main(%x: tensor<5x{kind}>, %y: tensor<5xi32>)
        -> (tensor<5x{kind}>, tensor<5xi32>) {{
      %z:2 = "stablehlo.sort"(%x, %y) ({{
      ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>, %p: tensor<i32>, %q: tensor<i32>):
        %t = stablehlo.compare {direction}, %a, %b{compare}
          : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      }}) {{dimension = 0 : i64, is_stable = true}}
        : (tensor<5x{kind}>, tensor<5xi32>) -> (tensor<5x{kind}>, tensor<5xi32>)
      func.return %z#0, %z#1 : tensor<5x{kind}>, tensor<5xi32>
    }}"""


def test_sorts_from_the_largest_keep_the_order_of_equals():
    x, y = np.int32([2, 9, 2, -4, 9]), np.arange(5, dtype=np.int32)
    first, second = run(sorting("GT"), x, y)
    assert first.tolist() == [9, 9, 2, 2, -4] and second.tolist() == [1, 4, 0, 2, 3]


def test_a_total_order_tells_zeros_apart():
    x = np.float32([0.0, -0.0, 1.0, -np.inf, -0.0])
    _, order = run(
        sorting("LT", "f32", ", TOTALORDER"), x, np.arange(5, dtype=np.int32)
    )
    assert order.tolist() == [3, 1, 4, 0, 2]
    _, order = run(sorting("LT", "f32", ", FLOAT"), x, np.arange(5, dtype=np.int32))
    assert order.tolist() == [3, 0, 1, 4, 2]


def test_a_sort_by_any_comparator():
    text = """
    func.func @main(%x: tensor<2x4xi32>) -> tensor<2x4xi32> {
      %y = "stablehlo.sort"(%x) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %p = stablehlo.abs %a : tensor<i32>
        %q = stablehlo.abs %b : tensor<i32>
        %t = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      }) {dimension = 1 : i64, is_stable = true} : (tensor<2x4xi32>) -> tensor<2x4xi32>
      func.return %y : tensor<2x4xi32>
    }"""
    (found,) = run(text, np.int32([[-3, 2, -1, 3], [0, -2, 2, -1]]))
    assert found.tolist() == [[-1, 2, -3, 3], [0, -1, -2, 2]]


GATHER = """
func.func @main(%x: tensor<3x4xi32>, %i: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %y = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0, 1], index_vector_dim = AXIS>,
    slice_sizes = array<i64: 1, 2>, indices_are_sorted = false
  } : (tensor<3x4xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  func.return %y : tensor<2x2xi32>
}"""


@pytest.mark.parametrize("axis", [0, 1])
def test_gathers_clamp_their_indices(axis):
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    indices = np.int32([[9, 0], [-3, 7]])
    given = indices if axis == 1 else indices.T
    (found,) = run(GATHER.replace("AXIS", str(axis)), x, given)
    assert found.tolist() == [[8, 9], [2, 3]]


def test_scatters_leave_out_what_is_outside():
    text = """
    func.func @main(%x: tensor<4xi32>, %i: tensor<4x1xi32>, %u: tensor<4xi32>)
        -> tensor<4xi32> {
      %y = "stablehlo.scatter"(%x, %i, %u) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %s = stablehlo.subtract %a, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
            scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
        : (tensor<4xi32>, tensor<4x1xi32>, tensor<4xi32>) -> tensor<4xi32>
      func.return %y : tensor<4xi32>
    }"""
    x, u = np.int32([10, 20, 30, 40]), np.int32([1, 2, 3, 4])
    (found,) = run(text, x, np.int32([[1], [-1], [1], [4]]), u)
    assert found.tolist() == [10, 16, 30, 40]


def test_select_and_scatter_with_padding():
    text = """
    func.func @main(%x: tensor<4xi32>, %s: tensor<2xi32>) -> tensor<4xi32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %y = "stablehlo.select_and_scatter"(%x, %s, %zero) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %t = stablehlo.compare GE, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      }, {
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %m = stablehlo.add %a, %b : tensor<i32>
        stablehlo.return %m : tensor<i32>
      }) {window_dimensions = array<i64: 3>, window_strides = array<i64: 2>,
          padding = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
      func.return %y : tensor<4xi32>
    }"""
    assert run(text, np.int32([1, 2, 9, 4]), np.int32([5, 7]))[0].tolist() == [
        0,
        0,
        12,
        0,
    ]


@pytest.mark.parametrize(
    ("index", "wanted"), [(-7, 30), (0, 10), (1, 20), (2, 30), (8, 30)]
)
def test_a_case_of_no_branch_takes_the_last(index, wanted):
    branches = ", ".join(
        f"{{ %c{n} = stablehlo.constant dense<{n}> : tensor<i32>\n"
        f"stablehlo.return %c{n} : tensor<i32> }}"
        for n in (10, 20, 30)
    )
    text = f"""
    func.func @main(%i: tensor<i32>) -> tensor<i32> {{
      %y = "stablehlo.case"(%i) ({branches}) : (tensor<i32>) -> tensor<i32>
      func.return %y : tensor<i32>
    }}"""
    assert run(text, np.int32(index))[0] == wanted


@pytest.mark.parametrize("predicate", [True, False])
def test_an_if_takes_a_branch(predicate):
    text = """
    func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
      %y = "stablehlo.if"(%p) ({
        %a = stablehlo.sine %x : tensor<f32>
        stablehlo.return %a : tensor<f32>
      }, {
        stablehlo.return %x : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      func.return %y : tensor<f32>
    }"""
    (found,) = run(text, predicate, np.float32(0.5))
    np.testing.assert_allclose(found, np.sin(0.5) if predicate else 0.5, rtol=1e-6)


def test_a_while_loop_of_wide_integers():
    text = """
    func.func @main(%n: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
      %zero = stablehlo.constant dense<0> : tensor<i64>
      %one = stablehlo.constant dense<1> : tensor<i64>
      %r:2 = stablehlo.while(%i = %zero, %f = %one) : tensor<i64>, tensor<i64>
      cond {
        %t = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      } do {
        %j = stablehlo.add %i, %one : tensor<i64>
        %g = stablehlo.multiply %f, %j : tensor<i64>
        stablehlo.return %j, %g : tensor<i64>, tensor<i64>
      }
      func.return %r#0, %r#1 : tensor<i64>, tensor<i64>
    }"""
    i, factorial = run(text, np.int64(20), x64=True)
    assert (i, factorial) == (20, 2432902008176640000)


def test_a_map_of_two_arrays():
    text = """
    func.func @main(%x: tensor<2x2xi32>, %y: tensor<2x2xi32>) -> tensor<2x2xi32> {
      %z = "stablehlo.map"(%x, %y) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %m = stablehlo.multiply %a, %a : tensor<i32>
        %s = stablehlo.subtract %m, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
      }) {dimensions = array<i64: 0, 1>}
        : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
      func.return %z : tensor<2x2xi32>
    }"""
    x, y = np.int32([[1, 2], [3, 4]]), np.int32([[5, 6], [7, 8]])
    np.testing.assert_array_equal(run(text, x, y)[0], x * x - y)


def test_dynamic_slices_are_clamped():
    text = """
    func.func @main(%x: tensor<5xi32>, %i: tensor<i32>) -> (tensor<2xi32>, tensor<5xi32>) {
      %y = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>
      %u = stablehlo.constant dense<7> : tensor<2xi32>
      %z = stablehlo.dynamic_update_slice %x, %u, %i
        : (tensor<5xi32>, tensor<2xi32>, tensor<i32>) -> tensor<5xi32>
      func.return %y, %z : tensor<2xi32>, tensor<5xi32>
    }"""
    x = np.arange(5, dtype=np.int32)
    for index, start in ((-2, 0), (1, 1), (9, 3)):
        part, updated = run(text, x, np.int32(index))
        assert part.tolist() == [start, start + 1]
        assert updated[start : start + 2].tolist() == [7, 7]


def test_pads_cut_off_and_put_between():
    text = """
    func.func @main(%x: tensor<2x3xi32>) -> tensor<4x3xi32> {
      %v = stablehlo.constant dense<-1> : tensor<i32>
      %y = stablehlo.pad %x, %v, low = [1, -1], high = [0, -1], interior = [1, 1]
        : (tensor<2x3xi32>, tensor<i32>) -> tensor<4x3xi32>
      func.return %y : tensor<4x3xi32>
    }"""
    (found,) = run(text, np.int32([[1, 2, 3], [4, 5, 6]]))
    assert found.tolist() == [[-1] * 3, [-1, 2, -1], [-1] * 3, [-1, 5, -1]]


def test_a_convolution_with_a_reversed_window():
    text = """
    func.func @main(%x: tensor<1x5x1xf32>, %k: tensor<2x1x1xf32>) -> tensor<1x4x1xf32> {
      %y = stablehlo.convolution(%x, %k)
        dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {reverse = [true]}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x5x1xf32>, tensor<2x1x1xf32>) -> tensor<1x4x1xf32>
      func.return %y : tensor<1x4x1xf32>
    }"""
    x = np.float32([1, 2, 4, 8, 16]).reshape(1, 5, 1)
    (found,) = run(text, x, np.float32([1, 10]).reshape(2, 1, 1))
    assert found.ravel().tolist() == [12, 24, 48, 96]


def test_shapes_that_are_operands_and_constants():
    text = """
    func.func @main(%x: tensor<2x2xi32>) -> (tensor<4xi32>, tensor<1x2xi32>) {
      %shape = stablehlo.constant dense<[4]> : tensor<1xi64>
      %y = stablehlo.dynamic_reshape %x, %shape : (tensor<2x2xi32>, tensor<1xi64>) -> tensor<4xi32>
      %start = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
      %limit = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
      %step = stablehlo.constant dense<1> : tensor<2xi32>
      %z = stablehlo.real_dynamic_slice %x, %start, %limit, %step
        : (tensor<2x2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2xi32>
      func.return %y, %z : tensor<4xi32>, tensor<1x2xi32>
    }"""
    flat, part = run(text.replace("xi64", "xi32"), np.int32([[1, 2], [3, 4]]))
    assert flat.tolist() == [1, 2, 3, 4] and part.tolist() == [[3, 4]]


def test_composites_and_functions_keep_their_names():
    text = """
    func.func private @square.impl(%x: tensor<f32>) -> tensor<f32> {
      %y = stablehlo.multiply %x, %x : tensor<f32>
      func.return %y : tensor<f32>
    }
    func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
      %y = stablehlo.add %x, %x : tensor<f32>
      func.return %y : tensor<f32>
    }
    func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %y = stablehlo.composite "my.square" %x {decomposition = @square.impl,
        version = 1 : i32} : (tensor<f32>) -> tensor<f32>
      %z = func.call @twice(%y) : (tensor<f32>) -> tensor<f32>
      func.return %z : tensor<f32>
    }"""
    assert run(text, np.float32(3))[0] == 18
    shown = str(read_module(text).jaxpr)
    assert "my.square" in shown and re.search(r"name=twice", shown)


def test_a_scan_of_chlo():
    text = """
    func.func @main(%x: tensor<2x3xi32>) -> (tensor<2x3xi32>, tensor<2xi32>) {
      %zero = stablehlo.constant dense<0> : tensor<2xi32>
      %y:2 = chlo.scan(%x) inits(%zero) dimension=1 {
      ^bb0(%a: tensor<2xi32>, %c: tensor<2xi32>):
        %s = stablehlo.add %a, %c : tensor<2xi32>
        stablehlo.return %s, %s : tensor<2xi32>, tensor<2xi32>
      } : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
      func.return %y#0, %y#1 : tensor<2x3xi32>, tensor<2xi32>
    }"""
    try:
        sums, last = run(text, np.int32([[1, 2, 3], [4, 5, 6]]))
    except Exception as error:
        if "chlo.scan" not in str(error) or "unknown" not in str(error):
            raise
        pytest.skip("this release of jaxlib has no `chlo.scan`")
    assert sums.tolist() == [[1, 3, 6], [4, 9, 15]] and last.tolist() == [6, 15]
