"""Functions with checks come back with them, under `checkify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import untrace

X = np.ones(3, np.float32)


def checked(x: Any) -> Any:
    checkify.check(jnp.all(x > 0), "must be positive, is {x}", x=x)
    return jnp.log(x)


def recover(function: Callable[..., Any]) -> str:
    src = untrace.source(function)(X)
    assert src.report.is_verified, f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


def test_checks_of_the_user() -> None:
    def program(x: Any) -> Any:
        _err, y = checkify.checkify(checked)(x)
        return y

    text = recover(program)
    assert '    check(jnp.all(x > 0), "must be positive, is {x}", x=x)\n' in text
    assert "    _err, y = checkify(checked)(x)\n" in text


def test_error_is_returned() -> None:
    def program(x: Any) -> Any:
        err, y = checkify.checkify(jax.jit(checked))(x)
        return err, y * 2

    text = recover(program)
    assert "return err, y * 2" in text
    assert "class Error" not in text
    assert recover(program) == text


@pytest.mark.parametrize(
    "errors",
    [
        "float_checks",
        "all_checks",
        "user_checks | nan_checks",
        "user_checks | float_checks",
    ],
)
def test_sets_of_errors(errors: str) -> None:
    found = eval(errors, vars(checkify))
    text = recover(lambda x: checkify.checkify(checked, errors=found)(x))
    assert f"checkify(checked, errors={errors})(x)" in text


def test_error_is_checked_again() -> None:
    def inner(x: Any) -> Any:
        err, y = checkify.checkify(checked)(x)
        checkify.check_error(err)
        return y

    text = recover(lambda x: checkify.checkify(inner)(x)[1])
    assert "    check_error(err)\n" in text


def test_checks_under_transformations() -> None:
    def program(x: Any) -> Any:
        return jax.vmap(checkify.checkify(checked))(x[:, None])

    assert "jax.vmap(checkify(checked))" in recover(program)
