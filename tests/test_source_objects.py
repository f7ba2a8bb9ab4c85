"""What a `Source` can do, how `source` is called, and what `untrace` shows of itself."""

import copy
import inspect
import pickle
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import ipython
from untrace.errors import OptionError
from untrace.pickled import kept_report
from untrace.saved import verify_file
from untrace.verification.difference import Difference
from untrace.verification.report import Report


def double(x):
    return x * 2.0


def test_the_text_and_name_of_a_source():
    made = untrace.source(double)(1.0)
    assert made.text == str(made) and made.name == "double"


def test_sources_are_equal_by_their_text():
    made = [untrace.source(double, name=n)(1.0) for n in ("double", "double", "twice")]
    assert made[0] == made[1] != made[2] and made[0] != str(made[0])
    assert len({*made}) == 2


def test_the_texts_of_sources_are_compared_by_lines():
    before, after = (untrace.source(double, name=n)(1.0) for n in ("f", "g"))
    assert before.diff(before) == ""
    lines = before.diff(after).split("\n")
    assert lines[:2] == ["--- f (before)", "+++ g (after)"]
    assert any(line.startswith("-def f(x):") for line in lines)


def closed_over(x):
    return x @ LARGE


LARGE = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)


@pytest.mark.parametrize("level", ["api", "lax"])
def test_sources_are_pickled(level, tmp_path):
    x = jnp.ones(40)
    made = untrace.source(closed_over, level=level)(x)
    again = pickle.loads(pickle.dumps(made))
    assert again == made and hash(again) == hash(made)
    assert str(again.report) == str(made.report) and again.report.is_verified
    assert (again.name, again.options) == (made.name, made.options)
    assert again.decisions == made.decisions and made.diff(again) == ""
    assert np.array_equal(again.load()(x), made.load()(x))
    saved = made.save(tmp_path / "saved.py").read_text()
    assert again.save(tmp_path / "saved.py").read_text() == saved
    assert pickle.loads(pickle.dumps(again)) == made
    assert verify_file(tmp_path / "saved.py").is_verified


def test_sources_are_copied():
    made = untrace.source(double)(1.0)
    assert copy.copy(made) == made == copy.deepcopy([made])[0]
    assert copy.deepcopy(made).load()(2.0) == 4.0


def test_reports_of_failures_are_pickled(monkeypatch):
    wrong = Report("failed", Unpicklable(lambda: None, "it broke"), "y = f(x)")
    monkeypatch.setattr("untrace.pipeline.check_module", lambda *a, **k: wrong)
    with pytest.warns(untrace.UnverifiedWarning):
        made = untrace.source(double, level="lax")(1.0)
    again = pickle.loads(pickle.dumps(made))
    assert again == made and "it broke" in str(again.report)
    found = Difference("scan", (1,), "add a b", "mul a b", "primitive", object())
    again = pickle.loads(pickle.dumps(kept_report(Report("different", found))))
    assert again.difference == found


class Unpicklable(Exception):
    def __init__(self, function, text):
        super().__init__(function, text)


def test_source_is_a_decorator_with_options():
    @untrace.source(level="lax", name="twice")
    def decorated(x):
        return x * 2.0

    made = decorated(1.0)
    assert made.name == "twice" and made.options.level == "lax"
    assert untrace.source()(double)(1.0) == untrace.source(double)(1.0)


def test_only_public_names_are_listed():
    assert dir(untrace) == sorted(untrace.__all__)


class Shell:
    def __init__(self, **names):
        self.user_ns, self.magics = names, {}

    def register_magic_function(self, function, magic_kind, magic_name):
        assert magic_kind == "line_cell"
        self.magics[magic_name] = function


def test_magics_of_notebooks():
    shell = Shell(double=double, x=jnp.ones(3))
    untrace.load_ipython_extension(shell)
    made = shell.magics["untrace"]("double(x)")
    assert made == untrace.source(double)(jnp.ones(3))
    assert shell.magics["untrace"]("", "double(\n  x)\n") == made
    shown = made._repr_html_()
    assert "<details open><summary><code>double: identical</code>" in shown
    with pytest.raises(SyntaxError, match="is not a call"):
        shell.magics["untrace"]("double")


class Pair(NamedTuple):
    a: Any
    b: Any


def scaled_pair(pair, by):
    """Scale a pair."""
    # in one place
    with jax.named_scope("scaling"):
        scaled = pair.a * by
    return Pair(scaled, jax.grad(lambda t: (t**3).sum())(pair.b))


