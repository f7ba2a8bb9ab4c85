"""Verifying in a fresh process: what this one has changed does not count there."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from jax.interpreters import ad

import untrace
from untrace.cli import main
from untrace.isolated import clean_environment, verify_isolated

WEIGHTS = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)


def small(x):
    return jnp.sin(x) * 2.0


def layer(x):
    return jnp.tanh(x @ WEIGHTS)


@pytest.fixture
def saved(tmp_path):
    return untrace.source(small)(jnp.ones(3)).save(tmp_path / "small.py")


def changed(path, statement):
    """Add a statement that runs where the file is loaded."""
    path.write_text(path.read_text() + f"\n\n{statement}\n")
    return path


def verify(*args):
    return CliRunner().invoke(main, ["verify", *map(str, args)])


def test_a_file_verifies_in_a_fresh_process(saved, tmp_path):
    assert verify_isolated(saved).is_verified
    with_sidecar = untrace.source(layer)(jnp.ones(20)).save(tmp_path / "layer.py")
    assert with_sidecar.with_suffix(".safetensors").exists()
    assert verify_isolated(with_sidecar).is_verified


def test_an_edited_file_is_a_difference_in_a_fresh_process(saved):
    saved.write_text(saved.read_text().replace("* 2.0", "* 3.0"))
    verdict = verify_isolated(saved)
    assert not verdict.is_verified and "edited" in str(verdict)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("import os; os._exit(0)", "ended with status 0 and said nothing"),
        ("import os; os.abort()", "was ended by SIGABRT"),
        ("import time; time.sleep(60)", "took longer than 4 seconds"),
    ],
)
def test_whatever_ends_the_process_is_not_verified(saved, statement, message):
    done = verify(changed(saved, statement), "--timeout", 4)
    assert done.exit_code == 1 and message in " ".join(done.stderr.split())


@pytest.mark.parametrize("where", ["--isolated", "--no-isolated"])
@pytest.mark.parametrize(
    "statement", ["raise SystemExit(0)", "1 / 0", "import nothing_"]
)
def test_a_file_that_does_not_load_is_bad_input(saved, statement, where):
    done = verify(changed(saved, statement), where)
    assert done.exit_code == 2 and "Traceback" not in done.stderr
    assert "cannot trace" in done.stderr


def test_only_what_is_needed_is_in_the_environment(saved, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    monkeypatch.setenv("MY_SECRET", "1")
    names = dict(clean_environment())
    assert "PATH" in names and not {"JAX_ENABLE_X64", "MY_SECRET"} & set(names)
    changed(saved, "import os; assert 'MY_SECRET' not in os.environ")
    assert verify_isolated(saved).is_verified


def test_this_process_is_not_touched_by_the_file(saved):
    changed(saved, "jax.config.update('jax_debug_nans', True)\njax.verified_here = 1")
    assert verify_isolated(saved).is_verified
    assert not hasattr(jax, "verified_here") and not jax.config.jax_debug_nans


def test_source_is_confirmed_in_a_fresh_process():
    src = untrace.source(layer, isolated=True)(jnp.ones(20))
    assert src.report.strength == "identical"
    assert "Verified in a fresh process, too." in str(src)
    jaxpr = jax.make_jaxpr(small)(jnp.ones(3))
    assert "in a fresh process" in str(untrace.source(jaxpr, isolated=True))


def slope(x):
    return jax.jvp(jnp.sin, (x,), (x,))[1]


@pytest.fixture
def changed_rule():
    """Another derivative of the sine in a table of JAX."""
    rule = ad.primitive_jvps[jax.lax.sin_p]
    ad.defjvp(jax.lax.sin_p, lambda g, x, **_: g * 2.0)
    yield
    ad.primitive_jvps[jax.lax.sin_p] = rule


def test_what_holds_in_this_process_alone_is_not_verified(changed_rule):
    assert untrace.source(slope)(1.0).report.is_verified  # here, it is
    with pytest.warns(untrace.UnverifiedWarning, match="in a fresh process"):
        src = untrace.source(slope, isolated=True)(1.0)
    assert "jax.jvp(jnp.sin" in src.module.body
    assert src.report.strength == "local" and not src.report.is_verified
    assert "NOT VERIFIED: in a fresh process" in " ".join(str(src).split())
    assert "Fingerprint" not in str(src)


def test_isolation_without_verification_is_refused():
    with pytest.raises(ValueError, match="leave verify=True"):
        untrace.source(small, verify=False, isolated=True)


MODEL = """\
import jax, jax.numpy as jnp
from jax.interpreters import ad
ad.defjvp(jax.lax.sin_p, lambda g, x, **_: g * 2.0)
def slope(x):
    return jax.jvp(jnp.sin, (x,), (x,))[1]
"""


def test_show_confirms_in_a_fresh_process(tmp_path):
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    command = [sys.executable, "-m", "untrace", "show", str(model), "slope(1.0)"]
    done = subprocess.run([*command, "--isolated"], capture_output=True, text=True)
    assert done.returncode == 1 and "NOT VERIFIED: in a fresh" in done.stderr


def test_help_says_that_the_file_is_executed():
    assert "EXECUTED" in verify("--help").output
