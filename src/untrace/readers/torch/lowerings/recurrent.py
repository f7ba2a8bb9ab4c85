"""Recurrent layers: scans over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.linear import linear
from untrace.readers.torch.lowerings.random import KEYS, dropout
from untrace.readers.torch.lowerings.table import kept, lowered_function
from untrace.recovery.classifying import recorded


@kept
def lstm_layer(
    inputs: Any,
    h: Any,
    c: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    reverse: bool,
) -> Any:
    """One direction of one layer: outputs of all steps, and the last state."""

    @recorded
    def step(state: Any, x: Any) -> Any:
        h, c = state
        gates = x @ w_ih.T + h @ w_hh.T
        if b_ih is not None:
            gates = gates + b_ih + b_hh
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), outputs = jax.lax.scan(step, (h, c), inputs, reverse=reverse)
    return outputs, h, c


@kept
def gru_layer(
    inputs: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, reverse: bool
) -> Any:
    """One direction of one layer: outputs of all steps, and the last state."""

    @recorded
    def step(h: Any, x: Any) -> Any:
        r_x, z_x, n_x = jnp.split(linear(x, w_ih, b_ih), 3, axis=-1)
        r_h, z_h, n_h = jnp.split(linear(h, w_hh, b_hh), 3, axis=-1)
        r, z = jax.nn.sigmoid(r_x + r_h), jax.nn.sigmoid(z_x + z_h)
        n = jnp.tanh(n_x + r * n_h)
        h = (1 - z) * n + z * h
        return h, h

    h, outputs = jax.lax.scan(step, h, inputs, reverse=reverse)
    return outputs, h


@kept
def rnn_layer(
    inputs: Any,
    h: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    reverse: bool,
    activation: Any,
) -> Any:
    """One direction of one layer: outputs of all steps, and the last state."""

    @recorded
    def step(h: Any, x: Any) -> Any:
        total = x @ w_ih.T + h @ w_hh.T
        if b_ih is not None:
            total = total + b_ih + b_hh
        h = activation(total)
        return h, h

    h, outputs = jax.lax.scan(step, h, inputs, reverse=reverse)
    return outputs, h


def _stacked(
    run: Any,
    inputs: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout_p: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, list[list[Any]]]:
    """Run all layers; their last states, each a list of arrays, come with the outputs."""
    n_weights, n_directions = (4 if has_biases else 2), 1 + bidirectional
    x = jnp.swapaxes(inputs, 0, 1) if batch_first else inputs
    lasts: list[list[Any]] = []
    for layer in range(num_layers):
        outs: list[Any] = []
        for direction in range(n_directions):
            k = layer * n_directions + direction
            given = params[k * n_weights : (k + 1) * n_weights]
            weights = [*given, None, None][:4]
            out, last = run(x, [s[k] for s in states], weights, bool(direction))
            outs.append(out)
            lasts.append(last)
        x = outs[0] if n_directions == 1 else jnp.concatenate(outs, axis=-1)
        if dropout_p and train and layer < num_layers - 1:
            x = dropout(x, KEYS.next(), dropout_p)
    return jnp.swapaxes(x, 0, 1) if batch_first else x, lasts


@lowered_function()
def lstm(input: Any, hx: Any, params: Any, *options: Any) -> Any:
    def run(x: Any, states: Any, weights: Any, reverse: bool) -> Any:
        h, c = states
        out, h, c = lstm_layer(x, h, c, *weights, reverse=reverse)
        return out, [h, c]

    out, lasts = _stacked(run, input, hx, params, *options)
    return out, jnp.stack([h for h, _ in lasts]), jnp.stack([c for _, c in lasts])


@lowered_function()
def gru(input: Any, hx: Any, params: Any, *options: Any) -> Any:
    def run(x: Any, states: Any, weights: Any, reverse: bool) -> Any:
        (h,) = states
        out, h = gru_layer(x, h, *weights, reverse=reverse)
        return out, [h]

    out, lasts = _stacked(run, input, [hx], params, *options)
    return out, jnp.stack([h for (h,) in lasts])


def _rnn(name: str, activation: Any) -> None:
    def rnn(input: Any, hx: Any, params: Any, *options: Any) -> Any:
        def run(x: Any, states: Any, weights: Any, reverse: bool) -> Any:
            (h,) = states
            out, h = rnn_layer(x, h, *weights, reverse=reverse, activation=activation)
            return out, [h]

        out, lasts = _stacked(run, input, [hx], params, *options)
        return out, jnp.stack([h for (h,) in lasts])

    lowered_function(name)(rnn)


_rnn("rnn_tanh", jnp.tanh)
_rnn("rnn_relu", jax.nn.relu)


@lowered_function()
def lstm_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    h, c = hx
    gates = input @ w_ih.T + h @ w_hh.T
    gates = gates if b_ih is None else gates + b_ih + b_hh
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


@lowered_function()
def gru_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    r_x, z_x, n_x = jnp.split(linear(input, w_ih, b_ih), 3, axis=-1)
    r_h, z_h, n_h = jnp.split(linear(hx, w_hh, b_hh), 3, axis=-1)
    r, z = jax.nn.sigmoid(r_x + r_h), jax.nn.sigmoid(z_x + z_h)
    n = jnp.tanh(n_x + r * n_h)
    return (1 - z) * n + z * hx
