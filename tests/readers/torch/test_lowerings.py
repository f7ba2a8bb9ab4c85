"""Every lowering gives the values and the gradients that torch gives."""

import jax
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import untrace  # noqa: E402
from untrace.readers.torch import parity, program  # noqa: E402


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def compare(function, *inputs):
    """The parity of a function of tensors, without writing a source of it."""
    read = program.read(Calls(function).eval(), inputs, {}, "calls")
    return parity.compare(read, read.function)


UNARY = {
    "abs": torch.abs,
    "exp": torch.exp,
    "log1p": lambda x: torch.log1p(x.abs()),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "frac": torch.frac,
    "round": torch.round,
    "reciprocal": lambda x: (x.abs() + 1).reciprocal(),
    "neg": lambda x: -x,
    "power": lambda x: x**3 + 2**x,
    "reflected": lambda x: 1 - x + 2 / (x.abs() + 1),
    "neutral": lambda x: (x * 1 + 0) / 1 - 0,
    "floor_divide": lambda x: x // 0.3,
    "remainder": lambda x: x % 0.7,
    "clamp": lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0.1),
    "comparisons": lambda x: ((x > 0) & ~(x >= 1) | (x != x)).float(),
    "relu": F.relu,
    "relu6": F.relu6,
    "relu6_of_zeros": lambda x: F.relu6(x * 0) * x + F.hardtanh(x * 0, 0, 2) * x,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "elu": lambda x: F.elu(x, 0.7),
    "celu": F.celu,
    "selu": F.selu,
    "mish": F.mish,
    "softplus": F.softplus,
    "softplus_beta": lambda x: F.softplus(x, beta=2.0),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "softsign": F.softsign,
    "logsigmoid": F.logsigmoid,
    "implicit_axis": lambda x: F.log_softmax(x) + F.softmax(x[None])[0] + F.softmax(x),
    "glu": F.glu,
    "softmax": lambda x: F.softmax(x, dim=0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmin": F.softmin,
    "tanhshrink": F.tanhshrink,
    "sum": lambda x: x.sum() + x.sum(1, keepdim=True),
    "mean": lambda x: x.mean(dim=(0, 1)),
    "var": lambda x: x.var(1) + x.var(dim=1, unbiased=False),
    "std": lambda x: x.std(0),
    "max": lambda x: x.max() + x.max(dim=1).values + x.amax(1),
    "min": lambda x: x.min(1)[0],
    "argmax": lambda x: x.argmax(1),
    "norm": lambda x: x.norm() + x.norm(dim=1) + torch.linalg.norm(x, dim=1),
    "norm_of_matrices": lambda x: x.view(2, 2, 6).norm(3, dim=(1, 2), keepdim=True),
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=(0, 1)) + x.norm("fro"),
    "linalg_norm": lambda x: (
        torch.linalg.norm(x)
        + torch.linalg.norm(x, dim=(0, 1))
        + torch.linalg.norm(x, 1)
    ),
    "weight_norm": lambda x: torch._weight_norm(
        x.view(2, 2, 6), x.view(2, 2, 6)[:, :1, :1]
    ),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cumsum": lambda x: x.cumsum(1),
    "prod": lambda x: x.prod(1),
    "sort": lambda x: x.sort(dim=1, descending=True),
    "argsort": lambda x: x.argsort(1),
    "topk": lambda x: x.topk(2, dim=1),
    "topk_of_rows": lambda x: x.topk(2, dim=0),
    "smallest": lambda x: x.topk(2, largest=False).values,
    "any": lambda x: (x > 1).any(1),
    "all": lambda x: torch.all(x > -9),
    "view": lambda x: x.view(2, 2, -1) + x.reshape((2, 2, 6)),
    "flatten": lambda x: x.view(2, 2, 6).flatten(1),
    "unflatten": lambda x: x.unflatten(1, (2, 3)),
    "permute": lambda x: x.view(2, 2, 6).permute(2, 0, 1),
    "transpose": lambda x: x.t() @ x + x.T @ x + x.mT @ x,
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1) + x[:, None].squeeze(),
    "expand": lambda x: x[:, None].expand(-1, 3, -1),
    "repeat": lambda x: x.repeat(2, 1) + x.repeat_interleave(2, 0),
    "cat": lambda x: torch.cat([x, x * 2], dim=-1),
    "stack": lambda x: torch.stack([x, x * 2], dim=1),
    "split": lambda x: x.split(4, dim=1)[1] * x.split([2, 4], 1)[0],
    "chunk": lambda x: [part * 2 for part in x.chunk(4, dim=1)],
    "unbind": lambda x: x.unbind(1)[2],
    "flip": lambda x: x.flip(0, 1),
    "roll": lambda x: torch.roll(x, 1, 0),
    "tril": lambda x: x.tril() + x.triu(1),
    "diagonal": lambda x: x[:, :4].diagonal() + torch.diag(x[:, :4]),
    "index": lambda x: x[1:3, ::2] + x[[0, 1]][:, :3],
    "index_of_tensor": lambda x: x[torch.tensor([0, 2]), 1:],
    "ellipsis": lambda x: x[..., None, -1],
    "gather": lambda x: x.gather(1, torch.tensor([[0, 1], [2, 3], [4, 5], [1, 1]])),
    "gather_short": lambda x: x.gather(1, torch.tensor([[0, 1]])),
    "index_select": lambda x: x.index_select(1, torch.tensor([3, 0])),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2.0),
    "scatter": lambda x: x.scatter(1, torch.tensor([[1], [0], [3], [2]]), 9.0),
    "scatter_add": lambda x: torch.zeros(4, 6).scatter_add(
        1, torch.tensor([[1, 1], [0, 2]]), x
    ),
    "index_add": lambda x: x.index_add(0, torch.tensor([1, 1]), x[:2]),
    "pad": lambda x: F.pad(x, (1, 2)) + F.pad(x, (3, 0), value=1.0),
    "reflect": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    "crop": lambda x: F.pad(x, (-1, -1)),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "addmm": lambda x: torch.addmm(torch.ones(4), x, x.T),
    "outer": lambda x: torch.outer(x[0], x[1]),
    "creation": lambda x: (
        x + torch.arange(6) + torch.zeros_like(x) + x.new_ones(4, 6) + torch.eye(4, 6)
    ),
    "linspace": lambda x: x + torch.linspace(0, 1, 6) + torch.full((6,), 2.0),
    "types": lambda x: x.double().float() + x.long() + x.to(torch.int32),
    "complex": lambda x: (
        torch.view_as_complex(x.reshape(4, 3, 2))
        * torch.polar(x[:, :3].abs(), x[:, 3:])
    ),
    "fft": lambda x: torch.fft.rfft(x).abs(),
    "detach": lambda x: x * x.detach(),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0)),
    "in_place": lambda x: x.clone().add_(1).mul_(2).clamp_(max=3),
    "augmented": lambda x: _augmented(x),
    "shapes_in_place": lambda x: _shapes_in_place(x),
    "stft": lambda x: torch.stft(
        x.flatten(), 8, window=torch.hann_window(8), return_complex=True
    ).abs(),
    "distributions": lambda x: (
        torch.distributions.Normal(x, 2.0).log_prob(x + 1)
        + torch.distributions.Categorical(logits=x).entropy()[:, None]
    ),
    "views": lambda x: _views(x),
    "set_items": lambda x: _set_items(x),
}


