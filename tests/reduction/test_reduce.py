"""`untrace.reduce` from the user's side."""

import subprocess
import sys
from concurrent.futures import Executor, Future

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.reduction.programs import deep
from untrace.ir import all_equations


@pytest.fixture(scope="module")
def nan_reduction():
    function, args = deep()
    return untrace.reduce(function, keep=untrace.keep.nan())(*args)


def names(reduction):
    return [eqn.name for eqn in all_equations(reduction.program.block)]


def test_a_nan_is_reduced_to_the_equation_that_makes_it(nan_reduction):
    assert names(nan_reduction) == ["log"]
    assert nan_reduction.start > 100
    assert all(np.shape(value) == () for value in nan_reduction.args)


def test_the_saved_file_fails_by_itself(nan_reduction, tmp_path):
    path = nan_reduction.save(tmp_path / "repro.py")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode != 0
    assert "NaN" in done.stderr
    text = path.read_text()
    assert "jnp.log" in text
    assert "Pinned failure: nan(blame='log'" in text
    assert f"Fails on: jax {jax.__version__}" in text


def test_what_a_command_keeps_is_saved_as_a_file_that_runs(tmp_path):
    keep = untrace.keep.command("grep -q 'jnp.sin' {file}")
    path = untrace.reduce(lambda x: jnp.sin(x) * 2, keep=keep)(1.0).save(
        tmp_path / "repro.py"
    )
    assert "--check" in path.read_text()
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([sys.executable, path, "--check"], capture_output=True)
    assert done.returncode == 1, done.stderr


def test_a_file_is_not_named_like_a_module(nan_reduction, tmp_path):
    with pytest.raises(untrace.SaveError, match="random_repro.py"):
        nan_reduction.save(tmp_path / "random.py")


def test_history_goes_down_and_is_drawn(nan_reduction):
    sizes = [step.size for step in nan_reduction.history]
    assert sizes == sorted(sizes, reverse=True)
    assert nan_reduction.plot().startswith("<svg")
    assert "1 equation, " in nan_reduction.summary()
    assert repr(nan_reduction).startswith("<untrace.Reduction: from ")


def test_jobs_do_not_change_the_result(nan_reduction):
    function, args = deep()
    again = untrace.reduce(function, keep="nan()", jobs=2)(*args)
    assert str(again.program.block.jaxpr) == str(nan_reduction.program.block.jaxpr)


def test_a_source_and_a_saved_file_carry_their_inputs(tmp_path):
    source = untrace.source(lambda x: jnp.sum(jnp.log(x) * 2), level="lax")
    source = source(np.float32([1, -1]))
    path = source.save(tmp_path / "saved.py")
    for given in (source, path, str(path)):
        assert names(untrace.reduce(given, keep="nan()")) == ["log"]


def test_inputs_that_were_drawn_are_said(tmp_path):
    x = np.random.default_rng(1).normal(size=300).astype(np.float32)
    source = untrace.source(jnp.log)
    path = source(x).save(tmp_path / "saved.py")
    made = untrace.reduce(path, keep="nan()", max_runs=1)
    assert "saved.py holds none of those" in made.summary()
    given = untrace.source(jnp.log, example_inputs="given")(x)
    path = given.save(tmp_path / "given.py")
    made = untrace.reduce(path, keep="nan()", max_runs=1)
    assert "drawn" not in made.summary()
    types = jax.ShapeDtypeStruct((3,), "float32")
    with pytest.raises(untrace.KeepError, match=r"drawn \(x\): no values"):
        untrace.reduce(lambda x: x * 2, keep="inf()")(types)


def test_a_reproducer_that_calls_its_function_twice_is_read_again(tmp_path):
    reduction = untrace.reduce(lambda x: (x * 2).astype("float32"), keep="recompiles()")
    path = reduction(0.5).save(tmp_path / "repro.py")
    assert untrace.reduce(path, keep="recompiles()").n_equations == 1


def test_a_jaxpr_takes_flat_inputs():
    jaxpr = jax.make_jaxpr(lambda x: jnp.exp(x) * 2)(np.float32(1))
    reduction = untrace.reduce(jaxpr, keep="inf()")(np.float32(100))
    assert names(reduction) == ["exp"]


def test_contains_needs_no_run_to_judge():
    function, args = deep()
    reduction = untrace.reduce(function, keep=untrace.keep.contains("log"))(*args)
    assert names(reduction) == ["log"]


def test_a_predicate_that_does_not_hold_says_what_happened():
    with pytest.raises(untrace.KeepError, match=r"ran to its end[\s\S]*same equations"):
        untrace.reduce(lambda x: x * 2, keep="crashes()")(1.0)


def test_a_predicate_that_always_holds_is_refused():
    with pytest.raises(untrace.KeepError, match="every program"):
        untrace.reduce(lambda x: jnp.sin(x) * 2, keep="~nan()")(1.0)


