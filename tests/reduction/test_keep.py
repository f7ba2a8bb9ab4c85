"""Predicates: when they hold, what they pin, how they are written and read."""

import pickle
import re
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untrace import keep
from untrace.errors import KeepError
from untrace.reduction.applying import program_from
from untrace.reduction.keeping import messages
from untrace.reduction.keeping.values import relative_error
from untrace.reduction.outcome import Job, Outcome, Output
from untrace.reduction.reproducer import Story, unreduced
from untrace.reduction.workers import run_job
from untrace.reduction.workers.wire import encode

IMPORTS = (
    "import os, signal, sys, time\nimport jax, jax.numpy as jnp\nimport numpy as np\n"
)
X = np.ones(3, np.float32)
SLOW = "for _ in range(2000): x = jnp.sin(x)\nreturn x"
HOST = (
    "def host(x):\n    os.write(2, b'Check failed: 3 == 4 (x vs. y)'); os.abort()\n"
    "return jax.pure_callback(host, jax.ShapeDtypeStruct((3,), 'float32'), x)"
)
RULE = (
    "@jax.custom_jvp\ndef g(x): return x\n"
    "@g.defjvp\ndef rule(primals, tangents): raise KeyError('at b: 12')\n"
    "return g(x)"
)
"""Raises where it is differentiated, and not where it is traced."""

FAST_MATH = "env:XLA_FLAGS=--xla_cpu_enable_fast_math=true"

# Compiled, the product is not rounded before the difference is taken.
A, CANCELLED = np.float32(1.6), "x * x - np.float32(1.6) * np.float32(1.6)"


def text_of(body):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{IMPORTS}\ndef f(x):\n{lines}"


def outcomes_of(predicate, body, value=X):
    """Run what a predicate wants of a function body whose input is `x`."""
    found = []
    for run in predicate.runs:
        value = np.asarray(value, np.float64) if run.float64 else value
        found.append(run_job(Job(text_of(body), "f", (encode(value),), run)))
    return found


def program_of(f=jnp.sin):
    return program_from(jax.make_jaxpr(f)(X), (X,), ["x"], "f")


