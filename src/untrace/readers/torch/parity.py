"""How near the generated source comes to torch: outputs, new buffers and gradients.

Both run on the inputs that the source was made for. Where torch draws random numbers it
is given those that JAX draws, so that dropout can be compared, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace.errors import reason
from untrace.readers.torch.dispatching import is_python, name_of, without_overrides
from untrace.readers.torch.dispatching import to_jax as converted_arguments
from untrace.readers.torch.library import functional, torch
from untrace.readers.torch.lowerings.random import (
    DRAWS,
    KEYS,
    SELU_LIMIT,
    mask_shape,
)
from untrace.readers.torch.lowerings.table import FILLING, LOWERINGS
from untrace.readers.torch.program import Program, converted, to_jax
from untrace.readers.torch.state import Path, at, buffers, parameters, tensors


@dataclass(frozen=True, slots=True)
class Error:
    """How far two arrays are apart.

    Attributes:
      name: What they are: `out[0]`, `buffers["bn"]["running_mean"]`.
      absolute: The largest difference.
      relative: That, by the largest value of torch.
      dtype: Of the arrays.
      rounding: How far torch is from torch in double precision, where that was asked: a
        mean that is zero but for rounding has no digit that is right.
    """

    name: str
    absolute: float
    relative: float
    dtype: str
    rounding: float = 0.0

    @property
    def is_close(self) -> bool:
        """Whether rounding explains it."""
        return self.is_small() or self.is_of_torch

    def is_small(self, factor: float = 1.0) -> bool:
        """Whether the relative error is one of rounding, or `factor` times that."""
        return self.relative <= factor * TOLERANCES.get(self.dtype, 0.0)

    @property
    def is_of_torch(self) -> bool:
        """Whether torch itself is as far from what it computes in double precision."""
        return 0.0 < self.absolute <= ROUNDING_FACTOR * self.rounding


TOLERANCES = {"float32": 1e-5, "bfloat16": 3e-2, "float16": 4e-3, "complex64": 1e-5}
"""Relative errors that rounding explains, by dtype."""

GRADIENT_FACTOR = 10
"""Gradients are sums of many more terms."""

ROUNDING_FACTOR = 8
"""Another order of the same sums may round so much worse."""


@dataclass(frozen=True, slots=True)
class Parity:
    """What torch and the generated source have in common.

    Attributes:
      mode: "eval" or "train".
      outputs: The errors of what the module returns.
      buffers: The errors of the buffers that it changes.
      gradients: The errors of the gradients with respect to the parameters, of a sum of
        all outputs with random weights.
      skipped: What was not compared, and why.
    """

    mode: str
    outputs: tuple[Error, ...]
    buffers: tuple[Error, ...]
    gradients: tuple[Error, ...]
    skipped: tuple[str, ...] = ()

    @property
    def is_close(self) -> bool:
        """Whether rounding explains all differences."""
        direct = all(error.is_close for error in (*self.outputs, *self.buffers))
        is_compared = bool(self.outputs) or not self.skipped
        return (
            is_compared
            and direct
            and all(
                error.is_small(GRADIENT_FACTOR) or error.is_of_torch
                for error in self.gradients
            )
        )

    def __str__(self) -> str:
        parts = [
            f"{what} {_worst(errors, factor)}"
            for what, errors, factor in (
                ("outputs", self.outputs, 1),
                ("new buffers", self.buffers, 1),
                ("gradients of parameters", self.gradients, GRADIENT_FACTOR),
            )
            if errors
        ]
        if not parts:
            return f"NOT COMPARED WITH TORCH: {'; '.join(self.skipped)}."
        verdict = "Equal to torch" if self.is_close else "DIFFERENT FROM TORCH"
        told = [f"{verdict} in {self.mode} mode; relative errors: {', '.join(parts)}."]
        return " ".join(told)


def _worst(errors: Sequence[Error], factor: float) -> str:
    """Write the largest of errors, and how many larger ones are those of torch itself."""
    telling = [e.relative for e in errors if e.is_small(factor) or not e.is_of_torch]
    n_others = len(errors) - len(telling)
    shown = f"{max(telling, default=0.0):.1e}"
    return f"{shown} ({n_others} of nothing but rounding)" if n_others else shown


def compare(program: Program, function: Callable[..., Any]) -> Parity:
    """Run a module in torch and as JAX source, and compare what comes out.

    Args:
      program: What the source was made of.
      function: The function of the source.
    """
    try:
        return _compared(program, function)
    except Exception as error:  # what torch cannot run may be right in JAX
        mode = "train" if program.module.training else "eval"
        return Parity(mode, (), (), (), (reason(error),))


def _compared(program: Program, function: Callable[..., Any]) -> Parity:
    given = list(program.arguments.values())
    module, wanted = _run(program)

    def run(params: Any) -> Any:
        values = [params, *given[1:]] if "params" in program.arguments else given
        return function(*values)

    params = program.arguments.get("params", {})
    made, pull = jax.vjp(jax.jit(run), params)
    made_out, made_buffers = made if program.changed else (made, {})
    state = buffers(module)
    parity = Parity(
        "train" if program.module.training else "eval",
        tuple(_errors(jax.tree.leaves(made_out), _tensors(wanted))),
        tuple(_buffer_errors(program.changed, made_buffers, state)),
        tuple(_gradient_errors(made, made_out, pull, wanted, module)),
    )
    return parity if parity.is_close else _with_rounding(parity, program)


def _run(program: Program, dtype: Any = None) -> tuple[Any, Any]:
    """Run the module in torch; return it as it is then, and what it returned.

    Args:
      program: What the source was made of.
      dtype: What floats are converted to.
    """
    module = _copied(program.module)
    args = copy.deepcopy(program.inputs)
    kwargs = copy.deepcopy(dict(program.options))
    if dtype is not None:
        module = module.to(dtype)
        args, kwargs = _with_floats(args, dtype), _with_floats(kwargs, dtype)
    for parameter in parameters(module).values():
        parameter.requires_grad_(parameter.is_floating_point())
    with torch.enable_grad(), _SameNumbers(_keys(program)):
        return module, module(*args, **kwargs)


def _with_floats(value: Any, dtype: Any) -> Any:
    """Convert the floats among arguments."""
    leaves, tree = torch.utils._pytree.tree_flatten(value)
    is_float = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in leaves]
    found = [x.to(dtype) if one else x for x, one in zip(leaves, is_float)]
    return torch.utils._pytree.tree_unflatten(found, tree)


def _with_rounding(parity: Parity, program: Program) -> Parity:
    """Learn how far torch is from torch in double precision, if it can run so."""
    found: list[dict[str, Any]] = []
    for dtype in (None, torch.float64):
        try:
            module, wanted = _run(program, dtype)
            outputs = _torch_leaves(wanted)
            state = buffers(module)
            arrays = {_output_name(i, len(outputs)): x for i, x in enumerate(outputs)}
            arrays |= {_spelled("buffers", p): state[p] for p in program.changed}
            gradients = _torch_gradients(wanted, module)
            arrays |= {_spelled("params", p): x for p, x in gradients.items()}
        except Exception:  # some compute with constants of single precision
            return parity
        found.append(arrays)
    single, double = found

    def known(error: Error) -> Error:
        one, other = single.get(error.name), double.get(error.name)
        if one is None or other is None or one.shape != other.shape:
            return error
        apart = (one.detach().double() - other.detach().double()).abs()
        apart = apart[apart.isfinite()]
        return replace(error, rounding=float(apart.max()) if apart.numel() else 0.0)

    parts = (parity.outputs, parity.buffers, parity.gradients)
    return replace(parity, **dict(zip(_PARTS, [tuple(map(known, p)) for p in parts])))


_PARTS = ("outputs", "buffers", "gradients")


def _copied(module: Any) -> Any:
    """A copy of a module; tensors that it has computed of others are copied by value."""
    computed = (one for _, one in tensors(module) if not one.is_leaf)
    return copy.deepcopy(module, {id(one): one.detach().clone() for one in computed})


def _keys(program: Program) -> list[Any]:
    """The keys that the program draws with, in order."""
    if not program.takes_key:
        return []

    def keys(*given: Any) -> list[Any]:
        program.function(*given)
        return KEYS.log

    return jax.jit(keys)(*program.arguments.values())  # all else is dead code there


class _SameNumbers(torch.overrides.TorchFunctionMode):
    """Lets torch draw what JAX draws.

    Args:
      keys: The keys that JAX draws with, in order.
    """

    def __init__(self, keys: Sequence[Any]) -> None:
        super().__init__()
        self._draws = Drawn(iter(keys))
        self._drawn = self._draws.table()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        if name in self._drawn:
            return self._drawn[name](*args, **kwargs)
        if name in _RECURRENT and args[5] and args[6]:
            return self._draws.layers(func, *args)
        if is_python(func):  # it may call the functions above
            with self:
                return without_overrides(func)(*args, **kwargs)
        return func(*args, **kwargs)


_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class Drawn:
    """Functions of torch that draw with keys of JAX.

    Args:
      keys: The keys, in order.
    """

    def __init__(self, keys: Iterator[Any]) -> None:
        self._keys = keys

    def table(self) -> Mapping[str, Callable[..., Any]]:
        """The functions by their names."""
        return {
            **{name: self._drawn(name) for name in DRAWS},
            **{f"dropout{n}d": self._feature_dropout(n) for n in (1, 2, 3)},
            "dropout": self.dropout,
            "alpha_dropout": self.alpha_dropout,
            "scaled_dot_product_attention": self.attention,
        }

    def _drawn(self, name: str) -> Callable[..., Any]:
        """A function that gives what its lowering draws."""

        def function(*args: Any, **kwargs: Any) -> Any:
            with KEYS.of(self._keys), torch.no_grad():
                arrays, options = converted_arguments(args, kwargs)
                made = (FILLING.get(name) or LOWERINGS[name])(*arrays, **options)
                drawn = torch.from_numpy(np.array(made))
                if name in FILLING:
                    return args[0].copy_(drawn)
                return drawn.long() if drawn.dtype == torch.int32 else drawn

        return function

    def dropout(
        self, input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0
    ) -> Any:
        if not training or not p:
            return input
        return input * self._kept(p, tuple(input.shape)) / (1 - p)

    def _feature_dropout(self, n: int) -> Callable[..., Any]:
        def function(
            input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0
        ) -> Any:
            if not training or not p:
                return input
            shape = mask_shape(tuple(input.shape), n)
            return input * self._kept(p, shape) / (1 - p)

        return function

    def alpha_dropout(
        self, input: Any, p: float = 0.5, training: bool = False, inplace: Any = 0
    ) -> Any:
        if not training or not p:
            return input
        kept = self._kept(p, tuple(input.shape)).to(input.dtype)
        scale = ((1 - p) * (1 + p * SELU_LIMIT**2)) ** -0.5
        return scale * (input * kept - SELU_LIMIT * (1 - kept) + p * SELU_LIMIT)

    def layers(
        self,
        func: Any,
        input: Any,
        hx: Any,
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Any, ...]:
        """A recurrent network, one layer after the other, with dropout between them."""
        is_lstm = isinstance(hx, (tuple, list))
        n_params, n_states = len(params) // num_layers, 1 + bidirectional
        lasts: list[Any] = []
        if batch_first:  # the lowerings drop parts of what has the steps first
            input = input.transpose(0, 1)
        for i in range(num_layers):
            here = slice(i * n_states, (i + 1) * n_states)
            given = [x[here] for x in hx] if is_lstm else hx[here]
            weights = params[i * n_params : (i + 1) * n_params]
            options = has_biases, 1, 0.0, train, bidirectional, False
            input, *states = func(input, given, weights, *options)
            lasts.append(states)
            if i < num_layers - 1:
                input = self.dropout(input, dropout)
        output = input.transpose(0, 1) if batch_first else input
        return output, *map(torch.cat, zip(*lasts))

    def _kept(self, p: float, shape: tuple[int, ...]) -> Any:
        keep = jax.random.bernoulli(next(self._keys), 1 - p, shape)
        return torch.from_numpy(np.array(keep))

    def attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Any:
        if not dropout_p:
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask, 0.0, is_causal, scale=scale,
                enable_gqa=enable_gqa,
            )  # fmt: skip
        if enable_gqa:
            groups = query.shape[-3] // key.shape[-3]
            key = key.repeat_interleave(groups, -3)
            value = value.repeat_interleave(groups, -3)
        scores = query @ key.mT * (scale or query.shape[-1] ** -0.5)
        if is_causal:
            causal = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            scores = scores.masked_fill(~causal, -torch.inf)
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return self.dropout(functional.softmax(scores, -1), dropout_p) @ value


def _tensors(value: Any) -> list[Any]:
    """The arrays of what torch returned, in the order of those of JAX."""
    return jax.tree.leaves(to_jax(value))


def _errors(made: Sequence[Any], wanted: Sequence[Any]) -> Iterator[Error]:
    scale = max(map(_largest, wanted), default=0.0)
    for i, (one, other) in enumerate(zip(made, wanted, strict=True)):
        yield error(_output_name(i, len(wanted)), one, other, scale)


def _output_name(position: int, count: int) -> str:
    return "out" if count == 1 else f"out[{position}]"


def error(name: str, made: Any, wanted: Any, scale: float = 0.0) -> Error:
    """How far an array is from one of torch.

    What is zero but for rounding is compared with `scale`, the largest value around.
    """
    dtype = str(jnp.asarray(made).dtype)
    kind = complex if dtype.startswith("complex") else float
    ours, theirs = np.asarray(made).astype(kind), np.asarray(wanted).astype(kind)
    if ours.shape != theirs.shape:
        return Error(name, np.inf, np.inf, dtype)
    is_same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    apart = np.where(is_same, 0.0, np.abs(np.where(is_same, 0, ours - theirs)))
    absolute = float(np.max(apart, initial=0.0))
    largest = _largest(wanted)
    largest = scale if largest < SMALL * scale else largest
    return Error(name, absolute, absolute / (largest or 1.0), dtype)


SMALL = 1e-4
"""What part of the largest value may be nothing but rounding."""


def _largest(value: Any) -> float:
    array = np.abs(np.asarray(value).astype(complex))
    return float(np.max(array[np.isfinite(array)], initial=0.0))


def _buffer_errors(
    changed: Sequence[Path], made: Any, state: Mapping[Path, Any]
) -> Iterator[Error]:
    for path in changed:
        yield error(_spelled("buffers", path), at(made, path), to_jax(state[path]))


def _spelled(name: str, path: Path) -> str:
    return name + "".join(f'["{part}"]' for part in path)


def _gradient_errors(
    made: Any, made_out: Any, pull: Callable[[Any], Any], wanted: Any, module: Any
) -> Iterator[Error]:
    found = _torch_gradients(wanted, module)
    if not found:
        return
    rest = iter(_weights(wanted))
    pulled = jax.tree.map(
        lambda leaf: (
            jnp.asarray(next(rest), leaf.dtype)
            if _is_float(leaf)
            else np.zeros(leaf.shape, jax.dtypes.float0)
        ),
        made_out,
    )
    zeros: Any = jax.tree.map(
        lambda leaf: (
            jnp.zeros_like(leaf)
            if _is_float(leaf)
            else np.zeros(leaf.shape, jax.dtypes.float0)
        ),
        made,
    )
    cotangents = pulled if made is made_out else (pulled, zeros[1])
    (grads,) = pull(cotangents)
    arrays = list(map(to_jax, found.values()))
    scale = max(map(_largest, arrays))
    for path, array in zip(found, arrays):
        yield error(_spelled("params", path), at(grads, path), array, scale)


def _torch_gradients(wanted: Any, module: Any) -> dict[Path, Any]:
    """Return the gradients of a sum of all outputs with random weights; {} if none has any."""
    tensors = [t for t in _torch_leaves(wanted) if t.is_floating_point()]
    known = {
        path: parameter
        for path, parameter in parameters(module).items()
        if parameter.requires_grad
    }
    if not known or not any(tensor.requires_grad for tensor in tensors):
        return {}
    total = sum(
        (t * torch.from_numpy(w).to(t.dtype)).sum()
        for t, w in zip(tensors, _weights(wanted), strict=True)
        if t.requires_grad
    )
    found = torch.autograd.grad(total, list(known.values()), allow_unused=True)
    return {
        path: torch.zeros_like(parameter) if gradient is None else gradient
        for (path, parameter), gradient in zip(known.items(), found, strict=True)
    }


def _weights(wanted: Any) -> list[Any]:
    """Draw the weights of the outputs, the same each time."""
    rng = np.random.default_rng(0)
    floats = [t for t in _torch_leaves(wanted) if t.is_floating_point()]
    return [rng.normal(size=tuple(t.shape)).astype(np.float32) for t in floats]


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating))


def _torch_leaves(value: Any) -> list[Any]:
    """The tensors of a result, in the order of its arrays."""
    found: list[Any] = []

    def noted(tensor: Any) -> int:
        found.append(tensor)
        return len(found) - 1

    return [found[i] for i in jax.tree.leaves(converted(value, noted))]
