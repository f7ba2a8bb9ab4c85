"""What people do first with the command line and the functions, done as they do it."""

import ast
import dataclasses
import itertools
import os
import re
import subprocess
import sys
import time
from typing import Any, NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from click.testing import CliRunner

import untrace
from untrace import resizing
from untrace.checking import check_module
from untrace.cli import main, sources
from untrace.isolated import flags_for
from untrace.optional import OptionalStep
from untrace.recovery.recorder import Recorder
from untrace.stages import Budget, TimeIsOver, stop_if_late, stoppable, within
from untrace.static_check import check_file
from untrace.verification.difference import Difference
from untrace.verification.equivalence import equivalent
from untrace.verification.report import Report
from untrace.verification.summary import differences

WEIGHTS = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)

LARGE = """\
import jax.numpy as jnp, numpy as np
W = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
def f(x):
    return jnp.tanh(x @ W)
x = jnp.ones((3, 200))
"""


def run(*args, **options):
    return CliRunner().invoke(main, [str(arg) for arg in args], **options)


def python(*args, **options):
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=env, **options)


def written(path, text):
    path.write_text(text)
    return path


# ---- what is printed is complete ----------------------------------------------------


@pytest.fixture
def large(tmp_path):
    return written(tmp_path / "model_with_weights.py", LARGE)