PROGRAM = program_of()
HOLDING = [
    (keep.crashes(), "os.abort()", X),
    (keep.crashes("SIGABRT", "Check failed"), HOST, X),
    (keep.crashes(signal=11), "import ctypes; ctypes.string_at(0)", X),
    (keep.crashes(exit_status=3), "os._exit(3)", X),
    (keep.raises(under="jvp"), RULE, X),
    (keep.raises(LookupError, "at .*: 12", under="jvp"), RULE, X),
    (keep.raises("KeyError", stage="trace", under="grad"), RULE, X),
    (keep.raises("builtins.Exception", under="jvp"), RULE, X),
    (keep.nan(), "return jnp.log(x - 2)", X),
    (keep.nan(output=1), "return x, jnp.log(x - 2)", X),
    (keep.nan(under="grad"), "return jnp.sqrt(x * 0)", X),
    (
        keep.nan(jit_only=True),
        f"return jnp.sqrt({CANCELLED})",
        A,
    ),
    (keep.inf(), "return x / 0", X),
    (keep.inf(narrow_only=True), "return jnp.log(x * 1e-30 * 1e-12)", X),
    (keep.nan(narrow_only=True), "return 0 * jnp.log(x * 1e-30 * 1e-12)", X),
    (keep.differs(), f"return {CANCELLED}", A),
    (keep.differs(b="call"), f"return {CANCELLED}", A),
    (keep.differs(b="float64"), "return 1 - jnp.cos(x * 1e-4)", X),
    (
        keep.differs(b="env:A=b"),
        "return x + ('A' in os.environ)",
        X,
    ),
    (keep.slow_compile(0.2, timeout_s=90.0), SLOW, X),
    (keep.memory(1_000_000), "return jnp.outer(x, x)", np.ones(1000, np.float32)),
    (keep.recompiles(), "return x + jnp.zeros((), 'float32')", 1.0),
    (keep.hangs(1.0), "time.sleep(30)", X),
]
NOT_HOLDING = [
    (keep.crashes(), "return x", X),
    (keep.crashes(), "raise ValueError", X),
    (keep.crashes("SIGSEGV"), "os.abort()", X),
    (keep.crashes(message="Check failed"), "os.abort()", X),
    (keep.crashes(stage="compile"), "os.abort()", X),
    (keep.raises(), "return x", X),
    (keep.raises(TypeError, under="jvp"), RULE, X),
    (keep.raises("other.KeyError", under="jvp"), RULE, X),
    (keep.raises(message="c", under="jvp"), RULE, X),
    (keep.raises(stage="run", under="jvp"), RULE, X),
    # what fails before the program is one of ours
    (keep.raises(), "raise KeyError", X),
    (keep.raises(under="jvp"), "raise KeyError", X),
    (keep.raises(stage="trace"), "return jax.make_mesh((64,), ('x',))", X),
    (keep.raises(under="grad"), "return x", np.int32(1)),
    (~keep.nan(), "raise KeyError", X),
    (keep.nan(), "return x / 0", X),
    (keep.nan(), "return x", np.array([np.nan], np.float32)),
    (keep.nan(), "raise KeyError", X),
    (keep.nan(output=0), "return x, jnp.log(x - 2)", X),
    (keep.nan(jit_only=True), "return jnp.log(x - 2)", X),
    (keep.nan(narrow_only=True), "return jnp.log(x - 2)", X),
    (keep.inf(), "return jnp.log(x - 2)", X),
    (keep.inf(inf_inputs=False), "return x", np.array([np.inf], np.float32)),
    (keep.differs(), "return jnp.sin(x)", X),
    (keep.differs(finite=True), "return x / (x - 1), jnp.log(x - 2)", X),
    (keep.differs(b="float64"), "return x * 3", X),
    (keep.slow_compile(20.0), "return x", X),
    (keep.memory(1_000_000), "return x", X),
    (keep.recompiles(), "return x * 2", X),
    (keep.hangs(20.0), "return x", X),
]


def ids(case):
    return str(case) if isinstance(case, keep.Keep) else ""


@pytest.mark.parametrize(("predicate", "body", "value"), HOLDING, ids=ids)
def test_failure_is_kept_and_pinned(predicate, body, value):
    outcomes = outcomes_of(predicate, body, value)
    assert predicate.holds(outcomes, PROGRAM), predicate.explain(outcomes)
    pinned = predicate.pinned(outcomes, PROGRAM)
    assert pinned.holds(outcomes, PROGRAM)
    assert keep.parse(str(pinned)) == pinned
    assert pinned.pinned(outcomes, PROGRAM) == pinned
    assert pinned.describe().endswith(".")
    assert pickle.loads(pickle.dumps(pinned)) == pinned


@pytest.mark.parametrize(("predicate", "body", "value"), NOT_HOLDING, ids=ids)
def test_other_program_is_not_kept(predicate, body, value):
    outcomes = outcomes_of(predicate, body, value)
    assert not predicate.holds(outcomes, PROGRAM)
    assert predicate.pinned(outcomes, PROGRAM) is None
    assert predicate.explain(outcomes).endswith(".")


def test_crash_is_pinned_by_signal_stage_and_generalised_message():
    predicate = keep.crashes()
    pinned = predicate.pinned(outcomes_of(predicate, HOST), PROGRAM)
    assert (pinned.signal, pinned.stage) == ("SIGABRT", "run")
    assert re.search(pinned.message, "Check failed: 31 == 7 (x vs. y)")
    assert not re.search(pinned.message, "Check failed: a < b")


