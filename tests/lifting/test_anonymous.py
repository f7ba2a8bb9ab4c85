"""`anonymous=True`: no name of the original is in the file, which is verified all the same."""

import collections
import functools
import operator
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from jax.experimental import pallas as pl

import untrace
from untrace.cli import main
from untrace.syntax.renaming import rename

MARKER = "secret"
X = np.linspace(0.1, 1.0, 20, dtype=np.float32).reshape(5, 4)


class SecretState(NamedTuple):
    secret_mean: object
    secret_count: object


@jax.tree_util.register_pytree_node_class
class SecretBox:
    def __init__(self, secret_value):
        self.secret_value = secret_value

    def tree_flatten(self):
        return (self.secret_value,), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def secret_dense(secret_params, secret_input):
    """Keep the secret."""
    secret_y = secret_input @ secret_params["secret_kernel"]
    secret_z = secret_y + secret_params["secret_bias"]  # secret
    return jnp.tanh(secret_z) * secret_z


@jax.jit
def secret_scaled(secret_u, *, secret_by):
    return secret_u * secret_by.sum()


@jax.custom_vjp
def secret_clip(secret_q):
    return jnp.clip(secret_q, 0, 1)


secret_clip.defvjp(
    lambda secret_q: (secret_clip(secret_q), secret_q),
    lambda secret_saved, secret_ct: (secret_ct * secret_saved,),
)


def secret_loss(secret_params, secret_x):
    secret_h = secret_dense(secret_params["secret_b"], secret_x)
    secret_h = secret_dense(secret_params["secret_a"], secret_h)
    secret_h = secret_clip(secret_scaled(secret_h, secret_by=secret_x))

    def secret_body(secret_carry, secret_item):
        return secret_carry + secret_item * secret_h.mean(), secret_carry

    secret_c, _ = jax.lax.scan(secret_body, secret_h[0], secret_h)
    return jnp.einsum("i,i->", secret_c, secret_c)


def secret_step(secret_params, secret_state, secret_x, *, secret_rate):
    secret_value, secret_grads = jax.value_and_grad(secret_loss)(
        secret_params, secret_x
    )
    secret_new = jax.tree.map(
        lambda secret_p, secret_g: secret_p - secret_rate * secret_g,
        secret_params,
        secret_grads,
    )
    secret_state = SecretState(secret_state.secret_mean + 1, secret_state.secret_count)
    secret_rows = jax.vmap(lambda secret_row: secret_row**2)(secret_x)
    secret_out = {"secret_v": secret_value, "secret_o": SecretBox(secret_rows)}
    return secret_new, secret_state, secret_out


def secret_layer():
    return {
        "secret_kernel": np.full((4, 4), 0.1, np.float32),
        "secret_bias": np.ones(4, np.float32),
    }


PARAMS = {"secret_b": secret_layer(), "secret_a": secret_layer()}
STATE = SecretState(np.ones(3, np.float32), np.ones((), np.float32))


def anonymous(function, *args, **kwargs):
    """Recover anonymously; the text tells nothing, and computes the same."""
    options = kwargs.pop("options", {})
    src = untrace.source(function, anonymous=True, **options)(*args, **kwargs)
    text = str(src)
    assert MARKER not in text.lower()
    assert "test_anonymous" not in text
    assert src.report.is_verified, str(src.report)
    assert MARKER not in str(src.report).lower()
    return src


