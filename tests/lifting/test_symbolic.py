"""`symbolic=True`: sizes have names where the file is right at other sizes, too."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main

X = np.linspace(0.1, 1.0, 4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)


def recover(function, *args, **options):
    src = untrace.source(function, symbolic=True, **options)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


def same_at(text, function, *args, **sizes):
    """Check by hand what the report says: edit the sizes, run the file."""
    for name, (old, new) in sizes.items():
        assert f"\n{name} = {old}" in text
        text = text.replace(f"\n{name} = {old}", f"\n{name} = {new}", 1)
    space = {"__name__": "edited"}
    exec(text, space)
    expected = function(*args)
    assert np.array_equal(space[function.__name__](*args), expected, equal_nan=True)
    shapes = jax.tree.map(np.shape, [*space["example_args"]().values()])
    assert shapes == jax.tree.map(np.shape, [*args])


def attention(p, x):
    batch, length, width = x.shape
    heads = 4
    q = (x @ p["q"]).reshape(batch, length, heads, width // heads)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, q) * (width // heads) ** -0.5
    mask = jnp.tril(jnp.ones((length, length), bool))
    scores = jnp.where(mask, scores, -jnp.inf)
    y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), q)
    return y.reshape(batch, length, width)


def weights(width):
    return {
        "q": np.linspace(-1, 1, width * width, dtype=np.float32).reshape(2 * [width])
    }


def test_sizes_have_the_names_of_the_users_variables():
    text = recover(attention, weights(8), X)
    assert "\nBATCH = 4  # x.shape[0]\nLENGTH = 6  # x.shape[1]\nWIDTH = 8" in text
    assert ".reshape(BATCH, LENGTH, 4, WIDTH // 4)" in text  # 4 heads are no batch
    assert "* (WIDTH // 4) ** -0.5" in text
    assert "jnp.ones((LENGTH, LENGTH)" in text
    assert "size=(BATCH, LENGTH, WIDTH))" in text
    x = np.linspace(0, 1, 3 * 5 * 16, dtype=np.float32).reshape(3, 5, 16)
    sizes = {"BATCH": (4, 3), "LENGTH": (6, 5), "WIDTH": (8, 16)}
    same_at(text, attention, weights(16), x, **sizes)


def test_report_says_what_was_verified():
    src = untrace.source(attention, symbolic=True)(weights(8), X)
    (note,) = [n for n in src.report.notes if "Verified at" in n]
    assert "BATCH = 1, 3, 4, 5, 8, 12, 131, 2053; LENGTH = 1, 5, 6, 7, " in note
    assert "WIDTH = 4, 8, 12, 16, 24, 148, 2084" in note  # 4 heads
    assert " ".join(note.split()) in " ".join(str(src).split())


def test_default_takes_sizes_from_the_array():
    text = str(untrace.source(attention)(weights(8), X))
    assert "batch, length, width = x.shape" in text
    assert ".reshape(batch, length, 4, width // 4)" in text
    assert "BATCH" not in text


def test_equal_sizes_of_different_axes_have_their_own_names():
    def project(kernel, x):
        batch = x.shape[0]
        heads = kernel.shape[1]
        return jnp.zeros((batch, heads)) + (x @ kernel).reshape(batch, heads, 1)[..., 0]

    text = recover(project, np.ones((6, 4), np.float32), np.ones((4, 6), np.float32))
    assert "\nBATCH = 4  # x.shape[0]\n" in text
    assert "\nHEADS = 4  # kernel.shape[1]\n" in text
    assert "jnp.zeros((BATCH, HEADS))" in text


def test_sums_products_and_loops():
    def f(x):
        n, m = x.shape
        y = jnp.concatenate([jnp.zeros((n + 1, m)), x])[: 2 * n]
        y = jax.lax.fori_loop(0, n, lambda i, c: c + jnp.float32(i), y)
        y = y.reshape(2 * n * m) + jnp.arange(2 * n * m) / n
        made = jax.ShapeDtypeStruct((n, m), jnp.float32)
        z = jax.pure_callback(np.sort, made, x)
        return y.reshape(n, m * 2), z, jax.lax.split(x, (1, n - 1)), x[: n - 2]

    text = recover(f, X[0])
    for part in [
        "jnp.zeros((N + 1, M))",
        "[: 2 * N]",
        "fori_loop(0, N, ",
        ".reshape(2 * N * M)",
        "jnp.arange(2 * N * M) / N",
        "jax.ShapeDtypeStruct((N, M), ",
        "(1, N - 1)",
        "x[: N - 2]",
    ]:
        assert part in text, part


def test_python_loop_over_a_size_leaves_it_a_number():
    def f(x):
        n, m = x.shape
        total = jnp.zeros((n, m))
        for i in range(m):
            total = total + x[:, i : i + 1] * jnp.ones((n, m))
        return total

    text = recover(f, X[0, :, :3])
    assert "jnp.zeros((N, 3))" in text
    assert "M = " not in text


def test_constant_array_of_a_size_leaves_it_a_number():
    def f(x):
        n, m = x.shape
        return (x * np.arange(m, dtype=np.float32)).reshape(n * m)

    text = recover(f, X[0])
    assert ".reshape(8 * N)" in text


def test_branch_on_a_size_leaves_it_a_number():
    def f(x):
        n, m = x.shape
        y = jnp.sin(x) if n > 6 else jnp.cos(x)
        return y.reshape(n * m)

    text = recover(f, X[0])
    assert ".reshape(6 * M)" in text


def test_size_that_may_only_be_smaller_is_named():
    table = np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)

    def f(x):
        n, m = x.shape
        if n > 6:
            raise ValueError("too long")
        return jnp.ones((n, m)) + x + jnp.asarray(table)[:n]

    text = recover(f, X[0, :4])
    assert "\nN = 4  # x.shape[0]\n" in text
    assert "jnp.ones((N, 8)) + x + jnp.asarray(TABLE)[:N]" in text


def test_unnamed_sizes_are_named_after_the_argument():
    def f(params, x):
        return jnp.ones((x.shape[0], params["w"].shape[1])) + x @ params["w"]

    text = recover(f, {"w": X[0].T.copy()}, X[0])
    assert "\nX_ROWS = 6  # x.shape[0]\n" in text
    assert '\nW_COLUMNS = 6  # params["w"].shape[1]\n' in text
    assert "jnp.ones((X_ROWS, W_COLUMNS))" in text


def test_variable_may_hold_one_less_than_a_size():
    def f(tokens):
        tokens = tokens[:, :-1]
        batch, time = tokens.shape
        return tokens + jnp.ones((batch, time))

    text = recover(f, X[0])
    assert "\nTIME = 7  # tokens.shape[1] - 1\n" in text
    assert "jnp.ones((BATCH, TIME))" in text
    assert "size=(BATCH, TIME + 1))" in text


def test_fused_projections_are_multiples_of_a_width():
    def f(params, x):
        _, width = x.shape
        q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
        y = (q * k * v).reshape(6, width) @ params["up"]
        return jax.nn.gelu(y) @ params["down"] + jnp.zeros((1, width))

    shapes = {"qkv": (8, 24), "up": (8, 32), "down": (32, 8)}
    params = {key: np.ones(shape, np.float32) for key, shape in shapes.items()}
    text = recover(f, params, X[0])
    assert "jnp.zeros((1, WIDTH))" in text
    assert '"qkv": np.ones((WIDTH, 3 * WIDTH)' in text
    assert '"up": np.ones((WIDTH, 32)' in text


def test_nothing_to_name_is_said():
    text = recover(lambda x: jnp.sin(x), X)
    assert "symbolic=True changes nothing" in text


def test_floats_of_sizes():
    def f(x):
        n, m = x.shape
        return x.sum(0) * (1 / n) + x.sum(0) / math.sqrt(m) + x[0] * float(n)

    text = recover(f, X[0])
    assert "* (1 / N)" in text
    assert "/ M**0.5" in text
    assert "* float(N)" in text


@pytest.mark.parametrize(
    "options",
    [
        {"reroll": "for"},
        {"reroll": "scan"},
        {"keep_types": True},
        {"comments": "both"},
        {"types": True},
    ],
)
def test_other_options(options):
    def layer(w, x):
        n, m = x.shape
        return jnp.tanh((x @ w).reshape(n * m).reshape(n, m))

    def f(ws, x):
        for w in ws:
            x = layer(w, x)
        return x

    text = recover(f, [np.eye(8, dtype=np.float32)] * 4, X[0], **options)
    assert ".reshape(N * M).reshape(N, M)" in text


def test_gradients_and_transformations():
    def loss(x):
        n, m = x.shape
        return (x.reshape(n * m) / m).sum()

    def f(x):
        return jax.grad(loss)(x[0]), jax.jit(jax.vmap(loss))(x)

    assert "x.reshape(N * M) / M" in recover(f, X)


def test_anonymous_file_has_no_names():
    def secret(secret_x):
        secret_rows, secret_columns = secret_x.shape
        return secret_x.reshape(secret_rows * secret_columns)

    text = recover(secret, X[0], anonymous=True)
    assert "secret" not in text.lower()
    assert ".reshape(SIZE * SIZE_2)" in text
    assert "\nSIZE = 6\nSIZE_2 = 8\n" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "lax"}, "needs the calls"),
        ({"expand": "grad"}, "needs the calls"),
        ({"verify": False}, "leave verify=True"),
    ],
)
def test_options_that_exclude_it(options, message):
    with pytest.raises(ValueError, match=message):
        untrace.source(jnp.sin, symbolic=True, **options)


def test_jaxpr_has_fixed_sizes():
    with pytest.raises(ValueError, match="pass the function itself"):
        untrace.source(jax.make_jaxpr(jnp.sin)(X), symbolic=True)


def test_command_line(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "import jax.numpy as jnp\n"
        "def f(x):\n    n, m = x.shape\n    return x.reshape(n * m)\n"
    )
    call = "f(jnp.ones((3, 4)))"
    result = CliRunner().invoke(main, ["show", str(path), call, "--symbolic"])
    assert result.exit_code == 0, result.output
    assert "x.reshape(N * M)" in result.output


def test_batch_and_channels_of_one_size_have_their_own_names():
    def net(kernel, x):
        batch, _, height, width = x.shape
        features = kernel.shape[0]
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        return y.reshape(batch, features, height * width)

    kernel, x = np.ones((8, 8, 3, 3), np.float32), np.ones((8, 8, 4, 6), np.float32)
    text = recover(net, kernel, x)
    assert "y.reshape(BATCH, FEATURES, HEIGHT * WIDTH)" in text


def test_depthwise_convolution_has_one_name_for_its_channels():
    def net(kernel, x):
        batch, length, width = x.shape
        y = jax.lax.conv_general_dilated(
            x,
            kernel,
            (1,),
            "SAME",
            dimension_numbers=("NWC", "WIO", "NWC"),
            feature_group_count=width,
        )
        return y.reshape(batch, length * width)

    kernel, x = np.ones((3, 1, 8), np.float32), np.ones((8, 6, 8), np.float32)
    text = recover(net, kernel, x)
    assert "feature_group_count=WIDTH" in text
    assert "y.reshape(BATCH, WIDTH * LENGTH)" in text


def test_lengths_that_are_put_together_have_their_own_names():
    def f(x, y):
        n, m = x.shape[0], y.shape[0]
        return jnp.concatenate([x, y]).reshape(n + m, 1)

    assert ".reshape(N + M, 1)" in recover(f, X[0, 0], X[0, 1])


def padded(x):
    n = x.shape[0]
    m = -(-n // 4) * 4
    return jnp.pad(x, (0, m - n)) + jnp.ones(m)


def cut_off(x):
    n = min(x.shape[0], 64)
    return x[:n] + jnp.ones(n)


LIMIT = 300


def cut_off_by_a_global(x):
    n = min(x.shape[0], LIMIT)
    return x[:n] + jnp.ones(n)


def half_or_fifty(x):
    n = x.shape[0]
    half = n // 2 if n < 100 else 50
    return x[:half] + jnp.ones(half)


def at_least_five(x):
    n = x.shape[0]
    return jnp.pad(x, (0, max(n, 5) - n)) + jnp.ones(max(n, 5))


def other_at_one_size(x):
    n = x.shape[0]
    return x * jnp.ones(n) + (1.0 if n == 77 else 0.0)


def rounded_half(x):
    n = x.shape[0]
    return x[: (n + 1) // 2] + jnp.ones((n + 1) // 2)


def other_between(x):
    n = x.shape[0]
    return x * jnp.ones(n) + (1.0 if 200 < n < 220 else 0.0)


@pytest.mark.parametrize(
    "function",
    [
        padded,
        cut_off,
        cut_off_by_a_global,
        half_or_fifty,
        at_least_five,
        other_at_one_size,
        rounded_half,
        other_between,
    ],
)
def test_size_that_the_program_is_not_written_for_any_value_of_is_a_number(function):
    assert "symbolic=True changes nothing" in recover(function, X[0, 0])


def test_one_size_of_several_loses_its_name():
    def f(x):
        n, m = x.shape
        k = min(m, 64)
        return (x + jnp.ones((n, m)))[:, :k] * jnp.ones((n, k))

    text = recover(f, X[0])
    assert "\nN = 6  # x.shape[0]\n" in text
    assert "jnp.ones((N, 8))" in text
    assert "M = " not in text


def test_sizes_that_the_function_refuses_are_not_listed():
    def f(x):
        n, m = x.shape
        return x.reshape(n, 4, m // 4) + jnp.ones((n, 1, m // 4))

    notes = " ".join(untrace.source(f, symbolic=True)(X[0]).report.notes)
    assert "M = 4, 8, 12, " in notes
    assert "N = 1, 5, 6, 7, 12, " in notes


def test_nothing_is_said_of_all_sizes():
    assert "sizes BATCH = 1, 3, 4, 5" in recover(lambda x: batched(x), X)


def batched(x):
    batch = x.shape[0]
    return x + jnp.ones((batch, 1, 1))