def test_what_is_printed_runs_with_large_constants(large, tmp_path):
    done = run("show", large, "f(x)")
    assert done.exit_code == 0, done.output
    printed = written(tmp_path / "printed.py", done.stdout)
    assert check_file(printed.read_bytes()) == []
    alone = python("printed.py", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    weights = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    values = str(jnp.tanh(jnp.ones((3, 200)) @ weights)).split()
    assert set(values[:3]) <= set(alone.stdout.split())
    assert run("verify", printed, "--no-isolated").exit_code == 0


@pytest.mark.parametrize("options", [{}, {"level": "lax"}, {"anonymous": True}])
def test_text_of_a_source_needs_no_other_file(options):
    source = untrace.source(lambda x: x @ WEIGHTS, **options)(jnp.ones(40))
    assert source.module.stored
    module = {"__file__": "nowhere.py", "__name__": "shown"}
    exec(compile(source.text, "shown", "exec"), module)
    assert [v.shape for v in module["example_args"]().values()] == [(40,)]
    found = module[source.name](jnp.ones(40))  # NumPy's product may round otherwise
    np.testing.assert_array_equal(found, jnp.ones(40) @ WEIGHTS)


def test_text_that_lacks_constants_says_what_saves_them(large, monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "PIPED_CHARS", 1000)
    monkeypatch.chdir(tmp_path)
    done = run("show", large.name, "f(x)", "--level", "lax")
    first, command = (ast.get_docstring(ast.parse(done.stdout)) or "").split("\n")[:2]
    assert first == "INCOMPLETE: its constants, 160 kB, are saved by:"
    assert command.endswith(f"show {large.name} 'f(x)' --level lax -o f.py")
    assert (
        run("show", *command.split("show ")[1].replace("'", "").split()).exit_code == 0
    )
    # The printed text is the saved one but for those lines: the sidecar is its own.
    saved = (tmp_path / "f.py").read_text().partition("\n\n# Marks")[0]
    assert saved == done.stdout.replace(f"{first}\n{command}\n\n", "")


def test_printed_source_that_lacks_constants_says_so():
    source = untrace.source(lambda x: x @ WEIGHTS)(jnp.ones(40))
    assert '"""INCOMPLETE' in source.printed(limit_chars=10)
    assert 'src.save("' in source.printed(limit_chars=10)


# ---- a saved file is verified -------------------------------------------------------

EDITED = """\
import jax, jax.numpy as jnp
@jax.jit
def layer(x):
    return jnp.tanh(x) * 2.0
def model(x, y):
    for _ in range({n}):
        x = jnp.sin(x) + y
    return jnp.exp(layer(x)), x
x = jnp.ones(3)
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("* 2.0", "* 3.0", "The first that differs is equation 6 of 8, `mul f32[3]`"),
        ("jnp.tanh(x)", "jnp.cos(x)", "is equation 5 of 8, `cos f32[3]`, line "),
        ("np.ones(3,", "np.ones(4,", "Its inputs have other types."),
        ("jnp.exp(layer(x)), x", "x, jnp.exp(layer(x))", "what the function returns"),
        ("jnp.exp(layer(x))", "layer(x)", "It ends after 7 of 8 equations."),
        ("jnp.exp(", "1 + jnp.exp(", "equation 9 of 9 (8 were recorded), `add"),
    ],
)
def test_verify_names_the_first_equation_that_differs(tmp_path, old, new, message):
    model = written(tmp_path / "model_to_edit.py", EDITED.format(n=2))
    saved = tmp_path / "saved.py"
    assert run("show", model, "model(x, x)", "-o", saved).exit_code == 0
    text = saved.read_text()
    assert old in text
    saved.write_text(text.replace(old, new))
    done = run("verify", saved, "--no-isolated")
    assert done.exit_code == 1 and message in done.stderr, done.stderr
    if ", line " in message:
        assert f": return {new} * 2.0." in done.stderr


def test_verify_narrows_a_long_program_down(tmp_path):
    model = written(tmp_path / "model_long.py", EDITED.format(n=100))
    saved = tmp_path / "saved.py"
    assert run("show", model, "model(x, x)", "-o", saved).exit_code == 0
    assert saved.read_text().count("\n# ") <= 5
    saved.write_text(saved.read_text().replace("+ y", "- y", 1))
    done = run("verify", saved, "--no-isolated")
    assert "one of equations 1 to 5 of 204" in done.stderr, done.stderr


@pytest.mark.parametrize("end", ["# Marks of", "# Marks of 3 equations\n# 0", "# x"])
def test_marks_that_were_edited_are_not_asked(tmp_path, end):
    saved = untrace.source(jnp.sin)(1.0).save(tmp_path / "saved.py")
    text = saved.read_text().partition("# Marks")[0].replace("jnp.sin", "jnp.cos")
    saved.write_text(f"{text}{end}\n")
    done = run("verify", saved, "--no-isolated")
    assert done.exit_code == 1 and "was edited since" in done.stderr


def test_verify_imports_what_lies_beside_the_file(tmp_path):
    written(
        tmp_path / "state_of_mine.py",
        "from typing import Any, NamedTuple\nclass State(NamedTuple):\n    k: Any\n",
    )
    model = "import jax.numpy as jnp\nfrom state_of_mine import State\n"
    model += "def f(s):\n    return State(jnp.sin(s.k))\ns = State(jnp.ones(3))\n"
    saved = tmp_path / "saved.py"
    path = written(tmp_path / "model_with_state.py", model)
    assert run("show", path, "f(s)", "--keep-types", "-o", saved).exit_code == 0
    assert "from state_of_mine import State" in saved.read_text()
    sys.modules.pop("state_of_mine")
    before = list(sys.path)
    for where in ("--isolated", "--no-isolated"):
        done = run("verify", saved, where)
        assert done.exit_code == 0, done.stderr
    assert sys.path[-len(before) :] == before[-len(sys.path) :]


SHARDED = """\
import jax, jax.numpy as jnp
mesh = jax.make_mesh((4,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
@jax.shard_map(mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P())
def f(x):
    return jax.lax.psum(x.sum(), "i")
x = jnp.ones(8)
"""


def test_verify_simulates_the_devices_that_a_file_needs(tmp_path, monkeypatch):
    model = written(tmp_path / "sharded_model.py", SHARDED)
    saved = tmp_path / "saved.py"
    assert run("show", model, "f(x)", "-o", saved).exit_code == 0
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    done = run("verify", saved)
    assert done.exit_code == 0, done.stderr
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    assert flags_for(saved) == {}


# ---- what a file imports, and what is refused ---------------------------------------


class Cache(NamedTuple):
    k: Any
    v: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Momentum:
    value: Any


def update(cache, momentum, x):
    momentum = Momentum(momentum.value * 0.9 + x)
    return Cache(jnp.sin(cache.k), cache.v), momentum, optax.EmptyState()


@pytest.mark.parametrize("level", ["api", "lax", "traced", "idioms", "at lower level"])
def test_files_import_no_classes_unless_they_are_to_be_kept(level, monkeypatch):
    given = Cache(jnp.ones(3), jnp.ones(3)), Momentum(jnp.ones(3)), jnp.ones(3)

    def made(**options):
        if level in ("traced", "idioms"):
            traced = jax.jit(update).trace(*given)
            wanted = "lax" if level == "traced" else "api"
            return untrace.source(traced, level=wanted, **options)
        return untrace.source(update, level=level, **options)(*given)

    if level == "at lower level":
        level = "api"
        monkeypatch.setattr(Recorder, "recording", None)
    text = made().module.body
    assert "class Cache(NamedTuple)" in text
    assert "optax" not in text and __name__ not in text
    kept = made(keep_types=True).text
    assert f"from {__name__} import Cache, Momentum" in kept


STATIC = """\
import dataclasses, enum, functools
from typing import Any
import equinox as eqx, flax.struct, jax, jax.numpy as jnp

class Mode(enum.Enum):
    SUM = 1
    MEAN = 2

def squashed(x):
    return jnp.tanh(x) * 0.5

@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["w", "b"],
    meta_fields=["act", "mode", "sizes", "name"],
)
@dataclasses.dataclass(frozen=True)
class Registered:
    w: Any
    b: Any
    act: Any
    mode: Mode = Mode.SUM
    sizes: tuple = (2, 3)
    name: str = "layer"

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Marked:
    w: Any
    n: int = dataclasses.field(default=2, metadata=dict(static=True))

@flax.struct.dataclass
class Struct:
    w: Any
    n: int = flax.struct.field(pytree_node=False)

class Module(eqx.Module):
    w: Any
    n: int = eqx.field(static=True)
    def __init__(self, w, n=1):
        self.w, self.n = w, n

x = jnp.ones(2)
registered = Registered(x, x, squashed, Mode.MEAN, (4, 2), "a\\"b")
of_jax = dataclasses.replace(registered, act=jax.nn.relu, mode=Mode.SUM)
marked = [Marked(x, n) for n in (1, 2, 3)]
struct = Struct(x, 3)
module = Module(x, 3)

def dense(layer, x):
    return dataclasses.replace(layer, w=layer.act(layer.w * x + layer.b))

def scaled(layer, x):
    return dataclasses.replace(layer, w=layer.w * layer.n + x)

def each(layers, x):
    return [scaled(layer, x) for layer in layers]

def made(x):
    return Module(x * 2, 3)
"""


@pytest.mark.parametrize("level", ["api", "lax"])
@pytest.mark.parametrize(
    ("call", "kept"),
    [
        ("dense(registered, x)", ("Registered(", "act=", "mode=Mode.MEAN", 'a"b')),
        ("dense(of_jax, x)", ("Registered(", "act=jax.nn.relu", "sizes=(4, 2)")),
        ("each(marked, x)", ("Marked(w=", "n=1)", "n=3)")),
        ("scaled(struct, x)", ("Struct(w=", "n=3)")),
        ("scaled(module, x)", ("Module(w=", "n=3)")),
        ("made(x)", ("Module(w=", "n=3)")),
    ],
)
def test_classes_with_static_fields_are_imported_if_they_are_to_be_kept(
    call, kept, level, tmp_path
):
    model = written(tmp_path / "static_model.py", STATIC)
    options = "--level", level
    alone = run("show", model, call, *options)
    assert "static_model import" not in alone.stdout
    assert " stands for static_model." in alone.stdout
    saved = tmp_path / "saved.py"
    done = run("show", model, call, *options, "--keep-types", "-o", saved)
    assert done.exit_code == 0 and "changes nothing" not in done.stderr, done.output
    text = saved.read_text()
    assert "from static_model import " in text and "stands for" not in text
    assert all(part in text.replace("\n        ", "") for part in kept), text
    ran = python("saved.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert run("verify", saved).exit_code == 0


def scaled(x, n=2):
    return x * n


@pytest.mark.parametrize(
    "static",
    [{"static_argnames": "zzz"}, {"static_argnums": 7}, {"static_argnums": "n"}],
)
@pytest.mark.parametrize("tool", [untrace.source, untrace.nan_origin, untrace.watch])
def test_static_arguments_are_refused_as_by_jit(static, tool):
    with pytest.raises((TypeError, ValueError)) as expected:
        jax.jit(scaled, **static)
    with pytest.raises(expected.type, match=re.escape(str(expected.value))):
        tool(scaled, **static)(1.0)


def test_static_arguments_of_a_jaxpr_are_refused():
    with pytest.raises(ValueError, match="traced already has none"):
        untrace.source(jax.make_jaxpr(scaled)(1.0), static_argnames="n")


@pytest.mark.parametrize(
    "tool",
    [
        untrace.source,
        untrace.watch,
        untrace.nan_origin,
        untrace.divergence,
        untrace.inverse,
        lambda f: untrace.diff(f, f),
        lambda f: untrace.interpret(f, lambda bind: bind()),
        lambda f: untrace.reduce(f, keep=untrace.keep.nan()),
    ],
)
def test_a_compiled_function_is_refused_and_says_what_to_pass(tool):
    compiled = jax.jit(scaled).lower(1.0).compile()
    with pytest.raises(TypeError, match=r"pass the function, or the result of.*lower"):
        tool(compiled)(1.0)


# ---- options do what they say, or say that they do nothing ---------------------------


@jax.named_scope("norm")
def norm(x):
    return x / jnp.sqrt(jnp.sum(x**2))


@jax.jit
def squashed(x):
    with jax.named_scope("squash"):
        return jnp.tanh(x)


def scoped(x):
    with jax.named_scope("outer"):
        x = jnp.sin(x)
        with jax.named_scope("deep"):
            x = norm(x) + 1.0
        x = squashed(x)
    for i in range(3):
        with jax.named_scope("layer"):
            x = jnp.cos(x) + i
    return jax.grad(lambda x: norm(x).sum())(x)


def scopes_of(jaxpr):
    """The scopes of all equations, in order."""
    for eqn in jaxpr.eqns:
        yield str(eqn.source_info.name_stack)
        for inner in jax.extend.core.jaxprs_in_params(eqn.params):
            yield from scopes_of(inner)


@pytest.mark.parametrize("level", ["api", "lax"])
def test_scopes_and_types_are_written_at_every_level(level):
    x = jnp.ones(3)
    source = untrace.source(scoped, level=level, scopes=True, types=True)(x)
    assert source.report.strength == "identical"
    assert "  # f32[3]\n" in source.text
    expected = list(scopes_of(jax.make_jaxpr(scoped)(x).jaxpr))
    found = list(scopes_of(jax.make_jaxpr(source.load())(x).jaxpr))
    if level == "api":
        assert found == expected and source.text.count('named_scope("outer")') == 1
    else:  # a transformation alone is no scope
        bare = re.compile(r"[\w()]*\(\)+")
        assert found == [bare.sub("", scope) for scope in expected]
        assert "transpose(jvp(norm))" in found
    plain = untrace.source(scoped, level=level)(x).text
    assert "named_scope" not in plain and "  # f32[3]\n" not in plain


def test_types_are_one_option_by_two_names():
    for level in ("api", "lax"):
        texts = [
            untrace.source(scoped, level=level, **options)(jnp.ones(3)).text
            for options in ({"types": True}, {"comments": "types"})
        ]
        assert texts[0] == texts[1]


PLAIN = """\
import jax, jax.numpy as jnp
def loss(p, x):
    return jnp.mean((x @ p) ** 2)
def step(p, x):
    l, g = jax.value_and_grad(loss)(p, x)
    return p - 0.1 * g, l
p, x = jnp.ones(4), jnp.ones((8, 4))
"""


@pytest.fixture
def plain(tmp_path):
    return written(tmp_path / "plain_model.py", PLAIN)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scopes"], "scopes=True changes nothing: the program enters no"),
        (["--keep-types"], "keep_types=True changes nothing: "),
        (["--reroll", "scan"], 'reroll="scan" changes nothing: no statements repeat'),
        (["--reroll", "for"], 'reroll="for" changes nothing: no statements repeat'),
        (["--expand", "vmap"], 'expand="vmap" changes nothing: the program makes no'),
        (
            ["--expand", "grad", "--level", "lax"],
            'expand="grad" changes nothing: level',
        ),
        (["--reroll", "scan", "--level", "lax"], "written from equations"),
        (["--comments", "user", "--level", "lax"], "written from equations"),
        (["--symbolic"], "symbolic=True changes nothing: "),
    ],
)
def test_an_option_that_changes_nothing_says_so(plain, options, said):
    done = run("show", plain, "step(p, x)", *options)
    assert done.exit_code == 0 and said in done.stderr, done.stderr


def test_an_option_that_changes_something_says_nothing(plain):
    done = run("show", plain, "step(p, x)", "--types", "--expand", "grad")
    assert "changes nothing" not in done.stderr
    assert "def value_and_grad_of_loss(p, x):" in done.stdout
    assert "jax.value_and_grad" not in done.stdout


def loss(p, x):
    return jnp.mean(jnp.tanh(x @ p) ** 2)


@pytest.mark.parametrize(
    "function",
    [
        jax.grad(loss),
        jax.jit(jax.grad(loss)),
        jax.grad(jax.jit(loss)),
        jax.vmap(jax.grad(loss), (None, 0)),
        lambda p, x: p - jax.grad(loss)(p, x),
        lambda p, x: p - jax.grad(jax.jit(loss))(p, x),
    ],
)
def test_an_expanded_gradient_has_no_name_of_a_function_that_returns_no_gradient(
    function,
):
    source = untrace.source(function, expand="grad")(jnp.ones(4), jnp.ones((8, 4)))
    module = ast.parse(source.text)
    functions = {f.name: f for f in module.body if isinstance(f, ast.FunctionDef)}
    assert "grad_of_loss" in functions
    for name, node in functions.items():
        if name.startswith("loss"):
            assert "transpose" not in ast.unparse(node)
            assert ast.unparse(node).count("jnp.mean") == 1, source.text


# ---- the verdict speaks to people ----------------------------------------------------


def twice_wrapped(x):
    dead = jnp.cos(x) + jnp.exp(x)
    again = jnp.sin(x) + jnp.sin(x)
    del dead
    return squashed(x) + jax.jit(lambda t: t * 2)(again)


def test_equivalent_is_told_in_sentences_with_lines():
    x = jnp.ones(3)
    report = untrace.source(twice_wrapped, expand="jit")(x).report
    assert report.strength == "equivalent"
    first = twice_wrapped.__code__.co_firstlineno
    name = __file__.rpartition("/")[2]
    assert report.differences == (
        f"2 plain `jit` wrappers are opened: `squashed` ({name}:{first + 4}), "
        f"`<lambda>` ({name}:{first + 4}).",
        f"3 dead equations are gone: `cos` ({name}:{first + 1}), "
        f"`exp` ({name}:{first + 1}), `add` ({name}:{first + 1}).",
    )
    lines = str(report).split("\n")
    assert lines == ["Verified: traces to equivalent equations.", *report.differences]
    text = untrace.source(twice_wrapped, expand="jit", anonymous=True)(x).text
    assert "2 plain `jit` wrappers are opened.\n3 dead equations are gone.\n" in text


def library_calls_for_nothing(x):
    above = jnp.where(x > 0, x, 0.0)
    noise = jax.random.normal(jax.random.key(0), x.shape)
    del above, noise
    return x + jnp.where(x > 0, x, 0.0)


def test_dead_equations_of_library_calls_have_the_line_of_the_call():
    report = untrace.source(library_calls_for_nothing)(jnp.ones(3)).report
    line = library_calls_for_nothing.__code__.co_firstlineno
    name = __file__.rpartition("/")[2]
    gone, wrappers = report.differences
    n_gone = int(gone.split()[0])
    assert gone == (
        f"{n_gone} dead equations are gone: `gt` ({name}:{line + 1}), "
        f"`convert_element_type` ({name}:{line + 1}), `broadcast_in_dim` "
        f"({name}:{line + 1}) and {n_gone - 3} more."
    )
    assert wrappers == (
        f"4 plain `jit` wrappers around dead equations are gone: "
        f"`_where` ({name}:{line + 1}), `_normal` ({name}:{line + 2}), "
        f"`_normal_real` ({name}:{line + 2}) and 1 more."
    )


def loops_for_nothing(x):
    scanned = jax.lax.scan(lambda c, t: (c * t, jnp.cos(c)), 1.0, x)
    del scanned
    return x + 1


def test_what_stands_in_a_dead_loop_is_dead_and_not_computed_before():
    report = untrace.source(loops_for_nothing)(jnp.ones(3)).report
    line = loops_for_nothing.__code__.co_firstlineno + 1
    name = __file__.rpartition("/")[2]
    (said,) = report.differences
    assert said.startswith(
        f"4 dead equations are gone: `scan` ({name}:{line}), "
        f"`convert_element_type` ({name}:{line}), "
    )


def test_a_loop_that_runs_dead_and_needed_is_needed():
    def body(c, t):
        return c * t, jnp.cos(c)

    @jax.jit
    def both(x):
        dead = jax.lax.scan(body, 1.0, x)
        del dead
        return jax.lax.scan(body, 1.0, x)

    report = untrace.source(both)(jnp.ones(3)).report
    (said,) = report.differences
    assert said.startswith("1 dead equation is gone: `scan` ")


def halved(x):
    return jnp.tanh(x) * 0.5


def doubled(x):
    return x * 2.0


def shifted(x):
    return x + 1.0


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (lambda x: x + 1, lambda x: (x * 2, x + 1)[1], "1 dead equation is added."),
        (lambda x: x + 1, jax.jit(lambda x: x + 1), "1 plain `jit` wrapper is added."),
        (
            lambda x: jnp.sin(x) * jnp.cos(x),
            lambda x: (lambda c: jnp.sin(x) * c)(jnp.cos(x)),
            "Equations that do not need each other stand in another order.",
        ),
        (
            lambda x: jnp.sin(x) * jnp.sin(x),
            lambda x: (lambda s: s * s)(jnp.sin(x)),
            "1 equation is not computed again: `sin`",
        ),
        (
            jax.jit(lambda x: x + 1, donate_argnums=0),
            jax.jit(lambda x: x + 1, donate_argnums=0),
            "",
        ),
        (
            lambda x: jax.jit(halved)(jnp.sin(x)),
            lambda x: jax.jit(lambda t: halved(t))(jnp.sin(x)),
            "Jitted functions have other names for JAX: `halved` is `<lambda>`",
        ),
        (  # one is opened, and another one added elsewhere
            lambda x: doubled(jax.jit(shifted)(jax.jit(halved)(x))),
            lambda x: jax.jit(doubled)(jax.jit(shifted)(halved(x))),
            "1 plain `jit` wrapper is opened: `halved`",
        ),
    ],
)
def test_every_kind_of_equivalence_has_a_sentence(before, after, said):
    programs = [jax.make_jaxpr(f)(1.0) for f in (before, after)]
    assert equivalent(*programs) is None
    assert " ".join(differences(*programs)).startswith(said)


def test_programs_with_keys_say_nothing_of_what_is_compared():
    def drawn(key):
        keys = jax.random.split(key, 4)
        seeded = jax.random.normal(jax.random.key(3))
        return seeded + sum(jax.random.normal(k) for k in keys)

    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        for level in ("api", "lax"):
            assert "Not compared" not in untrace.source(drawn, level=level)(key).text


def test_reasons_of_fallback_are_sentences(monkeypatch):
    def broken(*args, **kwargs):
        return ()[0]

    monkeypatch.delenv("UNTRACE_STRICT", raising=False)
    monkeypatch.setattr("untrace.recorded.lift_recorded", broken)
    report = untrace.source(scaled)(1.0).report
    assert report.is_verified
    (note,) = [note for note in report.notes if note.startswith("Written from its")]
    assert "a fault of untrace stopped that (IndexError: tuple index out of" in note
    assert ", at test_first_minutes.py:" in note


def test_what_differs_is_named_by_the_users_line():
    eqn = jax.make_jaxpr(scaled)(1.0).eqns[0]
    found = Difference("scan/jaxpr", (0, 1), "mul f32[] a 2.0", "", "literal differs")
    found = dataclasses.replace(found, blamed=(None, eqn))
    why = Report("different", found).why
    line = scaled.__code__.co_firstlineno + 1
    assert f"first at `mul` (test_first_minutes.py:{line}) in scan/jaxpr: lit" in why


def test_dimensions_of_one_size_have_names_of_their_own():
    def program(x, w):
        shape = (x.shape[0], 3, x.shape[1])
        rows = jnp.broadcast_to(x[:, None, :], shape).reshape(-1, x.shape[1])
        return (rows @ w).reshape(x.shape[0], 3, -1), jnp.ones((w.shape[0],))

    given = jnp.ones((8, 8)), jnp.ones((8, 5))
    seen = []
    source = untrace.source(
        program, symbolic=True, progress=lambda *step: seen.append(step[0])
    )(*given)
    assert "X_ROWS = 8" in source.text and "X_COLUMNS = 8" in source.text
    assert "jnp.ones((X_COLUMNS,))" in source.text
    assert "tracing at other sizes" in seen and seen[-1] == "comparing at other sizes"


def many_sizes(x, weights):
    for w in weights:
        x = jnp.tanh(x @ w) + jnp.zeros((x.shape[0], w.shape[1]))
    return x


@pytest.mark.parametrize("max_equations", [1, 300, resizing.MAX_EQUATIONS])
def test_tracing_at_other_sizes_has_a_budget_of_work(monkeypatch, max_equations):
    monkeypatch.setattr(resizing, "MAX_EQUATIONS", max_equations)
    given = jnp.ones((4, 5)), [jnp.ones((5, 5)) for _ in range(10)]
    seen = []
    source = untrace.source(
        many_sizes, symbolic=True, progress=lambda *told: seen.append(told)
    )(*given)
    n_equations = source.report.n_equations
    totals = {n for stage, _, n in seen if stage == "tracing at other sizes" and n}
    limit = max(max_equations // n_equations, resizing.MIN_TRACES)
    assert totals == {min(limit, resizing.MAX_TRACES)}
    assert source.report.strength == "identical" and "X_ROWS = 4" in source.text


def test_no_time_is_left_for_other_sizes():
    seen = []
    source = untrace.source(
        many_sizes,
        symbolic=True,
        max_seconds=0,
        progress=lambda *told: seen.append(told),
    )(jnp.ones((4, 5)), [jnp.ones((5, 5))] * 10)
    assert "the time was over" in source.text
    done = {done for stage, done, n in seen if stage == "tracing at other sizes" and n}
    assert len(done) <= 2  # it ends as it began


@pytest.mark.parametrize("n_asked", [0, 2, 5, 8, 11, 10_000])
def test_time_for_other_sizes_ends_with_what_it_has(monkeypatch, n_asked):
    """Sizes that are listed were compared, however many of them there was time for."""
    asked = itertools.count()

    class Steps(Budget):
        def is_over(self, share=1.0):
            self.was_over |= next(asked) >= n_asked * share
            return self.was_over

    compared = []

    def checked(module, captured):
        compared.append([aval.shape for aval in captured.jaxpr.in_avals])
        return check_module(module, captured)

    monkeypatch.setattr("untrace.symbolic.Budget", Steps)
    monkeypatch.setattr("untrace.symbolic.check_module", checked)
    weights = [jnp.ones((5, 5))] * 3
    source = untrace.source(many_sizes, symbolic=True)(jnp.ones((4, 5)), weights)
    notes = " ".join(source.report.notes)
    assert source.report.is_verified
    assert ("was over" in notes) == (n_asked < 10_000), notes
    assert ("changes nothing" in notes) == ("X_ROWS = 4" not in source.text)
    listed = re.search(r"X_ROWS = ([\d, ]+\d)", notes)
    rows = {int(n) for n in listed[1].split(", ")} if listed else set()
    assert rows <= {4, *(shapes[0][0] for shapes in compared)}
    again = untrace.source(many_sizes, symbolic=True)(jnp.ones((4, 5)), weights)
    assert n_asked < 10_000 or again.text == source.text


def test_other_sizes_have_a_minute_or_what_the_job_has(monkeypatch):
    given = []

    class Noted(Budget):
        def __init__(self, seconds):
            given.append(round(seconds))
            super().__init__(seconds)

    monkeypatch.setattr("untrace.symbolic.Budget", Noted)
    for seconds in (None, 500):
        untrace.source(scaled, symbolic=True, max_seconds=seconds)(1.0)
    assert given == [60, 500]


def test_a_budget_of_time_ends_with_a_verified_text(plain):
    call = ("show", plain, "step(p, x)", "--symbolic")
    done = run(*call, "--max-seconds", 0)
    assert done.exit_code == 0 and "the time was over before" in done.stderr
    assert "Verified: traces to the identical equations." in done.stdout


def test_late_calls_are_written_from_their_equations(monkeypatch):
    wrong = Report("different", Difference("", (), "a", "b", "differs"))
    monkeypatch.setattr("untrace.recorded.check_module", lambda *a, **k: wrong)
    report = untrace.source(scaled, max_seconds=0)(1.0).report
    assert report.is_verified
    assert any("the time to write them better was over" in n for n in report.notes)


def of_gradient(x):
    return jax.grad(lambda t: jax.nn.softplus(jnp.tanh(t)).sum())(x)


def slowly_traced(x):
    time.sleep(0.3)
    return of_gradient(x)


@pytest.mark.parametrize(
    ("function", "options", "seconds"),
    [
        (of_gradient, {"expand": "grad"}, 0),
        (slowly_traced, {"expand": "grad"}, 0.2),  # tracing counts
        (jax.make_jaxpr(of_gradient)(jnp.ones(3)), {"level": "api"}, 0),
    ],
)
def test_late_equations_are_written_without_looking_for_calls(
    function, options, seconds, monkeypatch
):
    def made(**limits):
        source = untrace.source(function, **options, **limits)
        return source if isinstance(source, untrace.Source) else source(jnp.ones(3))

    assert "The time was over" not in made(max_seconds=500).text
    monkeypatch.setattr("untrace.lifting.idioms.rewriting.attempt", pytest.fail)
    late = made(max_seconds=seconds)
    assert late.report.is_verified
    assert any("The time was over before the calls" in n for n in late.report.notes)


def test_late_texts_are_not_written_once_more(monkeypatch):
    """Neither to merge functions again, nor to find the step that is to blame."""
    wrong, checked = Report("different", Difference("", (), "a", "b", "differs")), []

    def refused(*args, **kwargs):
        checked.append(args)
        return wrong

    monkeypatch.setattr("untrace.recorded.check_module", refused)
    monkeypatch.setattr("untrace.idiomatic.check_module", refused)
    report = untrace.source(scaled, max_seconds=0)(1.0).report
    assert report.is_verified and len(checked) == 2
    assert any('Written at level "lax"' in note for note in report.notes)


def slow_steps(monkeypatch, seconds):
    """Make every step that is optional slow; list those that are taken."""
    taken, call = [], OptionalStep.__call__

    def slow(self, *args, **kwargs):
        time.sleep(seconds)
        taken.append(self.name)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(OptionalStep, "__call__", slow)
    return taken


def test_a_text_that_takes_too_long_is_stopped_midway(monkeypatch):
    """The equations are written then, which takes about as long as tracing did."""
    monkeypatch.setattr("untrace.stages.MIN_GRACE_SECONDS", 0.0)
    taken = slow_steps(monkeypatch, 0.01)
    text = untrace.source(of_gradient)(jnp.ones(3)).text
    n_taken = len(taken)
    assert "Written from its equations" not in text
    taken.clear()
    source = untrace.source(of_gradient, max_seconds=0.01)(jnp.ones(3))
    assert source.report.is_verified and len(taken) < n_taken
    why = (
        "not from the calls that were made: the time was over before they were written"
    )
    assert any(why in note for note in source.report.notes)


def test_a_text_that_is_nearly_done_comes_to_its_end(monkeypatch):
    """As long as the job took until the text was begun, since other text takes so long."""
    monkeypatch.setattr("untrace.stages.MIN_GRACE_SECONDS", 0.0)
    taken = slow_steps(monkeypatch, 0.0)

    def traced_for_long(x):
        time.sleep(2.0 if len(taken) else 0.0)
        return of_gradient(x)

    taken.append("")
    source = untrace.source(traced_for_long, max_seconds=0)(jnp.ones(3))
    assert source.report.is_verified and "jax.grad" in source.text
    assert len(taken) > 1


def test_what_is_stopped_is_only_what_makes_text_better(monkeypatch):
    """What was proved stays; and nothing is stopped without a budget."""
    monkeypatch.setattr("untrace.stages.time.monotonic", itertools.count().__next__)
    with within(10), stoppable(False):
        stop_if_late()
    with within(None), stoppable():
        stop_if_late()
    with within(0), stoppable(), pytest.raises(TimeIsOver):
        while True:
            stop_if_late()


def test_importing_untrace_loads_what_is_used():
    """The public names are imported when they are used."""
    alone = "import sys, untrace\nprint('jax' in sys.modules, dir(untrace)[0])"
    tracing = (
        "import sys\nfrom untrace import source\n"
        "print('jax' in sys.modules, 'untrace.reduction.driver' in sys.modules)"
    )
    for text, said in ((alone, "False CaptureError"), (tracing, "True False")):
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == said
