"""The context that equations and programs are traced in is written and restored."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.xla_metadata import set_xla_metadata

import untrace

X = np.ones(4, np.float32)


def recover(function: Any, *args: Any) -> str:
    """Return the text of a function that must come back identical."""
    src = untrace.source(function, level="lax")(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    return str(src)


def test_metadata_goes_around_the_equations_that_have_it() -> None:
    def f(x: Any) -> Any:
        with set_xla_metadata(stage="first"):
            y = jnp.sin(x)
        return jnp.cos(y)

    text = recover(f, X)
    assert (
        '    with set_xla_metadata(stage="first"):\n        sine = jnp.sin(x)\n' in text
    )


def test_consecutive_equations_share_a_context() -> None:
    def f(x: Any) -> Any:
        with set_xla_metadata(stage="first"):
            return jnp.sin(jnp.sin(jnp.sin(x)))

    assert recover(f, X).count("with set_xla_metadata") == 1


def test_plain_program_has_no_context_function() -> None:
    assert "tracing_context" not in recover(jnp.sin, X)


def test_ambient_setting_is_restored_by_the_file() -> None:
    with jax.threefry_partitionable(False):
        text = recover(lambda key: jax.random.bits(key, (2,)), jax.random.key(0))
    assert "with jax.threefry_partitionable(False):\n        yield" in text
    assert "with tracing_context():\n        print(" in text


def test_ambient_setting_is_not_repeated_in_the_body() -> None:
    with set_xla_metadata(stage="all"):
        text = recover(lambda x: jnp.sin(x) * 2, X)
    assert text.count("set_xla_metadata(") == 1


def test_metadata_key_that_is_no_identifier() -> None:
    def f(x: Any) -> Any:
        with set_xla_metadata(**{"a-b": "c"}):
            return jnp.sin(x)

    assert 'set_xla_metadata(**{"a-b": "c"})' in recover(f, X)


@pytest.mark.parametrize("name", ["tracing_context", "mesh", "example_args"])
def test_user_names_do_not_clash(name: str) -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.__name__ = name
    with jax.threefry_partitionable(False):
        recover(f, X)
