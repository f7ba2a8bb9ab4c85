"""What torch.fx and untrace write for the same models of PyTorch, in `eval` mode.

    PYTHONPATH=. python benchmarks/peers_torch.py

Needs the extra `torch`. Both run the model's example; torch.fx traces it symbolically, as
`torch.fx.symbolic_trace(model)` does. Tokens are those of the text, by those of the classes
of the model; names are the part of the arguments and variables of `forward` that is in it.
"""

from __future__ import annotations

import importlib
import inspect
import time
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

import untrace
from tests.readers.torch.measures import (
    ratio_of_tokens,
    share_of_names,
)

MODELS = [
    "encoder",
    "gnn",
    "gpt",
    "gru",
    "llama",
    "lstm",
    "mlp",
    "moe",
    "resnet",
    "unet",
    "vit",
]


def by_fx(model: torch.nn.Module, inputs: tuple[Any, ...], text: str) -> str:
    """What torch.fx makes of a model, as columns of a table."""
    begin = time.perf_counter()
    try:
        traced = torch.fx.symbolic_trace(model)
    except Exception as error:  # whatever a model does with proxies
        return f"{type(error).__name__} | | | "
    seconds = time.perf_counter() - begin
    pairs = zip(*(pytree.tree_leaves(f(*inputs)) for f in (model, traced)))
    is_same = all(torch.equal(a, b) for a, b in pairs)
    return f"{'equal' if is_same else 'others'} | {scores(text, traced.code, seconds)}"


def by_untrace(model: torch.nn.Module, inputs: tuple[Any, ...], text: str) -> str:
    """What untrace makes of a model, as columns of a table."""
    begin = time.perf_counter()
    source = untrace.source(model)(*inputs)
    seconds = time.perf_counter() - begin
    assert source.parity is not None
    error = max(one.relative for one in source.parity.outputs)
    verdict = f"{source.report.strength}, {error:.0e}"
    return f"{verdict} | {scores(text, str(source), seconds)}"


def scores(text: str, written: str, seconds: float) -> str:
    """Tokens, names and time."""
    share, _ = share_of_names(text, written)
    return f"{ratio_of_tokens(text, written):.2f} | {share:.0%} | {seconds:.2f} s"


def main() -> None:
    """Print the table."""
    columns = "values | tokens | names | time"
    print(f"| model | torch.fx: {columns} | untrace: {columns} |")
    for name in MODELS:
        file = importlib.import_module(f"tests.readers.torch.models.{name}")
        torch.manual_seed(0)
        model, inputs = file.example()
        text = inspect.getsource(file)
        row = [by(model.eval(), inputs, text) for by in (by_fx, by_untrace)]
        print(f"| {name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