def _shapes_in_place(x):
    turned = x * 2
    turned.transpose_(0, 1)
    turned[0] += 1
    part = turned[1:]
    part.unsqueeze_(0).mul_(3)
    return turned, part.squeeze_(0).t_()


def _augmented(x):
    y = x * 1.5
    y += x
    y[0] += 1
    y[:, 1:3] *= 2
    return y


def _views(x):
    y = torch.zeros(4, 6)
    y.view(2, 12)[0].copy_(x.reshape(-1)[:12])
    y.t()[0] = 5.0
    row = y[3]
    y[3, 2] = 7.0
    return y, row


def _set_items(x):
    y = x.clone()
    y[y > 1] = 0.5
    y[torch.tensor([0, 2]), torch.tensor([1, 1])] = 3.0
    y[..., -1] = x[..., 0]
    return y


@pytest.mark.parametrize("name", UNARY)
def test_function_of_a_matrix_is_that_of_torch(name):
    torch.manual_seed(0)
    found = compare(UNARY[name], torch.randn(4, 6))
    assert found.is_close, found


IMAGES = {
    "conv": lambda x, w: F.conv2d(x, w, stride=2, padding=1, dilation=2),
    "conv_same": lambda x, w: F.conv2d(x, w, torch.ones(6), padding="same"),
    "grouped": lambda x, w: F.conv2d(x, w[:, :2], groups=2),
    "single": lambda x, w: F.conv2d(x[0], w),
    "transposed": lambda x, w: F.conv_transpose2d(
        x[:, :1].expand(-1, 6, -1, -1), w, stride=2, padding=1, output_padding=1
    ),
    "transposed_groups": lambda x, w: F.conv_transpose2d(
        torch.cat([x, x[:, :2]], 1), w, groups=3
    ),
    "max_pool": lambda x, w: F.max_pool2d(x, 3, stride=2, padding=1),
    "max_pool_ceil": lambda x, w: F.max_pool2d(x, 3, stride=2, ceil_mode=True),
    "max_pool_places": lambda x, w: F.max_pool2d(
        x.round(), 3, 2, 1, return_indices=True
    ),
    "adaptive_max": lambda x, w: F.adaptive_max_pool2d(x, (2, 4)),
    "avg_pool": lambda x, w: F.avg_pool2d(x, 2) + F.avg_pool2d(x, 3, 2, 1)[..., :4],
    "adaptive": lambda x, w: F.adaptive_avg_pool2d(x, 2) + x.mean((2, 3), True),
    "nearest": lambda x, w: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x, w: F.interpolate(
        x, size=(16, 12), mode="bilinear", align_corners=False
    ),
    "pixel_shuffle": lambda x, w: F.pixel_shuffle(x, 2),
    "group_norm": lambda x, w: F.group_norm(x, 2, torch.ones(4), torch.zeros(4)),
    "instance_norm": lambda x, w: F.instance_norm(x),
    "conv1d": lambda x, w: F.conv1d(x[:, :, 0], w[:, :, 0], padding=1),
}


