"""Modules of torch go in where functions do: options of `source`, and `reduce`."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import untrace  # noqa: E402
from tests.readers.torch.test_sources import arguments_of  # noqa: E402
from untrace.readers.torch import fallback  # noqa: E402

X = torch.arange(15.0).reshape(5, 3) / 8


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(3, 4)

    def forward(self, x):
        gate = torch.nn.functional.silu(self.first(x))
        return gate.reshape(x.shape[0] * 4) * self.second(x).flatten()


@pytest.mark.parametrize(
    "options, words",
    [
        ({"level": "lax"}, ('first_bias = params["first"]["bias"]', "dot = x @")),
        ({"expand": "jit"}, ("def gate(params, x):",)),
        ({"symbolic": True}, ("X_ROWS = 5",)),
        ({"anonymous": True}, ("def function(", '["k1"]')),
        ({"comments": "both"}, ("silu(self.first(x))  (test_doors.py:", "# f32[")),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_of_source_hold_for_modules(options, words):
    model = Gate()
    made = untrace.source(model, **options)(X)
    assert made.report.is_verified and made.parity.is_close, made.report
    assert all(word in str(made) for word in words), str(made)
    if not options.get("anonymous"):
        out = made.load()(*arguments_of(model, X))
        np.testing.assert_allclose(out, model(X).detach(), rtol=1e-5, atol=1e-6)


def test_gradients_of_a_module_are_opened():
    model = Gate()
    function = untrace.source(model)(X).load()

    def loss(params, x):
        return jnp.sum(function(params, x))

    given = arguments_of(model, X)
    opened = untrace.source(jax.grad(loss), expand="grad")(*given)
    assert opened.report.is_verified and "jax.grad" not in str(opened)
    assert "backward of" in str(opened)


def test_reduce_takes_modules_and_sources_of_modules(monkeypatch):
    given = []

    def reduced(program, *others):
        given.append(program)
        raise untrace.KeepError("enough")

    monkeypatch.setattr("untrace.reducing._reduced", reduced)
    model = Gate()
    with pytest.raises(untrace.KeepError, match="enough"):
        untrace.reduce(model, keep="nan()")(x=X)
    with pytest.raises(untrace.KeepError, match="enough"):
        untrace.reduce(untrace.source(model)(X), keep="nan()")
    direct, of_source = given
    assert direct.name == of_source.name == "gate"
    for one, other in zip(direct.values, of_source.values, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(direct.values[-1], X)
    with pytest.raises(ValueError, match="no tensors are static"):
        untrace.reduce(model, keep="nan()", static_argnums=0)


def test_command_reduces_a_module(tmp_path):
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Entropy(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(3, 2)\n\n"
        "    def forward(self, x):\n"
        "        p = torch.softmax(self.fc(x), dim=-1)\n"
        "        return (p * torch.log(p - p)).sum()\n\n"
        "torch.manual_seed(0)\n"
        "x = torch.ones(2, 3)\n"
    )
    command = "reduce", "model.py", "Entropy()(x)", "--keep", "inf()"
    run = subprocess.run(
        [sys.executable, "-m", "untrace", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert run.returncode == 0, run.stderr
    assert "to 1 equation," in run.stderr
    repro = (tmp_path / "repro.py").read_text()
    assert "jnp.log" in repro and "import torch" not in repro  # comments quote lines


def test_what_torchax_would_carry_out_is_named_with_why_it_does_not(monkeypatch):
    class Airy(nn.Module):
        def forward(self, x):
            return torch.special.airy_ai(x)

    monkeypatch.setitem(sys.modules, "torchax.ops.jaten", None)
    fallback._imported.cache_clear()
    try:
        with pytest.raises(untrace.CaptureError) as caught:
            untrace.source(Airy())(X)
    finally:
        fallback._imported.cache_clear()
    for words in ("airy_ai", "test_doors.py", "beside torch 2.", "pins versions"):
        assert words in str(caught.value)


def test_torchax_can_be_imported_beside_torch():
    code = "import torchax, torchax.ops.jaten"
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if version > (2, 12):
        pytest.skip("newer than what the extra `torch` pins")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
