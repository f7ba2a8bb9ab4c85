"""The block of a Llama of two layers that the first experiment of this project printed."""

import pytest

torch = pytest.importorskip("torch")

import untrace  # noqa: E402
from tests.readers.torch.measures import functions  # noqa: E402
from tests.readers.torch.models import llama  # noqa: E402

LENGTH = 8


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(0)
    model = llama.Transformer(dim=256, n_layers=2, n_heads=4, max_seq_len=2048)
    model = model.to(torch.bfloat16).eval()
    embedding = torch.randn(1, LENGTH, 256, dtype=torch.bfloat16)
    freqs_cis = llama.precompute_freqs_cis(64, 4096)[:LENGTH]
    mask = torch.full((LENGTH, LENGTH), float("-inf"), dtype=torch.bfloat16).triu(1)
    return untrace.source(model.layers[0])(embedding, 0, freqs_cis, mask)


def test_block_is_verified_and_equal_to_torch_within_rounding(source):
    assert source.report.strength == "identical"
    assert source.parity.is_close
    assert {error.dtype for error in source.parity.outputs} == {"bfloat16"}


def test_functions_and_variables_have_their_names(source):
    text = functions(str(source))
    for name in ("rms_norm", "apply_rotary_emb", "feed_forward", "transformer_block"):
        assert f"def {name}(" in text
    for line in (
        "xq, xk = apply_rotary_emb(xq, xk, freqs_cis)",
        "bsz, seqlen, _ = x.shape",
        "xq = xq.reshape((bsz, seqlen, 4, 64))",
        "keys = cache_k[:bsz, :start_pos + seqlen]",
        "scores = xq @ jnp.swapaxes(keys, 2, 3) / math.sqrt(64)",
        "output = scores @ values",
        "h = x + y",
    ):
        assert line in text


def test_nothing_of_the_machinery_is_named(source):
    text = str(source)
    for word in ("torch", "self", "state_2", "a_0", "* 1\n", "field_0"):
        assert word not in functions(text), word


def test_caches_are_state_that_goes_in_and_comes_out(source):
    text = str(source)
    assert "def transformer_block(params, buffers, x, freqs_cis, mask):" in text
    written = 'buffers["cache_k"].at[:bsz, start_pos : start_pos + seqlen].set(xk)'
    assert written in text
    assert "    start_pos = 0\n" in text
    assert [error.name for error in source.parity.buffers] == [
        'buffers["attention"]["cache_k"]',
        'buffers["attention"]["cache_v"]',
    ]
