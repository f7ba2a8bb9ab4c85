"""Models of the transformers library come back from their configurations."""

import inspect
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import untrace  # noqa: E402
from tests.readers.torch.measures import functions, names  # noqa: E402


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", ["Llama", "GPT2", "Bert"])
def test_model_is_verified_and_equal_to_torch(name, mode):
    torch.manual_seed(0)
    model = _model(name).train(mode == "train")
    tokens = torch.randint(0, 60, (2, 7))
    source = untrace.source(model)(tokens)
    assert source.report.strength == "identical"
    assert source.parity.is_close, source.parity
    assert max(error.relative for error in source.parity.outputs) <= 1e-5
    assert str(source).count("\ndef ") < 22
    held = names_held(model, tokens)
    missing = held - names(functions(str(source)))
    assert len(missing) <= 0.1 * len(held), missing


def names_held(model, *inputs):
    """The variables of the model's own file that hold tensors when it runs."""
    file = inspect.getsourcefile(type(model))
    found = set()

    def look(frame, event, _):
        if event == "return" and frame.f_code.co_filename == file:
            local = frame.f_locals.items()
            found.update(name for name, v in local if isinstance(v, torch.Tensor))

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        model(*inputs)
    finally:
        sys.setprofile(before)
    return found


def _model(name):
    if name == "GPT2":
        config = transformers.GPT2Config(
            vocab_size=61, n_positions=32, n_embd=32, n_layer=2, n_head=4
        )
        return transformers.GPT2LMHeadModel(config)
    sizes = {
        "vocab_size": 61,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    if name == "Bert":
        return transformers.BertModel(transformers.BertConfig(**sizes))
    config = transformers.LlamaConfig(**sizes, num_key_value_heads=2)
    return transformers.LlamaForCausalLM(config)
