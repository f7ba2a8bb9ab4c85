"""The house in order: lint, types, layout of what we generate, documents that run."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.corpus.harness import sampled

ROOT = Path(__file__).parent.parent


def run(*command, cwd=ROOT):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_lint_is_clean():
    run(sys.executable, "-m", "ruff", "check", ".")
    run(sys.executable, "-m", "ruff", "format", "--check", ".")


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="types are checked on one version"
)
def test_types_are_clean():
    run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "src")


def test_generated_files_are_laid_out_as_ruff_does(tmp_path):
    for position, case in enumerate(sampled(60)):
        args = case.dyn_args_maker(np.random.RandomState(0))
        try:
            jax.make_jaxpr(case.dyn_fun)(*args)
        except Exception:  # what JAX cannot trace is not ours
            continue
        src = untrace.source(
            case.dyn_fun, verify=False, types=bool(position % 2), level="lax"
        )(*args)
        (tmp_path / f"case_{position}.py").write_text(str(src))
    isolated = ("--isolated", "--line-length", "88")
    run(sys.executable, "-m", "ruff", "format", *isolated, "--check", str(tmp_path))
    run(
        sys.executable,
        "-m",
        "ruff",
        "check",
        *isolated,
        "--select",
        "E,F,I,UP,B",
        str(tmp_path),
    )


def test_readme_python_runs(tmp_path, monkeypatch):
    text = (ROOT / "README.md").read_text()
    block = next(
        b
        for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if "src.report" in b
    )
    names = {
        "train_step": lambda params, batch, n=1: params * jnp.sum(batch) * n,
        "params": jnp.ones(3),
        "batch": jnp.ones((2, 3)),
        "f": jnp.sin,
        "x": jnp.ones(3),
        "torch_module": jnp.sin,  # torch is no dependency
        "tokens": jnp.ones(3),
        "jax": jax,
        "jnp": jnp,
    }
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), names)
    assert names["src"].report.is_verified


def test_no_path_of_this_machine_is_in_the_tree():
    tracked = run("git", "ls-files").split()
    home = str(Path.home())
    for name in tracked:
        path = ROOT / name
        if path.is_file():
            content = path.read_text(errors="ignore")
            assert str(ROOT) not in content and (
                home == "/" or home + "/" not in content
            ), name