@pytest.mark.parametrize("level", ["api", "lax"])
def test_no_name_of_the_original_is_left(level):
    args = (PARAMS, STATE, X)
    rate = np.ones((), np.float32)
    src = anonymous(secret_step, *args, secret_rate=rate, options={"level": level})
    expected = jax.tree.leaves(jax.jit(secret_step)(*args, secret_rate=rate))
    names = src.captured.parameters
    assert [p.name for p in names] == ["params", "params_2", "x", "y"]
    example = {}
    exec(compile(str(src), "anonymous", "exec"), example)
    given = jax.tree.unflatten(
        jax.tree.structure(example["example_args"]()), jax.tree.leaves((*args, rate))
    )
    actual = jax.tree.leaves(jax.jit(src.load())(**given))
    assert len(actual) == len(expected)
    # Outputs in dicts come in the order of the keys, which renaming keeps.
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_options_of_jit_stay():
    secret_step = jax.jit(lambda secret_x: secret_x * 2, donate_argnums=0)
    text = str(anonymous(lambda secret_x: secret_step(secret_x) + 1, X))
    assert "donate_argnums=(0,)" in text


def test_calls_stay_calls_under_new_names():
    text = str(anonymous(secret_loss, PARAMS, X))
    assert "Written from its equations" not in text
    assert text.startswith('"""An anonymous function, recovered by')
    for line in [
        "def function_2(params, x):",
        'product = x @ params["k3"]',
        "def function(params, x):",
        'result = function_2(params["k1"], x)',
        "def function_3(x, *, option):",
        'jnp.einsum("i,i->", ',
    ]:
        assert line in text


def test_fallback_is_anonymous():
    secret_branches = [functools.partial(operator.mul, float(k)) for k in range(2)]

    def secret_function(secret_params, secret_x):
        secret_y = secret_x @ secret_params["secret_w"]["secret_k"]
        secret_y = jax.lax.switch(
            1 + 0 * jnp.int32(secret_y[0, 0]), secret_branches, secret_y
        )
        return {"secret_a": secret_y, "secret_box": SecretBox(secret_y + 1)}

    params = {"secret_w": {"secret_k": np.ones((4, 2), np.float32)}}
    src = anonymous(secret_function, params, X)
    assert "Some calls are written from their equations." in src.report.notes


def test_jaxprs_are_anonymous():
    jaxpr = jax.make_jaxpr(secret_loss)(PARAMS, X)
    for level in ("api", "lax"):
        src = untrace.source(jaxpr, level=level, anonymous=True)
        assert src.report.is_verified
        assert MARKER not in str(src)


def test_keys_keep_their_order():
    tree = {f"secret_{i}": np.full(2, i, np.float32) for i in (10, 9, 2, 1)}
    tree[3] = tree.pop("secret_1")
    tree = {str(key): value for key, value in tree.items()}
    src = anonymous(lambda secret: jax.tree.leaves(secret), tree)
    assert "jax.tree.leaves(" in str(src)
    keys = re.findall(r'"(k\d+)": ', str(src))
    assert keys == sorted(keys)
    assert set(keys) == {"k0", "k1", "k2", "k3"}


def test_keywords_and_ordered_dicts_are_renamed():
    def secret_options(secret_x, **secret_kwargs):
        secret_sum = secret_x * secret_kwargs["secret_a"] + secret_kwargs["secret_b"]
        return collections.OrderedDict(secret_z=secret_sum, secret_a=secret_x)

    def secret_checkpoint(secret_x):
        return jax.checkpoint(secret_options)(secret_x, secret_b=X, secret_a=X)

    for level in ("api", "lax"):
        src = anonymous(secret_checkpoint, X, options={"level": level})
        found = src.load()(X)
        np.testing.assert_allclose(jax.tree.leaves(found)[0], X * X + X, rtol=1e-6)


def test_name_is_the_users_choice():
    src = anonymous(secret_loss, PARAMS, X, options={"name": "loss"})
    assert src.module.name == "loss"
    assert "def loss(params, x):" in str(src)


def test_what_names_the_original_is_refused():
    for options, word in [
        ({"comments": "origin"}, "quotes lines and files"),
        ({"comments": "both"}, "quotes lines and files"),
        ({"keep_types": True}, "imports classes"),
        ({"scopes": True}, "names of scopes"),
    ]:
        with pytest.raises(ValueError, match=word):
            untrace.source(secret_loss, anonymous=True, **options)