def test_another_crash_is_another_failure():
    predicate = keep.crashes()
    pinned = predicate.pinned(outcomes_of(predicate, HOST), PROGRAM)
    other = outcomes_of(predicate, "import ctypes; ctypes.string_at(0)")
    assert not pinned.holds(other, PROGRAM)
    assert pinned.other_failure(other) == "SIGSEGV at trace"
    body = RULE.replace("'at b: 12'", '"got 3 of (4, 5)"')
    raised = outcomes_of(keep.crashes(under="jvp"), body)
    assert pinned.other_failure(raised) == "KeyError at trace: …"
    assert pinned.other_failure(outcomes_of(predicate, "return x")) is None


def test_nan_of_another_primitive_is_another_failure():
    predicate = keep.nan()
    log = outcomes_of(predicate, "return jnp.log(x - 2) * 2")
    pinned = predicate.pinned(log, PROGRAM)
    assert pinned.blame == "log"
    other = outcomes_of(predicate, "return jnp.sqrt(x - 2)")
    assert not pinned.holds(other, PROGRAM)
    assert pinned.other_failure(other) == "NaN first made by `sqrt`"


def test_masks_in_the_original_allow_infinities_in_inputs_but_no_nan():
    predicate = keep.nan()
    mask = np.array([1.0, -np.inf], np.float32)
    found = outcomes_of(predicate, "return jnp.log(x[0] - 2) + x", mask)
    pinned = predicate.pinned(found, PROGRAM)
    assert pinned.inf_inputs
    bad = np.array([1.0, np.nan], np.float32)
    assert not pinned.holds(outcomes_of(pinned, "return x", bad), PROGRAM)
    finite = predicate.pinned(outcomes_of(predicate, "return jnp.log(x - 2)"), PROGRAM)
    assert finite.inf_inputs is False


def test_second_run_is_skipped_once_the_first_decides():
    predicate = keep.nan(jit_only=True)
    (jitted,) = outcomes_of(keep.nan(), "return x")
    assert predicate.decide([jitted, None], PROGRAM) is False
    (jitted,) = outcomes_of(keep.nan(), "return x / 0 - x / 0")
    assert predicate.decide([jitted, None], PROGRAM) is None
    assert predicate.decide([None, None], PROGRAM) is None
    died = Outcome("died", signal=6)
    assert keep.differs().decide([died, None], PROGRAM) is False


def test_difference_is_pinned_above_rounding():
    predicate = keep.differs()
    outcomes = outcomes_of(predicate, f"return {CANCELLED}", A)
    pinned = predicate.pinned(outcomes, PROGRAM)
    assert (pinned.finite, pinned.rtol) == (True, 0.1)


def test_relative_error():
    one = np.array([1.0, 2.0])
    assert relative_error(one, one) == 0
    assert relative_error(one, one * 2) == 0.5
    assert relative_error(np.array([np.nan, 1]), np.array([np.nan, 2])) == 0.5
    assert relative_error(np.array([np.nan, 1]), np.array([3.0, 1])) is None
    assert relative_error(np.array([1.0]), np.array([0.0])) == np.inf
    assert relative_error(np.zeros(0), np.zeros(0)) == 0
    assert relative_error(np.array([True]), np.array([False])) == np.inf


def test_contains_asks_the_program_alone():
    program = program_of(lambda x: jax.jit(jnp.sin)(x).cumsum())
    for names in (("sin",), ("cum*", "s?n")):
        assert keep.contains(*names).holds([], program)
    predicate = keep.contains("sin", "tan*")
    assert predicate.runs == ()
    assert not predicate.holds([], program)
    assert "no `tan*`" in predicate.explain([], program)


def test_command_is_kept_if_it_succeeds():
    for text, holds in (("grep -q f {file}", True), ("grep -q q3q {file}", False)):
        predicate = keep.command(text)
        (run,) = predicate.runs
        outcomes = [run_job(Job("", "f", (), run, "def f(): pass\n"))]
        assert predicate.holds(outcomes, PROGRAM) is holds
        assert predicate.explain(outcomes)