def test_nothing_to_keep_is_an_error():
    with pytest.raises(untrace.KeepError, match="say what to keep"):
        untrace.reduce(lambda x: x)


def test_a_file_without_inputs_says_so(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def f(x):\n    return x\n")
    with pytest.raises(untrace.LoadError, match="Give a call as well"):
        untrace.reduce(path, keep="nan()")


def test_errors_of_the_users_function_are_the_users():
    def broken(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        untrace.reduce(broken, keep="nan()")(1.0)
    assert any("under='grad'" in note for note in caught.value.__notes__)


class Dying(Executor):
    """Runs a few jobs, then is gone."""

    def __init__(self, lives):
        self.lives = lives

    def submit(self, fn, /, *args, **kwargs):
        self.lives -= 1
        if self.lives < 0:
            raise RuntimeError("the machine is gone")
        future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_an_executor_that_dies_is_replaced():
    function, args = deep(3)
    made = untrace.reduce(function, keep="nan()", executor=Dying(5))(*args)
    assert names(made) == ["log"]
    assert "went on with workers on this machine" in made.summary()


def test_anonymous_names_nothing(tmp_path):
    def secret_function(secret_input):
        secret_value = jnp.abs(secret_input)
        return jnp.log(secret_value - 5.0)

    made = untrace.reduce(secret_function, keep="nan()", anonymous=True)
    text = str(made(np.float32([1.5, 2.5])).source)
    assert "secret" not in text and "It is fine with other values of 1 input." in text


def test_under_grad():
    def loss(x):
        return jnp.sum(jnp.sqrt(jnp.abs(x)) * 3.0)

    made = untrace.reduce(loss, keep="nan(under='grad') | inf(under='grad')")
    assert names(made(np.float32([0, 1]))) == ["sqrt"]


def test_what_lowers_at_the_start_lowers_at_the_end():
    def program(x):
        x = jax.lax.reduce_precision(x * 2, 8, 7)
        return jnp.zeros(4).at[jnp.int32([0, 1])].add(x).sum()

    made = untrace.reduce(program, keep="contains('scatter*')")(np.float32([1, 2]))
    assert any(name.startswith("scatter") for name in names(made))
    assert jax.jit(jax.extend.core.jaxpr_as_fun(made.program.block.jaxpr)).lower(
        *made.args
    )
    assert "lowers()" in str(made.keep)
    assert "lowers" not in str(made.source)


def test_a_computation_on_elements_is_kept_or_goes_as_a_whole():
    def program(x):
        made = jax.lax.reduce(x, np.float32(0), lambda a, b: a + b * 1.0, (0,))
        return made + 1

    made = untrace.reduce(program, keep="contains('reduce')")(np.float32([1, 2]))
    assert sorted(names(made)) == ["add", "mul", "reduce"]


def test_a_function_of_the_outputs_is_kept(tmp_path):
    def program(x):
        return jnp.sin(jnp.exp(x * 3)) + 1, jnp.exp(x * 3) * 2

    made = untrace.reduce(program, keep=lambda outputs: outputs[-1].max() > 1e3)
    found = made(np.float32([3, 1]))
    assert "exp" in names(found)
    assert "assert not (outputs[-1].max() > 1000.0), outputs" in str(found.source)
    path = untrace.reduce(program, keep="check('outputs[-1].max() > 1e3')")
    path = path(np.float32([3, 1])).save(tmp_path / "repro.py")
    assert subprocess.run([sys.executable, path]).returncode == 1


def test_a_refused_predicate_proposes_the_one_that_holds():
    def refused(function, keep):
        with pytest.raises(untrace.KeepError) as caught:
            untrace.reduce(function, keep=keep)(np.float32([0, 1]))
        return str(caught.value)

    assert "kept by inf(" in refused(lambda x: 1 / x, "nan()")
    said = refused(lambda x: jnp.sqrt(jnp.abs(x) ** 2).sum(), "nan()")
    assert "Its gradient does fail: that is kept by nan(" in said
    assert "under='grad'" in said


def test_a_refused_predicate_proposes_to_compare_with_64_bits():
    with pytest.raises(untrace.KeepError) as caught:
        untrace.reduce(lambda x: jnp.exp(x) * 1e-30 * 1e-20, keep="auto()")(
            np.float32(1)
        )
    said = str(caught.value)
    assert "In 64 bits it gives other values" in said
    assert "kept by differs(b='float64', rtol=0.1, finite=True)" in said


def test_of_a_nan_in_a_backward_equation_the_loss_is_offered():
    def gradient(x):
        return jax.grad(lambda x: jnp.sqrt(jnp.sum(x**2)))(x)

    made = untrace.reduce(gradient, keep="nan()")(np.zeros(2, np.float32))
    assert "nan(under='grad')" in made.summary()