def test_a_host_function_is_refused():
    def secret_host(x):
        return x

    def function(x):
        return jax.pure_callback(secret_host, jax.ShapeDtypeStruct((), np.float32), x)

    with pytest.raises(untrace.UntraceError, match="cannot be anonymous"):
        untrace.source(function, anonymous=True)(np.float32(1.0))


def test_command_line(tmp_path):
    file = tmp_path / "secret_file.py"
    file.write_text("import jax.numpy as jnp\ndef secret(a):\n    return jnp.sin(a)\n")
    call = [str(file), "secret(1.0)", "--anonymous"]
    done = CliRunner().invoke(main, ["show", *call])
    assert done.exit_code == 0, done.output
    assert MARKER not in done.stdout
    done = CliRunner().invoke(main, ["show", *call, "--comments", "origin"])
    assert done.exit_code == 2
    assert "anonymous=True removes" in " ".join(done.output.split())


TEXT = """\
import functools
import jax
import jax.numpy as jnp

class State(NamedTuple):
    mean: Any
    T: Any

def inner(a, n=2):
    def x(b):
        return b + a * n
    return [x(i) for i in a]

@functools.partial(jax.jit, static_argnames=("axis",))
def other(state, axis):
    state = State(mean=state.mean, T=state.T)
    return jnp.sum(state.mean.mean(axis=axis), axis=axis), state

def main(tree):
    f = functools.partial(inner, n=3)
    y, s = other(tree["b"], axis=0)
    for name, value in tree["a"].items():
        y = f(value) if y is None else jax.vmap(inner, in_axes=({"b": 0},))(y)
    return {"b": y, ("c", 1): "b"}
"""


def test_scopes_are_resolved():
    made = rename(TEXT, "main", (), (), ("tree",), {"sum": "total"})
    for line in [
        "    field_0: Any",
        "    T: Any",
        "def function_2(x, option=2):",
        "    def function_4(y):",
        "        return y + x * option",
        "    return [function_4(i) for i in x]",
        'static_argnames=("option_2",))',
        "def function_3(params, option_2):",
        "    params = Tree(field_0=params.field_0, T=params.T)",
        "jnp.sum(params.field_0.mean(axis=option_2), axis=option_2), params",
        "partial = functools.partial(function_2, option=3)",
        'result, result_2 = function_3(params["k1"], option_2=0)',
        'jax.vmap(function_2, in_axes=({"k1": 0},))',
        'return {"k1": result, ("k2", 1): "b"}',
    ]:
        assert line in made.text, made.text


def test_keys_that_loops_are_over_are_renamed():
    def f(params, x):
        for name in ("secret_in", "secret_mid", "secret_out"):
            x = jnp.tanh(x @ params[name]["kernel"] + params[name]["bias"])
        return x

    layer = {"kernel": np.eye(3, dtype=np.float32), "bias": np.ones(3, np.float32)}
    params = {name: layer for name in ("secret_in", "secret_mid", "secret_out")}
    src = untrace.source(f, anonymous=True)(params, np.ones((2, 3), np.float32))
    assert src.report.is_verified and "secret" not in str(src)
    assert re.search(r"for \w+ in ", str(src)) and "jnp.tanh" in str(src)


@pytest.mark.parametrize("level", ["api", "lax"])
def test_kernels_have_no_name(level):
    def secret_kernel(secret_ref, out_ref, *, secret_scale):
        out_ref[...] = secret_ref[...] * secret_scale

    @jax.jit
    def call(x):
        kernel = functools.partial(secret_kernel, secret_scale=2.0)
        options = dict(out_shape=x, interpret=True, name="secret_name")
        return pl.pallas_call(kernel, **options)(x) + 1

    src = untrace.source(lambda x: call(x) * 2, level=level, anonymous=True)(
        jnp.ones(4)
    )
    assert src.report.is_verified, str(src.report)
    assert "secret" not in str(src) and "Strings" not in str(src), str(src)