def test_combinations():
    program = program_of()
    outcomes = outcomes_of(keep.crashes(), "os.abort()")
    has, lacks = keep.contains("sin"), keep.contains("tan")
    crash, raised = keep.crashes(), keep.raises()
    assert (crash & has).holds(outcomes, program)
    assert not (crash & lacks).holds(outcomes, program)
    assert (crash & lacks).decide([None], program) is False
    assert (has | crash).decide([None], program) is True
    assert (crash & ~lacks).decide([None], program) is None
    assert (crash | raised).runs == crash.runs
    pinned = (crash | raised).pinned(outcomes, program)
    assert pinned == crash.pinned(outcomes, program)
    assert (raised & has).pinned(outcomes, program) is None
    assert (raised & has).explain(outcomes, program).startswith("The process ended by")
    assert not (~crash).holds([Outcome("lost")], program)


def test_other_failure_of_a_combination_needs_only_the_runs_that_were_made():
    both = keep.nan(under="jvp") & keep.raises(ValueError, under="jvp")
    outcomes = outcomes_of(both, RULE)
    assert both.other_failure([]) is None
    assert both.other_failure(outcomes[:1]) == "KeyError at trace: …"


@pytest.mark.parametrize("word", ["crashes", "raises", "hangs"])
def test_what_fails_before_it_runs_is_not_run(word):
    actions = {
        stage: getattr(keep, word)(stage=stage).runs[0].action
        for stage in (None, "lower", "compile", "run")
    }
    assert actions == {
        None: "jit",
        "lower": "compile",
        "compile": "compile",
        "run": "jit",
    }


def test_predicates_share_equal_runs():
    both = keep.crashes() & keep.raises() & keep.nan()
    assert len(both.runs) == 2


def test_wanted_output_is_told_once():
    predicate = keep.nan(output=3) & keep.contains("log")
    assert predicate.wanted_output() == 3
    assert predicate.for_only_output() == keep.nan() & keep.contains("log")
    assert keep.crashes().wanted_output() is None


@pytest.mark.parametrize(
    "text",
    [
        "nan(under='grad') & contains('log')",
        "~(crashes(signal='SIGABRT') | raises(type='ValueError')) & hangs()",
        "crashes() & (raises() | nan()) & ~inf(output=2, jit_only=True)",
        "differs(b='env:A=b', rtol=0.01, env=(('C', 'd e'),))",
        "slow_compile(2.5, stage='compile', timeout_s=9.0)",
        "memory(1000, memory_bytes=5000)",
        "command('./check.sh {file}', env=(('A', 'b'),))",
        "contains('scan', 'dot*')",
        "recompiles()",
    ],
)
def test_text_round_trip(text):
    assert str(keep.parse(text)) == text


