"""Files of reproducers show what fails, and need nothing that they do not name."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import keep
from untrace.reduction.applying import program_from
from untrace.reduction.loading import load_program
from untrace.reduction.reproducer import Story, unreduced

STORY = Story("f", 1)


def run(source, path):
    command = [sys.executable, source.save(path)]
    return subprocess.run(command, capture_output=True, text=True)


def file_of(function, predicate, *values):
    names = [f"x{i}" for i in range(len(values))]
    jaxpr = jax.make_jaxpr(function)(*values)
    return unreduced(program_from(jaxpr, values, names, "f"), predicate, STORY)


@pytest.mark.parametrize("is_single", [True, False])
def test_what_has_32_bits_inside_has_64_on_the_other_side(is_single, tmp_path):
    def f(k):
        cancelled = 1 - jnp.cos(k.astype(jnp.float32) * np.float32(1e-4))
        return cancelled if is_single else (cancelled, k)

    found = run(file_of(f, keep.differs(b="float64"), np.int32(1)), tmp_path / "f.py")
    assert found.returncode == 1
    assert "relative error 1" in found.stderr + found.stdout


def test_infinities_have_no_relative_error(tmp_path):
    source = file_of(jnp.exp, keep.differs(b="float64"), np.float32(95))
    found = run(source, tmp_path / "f.py")
    assert found.returncode == 1
    assert "jit and float64 differ: different" in found.stderr
    assert "Warning" not in found.stderr


def test_a_finite_number_is_compared_in_a_line(tmp_path):
    predicate = keep.differs(b="float64", rtol=0.1, finite=True)
    source = file_of(lambda x: 1 - jnp.cos(x), predicate, np.float32(1e-4))
    found = run(source, tmp_path / "f.py")
    assert found.returncode == 1
    assert "jit and float64 differ" in found.stderr
    assert "jit: 0.0 float64: 4.99999" in found.stdout
    assert "allclose" not in str(source)


def test_a_file_has_no_more_than_it_needs(tmp_path):
    def f(x):
        return x * x

    source = file_of(f, keep.raises(under="grad"), np.float32(1))
    assert "import jax.numpy" not in str(source)
    assert "jax.jit(jax.grad(f))" in str(source)
    assert run(source, tmp_path / "f.py").returncode == 0
    assert "Marks of" not in (tmp_path / "f.py").read_text()


def test_the_second_call_is_written_shortly_where_it_can_be(tmp_path):
    source = file_of(lambda x: x + np.float32(0), keep.recompiles(), 1.0)
    assert "flatten" not in str(source)
    found = run(source, tmp_path / "f.py")
    assert found.returncode == 1
    assert "the second call compiles again" in found.stderr


def test_what_only_the_compiler_does_has_a_short_check(tmp_path):
    source = file_of(jnp.sqrt, keep.nan(jit_only=True), np.float32(2))
    assert "op_by_op" not in str(source)
    assert run(source, tmp_path / "f.py").returncode == 0


def helper(x):
    return np.asarray(x) if STORY.before else x


def test_a_module_of_the_user_is_named(tmp_path):
    def f(x):
        return jax.pure_callback(helper, jax.ShapeDtypeStruct((), jnp.float32), x)

    text = str(file_of(f, keep.nan(), np.float32(1)))
    assert "It needs `tests` in PYTHONPATH." in " ".join(text.split())


def test_what_stands_in_for_functions_of_the_host_is_said():
    def fails(x):
        raise ValueError("no")

    def f(x):
        return jax.pure_callback(fails, jax.ShapeDtypeStruct((), jnp.float32), x)

    with pytest.raises(untrace.KeepError, match="stand-ins") as raised:
        untrace.reduce(f, keep="auto()")(np.float32(1))
    assert ".<locals>.fails`. In its text" in str(raised.value)
    assert "under='grad'" not in str(raised.value)


@pytest.mark.parametrize(
    ("names", "status"), [(("cumsum",), 1), (("cum*",), 1), (("cumsum", "sin"), 0)]
)
def test_primitives_are_looked_for_at_any_depth(names, status, tmp_path):
    source = file_of(lambda x: jnp.cumsum(x), keep.contains(*names), np.zeros(2))
    assert run(source, tmp_path / "f.py").returncode == status


def test_a_file_to_be_pasted_has_no_fingerprint_and_can_be_reduced_again(tmp_path):
    def f(x):
        def body(carry, _):
            return jnp.sin(carry), None

        return jax.lax.scan(body, x, None, length=3)[0]

    source = file_of(f, keep.nan(under="grad"), np.float32(1))
    assert "ingerprint" not in str(source)
    program = load_program(source.save(tmp_path / "f.py"))
    assert [eqn.name for eqn in program.block.equations] == ["scan"]


def test_a_file_that_counts_compilations_can_be_reduced_again(tmp_path):
    source = file_of(lambda x: x + np.float32(0), keep.recompiles(), 1.0)
    program = load_program(source.save(tmp_path / "f.py"))
    names = [eqn.name for eqn in program.block.equations]
    assert names == ["convert_element_type", "add"]


def test_a_reproducer_is_shown_without_a_call(tmp_path):
    path = file_of(jnp.sin, keep.nan(), np.float32(1)).save(tmp_path / "f.py")
    command = [sys.executable, "-m", "untrace", "show", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "jnp.sin(x0)" in done.stdout, done.stderr


def test_sides_with_quotes_are_compared(tmp_path):
    predicate = keep.differs(b='env:A="b"', rtol=0.1, finite=True)
    found = run(file_of(jnp.sin, predicate, np.float32(1)), tmp_path / "f.py")
    assert found.returncode == 0, found.stderr
    assert 'env:A="b":' in found.stdout


@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("a", ["jit", "env:XLA_FLAGS="])
def test_two_processes_are_compared_shortly(shape, a, tmp_path):
    def f(x):
        return jnp.exp(x) - 1

    x = np.full(shape, 1e-4, np.float32)
    for b, status in ((f"python:{sys.executable}", 0), ("env:JAX_ENABLE_X64=1", 0)):
        source = file_of(f, keep.differs(a, b, rtol=0.1, finite=True), x)
        assert "tempfile" not in str(source)
        assert a != "jit" or "environ | {}" not in str(source)
        done = run(source, tmp_path / "f.py")
        assert done.returncode == status, done.stderr
        assert f" {b}: " in done.stdout


def test_arrays_of_two_processes_differ(tmp_path):
    x = np.zeros(3, np.float32)
    predicate = keep.differs(
        "env:JAX_LOGGING_LEVEL=INFO", "env:JAX_LOGGING_LEVEL=ERROR", finite=True
    )
    lines = predicate.check_lines("f", program_of_one(x))
    text = "\n".join(
        [
            "import os, subprocess, sys",
            "import jax, numpy as np",
            "def f(x): return x + len(os.environ['JAX_LOGGING_LEVEL'])",
            "def example_args(): return dict(x=np.zeros(3, np.float32))",
            "os.environ.setdefault('JAX_LOGGING_LEVEL', 'INFO')",
            *lines,
        ]
    )
    path = tmp_path / "f.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "they differ" in done.stderr


def program_of_one(x):
    return program_from(jax.make_jaxpr(lambda x: x + 1)(x), (x,), ("x",), "f")


@pytest.mark.parametrize("sides", [("jit", "eager"), ("jit", "call")])
@pytest.mark.parametrize("is_single", [True, False])
def test_operators_of_16_bits_are_those_of_jax_without_jit(sides, is_single, tmp_path):
    # NumPy adds the number in 64 bits, where there is no error as large as half of it.
    def f(x):
        y = (x + 0.100098).astype(jnp.float32)
        made = y - y.astype(jnp.bfloat16)
        return made if is_single else (made, y)

    value = jnp.array(1.0, jnp.bfloat16)
    predicate = keep.differs(*sides, rtol=0.1)
    found = run(file_of(f, predicate, np.asarray(value)), tmp_path / "f.py")
    assert found.returncode == 1, found.stdout
    assert "differ" in found.stderr


def test_a_nan_of_the_compiler_alone_is_one_of_jax_without_jit(tmp_path):
    def f(x):
        return jnp.sqrt((x + 0.100098).astype(jnp.float32) - 1.1015625)

    value = np.asarray(jnp.array(1.0, jnp.bfloat16))
    found = run(file_of(f, keep.nan(jit_only=True), value), tmp_path / "f.py")
    assert found.returncode == 1, found.stdout
    assert "only under jit" in found.stderr
