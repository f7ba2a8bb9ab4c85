"""Signatures, state, saved files and errors of what torch modules become."""

import concurrent.futures
import functools
import os
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import untrace  # noqa: E402
from untrace.errors import CaptureError  # noqa: E402


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        hidden = self.embed(tokens)
        return self.head(hidden)


def test_tied_weights_are_one_parameter():
    source = untrace.source(Tied())(torch.tensor([1, 2]))
    assert 'params["embed"]["weight"].T' in str(source)
    assert '["head"]' not in str(source)
    assert source.parity.is_close


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.seen = torch.zeros(3)  # a plain attribute
        self.unused = nn.Linear(3, 3)
        self.register_buffer("never", torch.ones(2))

    def forward(self, x, scale: float = 2.0):
        self.seen = self.seen + x.sum(0)
        return self.norm(x) * scale


def test_state_goes_in_and_comes_out():
    model = Counting().train()
    x = torch.randn(4, 3)
    source = untrace.source(model)(x, scale=3.0)
    assert "def counting(params, buffers, x):" in str(source)
    out, buffers = source.load()(*arguments_of(model, x))
    wanted = model(x, scale=3.0)
    np.testing.assert_allclose(out, wanted.detach(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(buffers["seen"], model.seen, rtol=1e-5, atol=1e-6)
    mean = model.norm.running_mean
    np.testing.assert_allclose(buffers["norm"]["running_mean"], mean, rtol=1e-5)
    assert "never" not in buffers and source.parity.is_close


def arguments_of(model, *inputs):
    from untrace.readers.torch import program

    return program.read(model, inputs, {}, "model").arguments.values()


def test_model_of_the_user_stays_as_it_was():
    model = Counting().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    untrace.source(model)(torch.randn(4, 3))
    assert all((before[k] == v).all() for k, v in model.state_dict().items())
    assert type(model) is Counting and type(model.norm) is nn.BatchNorm1d
    assert not model.seen.any()


def test_dropout_takes_a_key():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    source = untrace.source(model, name="net")(torch.randn(2, 4))
    assert "def net(params, key, x):" in str(source)
    assert source.parity.mode == "train" and source.parity.is_close
    assert "key" not in str(untrace.source(model.eval())(torch.randn(2, 4)))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, stride=2, bias=True)
        self.norm = nn.GroupNorm(2, 4)
        self.head = nn.Sequential(
            nn.Dropout(0.2), nn.ConvTranspose2d(4, 2, 2, groups=2)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.drop(self.second(self.first(x)))
        return self.head(self.norm(x))


def test_layers_are_functions_of_their_parameters():
    source = untrace.source(Images().train())(torch.randn(2, 3, 6, 6))
    text = str(source)
    assert source.report.strength == "identical" and source.parity.is_close
    first = 'conv2d(params["first"], x, 1, 1)'
    assert f'conv2d(params["second"], {first}, 2, 0)' in text
    assert "def dropout(x, key, p):" in text and "def group_norm(params, x):" in text
    assert "jax.random.fold_in(key, 1), 0.2)" in text and "def head" not in text


def test_numbers_of_lowerings_are_not_those_of_layers():
    source = untrace.source(nn.Sequential(nn.Conv1d(4, 8, 1)))(torch.randn(2, 4, 9))
    assert "def conv1d(params, x):" in str(source)
    assert 'params["bias"].reshape((-1, 1))' in str(source)


class Levels(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(2, 4) for _ in range(3)])

    def forward(self, x):
        x = self.norms[0](x)
        x = nn.functional.avg_pool2d(self.norms[1](x), 2)
        return self.norms[2](nn.functional.avg_pool2d(x.relu(), 2))


def test_layers_at_several_resolutions_take_the_shape_of_what_they_are_given():
    text = str(untrace.source(Levels())(torch.randn(2, 4, 16, 16)))
    assert "def group_norm(params, x):" in text and "def group_norm_2(" not in text
    assert "out = out.reshape(x.shape)" in text, text


def test_layer_alone_takes_a_key():
    source = untrace.source(nn.Dropout(0.5))(torch.randn(2, 3))
    assert "key=key" in str(source) and source.parity.is_close


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(3, 3), nn.Sigmoid())

    def forward(self, x):
        return self.gate(x) * self.gate(-x)


def test_sequences_are_named_by_what_holds_them():
    source = untrace.source(Gated())(torch.randn(2, 3))
    assert 'gate(params["gate"], x) * gate(params["gate"], -x)' in str(source)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.utils.weight_norm(nn.Conv1d(2, 3, 2))

    def forward(self, x):
        return self.conv(x)


@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_what_hooks_compute_of_parameters_is_no_state():
    source = untrace.source(Normed())(torch.randn(1, 2, 5))
    weight = 'weight_norm(params["conv"]["weight_v"], params["conv"]["weight_g"])'
    assert "def normed(params, x):" in str(source) and weight in str(source)
    assert source.parity.is_close and not source.parity.buffers