def test_text_is_forgiving():
    assert keep.parse(" nan ") == keep.nan()
    assert keep.parse("raises(TypeError)") == keep.raises(TypeError)
    assert keep.parse("raises(jax.errors.JaxRuntimeError)") == keep.raises(
        "jax.errors.JaxRuntimeError"
    )
    assert keep.parse("crashes(signal=6)") == keep.crashes("abrt")
    assert keep.parse("nan(env={'A': 'b'})") == keep.nan(env={"A": "b"})
    assert keep.parse("nan(\n)\n| inf()") == keep.nan() | keep.inf()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot read"),
        ("nan(", "cannot read"),
        ("nan();inf()", "cannot read"),
        ("nans()", "did you mean `nan`"),
        ("frobnicate()", "known are crashes, raises"),
        ("nan() and inf()", "not of `nan\\(\\) and inf\\(\\)`"),
        ("nan() + inf()", "made of calls"),
        ("3", "made of calls"),
        ("nan(under='hess')", "under must be one of None, 'grad'"),
        ("nan(out=3)", "unexpected keyword argument 'out'"),
        ("slow_compile()", "missing 1 required"),
        ("slow_compile('a')", "seconds must be a number"),
        ("hangs(-1)", "larger than 0"),
        ("nan(timeout_s=True)", "must be a number"),
        ("crashes(signal='SIGNOPE')", "no signal of this system"),
        ("crashes(message='(')", "regular expression"),
        ("crashes(stage='later')", "stage must be one of load, trace"),
        ("raises(3)", "type must be an exception"),
        ("contains()", "at least one primitive"),
        ("contains(3)", "at least one primitive"),
        ("command('true')", "where the file goes"),
        ("differs('jit', 'jit')", "both sides"),
        ("differs('gpu')", "a side is"),
        ("nan(output='first')", "output must be"),
        ("nan(env=3)", "env must be"),
        ("nan(**{'output': 1})", "not allowed"),
        ("nan(*[1])", "not a literal"),
        ("nan(output=__import__('os').system('true'))", "not a literal"),
        ("(lambda: 1)()", "made of calls"),
        ("nan.__class__()", "made of calls"),
        ("nan(output=9**9**9)", "not a literal"),
        ("(" * 500 + "nan()" + ")" * 500, "cannot read"),
        ("~" * 5000 + "nan()", "cannot read"),
        (" & ".join(["nan()"] * 5000), "longer than"),
        ("nan(\x00)", "cannot read"),
        ("contains(f'{1}')", "not a literal"),
    ],
    ids=lambda text: text[:40],
)
def test_hostile_or_wrong_text_is_refused(text, said):
    with pytest.raises(keep.KeepError, match=said) as error:
        keep.parse(text)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ("got shapes (3, 4) and (5,)", "got shapes (1,) and (2, 2, 2)", "got shapes"),
        ("bad f32[2,3]{1,0} at %dot.3", "bad bf16[7]{0} at %add", "bad value"),
        ("no rule for 'exp'", "no rule for 'a.b c'", "no rule for exp"),
        ("lost 0x7f12 in /a/b/c.py:12", "lost 0x1 in /x/y:7", "lost it"),
        ("needs float32, not int8", "needs bfloat16, not uint32", "needs a"),
        ("took -1.5e+3 s", "took 7 s", "took long"),
        ("bad (a+b)* [c] \\d?", "bad (a+b)* [c] \\d?", "bad aab c 1"),
    ],
)
def test_messages_are_generalised(one, same, other):
    found = messages.pattern(one)
    assert re.search(found, one)
    assert re.search(found, same)
    assert not re.search(found, other)


def test_message_without_words_pins_nothing():
    assert messages.pattern("") is None
    assert messages.pattern("3 (4)") is None


def test_last_words_are_the_failed_check():
    stderr = (
        "I0000 00:00:17.1 99 service.cc:3] started\n"
        "F0726 15:20:01.123456  4242 shape.cc:77] Check failed: rank() == 2 (3 vs. 2)\n"
        "*** Check failure stack trace: ***\n    @ 0x7f12 absl::Die()\n"
    )
    words = messages.last_words(stderr)
    assert words == "shape.cc:77] Check failed: rank() == 2 (3 vs. 2)"
    thrown = (
        "terminate called after throwing 'std::x'\n  what():  bad\nFatal Python error"
    )
    assert messages.last_words(thrown) == "what():  bad"
    assert messages.last_words("nothing of interest") == ""


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\n  one\ntwo", "one"),
        ("failed:\n\n  because\nthen", "failed: because"),
        ("failed:", "failed:"),
        (
            "E: Traceback (most recent call last):\n  File\nKeyError: 'a'\n---",
            "KeyError: 'a'",
        ),
        ("", ""),
    ],
)
def test_telling_line(message, line):
    assert messages.telling_line(message) == line
    if line:
        assert re.search(messages.pattern(message), message)