@pytest.mark.parametrize("name", IMAGES)
def test_function_of_images_is_that_of_torch(name):
    torch.manual_seed(0)
    found = compare(IMAGES[name], torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3))
    assert found.is_close, found


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "masked": {"attn_mask": torch.ones(5, 5).tril().bool()},
    "rows_without_rest": {"attn_mask": torch.ones(5, 5).tril(-1).bool()},
    "biased": {"attn_mask": torch.randn(5, 5)},
    "nothing_left": {"attn_mask": torch.ones(5, 5).tril(-1).log()},
    "biased_heads": {"attn_mask": torch.randn(3, 5, 5), "scale": 0.3},
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_is_that_of_torch(name):
    torch.manual_seed(0)

    def attention(q):
        return F.scaled_dot_product_attention(q, q * 2, q + 1, **ATTENTION[name])

    found = compare(attention, torch.randn(2, 3, 5, 8))
    assert found.is_close, found


@pytest.mark.parametrize(
    "options",
    [
        {"need_weights": False},
        {"need_weights": False, "attn_mask": torch.randn(5, 5)},
        {"need_weights": False, "attn_mask": torch.randn(4, 5, 5)},
        {"need_weights": False, "key_padding_mask": torch.arange(5) > torch.ones(2, 1)},
        {"need_weights": False, "attn_mask": torch.ones(5, 5).triu(0).bool()},
        {"attn_mask": torch.ones(5, 5).triu(1).bool()},
    ],
)
def test_layer_of_attention_is_that_of_torch(options):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    x = torch.randn(2, 5, 6)
    read = program.read(layer, (x, x * 2, x + 1), options, "layer")
    found = parity.compare(read, read.function)
    assert found.is_close, found


class Centred(nn.Module):
    """What is normalised has the mean 0, and so has each linear map of it."""

    def __init__(self):
        super().__init__()
        self.first = nn.BatchNorm1d(8)
        self.map = nn.Linear(8, 8, bias=False)
        self.second = nn.BatchNorm1d(8)

    def forward(self, x):
        return self.second(self.map(self.first(x)))


