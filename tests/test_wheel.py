"""The wheel has all that it needs: installed by itself, its command works."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import untrace

ROOT = Path(__file__).parent.parent
PIP = "-m", "pip", "--quiet", "--disable-pip-version-check"

MODEL = """\
import jax.numpy as jnp

def f(x):
    return jnp.tanh(x) * 2.0

x = jnp.ones(3)
"""


def run(*command, cwd):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.mark.corpus  # JAX is installed anew
def test_wheel_works_in_a_clean_environment(tmp_path):
    wheels = tmp_path / "wheels"
    build = "wheel", "--no-deps", "--wheel-dir", wheels, ROOT
    run(sys.executable, *PIP, *build, cwd=tmp_path)
    (wheel,) = wheels.iterdir()
    assert wheel.name.startswith(f"untrace-{untrace.__version__}-")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name[-3:] == ".py"}
    files = (ROOT / "src").rglob("*.py")
    assert packed == {path.relative_to(ROOT / "src").as_posix() for path in files}

    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bin = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    run(bin / "python", *PIP, "install", wheel, cwd=tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    assert untrace.__version__ in run(bin / "untrace", "--version", cwd=tmp_path)
    run(bin / "untrace", "show", "model.py", "f(x)", "-o", "out.py", cwd=tmp_path)
    assert "jnp.tanh(x) * 2.0" in (tmp_path / "out.py").read_text()
    run(bin / "untrace", "verify", "out.py", cwd=tmp_path)
    run(bin / "python", "out.py", cwd=tmp_path)