CHECKED = [
    *{
        p.WORD: (p, body, value) for p, body, value in HOLDING if p.WORD != "hangs"
    }.values(),
    (keep.nan(output=1), "return x, jnp.log(x - 2)", X),
    (keep.inf(under="jvp"), "return x / 0", X),
    (keep.nan(under="vmap"), "return jnp.log(x - 2)", X),
    (keep.memory(10, under="grad"), "return jnp.sin(x) * x", X),
    (keep.contains("si*"), "return jnp.sin(x)", X),
    (
        keep.contains("scatter-add", "mul"),
        "return jax.jit(lambda y: y.at[0].add(y[1]))(x * 2)",
        X,
    ),
    (keep.nan() & keep.contains("log"), "return jnp.log(x - 2)", X),
    (keep.nan() & ~keep.inf(), "return jnp.log(x - 2)", X),
    (keep.inf() | keep.nan(), "return jnp.log(x - 2)", X),
    (keep.hangs(3.0), "time.sleep(30)", X),
    (keep.differs(b="float64"), "return 1 - jnp.cos(x * 1e-4)", X),
    (keep.differs(), f"return {CANCELLED}", A),
    (keep.differs(b="call"), f"return {CANCELLED}", A),
]


@pytest.mark.parametrize(("predicate", "body", "value"), CHECKED, ids=ids)
def test_saved_file_shows_its_failure(predicate, body, value, tmp_path):
    shown = _run_file(tmp_path, predicate, body, value)
    assert shown.returncode != 0
    assert "SyntaxError" not in shown.stderr
    if predicate.WORD not in ("crashes", "raises", "hangs"):
        assert "AssertionError" in shown.stderr, shown.stderr


@pytest.mark.parametrize(
    "predicate",
    [
        keep.crashes(under="grad"),
        keep.raises(under="jvp"),
        keep.nan(jit_only=True, under="grad"),
        keep.differs(under="grad"),
        keep.slow_compile(30),
        keep.memory(10_000, under="vmap"),
        keep.recompiles(),
        keep.recompiles(under="grad"),
        keep.hangs(),
        keep.contains("cos"),
        keep.nan() & keep.contains("sin"),
        keep.inf() | keep.nan(),
        ~keep.contains("sin"),
        ~(keep.nan() | ~keep.inf()),
    ],
    ids=str,
)
def test_saved_file_without_failure_ends_well(predicate, tmp_path):
    shown = _run_file(tmp_path, predicate, "return jnp.sin(x) * 2", X)
    assert shown.returncode == 0, shown.stderr


