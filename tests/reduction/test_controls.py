"""A failure of values that is kept still depends on the inputs."""

import subprocess
import sys
from concurrent.futures import Executor, Future
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.ir import all_equations
from untrace.reduction.applying import program_from
from untrace.reduction.controls import with_control
from untrace.reduction.driver import Pinned, Plan, _noting, controlled
from untrace.reduction.journal import Journal
from untrace.reduction.keeping.failures import Hangs
from untrace.reduction.keeping.values import Nan
from untrace.reduction.outcome import Outcome
from untrace.reduction.search import Search
from untrace.reduction.trials import Judge, prepare

X = np.float32(6)


def planted(x):
    """NaN where the input is 6; `zero` is 0 whatever the input is."""
    zero = x * 0.0
    cause = x - 6.0
    return (zero / cause) * jnp.tanh(x)


def fails_with(reduction, *values):
    """Tell whether a reduced program fails with other values of its inputs."""
    return Judge(reduction.keep).judge_program(reduction.program.with_values(values))


@pytest.fixture(scope="module")
def reduction():
    return untrace.reduce(planted, keep="nan()")(X)


def test_the_cause_is_in_the_result_and_removing_it_removes_the_failure(reduction):
    (value,) = reduction.args
    assert value == 0
    assert fails_with(reduction, value)
    assert not fails_with(reduction, np.float32(0.5))


def test_the_file_says_with_which_inputs_it_is_fine(reduction, tmp_path):
    assert "fine with other inputs" in reduction.control
    text = reduction.save(tmp_path / "repro.py").read_text()
    assert "With x0 = 0" in text
    assert "it is fine." in text
    assert subprocess.run([sys.executable, tmp_path / "repro.py"]).returncode


def test_without_a_control_the_failure_may_be_one_of_constants():
    made = untrace.reduce(planted, keep="nan()", control="none")(X)
    assert made.args == ()
    assert made.control == ""


def test_a_loop_is_opened_with_what_enters_it_under_the_control():
    def program(x):
        def step(carry, row):
            return carry * row + 1.0, jnp.log(carry)

        return jnp.sum(jax.lax.scan(step, x, jnp.arange(2.0))[1]) * 2

    made = untrace.reduce(program, keep="nan()")(np.float32(-1))
    assert [eqn.name for eqn in all_equations(made.program.block)] == ["log"]
    assert made.args[0] < 0


def test_a_failure_whatever_the_inputs_are_is_reduced_and_said():
    made = untrace.reduce(lambda x: x + jnp.log(x * 0 - 1), keep="nan()")(X)
    assert "No other inputs were found" in made.control
    assert made.n_equations == 1


def test_a_nan_in_place_of_an_infinity_is_no_better():
    def program(x):
        return jnp.sum(x * jnp.log(x - x))  # inf - inf if the signs differ

    made = untrace.reduce(program, keep="inf()")(np.ones(3, np.float32))
    assert "No other inputs were found" in made.control
    assert [eqn.name for eqn in all_equations(made.program.block)] == ["log"]


def test_inputs_that_fail_as_they_are_equal_get_different_controls():
    jaxpr = jax.make_jaxpr(lambda x, y: (x - y) / (x - y))(X, X)
    program = program_from(jaxpr, (X, X), ("x", "y"), "f")
    found, sentence = with_control(program, Nan(), Judge(Nan()))
    assert found.controls is not None
    assert "shifted a little" in sentence


class Answers(Executor):
    """Answers with outcomes in turn."""

    def __init__(self, *statuses):
        self.left = list(statuses)

    def submit(self, function, job):
        done = Future()
        done.set_result(Outcome(self.left.pop(0), "run"))
        return done


def test_what_hangs_with_its_control_is_not_waited_for_twice():
    jaxpr = jax.make_jaxpr(jnp.sin)(X)
    program = replace(program_from(jaxpr, (X,), ("x",), "f"), controls=(X,))
    trial = prepare(program, Hangs(1.0))
    once = Answers("timeout", "never asked")
    assert not Judge(Hangs(1.0), once).judge(trial).is_interesting
    assert once.left == ["never asked"]
    assert Judge(Hangs(1.0), Answers("ok", "timeout")).judge(trial).is_interesting
    both = Nan() & Hangs(1.0)
    assert both.is_slow


class Lasting(Executor):
    """Runs programs that last as long as there are equations, without waiting."""

    def __init__(self, seconds):
        self.seconds, self.limits = seconds, []

    def submit(self, function, job):
        limit, spent = job.run.timeout_s, self.seconds(job)
        self.limits.append(limit)
        status, seconds = ("timeout", {}) if spent > limit else ("ok", {"run": spent})
        done = Future()
        done.set_result(
            Outcome(status, "run" if seconds == {} else "done", seconds=seconds)
        )
        return done


def sines(n):
    """A program of some equations."""

    def f(x):
        for _ in range(n):
            x = jnp.sin(x)
        return x

    return program_from(jax.make_jaxpr(f)(X), (X,), ("x",), "f")


def found_hanging(seconds):
    """Accept ever smaller programs; return the search and the time limits."""
    executor = Lasting(seconds)
    judge = Judge(Hangs(60.0), executor, is_brief=True)
    judge.recent_s.append(0.5)
    search = Search(sines(9), judge)
    for n in (6, 3, 2):
        assert search.first([sines(n)])
    return search, executor.limits


def test_what_hangs_is_waited_for_briefly_and_then_confirmed():
    search, limits = found_hanging(lambda job: 1e9)
    assert limits == [2.5] * 3
    assert search.make_sure() and search.make_sure()
    assert limits == [2.5] * 3 + [60.0]  # once
    assert search.sure is search.best and search.size.equations == 2


def test_the_journal_holds_what_was_confirmed(tmp_path):
    search, _ = found_hanging(lambda job: 1e9)
    journal = Journal(tmp_path)
    journal.start({}, sines(9))
    before = journal.best
    search.notify = _noting(search, Plan(), journal)
    search.notify("accepted", {})
    assert journal.best == before
    assert search.make_sure() and journal.best != before


def test_what_is_slow_and_ends_is_no_program_that_hangs():
    search, limits = found_hanging(lambda job: 10.0 * job.text.count("jnp.sin"))
    assert not search.make_sure()
    assert search.size.equations == 9 and search.best is search.sure
    assert not search.first([sines(6)] * 2) and limits[-1] == 60.0
    assert search.first([sines(7)])
    assert search.to_confirm[0] is search.best


def test_of_what_fails_now_and_then_no_control_is_told():
    program = program_from(jax.make_jaxpr(planted)(X), (X,), ("x",), "f")
    sure, unsure = Pinned(Nan(), 1, 1.0), Pinned(Nan(), 4, 0.7)
    assert controlled(program, sure, Plan())[0].controls is not None
    found, said = controlled(program, unsure, Plan())
    assert found.controls is None
    assert "does not show in every run" in said


def test_control_is_auto_or_none():
    with pytest.raises(untrace.KeepError, match="'auto' or 'none'"):
        untrace.reduce(planted, keep="nan()", control="yes")
