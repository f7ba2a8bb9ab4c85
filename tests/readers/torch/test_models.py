"""Models come back verified, equal to torch, with their names, and not much longer."""

import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")

import untrace  # noqa: E402
from tests.readers.torch.measures import (  # noqa: E402
    ratio_of_tokens,
    share_of_names,
)

# The tokens of the functions by those of the model: in eval and in train mode.
MODELS = {
    "encoder": (1.9, 2.4),  # of torch's own layers, which its source does not hold
    "gnn": (0.85, 0.85),  # sizes are `x.shape[0]`, as there
    "gpt": (0.8, 1.0),
    "gru": (2.6, 2.6),  # the same
    "llama": (0.7, 0.7),
    "lstm": (3.7, 3.7),  # the same
    "mlp": (1.1, 2.2),
    "moe": (0.7, 0.7),
    "resnet": (1.4, 1.8),
    "unet": (1.3, 1.3),
    "vit": (0.8, 0.8),
}


@pytest.mark.parametrize("is_training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", MODELS)
def test_model_comes_back(name, is_training):
    file = importlib.import_module(f"tests.readers.torch.models.{name}")
    torch.manual_seed(0)
    model, inputs = file.example()
    source = untrace.source(model.train(is_training))(*inputs)
    assert source.report.strength in ("identical", "equivalent"), source.report
    assert not [note for note in source.report.notes if "its equations" in note]
    assert source.parity.mode == ("train" if is_training else "eval")
    assert source.parity.is_close, source.parity
    assert max(error.relative for error in source.parity.outputs) <= 1e-5
    assert max(error.relative for error in source.parity.gradients) <= 1e-5
    model_text = inspect.getsource(file)
    share, missing = share_of_names(model_text, str(source))
    assert share >= 1.0, missing
    ratio = ratio_of_tokens(model_text, str(source))
    assert ratio <= MODELS[name][is_training], ratio