def test_saved_file_runs_where_there_is_no_torch(tmp_path):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).bfloat16()
    x = torch.randn(3, 4).bfloat16()
    source = untrace.source(model, name="net")(x)
    path = source.save(tmp_path / "net.py")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import net\n"
        "params = net.load_weights()['params']\n"
        "print(sorted(params), params['0']['weight'].dtype)\n"
        "print(net.net(**net.example_args()).shape)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout == "['0', '2'] bfloat16\n(3, 2)\n", run.stderr
    assert path.with_suffix(".safetensors").is_file()


def test_weights_are_stored_under_the_names_of_the_state_dict(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    model = Counting().train()
    path = untrace.source(model)(torch.randn(4, 3)).save(tmp_path / "net.py")
    stored = safetensors.load_file(path.with_suffix(".safetensors"))
    for name, value in model.state_dict().items():
        kind = "buffers" if name in dict(model.named_buffers()) else "params"
        if name != "never":
            np.testing.assert_array_equal(stored[f"{kind}.{name}"], value.numpy())


def test_lines_of_the_user_stand_beside_statements():
    text = str(untrace.source(Tied(), comments="origin")(torch.tensor([1, 2])))
    assert "# hidden = self.embed(tokens)  (test_sources.py:" in text


class Branching(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Selecting(nn.Module):
    def forward(self, x):
        return x[x > 0]


class Drawing(nn.Module):
    def forward(self, x):
        return torch.multinomial(x, 2)


class Odd(nn.Module):
    def forward(self, x):
        wide = F.interpolate(x[None, None], size=7)
        pooled = F.avg_pool2d(wide, 3, 2, 1, ceil_mode=True)
        return pooled, F.adaptive_avg_pool2d(wide, (3, 3))


@pytest.mark.parametrize(
    "model, words",
    [
        (Branching(), ("`__bool__`", "if x.sum() > 0:", "torch.where")),
        (Selecting(), ("`__getitem__`", "return x[x > 0]")),
        (Drawing(), ("`multinomial`", "torch.multinomial(x, 2)", "LOWERINGS")),
    ],
)
def test_what_cannot_be_expressed_is_named_with_its_line(model, words):
    with pytest.raises(CaptureError) as raised:
        untrace.source(model)(torch.rand(3, 3))
    for word in (*words, "test_sources.py:"):
        assert word in str(raised.value)


def test_what_lowerings_refuse_is_made_of_operators_of_torch():
    source = untrace.source(Odd())(torch.rand(3, 3))
    assert source.report.is_verified and source.parity.is_close, str(source.parity)


def test_command_shows_a_module(tmp_path):
    (tmp_path / "model.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(3, 2)\n\n"
        "    def forward(self, x):\n"
        "        return torch.relu(self.fc(x))\n\n"
        "x = torch.ones(1, 3)\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "untrace", "show", "model.py", "Net()(x)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert run.returncode == 0, run.stderr
    assert "def net(params, x):" in run.stdout
    assert "Equal to torch in train mode" in run.stderr


def test_jax_arrays_of_the_source_are_differentiated_and_batched():
    model = Tied()
    source = untrace.source(model)(torch.tensor([1, 2]))
    params, _ = arguments_of(model, torch.tensor([1, 2]))
    tokens = np.array([[1, 2], [3, 4]])
    batched = jax.vmap(source.load(), (None, 0))(params, tokens)
    np.testing.assert_allclose(
        batched, model(torch.from_numpy(tokens)).detach(), rtol=1e-5, atol=1e-6
    )


def test_anonymous_source_stores_no_names():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    source = untrace.source(model, anonymous=True)(torch.randn(3, 4))
    assert source.report.is_verified and not source.module.stored
    assert "weight" not in source.module.body


def test_static_arguments_are_those_that_are_no_tensors():
    with pytest.raises(ValueError, match="no tensors are static"):
        untrace.source(nn.Linear(2, 2), static_argnums=0)


def test_compiled_module_is_the_one_that_it_was_made_of():
    source = untrace.source(torch.compile(Tied()))(torch.tensor([1, 2]))
    assert source.name == "tied" and source.parity.is_close


def test_scripted_module_is_refused():
    with pytest.raises(CaptureError, match="no Python code"):
        untrace.source(torch.jit.trace(nn.Linear(2, 2), torch.ones(2)))(torch.ones(2))


class Listed(nn.Module):
    def forward(self, x, others):
        total = x
        others = others.copy()
        others.append(x)
        for other in others:
            total = total + other
        return total


def test_lists_stay_lists():
    x = torch.randn(2, 3)
    source = untrace.source(Listed())(x, [x + 1, x + 2])
    assert source.parity.is_close and "(*others,)" not in str(source)


class Unique(nn.Linear):
    def __deepcopy__(self, memo):
        raise RuntimeError("there is one of me")


def test_what_torch_cannot_be_given_is_said_to_be_not_compared():
    source = untrace.source(Unique(3, 4))(torch.randn(2, 3))
    assert source.report.is_verified and not source.parity.is_close
    assert "there is one of me" in str(source.parity)


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x) + self.norm(2 * x)


def test_buffers_that_are_not_read_leave_no_trace():
    source = untrace.source(Counted().eval())(torch.randn(2, 3))
    text = str(source)
    assert "def apply_" not in text and "num_batches_tracked" not in text
    assert "return batch_norm1d(" in text.partition("def counted(")[2]


class Decaying(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        with torch.no_grad():
            self.weight.mul_(0.9)
        return x * self.weight


def test_parameter_that_is_changed_in_place_is_named():
    with pytest.raises(CaptureError, match="changes the parameter weight in place"):
        untrace.source(Decaying())(torch.ones(3))


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = None
        self.history = []

    def forward(self, x):
        self.seen = x * 2
        self.history.append(x.sum())
        return self.seen + 1


def test_what_a_module_keeps_where_nothing_was_is_said_to_be_lost():
    src = untrace.source(Lazy())(torch.ones(3))
    assert src.report.is_verified
    notes = " ".join(src.report.notes)
    assert "Not returned: `seen`, `history.0`, where the module keeps tensors" in notes


def attend(x, scale, dropout):
    y = F.dropout(x * scale, p=dropout, training=True)
    return y + x


class Attended(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.last = nn.Dropout(0.2)

    def forward(self, x):
        hidden = self.drop(x)
        hidden = attend(hidden, 2.0, 0.1) + attend(hidden, 3.0, 0.3)
        return self.last(hidden)


def test_a_local_that_is_called_like_a_function_does_not_keep_it():
    source = untrace.source(Attended().train())(torch.ones(2, 7))
    assert source.report.strength == "identical" and source.parity.is_close
    defined = [line for line in str(source).splitlines() if line.startswith("def drop")]
    assert defined == ["def dropout(x, key, p):"]


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x):
        batch, length, _ = x.size()
        shape = (*x.shape[:-1], -1, 4)
        q = self.q(x).view(shape).transpose(1, 2)
        k = self.q(x).view(batch, length, -1, 4).transpose(1, 2)
        mask = torch.ones(x.size(1), x.size(1)).tril()
        scores = q @ k.transpose(2, 3) * mask
        return scores.reshape(batch, -1, length)


def test_sizes_of_tensors_are_written_as_such():
    source = untrace.source(Heads())(torch.ones(2, 3, 8))
    assert source.report.strength == "identical" and source.parity.is_close
    text = str(source)
    for written in (
        "batch, length, _ = x.shape",
        "reshape((*x.shape[:-1], -1, 4))",
        "reshape((batch, length, -1, 4))",
        "jnp.ones((x.shape[1], x.shape[1]), jnp.float32)",
        "reshape((batch, -1, length))",
    ):
        assert written in text, text


class Watched(nn.Module):
    """It installs its hooks when it first runs, and keeps what they are called with."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.is_watched = False

    def forward(self, x):
        seen = []
        if not self.is_watched:
            self.is_watched = True
            self.inner.register_forward_hook(lambda *_: self.seen.append(_[2]))
        self.seen = seen
        y = self.inner(x)
        return y, torch.stack(seen)


def test_hooks_that_a_module_installs_are_those_of_a_copy():
    model = Watched()
    src = untrace.source(model)(torch.ones(2, 3))
    assert src.report.is_verified and src.parity.is_close
    assert not model.inner._forward_hooks and not model.is_watched
    assert model(torch.ones(2, 3))[1].shape == (1, 2, 3)


class Checked(nn.Module):
    def forward(self, x):
        if not torch.compiler.is_compiling() and bool((x < 0).any()):
            warnings.warn("negative numbers", stacklevel=2)
        return torch.sqrt(x.abs())


def test_modules_that_check_values_are_followed_as_they_are_compiled():
    src = untrace.source(Checked())(torch.ones(3))
    assert src.report.strength == "identical" and src.parity.is_close
    assert "as `torch.compile` does" in " ".join(src.report.notes)
    assert not torch.compiler.is_compiling()


@functools.lru_cache
def positions(n):
    return torch.arange(n)


@functools.cache
def tables(n):
    return torch.arange(n), [torch.ones(n)]


class Cached(nn.Module):
    def forward(self, x):
        at, (ones,) = tables(x.shape[0])
        return x + positions(x.shape[0]) * at + ones


KEPT = {}


class Kept(nn.Module):
    def forward(self, x):
        if "positions" not in KEPT:
            KEPT["positions"] = torch.arange(x.shape[0])
        return x + KEPT["positions"]


def test_tensors_that_caches_keep_are_not_those_of_another_run():
    """A dict of the module is not cleared: who knows what else it is for."""
    model, x = Cached(), torch.ones(3)
    source = untrace.source(model)(x)
    assert source.report.strength == "identical" and source.parity.is_close
    assert model(x).tolist() == [2.0, 3.0, 6.0] and type(positions(3)) is torch.Tensor
    with pytest.raises(CaptureError, match=r"of an earlier run is used \(test_sources"):
        untrace.source(Kept())(x)


def test_threads_recover_modules_beside_each_other():
    def recovered(_):
        return str(untrace.source(Checked())(torch.ones(3)))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        texts = [*pool.map(recovered, range(12))]
    assert set(texts) == {recovered(0)}