@pytest.mark.parametrize(
    "planted, is_close",
    [(0.0, True), (3e-6, False), (1e-4, False)],
)
def test_a_mean_of_nothing_but_rounding_is_told_from_an_error(planted, is_close):
    torch.manual_seed(0)
    read = program.read(Centred().train(), (torch.randn(64, 8) * 3 + 1,), {}, "centred")

    def function(*args):
        out, buffers = read.function(*args)
        second = buffers["second"]
        second = {**second, "running_mean": second["running_mean"] + planted}
        return out, {**buffers, "second": second}

    found = parity.compare(read, function)
    mean = next(
        error
        for error in found.buffers
        if error.name == 'buffers["second"]["running_mean"]'
    )
    assert mean.relative > 1e-2  # there is no digit to be compared
    assert found.is_close is is_close, found
    assert "nothing but rounding" in str(found) or not is_close
    assert ("DIFFERENT" in str(found)) is not is_close


DRAWS = {
    "in_place": lambda x: (
        torch.empty_like(x).normal_() * torch.zeros_like(x).normal_(1, 2)
        + torch.empty_like(x).uniform_(-1, 1) * torch.empty_like(x).exponential_()
        + torch.zeros_like(x).bernoulli_(0.3)
    ),
    "integers": lambda x: x[torch.randperm(4)] + torch.randint(3, 9, (6,)),
    "like": lambda x: torch.randint_like(x, 5) + torch.rand_like(x) + torch.rand(6),
    "normal": lambda x: torch.normal(0.5, 2.0, (6,)) + x,
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
    "gumbel_softmax": F.gumbel_softmax,
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "dropout1d": lambda x: F.dropout1d(x, training=True),
    "dropout_of_signals": lambda x: F.dropout1d(x.view(2, 3, 4), training=True),
    "dropout_of_images": lambda x: F.dropout2d(x.view(2, 3, 2, 2), training=True),
    "dropout3d": lambda x: F.dropout3d(x.view(3, 2, 2, 2), training=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_drawn_by_jax(name):
    torch.manual_seed(0)
    read = program.read(Calls(DRAWS[name]), (torch.randn(4, 6),), {}, "draws")
    assert read.takes_key
    found = parity.compare(read, read.function)
    assert found.is_close, found


@pytest.mark.parametrize("name", ["cauchy_", "log_normal_", "random_"])
def test_what_draws_otherwise_is_refused_and_no_constant(name):
    def fill(x):
        return x + getattr(torch.ones_like(x), name)()

    with pytest.raises(untrace.CaptureError, match=f"{name}.*draws random numbers"):
        program.read(Calls(fill), (torch.randn(2),), {}, "fill")


@pytest.mark.parametrize(
    "function",
    [
        torch.poisson,
        lambda x: x.multinomial(1),
        lambda x: (x[1:], x.unsqueeze_(0)),
    ],
)
def test_what_cannot_be_written_in_place_or_drawn_is_refused(function):
    with pytest.raises(untrace.CaptureError, match="draws|samples|a view of this"):
        program.read(Calls(function), (torch.rand(2),), {}, "function")


LOSSES = {
    "cross_entropy": lambda x, y: F.cross_entropy(x, y),
    "ignored": lambda x, y: F.cross_entropy(x, y, ignore_index=1, reduction="none"),
    "weighted": lambda x, y: F.cross_entropy(x, y, x[0].exp(), ignore_index=1),
    "smooth": lambda x, y: F.cross_entropy(
        x[..., None], y[:, None], x[0].exp(), ignore_index=1, label_smoothing=0.1
    ),
    "soft_labels": lambda x, y: F.cross_entropy(
        x, x.softmax(1), x[0].exp(), label_smoothing=0.1
    ),
    "nll": lambda x, y: F.nll_loss(x.log_softmax(1), y, reduction="sum"),
    "mse": lambda x, y: F.mse_loss(x, F.one_hot(y, 5).float()),
    "l1": lambda x, y: F.l1_loss(x, x * 0.5),
    "bce_of_probabilities": lambda x, y: F.binary_cross_entropy(
        x.sigmoid(), F.one_hot(y, 5).float()
    ),
    "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, F.one_hot(y, 5).float()),
    "huber": lambda x, y: F.smooth_l1_loss(x, x * 0.5),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_is_that_of_torch(name):
    torch.manual_seed(0)
    found = compare(LOSSES[name], torch.randn(6, 5), torch.randint(0, 5, (6,)))
    assert found.is_close, found


LAYERS = {
    "lstm": lambda: torch.nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True),
    "gru": lambda: torch.nn.GRU(6, 5, batch_first=True),
    "lstm_dropout": lambda: torch.nn.LSTM(6, 5, 3, batch_first=True, dropout=0.5),
    "gru_dropout": lambda: torch.nn.GRU(6, 5, 2, dropout=0.5, bidirectional=True),
    "rnn_dropout": lambda: torch.nn.RNN(6, 5, 2, dropout=0.5, bias=False),
    "rnn": lambda: torch.nn.RNN(6, 5, nonlinearity="relu", batch_first=True),
    "layer_norm": lambda: torch.nn.LayerNorm((4, 6)),
    "rms_norm": lambda: torch.nn.RMSNorm(6),
    "batch_norm": lambda: torch.nn.BatchNorm1d(4),
    "instance_norm": lambda: torch.nn.InstanceNorm1d(4, eps=1e-3, affine=True),
    "prelu": lambda: torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.PReLU()),
    "bilinear": lambda: Calls(torch.nn.Bilinear(6, 6, 2)),
    "upsample": lambda: torch.nn.Sequential(torch.nn.Upsample(scale_factor=2)),
    "weight_norm": lambda: torch.nn.utils.parametrizations.weight_norm(
        torch.nn.Linear(6, 3)
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layer_is_that_of_torch(name):
    torch.manual_seed(0)
    layer = LAYERS[name]()
    x = torch.randn(2, 4, 6)
    inputs = (x, x * 2) if name == "bilinear" else (x,)
    read = program.read(layer, inputs, {}, "layer")
    found = parity.compare(read, read.function)
    assert found.is_close, found


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags_of_embeddings_are_those_of_torch(mode):
    bag = torch.nn.EmbeddingBag(5, 3, mode=mode)
    found = compare(bag, torch.tensor([[1, 2], [3, 0]]))
    assert found.is_close, found


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags_of_several_sizes_are_those_of_torch(mode, last):
    bag = torch.nn.EmbeddingBag(5, 3, mode=mode, include_last_offset=last)
    offsets = torch.tensor([0, 2, 2, 5, 6])  # one is empty
    found = compare(bag, torch.tensor([1, 2, 3, 3, 0, 4]), offsets)
    assert found.is_close and not found.skipped, found


def test_arrays_are_drawn_anew_for_each_key():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Dropout(0.5))
    read = program.read(model, (torch.ones(64),), {}, "model")
    assert list(read.arguments) == ["key", "x"]
    first, second = (
        read.function(jax.random.key(i), jax.numpy.ones(64)) for i in (0, 1)
    )
    assert (first != second).any()
    assert set(first.tolist()) == {0.0, 4.0}


class Weighted(nn.Module):
    def forward(self, x, y):
        labels = (y > 0).float()
        return (
            F.mse_loss(x, y, reduction="none", weight=y**2),
            F.binary_cross_entropy_with_logits(x, labels, pos_weight=torch.tensor(3.0)),
            torch.prod(x.half(), 0, dtype=torch.float32),
            F.mse_loss(x, y, size_average=False),
            F.binary_cross_entropy_with_logits(x, labels, None, None, False),
            F.cross_entropy(x, labels.long()[:, 0], reduce=False),
        )


def test_what_a_lowering_does_not_read_is_left_to_torch():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    src = untrace.source(Weighted())(x, y)
    assert src.report.is_verified and src.parity.is_close, str(src.parity)


class Masked(torch.nn.Module):
    def forward(self, x, mask, row):
        rows = x.clone()
        rows[mask] = row
        each = x.clone()
        each[mask] = torch.arange(8.0).reshape(4, 2)
        numbers = x.clone()
        numbers[x > 6] = torch.arange(5.0)
        zeros = x.clone()
        zeros[mask] = 0.0
        return rows, each, numbers, zeros


def test_items_of_masks_are_rows_where_there_are_more_axes():
    x = torch.arange(12.0).reshape(2, 3, 2)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    src = untrace.source(Masked())(x, mask, torch.ones(2))
    assert src.report.is_verified and src.parity.is_close, src.parity


class Wrong(torch.nn.Module):
    def forward(self, x):
        y = x.clone()
        y[x > 0] = torch.ones(2, 7, 5)
        return y


def test_errors_of_items_name_the_line():
    with pytest.raises(
        untrace.errors.CaptureError, match=r"`__setitem__` of torch \(test"
    ):
        untrace.source(Wrong())(torch.ones(3, 3))