# An option of the magics, the same of `untrace.source`, and what the text has then.
MAGIC_OPTIONS = [
    ("--level lax", {"level": "lax"}, "a = pair.a"),
    ("--level=api", {"level": "api"}, "pair.a * by"),
    ("--no-verify", {"verify": False}, "Not verified"),
    ("--isolated", {"isolated": True}, "fresh process"),
    ("--types", {"types": True}, "# f32[3]"),
    ("--scopes", {"scopes": True}, 'named_scope("scaling")'),
    ("--name other", {"name": "other"}, "def other("),
    ("--comments user", {"comments": "user"}, "# in one place"),
    ("--comments none", {"comments": "none"}, "def scaled_pair("),
    ("--expand grad", {"expand": "grad"}, "3.0 * "),
    ("--expand grad --expand jit", {"expand": ("grad", "jit")}, "3.0 * "),
    ("--keep-types", {"keep_types": True}, "import Pair"),
    ("--annotate jaxtyping", {"annotate": "jaxtyping"}, 'by: Float[Array, ""]'),
    ("--symbolic", {"symbolic": True}, "def scaled_pair("),
    ("--inputs given", {"example_inputs": "given"}, "0.25"),
    ("--anonymous", {"anonymous": True}, "def function("),
    ("--refuse 1", {"refuse": (1,)}, "def scaled_pair("),
    ("--max-seconds 60", {"max_seconds": 60.0}, "def scaled_pair("),
    ("--reroll auto", {"reroll": "auto"}, "def scaled_pair("),
]


@pytest.mark.parametrize(("option", "same", "part"), MAGIC_OPTIONS)
def test_magics_take_the_options_of_the_command_line(option, same, part):
    given = Pair(jnp.array([0.25, 0.5, 1.0]), jnp.ones(3)), 2.0
    shell = Shell(f=scaled_pair, pair=given[0])
    untrace.load_ipython_extension(shell)
    magic = shell.magics["untrace"]
    expected = untrace.source(scaled_pair, **same)(*given)
    assert magic(f"{option} f(pair, 2.0)") == expected
    assert magic(f"  {option}", "f(\n  pair,\n  2.0)") == expected
    assert part in " ".join(expected.text.split()), expected.text
    assert option.partition("=")[0].split()[0] in magic.__doc__


def test_every_option_of_the_magics_was_tried():
    tried = {word for option, _, _ in MAGIC_OPTIONS for word in option.split()}
    assert {opt for p in ipython.OPTIONS for opt in p.opts} <= tried
    known = set(inspect.signature(untrace.source).parameters)
    taken = {*ipython.options_and_call("f(x)")[0]}
    fixed = {"function", "static_argnums", "static_argnames", "progress"}
    assert known - taken == fixed and taken < known


@pytest.mark.parametrize(
    ("line", "cell", "said"),
    [
        ("--levl lax double(x)", None, "No such option '--levl'"),
        ("--level foo double(x)", None, "'foo' is not one of 'api', 'lax'"),
        ("--name", None, "requires an argument|is not a call"),
        ("--max-seconds soon double(x)", None, "'soon' is not a valid float"),
        ("", None, "'' is not a call"),
        ("double(x)", "double(x)", "stands beside %%untrace"),
    ],
)
def test_magics_say_what_is_wrong(line, cell, said):
    shell = Shell(double=double, x=jnp.ones(3))
    untrace.load_ipython_extension(shell)
    with pytest.raises((SyntaxError, OptionError), match=said):
        shell.magics["untrace"](line, cell)


def test_magics_in_ipython():
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.user_ns.update(double=double, x=jnp.ones(3), untrace=untrace)
    try:
        assert shell.run_cell("%load_ext untrace").success
        expected = untrace.source(double)(jnp.ones(3))
        for cell in ("%untrace double(x)", "%%untrace\ndouble(\n  x)"):
            done = shell.run_cell(cell)
            assert done.success and done.result == expected
        done = shell.run_cell("text = %untrace (lambda t: t * 3.0)(x)\ntext.text")
        assert "t * 3.0" in done.result
        plain, _ = shell.display_formatter.format(expected)
        assert plain["text/plain"] == str(expected)
        assert "<details open>" in plain["text/html"]
        assert not shell.run_cell("%untrace double").success
        for cell in (
            "%untrace --level lax --types double(x)",
            "%%untrace --level lax --types\ndouble(\n  x)",
        ):
            done = shell.run_cell(cell)
            assert "# f32[3]" in done.result.text
        assert "--level" in shell.find_magic("untrace").__doc__
    finally:
        InteractiveShell.clear_instance()
