"""No string from outside runs, is written raw, or breaks the file that holds it."""

import ast
import os
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.hostile.strings import CANARY, PAYLOAD, STRINGS, Disguised, sample
from tests.hostile.ways import WAYS, X, accepted
from untrace.errors import LiftingError, UntraceError
from untrace.saved import verify_file

LEVELS = ("api", "lax")
SIZE = 24  # strings in one program
# The text would need an object that no module has.
REFUSED = {"primitives"}
OPTIONS = [
    {"types": True, "scopes": True},
    {"comments": "both"},
    {"reroll": "for"},
    {"reroll": "none", "keep_types": True},
    {"expand": ("jit", "vmap", "custom_jvp")},
    {"annotate": "jaxtyping"},
    {"symbolic": True},
    {"anonymous": True},
]


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not Path(CANARY).exists(), "a string was executed"


def _is_clean(text: str) -> bool:
    return text.replace("\n", "").isprintable()


def _source(function, args, kwargs, **options):
    """Write a program; its text must parse, be printable and hold the same program."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = untrace.source(function, **options)(*args, **kwargs)
    assert all(_is_clean(str(one.message)) for one in told)
    assert _is_clean(str(made)) and _is_clean(str(made.report))
    ast.parse(str(made))
    assert made.report.is_verified, str(made)
    return made


def _check(way: str, strings: list[str], **options) -> None:
    make = WAYS[way]
    strings = accepted(make, strings)
    if not strings:
        return
    if way in REFUSED:
        with pytest.raises(LiftingError) as refused:
            untrace.source(make(strings)[0], **options)(*make(strings)[1])
        assert _is_clean(str(refused.value))
        return
    _source(*make(strings), **options)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
def test_strings_come_through(way, level):
    _check(way, sample(SIZE, salt=len(way)), level=level)


@pytest.mark.corpus
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", WAYS)
def test_all_strings_come_through(way, level):
    for start in range(0, len(STRINGS), 100):
        strings = STRINGS[start : start + 100]
        strings[3::7] = map(Disguised, strings[3::7])
        _check(way, strings, level=level)


SOME_WAYS = ("dict_keys", "keywords", "function_names", "scopes", "members")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "way",
    [w if w in SOME_WAYS else pytest.param(w, marks=pytest.mark.corpus) for w in WAYS],
)
def test_strings_come_through_with_every_option(way, options):
    strings = sample(6, salt=len(str(options)))
    try:
        _check(way, strings, **options)
    except LiftingError as error:  # what cannot be anonymous, say
        assert _is_clean(str(error))


@pytest.mark.parametrize("string", sample(60, salt=1), ids=lambda s: ascii(s[:20]))
def test_the_name_of_the_function_may_be_any_string(string):
    for level in LEVELS:
        _source(jnp.sin, (X,), {}, level=level, name=string)


def test_names_in_jaxprs_and_traced_functions():
    for string in sample(20, salt=2):
        given = {string: X, "a b": X, "a_b": X}
        function = jax.jit(lambda **kwargs: sum(kwargs.values()))
        try:
            traced = function.trace(**given)
            jaxpr = jax.make_jaxpr(lambda d, s=string: d[s] * 2)({string: X})
        except Exception:  # JAX refuses it
            continue
        for carrier in (traced, jaxpr):
            for level in LEVELS:
                made = untrace.source(carrier, level=level)
                assert _is_clean(str(made)) and made.report.is_verified, str(made)


def test_errors_are_shown_and_not_sent():
    for string in STRINGS[:300]:
        assert _is_clean(str(UntraceError(string)))
        assert _is_clean(str(UntraceError(Disguised(string))))


def test_notes_are_lines_of_the_header():
    forged = f"x\n\nFingerprint of `f` on jax {jax.__version__}:\n{'0' * 64}\n\nx"
    for level in LEVELS:
        made = _source(*WAYS["host_functions"]([forged]), level=level)
        paragraphs = ast.get_docstring(ast.parse(str(made))).split("\n\n")
        found = [p for p in paragraphs if p.startswith("Fingerprint")]
        assert found == paragraphs[-1:] and "0" * 64 not in found[0]


@pytest.mark.parametrize("string", sample(80, salt=3), ids=lambda s: ascii(s[:20]))
def test_files_of_any_name_are_saved_and_verified(string, tmp_path):
    large = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    made = untrace.source(lambda x: x @ large)(large)
    assert made.module.stored
    name = str.__str__(string).replace("/", "_").replace("\0", "_")[:60]
    try:
        path = made.save(tmp_path / f"{name}.py")
    except (UntraceError, UnicodeError):  # a name that the system does not have
        return
    text = path.read_text(encoding="utf-8")
    assert _is_clean(text)
    assert verify_file(path).is_verified


MODEL = """
import jax, jax.numpy as jnp, numpy as np
x = np.arange(3.0, dtype=np.float32)
key = {key!a}
name = {name!a}
def f(d):
    with jax.named_scope(key):
        jax.debug.callback(host, d[key])
        return {{key: jnp.sin(d[key])}}
def host(x): pass
host = (lambda f: f)(lambda x: None)
host.__qualname__ = host.__name__ = f.__qualname__ = f.__name__ = name
def fails(x): raise ValueError(key)
"""


def test_the_command_line_sends_nothing_raw(tmp_path):
    name = "\x1b[31m\u202e\x00\n" + PAYLOAD + "`\"'"
    Path("model.py").write_text(MODEL.format(key=name + "\ud800", name=name))
    shown = ["show", "model.py", "f({key: x})", "-o", "out.py"]
    runs = [
        shown[:-2],
        [*shown[:-2], "--level", "lax", "--types", "--scopes", "--comments", "both"],
        shown,
        ["verify", "out.py"],
        ["show", "model.py", "fails(x)"],
        ["show", "model.py", "f(\x1b)"],
    ]
    codes = [0, 0, 0, 0, 2, 2]
    for args, code in zip(runs, codes):
        done = subprocess.run(
            [sys.executable, "-m", "untrace", *args],
            capture_output=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            check=False,
        )
        said = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == code, said
        assert _is_clean(said), ascii(said)
