"""What the README shows is what comes out."""

import re
from pathlib import Path

import jax
import pytest
from click.testing import CliRunner

from untrace.cli import main

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def block(start: str) -> str:
    """Return the text in the README that begins so."""
    return next(text for text in BLOCKS if text.startswith(start))


def shown(path: Path, call: str, *options: str) -> str:
    result = CliRunner().invoke(main, ["show", str(path), call, *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_training_step_comes_out_as_shown():
    pytest.importorskip("flax")
    pytest.importorskip("optax")
    path = ROOT / "examples" / "flax_train.py"
    text = shown(path, "train_step(params, opt_state, x, labels)")
    assert block("def dense(params, inputs)") in text


MODEL = """\
import jax
import jax.numpy as jnp


{function}

params = {{"b": jnp.zeros(4), "w": jnp.ones((3, 4))}}
x = jnp.ones((5, 3))
"""


def test_expanded_gradient_comes_out_as_shown(tmp_path):
    path = tmp_path / "model.py"
    function = block("# model.py").removeprefix("# model.py\n")
    path.write_text(MODEL.format(function=function))
    text = shown(path, "jax.grad(loss)(params, x)", "--expand", "grad")
    expected = block("def grad_of_loss(params, x)")
    comments = [line for line in expected.splitlines() if line.startswith("    #")]
    assert len(comments) == 4
    assert re.findall(r"^    #.*", text, re.MULTILINE) == comments
    assert "\ndef grad_of_loss(params, x):\n" in text
    if hasattr(jax.lax, "one_minus_square"):  # what JAX makes of tanh since 0.12
        assert expected in text
