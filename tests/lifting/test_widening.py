"""Calls under transformations that cannot be proved: only those are lowered."""

from types import SimpleNamespace

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import jaxapi, recorded
from untrace.lifting.recorded.plan import Plan
from untrace.recovery.record import Body, Call, Span

W = np.linspace(0.5, 1.0, 12, dtype=np.float32).reshape(4, 3)
X = np.ones((2, 4), np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    notes = " ".join(src.report.notes)
    assert "Written from its equations" not in notes
    return str(src), notes


def test_loop_of_a_library_under_vmap():
    def root(c):
        def is_far(x):
            return jnp.abs(x * x - c) > 1e-3

        return eqxi.while_loop(is_far, lambda x: 0.5 * (x + c / x), c, kind="lax")

    def f(w, x):
        hidden = jax.nn.softplus(x @ w)
        return jax.nn.softmax(jax.vmap(root)(hidden[0]) + 1.0)

    text, notes = recover(f, W, X)
    assert "`vmap`" in notes
    assert "jax.nn.softplus(x @ w)" in text and "jax.nn.softmax(" in text


def test_check_at_run_time_under_vmap(caplog):
    def safe_root(x, y):
        x, y = eqx.error_if((x, y), x < 0, "negative")
        return jnp.sqrt(x) + y

    def f(w, x):
        hidden = jax.nn.softplus(x @ w)
        return jax.nn.softmax(jax.vmap(safe_root, in_axes=(0, None))(hidden[0], 1.0))

    text, _ = recover(f, W, X)
    assert "jax.nn.softplus(x @ w)" in text and "jax.nn.softmax(" in text
    assert (
        not caplog.records
    )  # the text that differs raises where the original does not


@pytest.mark.parametrize("helps", [True, False])
def test_calls_around_lowered_ones_are_tried_first_where_no_line_differs(helps):
    """What is left out or merged was in doubt first, which took two writings."""
    run = Body(None, recover.__code__, {})
    span = Span(None, [], 0, 0, ())
    inner = Call(jnp.sin, (), {}, None, span=span)
    mapped = jaxapi.Transformed(("jax", "vmap"), recover, {})
    inside = Body(None, recover.__code__, {}, calls=[inner])
    outer = Call(mapped, (), {}, None, bodies=[inside], span=span)
    run.calls.append(outer)
    plan = Plan(run, lowered={inner: "a test"}, unread={(Body, "field")})
    lowered = []

    def attempt(options):
        lowered.append(set(plan.lowered))
        is_verified = len(lowered) == (2 if helps else 3)
        report = SimpleNamespace(
            is_verified=is_verified, line="", difference=None, why=""
        )
        program = SimpleNamespace(release=lambda: None, close_jit=lambda: False)
        return SimpleNamespace(report=report), program, None

    recorded._proved(SimpleNamespace(verify=True), plan, attempt)
    assert lowered[:2] == [{inner}, {inner, outer}]
    assert lowered[2:] == ([] if helps else [{inner}])
    assert bool(plan.unread) == helps
