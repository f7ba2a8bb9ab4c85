"""Programs of JAX that were lowered, exported or printed come back as they were."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.corpus import from_stablehlo, harness
from untrace import jaxapi
from untrace.jaxapi.modules import compiled_values
from untrace.readers.formats import format_of
from untrace.readers.stablehlo.agreement import SAME_MODULE, lowered_again
from untrace.readers.stablehlo.load import read, read_and_compare, told
from untrace.readers.stablehlo.read import parsed

X = np.ones((4, 3), np.float32)


def layer(params, x):
    h = jnp.tanh(x @ params["w"] + params["b"])
    carry, sums = jax.lax.scan(lambda c, t: (c * 0.9 + t, c.sum()), h[0], h)
    with jax.named_scope("tail"):
        z = jax.nn.relu(carry)
    return {"sums": sums, "z": jax.lax.fori_loop(0, 5, lambda i, a: a * 1.5 + i, z)}


PARAMS = {"b": np.ones(3, np.float32), "w": np.ones((3, 3), np.float32)}


def names(jaxpr):
    """Return the names of the primitives of a jaxpr."""
    return [eqn.primitive.name for eqn in jaxapi.split_jaxpr(jaxpr)[0].eqns]


def equations(jaxpr):
    """Return the equations of a jaxpr and of what is in it."""
    body, _ = jaxapi.split_jaxpr(jaxpr)
    for eqn in body.eqns:
        yield eqn
        for inner in eqn.params.values():
            if jaxapi.is_jaxpr(inner):
                yield from equations(inner)


@pytest.fixture(scope="module")
def lowered():
    return jax.jit(layer).lower(PARAMS, X)


def programs():
    jitted = jax.jit(layer)
    exported = jax.export.export(jitted)(PARAMS, X)
    artefact = bytes(exported.mlir_module_serialized)
    several = jax.export.export(jitted, platforms=("cpu", "cuda"))(PARAMS, X)
    # A flatbuffer keeps the length of a vector before its bytes.
    serialized = (
        b"\0" * 40 + len(artefact).to_bytes(4, "little") + artefact + b"\0" * 12
    )
    return {
        "a lowered function": jitted.lower(PARAMS, X),
        "a StableHLO module": jitted.lower(PARAMS, X).as_text(debug_info=True),
        "an exported function": exported,
        "an exported function, twice": several,
        "MLIR bytecode": artefact,
        "a serialized export": serialized,
    }


@pytest.mark.parametrize("name", [*programs()])
def test_every_form_gives_the_same_program(name):
    program = programs()[name]
    found = format_of(program)
    assert found is not None and found.name == name.partition(",")[0]
    reading, same = read_and_compare(program)
    assert same == SAME_MODULE
    debug = jaxapi.split_jaxpr(reading.jaxpr)[0].debug_info
    assert debug.func_name == "layer"
    assert tuple(debug.arg_names) == ("params['b']", "params['w']", "x")
    assert tuple(debug.result_paths) == ("result['sums']", "result['z']")
    assert names(reading.jaxpr).count("scan") == 2


GIVEN_BACK = """
module @jit_program {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = call @made(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    %1 = call @given_back(%0) : (tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @made(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.sine %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func private @given_back(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    return %arg0 : tensor<3xf32>
  }
}
"""


def test_a_function_may_give_its_argument_back():
    reading, same = read_and_compare(GIVEN_BACK)
    assert same == SAME_MODULE
    assert names(reading.jaxpr).count("jit") >= 1


def test_broadcasts_with_several_uses_are_made_once_as_in_the_module():
    def scaled(row, x):
        rows = jnp.broadcast_to(row, x.shape)
        return rows * x, x - rows, row + x  # the last broadcast is of `+` alone

    module = jax.jit(scaled).lower(np.ones((1, 3), np.float32), X)
    again = lowered_again(read(module))
    n_broadcasts = [
        sum(one.name == "stablehlo.broadcast_in_dim" for one in found.operations())
        for found in (parsed(module.as_text()), again)
    ]
    assert n_broadcasts == [2, 2]


def test_values_are_the_same_where_fusions_hang_on_broadcasts():
    a = np.linspace(0.3, 9, 20, dtype=np.float32).reshape(1, 20)
    x = np.linspace(0.1, 12, 400, dtype=np.float32).reshape(20, 20)
    module = parsed(jax.jit(jax.lax.igamma).lower(a, x).as_text())
    again = lowered_again(read(str(module.source)))
    (wanted,), (found,) = (compiled_values(one, [a, x]) for one in (module, again))
    assert wanted.tobytes() == found.tobytes()


def test_hlo_is_read(lowered):
    jaxpr = read(lowered.as_text("hlo"))
    wanted = jax.jit(layer)(PARAMS, X)
    found = jaxapi.as_function(jaxpr)(PARAMS["b"], PARAMS["w"], X)
    for one, other in zip(jax.tree.leaves(wanted), found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_source_has_names_trees_and_scopes(lowered):
    src = untrace.source(read(lowered), scopes=True)
    text = str(src)
    assert src.report.strength == "identical"
    assert "def layer(params, x):" in text
    assert 'return {"sums":' in text and "x @ w" in text
    assert 'jax.named_scope("tail")' in text
    assert "def relu(" in text


def test_the_sentence_for_the_header_says_how_strong_the_proof_is():
    assert "gives the same module" in told("same StableHLO")
    assert "same values" in told("same values")
    assert "not proved" in told("different: not proved, since ...")


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_are_scans_again(reverse):
    def f(xs, w):
        def step(carry, x):
            inner = jax.lax.fori_loop(0, 3, lambda i, a: a + i * w, carry)
            return inner * x[0], (carry, x[1].sum())

        return jax.lax.scan(step, w, xs, reverse=reverse)

    reading, same = read_and_compare(
        jax.jit(f).lower((np.ones(6, np.float32), X[:1].repeat(6, 0)), np.float32(2))
    )
    assert same == SAME_MODULE
    kinds = [eqn.primitive.name for eqn in equations(reading.jaxpr)]
    assert kinds.count("scan") == 2 and "while" not in kinds


def test_loops_that_are_no_scans_stay_loops():
    def f(x, n):
        return jax.lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * x), (0, x)
        )

    reading, same = read_and_compare(jax.jit(f).lower(X, 5))
    assert same == SAME_MODULE and names(reading.jaxpr) == ["while"]


FUNCTIONS = {
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T), (X[:3],), "cholesky"),
    "qr": (jnp.linalg.qr, (X,), "qr"),
    "svd": (lambda x: jnp.linalg.svd(x, full_matrices=False), (X,), "svd"),
    "eigh": (lambda x: jnp.linalg.eigh(x @ x.T), (X[:3],), "eigh"),
    "sort": (lambda x: jax.lax.sort((x, -x), num_keys=2), (X,), "sort"),
    "argmax": (lambda x: jnp.argmax(x, axis=1), (X,), "argmax"),
    "top_k": (lambda x: jax.lax.top_k(x, 2), (X,), "top_k"),
    "approx": (lambda x: jax.lax.approx_max_k(x, 2), (X,), "approx_top_k"),
    "random": (
        lambda k: jax.random.normal(k, (3, 5)),
        (jax.random.key(0),),
        "random_bits",
    ),
    "erf_inv": (jax.lax.erf_inv, (X,), "erf_inv"),
    "switch": (
        lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x),
        (1, X),
        "cond",
    ),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), (X,), "cumsum"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_jax_lowers_in_many_steps_is_one_equation_again(name):
    function, args, primitive = FUNCTIONS[name]
    reading, same = read_and_compare(jax.jit(function).lower(*args))
    assert same == SAME_MODULE
    assert primitive in [eqn.primitive.name for eqn in equations(reading.jaxpr)]


def test_values_of_64_bits_stay_such():
    with jax.enable_x64(True):
        text = jax.jit(lambda x: jnp.cumsum(x) * 2).lower(np.ones(3)).as_text()
    reading, same = read_and_compare(text)
    assert reading.is_wide and same == SAME_MODULE
    assert jaxapi.split_jaxpr(reading.jaxpr)[0].invars[0].aval.dtype == np.float64


def test_a_sample_of_the_harness_comes_back():
    n_same = 0
    for case in harness.sampled(4000)[::4]:
        args = tuple(case.dyn_args_maker(np.random.RandomState(0)))
        how = from_stablehlo.How()
        outcome = from_stablehlo.compared(case.fullname, case.dyn_fun, args, how)
        assert outcome.verdict in (SAME_MODULE, "not lowered"), outcome
        n_same += outcome.verdict == SAME_MODULE
    assert n_same > 20


def test_what_is_read_does_not_depend_on_the_setting_of_64_bits(lowered):
    narrow = read(lowered.as_text())
    with jax.enable_x64(True):
        assert str(read(lowered.as_text())) == str(narrow)


def test_shardings_are_said_to_be_lost():
    text = """
    module @m attributes {mhlo.num_partitions = 4 : i32} {
      sdy.mesh @mesh = <["d"=4]>
      func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
        %y = stablehlo.sine %x : tensor<8xf32>
        %z = sdy.sharding_constraint %y <@mesh, [{"d"}]> : tensor<8xf32>
        return %z : tensor<8xf32>
      }
    }"""
    reading, found = read_and_compare(text)
    assert "shardings, which are not kept" in told(found)
    assert names(reading.jaxpr) == ["sin"]


def test_calls_are_made_as_often_as_in_the_module():
    def function(x):
        return jnp.sum(jnp.rot90(x) * (2 * jnp.rot90(x)))

    x = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6)
    module = jax.jit(function).lower(x).as_text()
    reading, _ = read_and_compare(module)
    made = [eqn.params.get("name") for eqn in reading.jaxpr.eqns]
    assert made.count("rot90") == module.count("call @rot90") == 2


REPEATED = """
func.func @main(%x: tensor<5x6xf32>) -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<5x6xf32>) -> tensor<5x2x6xf32>
  %b = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<5x6xf32>) -> tensor<5x2x6xf32>
  %unused = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<5x6xf32>) -> tensor<5x2x6xf32>
  %c = stablehlo.reshape %a : (tensor<5x2x6xf32>) -> tensor<10x6xf32>
  %d = stablehlo.reshape %b : (tensor<5x2x6xf32>) -> tensor<10x6xf32>
  %e = stablehlo.multiply %c, %c : tensor<10x6xf32>
  %f = stablehlo.add %c, %c : tensor<10x6xf32>
  %g = stablehlo.multiply %d, %f : tensor<10x6xf32>
  %h = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<10x6xf32>, tensor<f32>) -> tensor<f32>
  %i = stablehlo.reduce(%g init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<10x6xf32>, tensor<f32>) -> tensor<f32>
  return %h, %i : tensor<f32>, tensor<f32>
}
"""


def test_values_are_made_as_often_as_in_the_module():
    reading, found = read_and_compare(REPEATED)
    assert found == SAME_MODULE
    assert names(reading.jaxpr).count("broadcast_in_dim") == 2
    given = [np.random.default_rng(1).normal(size=(5, 6)).astype(np.float32)]
    again = compiled_values(lowered_again(reading.jaxpr), given)
    for before, after in zip(compiled_values(reading.module, given), again):
        assert before.tobytes() == after.tobytes()


def test_results_of_one_call_stay_apart_where_they_are_equal():
    def both(x, y):
        return jnp.flip(x, 1), jnp.flip(y, 1)

    def function(x):
        x, y = jax.jit(both)(x, x)
        return x.sum(), (y * (2 * x)).sum()

    reading, _ = read_and_compare(jax.jit(function).lower(X).as_text())
    call, *after = jaxapi.split_jaxpr(reading.jaxpr)[0].eqns
    used = [id(value) for eqn in after for value in eqn.invars]
    assert len(call.outvars) == 2
    assert {id(value) for value in call.outvars} <= {*used}


def test_what_an_idiom_gives_is_made_once():
    def function(x):
        return [jax.lax.sort(jnp.sin(x)) for _ in range(2)]

    reading, found = read_and_compare(jax.jit(function).lower(X).as_text())
    assert found == SAME_MODULE
    assert names(reading.jaxpr) == ["sin", "sort"]


NO_NAME = "@<<INVALID EMPTY SYMBOL>>"
UNNAMED = f"""
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32> {{jax.result_info = "{NO_NAME}"}}) {{
  %y = func.call {NO_NAME}(%x) : (tensor<3xf32>) -> tensor<3xf32>  // {NO_NAME}
  %z = func.call @unnamed(%y) : (tensor<3xf32>) -> tensor<3xf32>
  return %z : tensor<3xf32>
}}
func.func private {NO_NAME}(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %y = stablehlo.sine %x : tensor<3xf32>
  return %y : tensor<3xf32>
}}
func.func private @unnamed(%x: tensor<3xf32>) -> tensor<3xf32> {{
  %y = stablehlo.cosine %x : tensor<3xf32>
  return %y : tensor<3xf32>
}}
"""


def test_a_function_without_a_name_has_one():
    reading, found = read_and_compare(UNNAMED)
    assert found == SAME_MODULE
    made = [eqn.params["name"] for eqn in reading.jaxpr.eqns]
    assert len({*made}) == 2 and "unnamed" in made
    assert reading.module.main.result_paths == (NO_NAME,)


def test_what_jax_prints_of_a_function_without_a_name_is_read():
    def function(x):
        return jnp.cos(x)

    function.__name__ = function.__qualname__ = ""
    text = jax.jit(lambda x: jax.jit(function)(x)).lower(X).as_text()
    assert NO_NAME in text
    assert read_and_compare(text)[1] == SAME_MODULE