def _run_file(folder, predicate, body, value):
    lines = [*predicate.check_imports(), text_of(body)]
    given = (
        f"np.{value!r}" if isinstance(value, np.ndarray) and value.size < 9 else None
    )
    given = given or ("np.ones(1000, np.float32)" if np.ndim(value) else repr(value))
    lines += ["def example_args():", f"    return dict(x={given})"]
    given = given.replace("float32", "np.float32") if "np.array" in given else given
    lines[-1] = f"    return dict(x={given})"
    lines += ['if __name__ == "__main__":']
    lines += [f"    {line}" for line in predicate.check_lines("f")]
    path = folder / "repro.py"
    path.write_text("\n".join(lines))
    command = [sys.executable, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_saved_file_runs_its_command_with_check(tmp_path):
    predicate = keep.command("grep -q jnp.sin {file}")
    assert _run_file(tmp_path, predicate, "return jnp.sin(x)", X).returncode == 0
    for text, status in ((None, 1), ("print(1)", 0)):
        path = tmp_path / "repro.py"
        path.write_text(
            path.read_text().replace("return jnp.sin(x)", text or "return jnp.sin(x)")
        )
        command = [sys.executable, path, "--check"]
        assert subprocess.run(command, check=False).returncode == status


def test_keys_among_the_outputs_do_not_fail():
    def f(key, x):
        return jax.random.split(key), jnp.log(x - 2)

    values = (jax.random.key(0), X)
    program = program_from(jax.make_jaxpr(f)(*values), values, ["key", "x"], "f")
    source = unreduced(program, keep.nan(), Story("f", 1))
    with pytest.raises(AssertionError, match="output 1 has NaN"):
        exec(compile(str(source), "repro.py", "exec"), {"__name__": "__main__"})


def test_outcome_without_arrays_is_no_difference():
    same = Outcome("ok", "done", outputs=(Output((3,), "float32"),))
    assert not keep.differs().holds([same, same], PROGRAM)


def test_quoted_words_stay_where_they_name_what_fails():
    def kept(message, words=()):
        return messages.pattern(message, words)

    assert kept("no rule for primitive 'foo'", {"foo"}).endswith("'foo'")
    assert kept("no rule for `mu_2`") == "no rule for `[^`]*`"
    assert "'bfloat16'" in kept("Unsupported dtype 'bfloat16'")
    found = kept("'Unsupported dtype float16 at 3'")
    assert re.search(found, "'Unsupported dtype float16 at 7'")
    assert not re.search(found, "'Unsupported dtype float32 at 3'")
    assert "'stablehlo\\.dot'" in kept("failed to legalize 'stablehlo.dot'")
    assert "'jax\\.Array'" in kept("an object of 'jax.Array' is missing")
    found = kept("operand is 'tensor<4x8xbf16>' here")
    assert re.search(found, "operand is 'tensor<bf16>' here")
    assert not re.search(found, "operand is 'tensor<4xf32>' here")


def test_memory_counts_what_the_cuts_do_not_bring():
    found = Outcome("ok", peak_bytes=900, argument_bytes=100, output_bytes=100)
    pinned = keep.memory(500).pinned((found,), None)
    assert str(pinned) == "memory(500, arguments=0, outputs=0)"
    cut = Outcome("ok", peak_bytes=900, argument_bytes=800, output_bytes=50)
    assert not pinned.holds((cut,), None)
    pinned = keep.memory(850).pinned((found,), None)
    assert str(pinned) == "memory(850, arguments=100, outputs=100)"


def test_a_busy_machine_makes_no_compilation_slow():
    busy = Outcome("ok", seconds={"compile": 9.0}, cpu_seconds={"compile": 1.0})
    assert not keep.slow_compile(5.0).holds((busy,), None)
    slow = Outcome("ok", seconds={"compile": 9.0}, cpu_seconds={"compile": 20.0})
    assert keep.slow_compile(5.0).holds((slow,), None)


def test_what_is_nan_only_under_jit_is_told_apart_from_what_always_is():
    def outcome(*counts, blame=None):
        outputs = tuple(Output((), "float32", n) for n in counts)
        return Outcome("ok", "done", outputs=outputs, blame=blame)

    predicate = keep.nan(jit_only=True)
    seen = outcome(1, 1, blame="log"), outcome(1, 0)
    assert str(predicate.pinned(seen, None)) == "nan(jit_only=True, inf_inputs=False)"
    assert predicate.is_fine((outcome(1, 0), outcome(1, 0)), None)


def test_what_is_nan_only_in_32_bits_may_be_an_infinity_in_64():
    narrow = Outcome("ok", outputs=(Output((), "float32", 1),), blame="mul")
    wide = Outcome("ok", outputs=(Output((), "float64", 0, 1),))
    predicate = keep.nan(narrow_only=True)
    pinned = predicate.pinned((narrow, wide), PROGRAM)
    assert str(pinned) == "nan(narrow_only=True, blame='mul', inf_inputs=False)"
    assert "but not in 64 bits" in predicate.describe()
    assert not keep.nan(jit_only=True).holds((narrow, wide), PROGRAM)
    with pytest.raises(KeepError, match="jit_only or narrow_only"):
        keep.nan(jit_only=True, narrow_only=True)


def test_differences_of_both_kinds_are_both_kept():
    def outcome(*numbers):
        return Outcome("ok", arrays=tuple(encode(np.float32(x)) for x in numbers))

    both = outcome(1, 2), outcome(np.nan, 4)
    assert keep.differs().pinned(both, None).finite is None
    assert keep.differs().pinned((outcome(1), outcome(2)), None).finite is True


def test_any_expression_of_the_outputs_is_checked():
    body = "return x * 500, jnp.sum(x)"
    for text, holds in (
        ("outputs[0].max() > 1e3", False),
        ("outputs[0].max() > 1e2 and not np.isnan(outputs[1])", True),
        ("len(outputs) == 2 and 0 < outputs[1] < 4", True),
        ("np.linalg.norm(outputs[0]) > 1 if outputs[0].ndim else False", True),
        ("outputs[7] > 0", False),
    ):
        predicate = keep.check(text)
        outcomes = outcomes_of(predicate, body)
        assert predicate.holds(outcomes, PROGRAM) is holds, text
        assert str(keep.parse(str(predicate))) == str(predicate)
    seen = outcomes_of(keep.check("True"), body)
    assert keep.check(lambda outputs: outputs[1] == 3).holds(seen, PROGRAM)


LIMIT = 3


def _last_is_three(found):
    return found[1] == LIMIT


def _speaks(outputs):
    print(outputs)
    return True


def test_a_check_that_is_an_expression_is_shown_in_files():
    least = 1.5
    for function, text in (
        (lambda x: jnp.isnan(x[0]).any(), "np.isnan(outputs[0]).any()"),
        (_last_is_three, "outputs[1] == 3"),
        (lambda x: bool((x[0] > least).all()), "bool((outputs[0] > 1.5).all())"),
        (lambda x: sorted(x), None),
        (lambda x: X.sum() > 1, None),
        (_speaks, None),
        (np.any, None),
    ):
        predicate = keep.check(function)
        lines = predicate.check_lines("f", None)
        assert (lines[-1] == "print(outputs)") is (text is None)
        assert (f"assert not ({text}), outputs" in lines) is (text is not None)
        assert " at 0x" not in str(predicate)
        if text:
            assert str(keep.parse(str(predicate))) == f"check({text!r})"


def test_of_a_nan_next_to_nothing_holds_so_that_it_is_no_control():
    predicate = keep.check("outputs[0].max() > 1e3")
    assert predicate.is_fine(outcomes_of(predicate, "return x"), PROGRAM)
    assert not predicate.is_fine(outcomes_of(predicate, "return x * np.nan"), PROGRAM)


@pytest.mark.parametrize(
    "text",
    [
        "outputs[0].tofile('x')",
        "__import__('os')",
        "outputs.__class__",
        "np.load('x')",
        "(lambda: 1)()",
        "[x for x in outputs]",
        "open('x')",
        "outputs = 1",
        "outputs[0]; outputs[1]",
        "f'{outputs}'",
        "outputs[0].max(*outputs)",
        "1) or (2",
    ],
)
def test_a_check_reaches_nothing_else(text):
    with pytest.raises(keep.KeepError, match="check"):
        keep.check(text)


def test_a_file_shows_a_difference_of_infinities():
    def f(x: Any) -> Any:  # as a compiler may simplify `log(exp(x))`
        return x if isinstance(x, jax.core.Tracer) else jnp.log(jnp.exp(x))

    lines = keep.differs("jit", "call", finite=False).check_lines("f", None)
    names = {"f": f, "example_args": lambda: {"x": 90.0}}
    with pytest.raises(AssertionError, match="jit and call differ"):
        exec("\n".join(lines), {"jax": jax, "jnp": jnp, "np": np, **names})


def test_a_gradient_by_several_inputs_is_several_outputs():
    values = (X, X)
    jaxpr = jax.make_jaxpr(lambda x, y: (x * y).sum())(*values)
    program = program_from(jaxpr, values, ("x", "y"), "f")
    lines = keep.nan(under="grad").check_lines("f", program)
    assert not any(line.startswith("(x,) =") for line in lines)
    assert "for i, x in enumerate(outputs):" in lines
