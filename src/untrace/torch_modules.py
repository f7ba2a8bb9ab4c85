"""Sources of modules of PyTorch, with their weights and their parity with torch."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from untrace.errors import OptionError
from untrace.lifting.recorded.functions.function_names import snake_case
from untrace.recovery.record import own_files
from untrace.result import Source

WEIGHTS = "__untrace_weights__"
"""What functions say of their parameters whose values are stored beside the file."""


def is_torch_module(value: Any) -> bool:
    """Whether a value is a module of torch, which is imported then."""
    torch = sys.modules.get("torch")
    nn = getattr(torch, "nn", None)
    return nn is not None and isinstance(value, nn.Module)


def _lost(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Say which tensors a module keeps that its function does not return, if any."""
    if not paths:
        return []
    names = ", ".join(f"`{'.'.join(path)}`" for path in paths)
    return [
        f"Not returned: {names}, where the module keeps tensors that it did not hold "
        "before. Call it once before you pass it, or give it buffers to keep."
    ]


def _read(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    program: Any = importlib.import_module("untrace.readers.torch.program")
    named = getattr(module, "_orig_mod", module)  # of torch.compile
    return program.read(named, args, kwargs, snake_case(type(named).__name__))


def _files(module: Any) -> set[str]:
    """The files of a module and of those in it that are not of torch itself."""
    classes = {cls for one in module.modules() for cls in type(one).__mro__}
    own = [cls for cls in classes if cls.__module__.partition(".")[0] != "torch"]
    forwards = [inspect.unwrap(vars(c)["forward"]) for c in own if "forward" in vars(c)]
    return {one.__code__.co_filename for one in forwards if inspect.isfunction(one)}


def as_function(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a module as a JAX function, and the arrays that it is called with.

    Args:
      args: Its positional inputs, with torch tensors.
      kwargs: Its inputs that are passed by name.

    Raises:
      CaptureError: If it cannot be run on tensors that stand for arrays.
    """
    read = _read(module, args, kwargs)
    return read.function, tuple(read.arguments.values())


def refuse_static(*options: Any) -> None:
    """Refuse static arguments, of which modules have no choice.

    Raises:
      OptionError: If an option is given.
    """
    if any(option is not None for option in options):
        raise OptionError("inputs of a torch module that are no tensors are static")


_COMPILED = (
    "The module asks for values of tensors: it was followed as `torch.compile` does, with "
    "`torch.compiler.is_compiling()`."
)


def of_torch_module(
    module: Any, source: Callable[[Any], Callable[..., Source]], keeps_weights: bool
) -> Callable[..., Source]:
    """What takes the inputs of a module, as torch tensors, and returns its source.

    Args:
      source: `untrace.source` with the options that the user gave.
      keeps_weights: Whether the weights are stored beside the file, under their names.
    """

    def with_inputs(*args: Any, **kwargs: Any) -> Source:
        read = _read(module, args, kwargs)
        stored = [name for name in ("params", "buffers") if name in read.arguments]
        setattr(read.function, WEIGHTS, tuple(stored) if keeps_weights else ())
        with own_files(_files(module)):  # transformers has a file for each model
            made = source(read.function)(*read.arguments.values())
        comparing: Any = importlib.import_module("untrace.readers.torch.parity")
        parity = comparing.compare(read, made.load())
        told = (_COMPILED,) if read.is_compiled else ()
        notes = (*made.report.notes, *_lost(read.lost), *told, str(parity))
        report = replace(made.report, notes=notes)
        return replace(made, report=report, parity=parity, _text=[])

    return with_inputs
