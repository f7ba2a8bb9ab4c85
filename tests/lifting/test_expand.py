"""`expand=` opens the transformations that it names, and nothing else."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)
PARAMS = {"w": np.full((4, 2), 0.3, np.float32), "b": np.zeros(2, np.float32)}


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    actual = jax.tree.leaves(jax.jit(src.load())(*args))
    assert all(np.array_equal(a, b) for a, b in zip(expected, actual, strict=True))
    assert not [note for note in src.report.notes if "equations" in note]
    return str(src)


def code(text):
    """Return the functions without comments."""
    return re.sub("#.*", "", text.partition("def example_args")[0])


def loss(params, x):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.mean(hidden**2)


def cell(carry, x):
    carry = jnp.sin(carry) * x
    return carry, carry**2


def step(params, xs):
    rows = jax.vmap(lambda x: jnp.cos(x) + 1.0)(xs)
    grads = jax.grad(loss)(params, rows)
    last, ys = jax.lax.scan(cell, jnp.zeros(4), xs)
    updated = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return updated, last, ys


def test_opened_equations_are_folded_under_lines_of_the_user_alone():
    def shifted(x, w):
        weights = jax.nn.softmax(x @ w, axis=-1)
        return jnp.sum((weights - 1.0) / jnp.sqrt(weights + 1e-6))

    text = recover(
        lambda xs, w: jax.vmap(lambda x: jax.grad(shifted)(x, w))(xs),
        X,
        PARAMS["w"],
        expand="grad",
    )
    quoted = re.findall(r"# (?:backward of: )?.*  \((.*):\d+\)", text)
    assert quoted and set(quoted) == {"test_expand.py"}
    assert "jnp.sqrt(weights + 1e-06)" in text


def test_grad_alone_is_opened():
    text = recover(step, PARAMS, X, expand="grad")
    assert "grads = grad_of_loss(params, rows)" in text
    assert "def grad_of_loss(params, x):" in text and "jax.grad" not in code(text)
    assert "rows = jax.vmap(lambda x: jnp.cos(x) + 1.0)(xs)" in text
    assert "last, ys = jax.lax.scan(cell, jnp.zeros(4), xs)" in text
    forward = '# hidden = jnp.tanh(x @ params["w"] + params["b"])  (test_expand.py:'
    assert text.count(forward) == 1
    assert "# backward of: return jnp.mean(hidden**2)  (test_expand.py:" in text
    assert "hidden = jnp.tanh(" in text and 'return {"b": ' in text


def test_vmap_alone_is_opened():
    text = recover(step, PARAMS, X, expand="vmap")
    assert "jax.vmap" not in code(text) and "vmap_of_function(xs)" in text
    assert "grads = jax.grad(loss)(params, rows)" in text
    assert "jax.lax.scan(cell, jnp.zeros(4), xs)" in code(text)


def test_scan_alone_is_opened():
    text = recover(step, PARAMS, X, expand="scan")
    assert (
        "jax.lax.scan(" in code(text)
        and "jax.grad(loss)" in code(text)
        and "jax.vmap(" in code(text)
    )
    assert "# carry = jnp.sin(carry) * x  (test_expand.py:" in text


def test_several_are_opened_together():
    text = recover(step, PARAMS, X, expand=("grad", "vmap"))
    assert "jax.grad" not in code(text) and "jax.vmap" not in code(text)
    assert "jax.lax.scan(cell, jnp.zeros(4), xs)" in code(text)


def per_example(params, xs):
    return jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, xs)


def test_grad_inside_vmap():
    text = recover(per_example, PARAMS, X, expand="grad")
    assert "jax.vmap(grad_of_loss, in_axes=(None, 0))(params, xs)" in code(text)
    assert "jax.grad" not in code(text) and "# backward of: " in text


def test_grad_inside_vmap_with_closure():
    def f(params, xs, scale):
        g = jax.vmap(jax.value_and_grad(lambda x: loss(params, x) * scale))
        return g(xs)

    text = recover(f, PARAMS, X, np.float32(2.0), expand="value_and_grad")
    assert "functools.partial(value_and_grad_of_function, params, scale)" in text


def test_vmap_around_grad_inside_vmap():
    text = recover(per_example, PARAMS, X, expand="vmap")
    assert "jax.vmap" not in code(text) and "jax.grad" not in code(text)


def test_vmap_inside_grad():
    def total(params, xs):
        return jnp.sum(jax.vmap(loss, in_axes=(None, 0))(params, xs))

    def f(params, xs):
        return jax.grad(total)(params, xs + 1.0)

    text = recover(f, PARAMS, X, expand="vmap")
    assert "jax.grad(total)(params, xs + 1.0)" in code(text)
    assert "jnp.sum(vmap_of_loss(params, xs))" in text and "jax.vmap" not in code(text)
    text = recover(f, PARAMS, X, expand="grad")
    assert "grad_of_total(params, xs + 1.0)" in text and "jax.vmap" not in code(text)


def test_grad_of_a_scan():
    def unrolled(x, xs):
        return jnp.sum(jax.lax.scan(cell, x, xs)[1])

    def f(x, xs):
        return jax.grad(unrolled)(x * 2.0, xs)

    text = recover(f, X[0], X, expand="grad")
    assert "grad_of_unrolled(x * 2.0, xs)" in text and "jax.grad" not in code(text)
    assert code(text).count("jax.lax.scan(") == 2 and "reverse=True" in text
    text = recover(f, X[0], X, expand="scan")
    assert "jax.grad(unrolled)(x * 2.0, xs)" in code(text)


@jax.jit
def squared(x):
    return jnp.sin(x) ** 2


def test_jit_is_left_out():
    def f(x):
        y = squared(x) + squared(x + 1.0)
        return jax.jit(lambda z: z * 2.0)(y)

    text = recover(f, X, expand="jit")
    assert "jax.jit" not in code(text) and "def squared(x):" in text
    assert "squared(x) + squared(x + 1.0)" in text


def test_jitted_functions_of_jax_stay():
    def f(key, xs):
        def g(x, k):
            noise = jax.random.uniform(k)
            return jax.lax.scan(cell, x * noise, squared(xs))

        return jax.vmap(g)(xs, jax.random.split(key, 3))

    text = recover(f, jax.random.key(0), X, expand=("vmap", "jit"))
    body = text.partition('"""\n\n')[2]  # the header says that `squared` is opened
    assert "_uniform" in text and "squared" not in code(body)


def test_a_whole_jitted_program():
    text = recover(squared, X, expand="jit")
    assert "jax.jit" not in code(text) and "return jnp.sin(x) ** 2" in text


def test_jit_inside_grad():
    def f(x):
        return jax.grad(lambda v: jnp.sum(squared(v)))(x + 1.0)

    text = recover(f, X, expand="jit")
    assert "jax.jit" not in code(text) and "jax.grad(" in code(text)
    text = recover(f, X, expand=("grad", "jit"))
    assert "jax.jit" not in code(text) and "jax.grad(" not in code(text)


def test_jit_stays_where_cotangents_would_be_added_in_another_order():
    @jax.jit
    def product(x):
        return jnp.sin(x) * jnp.cos(x)

    def f(x):
        return jax.grad(lambda v: jnp.sum(product(v) + v * v))(x)

    src = untrace.source(lambda x: f(x + 1.0), expand="jit")(X)
    assert src.report.is_verified and "@jax.jit" in str(src) and "jax.grad" in str(src)
    assert any(
        note.startswith("Not everything that was named is expanded")
        for note in src.report.notes
    )


def test_two_grads():
    def f(params, xs):
        first = jax.grad(loss)(params, xs)
        value, second = jax.value_and_grad(loss)(params, xs * 2.0)
        return first, second, value

    text = recover(f, PARAMS, X, expand="grad")
    assert "first = grad_of_loss(params, xs)" in text
    assert "value, second = value_and_grad_of_loss(params, xs * 2.0)" in text


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian", "jvp"])
def test_other_transformations(name):
    def energy(x):
        return jnp.sum(jnp.sin(x) ** 3)

    def f(x):
        y = x[0] * 2.0
        if name == "jvp":
            return jax.jvp(energy, (y,), (y,))
        return getattr(jax, name)(energy)(y)

    text = recover(f, X, expand=name)
    assert f"{name}_of_energy(" in text and f"jax.{name}" not in code(text)


def test_vjp_and_linearize():
    def f(x):
        y, pull = jax.vjp(jnp.sin, x + 1.0)
        out, push = jax.linearize(jnp.cos, x)
        return pull(y)[0] + push(out)

    text = recover(f, X, expand="vjp")
    assert "jax.vjp" not in code(text) and "jax.linearize(" in code(text)
    text = recover(f, X, expand=("vjp", "linearize"))
    assert "jax.vjp" not in code(text) and "jax.linearize(" not in code(text)


@jax.custom_jvp
def softened(x):
    return jnp.log1p(jnp.exp(x))


@softened.defjvp
def softened_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return softened(x), t * jax.nn.sigmoid(x)


@jax.custom_vjp
def clipped(x):
    return x * 3.0


clipped.defvjp(lambda x: (x * 3.0, x), lambda x, g: (jnp.clip(g, -1.0, 1.0) * x,))


def test_custom_rules():
    def f(x):
        y = softened(x) + clipped(x)
        return y + jax.grad(lambda v: jnp.sum(softened(v) * clipped(v)))(x)

    text = recover(f, X, expand=("custom_jvp", "custom_vjp"))
    assert "jax.grad(" in code(text) and "@jax.custom_jvp" in code(text)
    text = recover(f, X, expand="grad")
    assert "jax.grad" not in code(text) and "@jax.custom_vjp" in code(text)
    assert "t * jax.nn.sigmoid(x)" in text


def test_checkpoint():
    block = jax.checkpoint(lambda x: jnp.sin(jnp.cos(x)))

    def f(x):
        return block(x * 2.0) + jax.grad(lambda v: jnp.sum(block(v)))(x)

    text = recover(f, X, expand="checkpoint")
    assert "jax.grad(" in code(text) and "jax.checkpoint" in code(text)
    text = recover(f, X, expand="grad")
    assert "jax.grad" not in code(text)


def test_whole_program_inside_jit():
    text = recover(jax.jit(jax.grad(loss)), PARAMS, X, expand="grad")
    assert (
        "jax.jit" in code(text)
        and "# backward of: " in text
        and "jax.grad" not in code(text)
    )
    text = recover(
        jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0))), PARAMS, X, expand="grad"
    )
    assert "jax.vmap(" in code(text) and "grad_of_loss" in text


def test_what_does_not_occur_is_noted():
    src = untrace.source(step, expand=("checkpoint", "grad"))(PARAMS, X)
    assert src.report.is_verified
    (note,) = src.report.notes
    expected = (
        'expand="checkpoint" changes nothing: the program makes no such call. '
        "It makes calls of: grad, scan, vmap."
    )
    assert note == expected
    src = untrace.source(jax.grad(loss), expand=("jit", "grad"))(PARAMS, X)
    assert len(src.report.notes) == 1 and '"jit"' in src.report.notes[0]
    inside = untrace.source(
        lambda x: jax.grad(lambda v: jax.lax.scan(cell, v, X)[0].sum())(x + 1.0),
        expand=("grad", "scan"),
    )(X[0])
    assert inside.report.is_verified and not inside.report.notes


def test_anonymous_and_other_options():
    src = untrace.source(step, expand="grad", anonymous=True)(PARAMS, X)
    assert src.report.is_verified and "jax.grad" not in str(src)
    for word in ("loss", "hidden", "test_expand", "cell"):
        assert word not in str(src)
    text = recover(step, PARAMS, X, expand="grad", comments="types")
    assert "# backward of: " in text and "# f32[" in text
    text = recover(step, PARAMS, X, expand="grad", comments="origin")
    assert "# grads = jax.grad(loss)(params, rows)  (test_expand.py:" in text


def test_reroll_with_expand():
    def layer(w, x):
        return jnp.tanh(x @ w) + 1.0

    def deep(params, x):
        for i in range(4):
            x = layer(params[i], x)
        return x, jax.grad(lambda v: jnp.sum(v**2))(x)

    params = [np.eye(4, dtype=np.float32)] * 4
    text = recover(deep, params, X, expand="grad", reroll="for")
    assert "for param in params:" in text and "grad_of_function(x)" in text


def test_static_arguments():
    def power(x, n, scale):
        return jnp.sum(x**n) * scale

    def f(xs, scale):
        g = functools.partial(jax.grad(power), n=3)
        rows = jax.vmap(jax.grad(power), in_axes=(0, None, None))(xs, 2, scale)
        return rows, jax.vmap(lambda x: g(x, scale=scale))(xs)

    text = recover(f, X, np.float32(1.5), expand="grad")
    assert "jax.grad" not in code(text) and code(text).count("jax.vmap(") == 2


def test_grad_under_a_named_axis():
    def f(xs):
        def normal(v):
            return jnp.sum(v * jax.lax.psum(v, "i"))

        return jax.vmap(jax.grad(normal), axis_name="i")(xs)

    text = recover(f, X, expand="grad")
    assert 'jax.vmap(grad_of_normal, axis_name="i")(xs)' in text


def test_what_cannot_be_opened_stays(monkeypatch):
    from untrace.lifting.recorded.calls import retraced

    def broken(binds, results):
        raise RuntimeError("no such equations")

    monkeypatch.setattr(retraced, "_traced", broken)
    src = untrace.source(per_example, expand="grad")(PARAMS, X)
    assert src.report.is_verified
    assert "jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, xs)" in str(src)
    assert "no such equations" in src.report.notes[0]


@pytest.mark.parametrize(
    ("transform", "names"),
    [
        (jax.grad, ("grad",)),
        (jax.value_and_grad, ("value_and_grad",)),
        (jax.jacfwd, ("jacfwd",)),
        (jax.jacrev, ("jacrev",)),
        (jax.hessian, ("hessian",)),
        (lambda f: jax.vmap(f, in_axes=(None, 0)), ("vmap",)),
        (
            lambda f: jax.vmap(jax.grad(f), in_axes=(None, 0)),
            ("vmap", "grad"),
        ),
        (lambda f: functools.partial(jax.linearize, f), ("linearize",)),
        (lambda f: functools.partial(jax.vjp, f), ("vjp",)),
    ],
)
@pytest.mark.parametrize("level", ["api", "expanded", "lax"])
def test_program_is_named_after_what_made_it(transform, names, level):
    options = {"expand": names} if level == "expanded" else {"level": level}
    src = untrace.source(transform(loss), **options)(PARAMS, X)
    name = "_of_".join([*names, "loss"])
    assert src.report.is_verified and src.module.name == name
    assert f"\ndef {name}(" in str(src)
    assert ("\ndef loss(" in str(src)) == (level == "api")
    jitted = untrace.source(jax.jit(transform(loss)), **options)(PARAMS, X)
    assert jitted.module.name == name


def test_name_that_was_asked_for_is_the_name():
    src = untrace.source(jax.grad(loss), name="slope")(PARAMS, X)
    assert src.module.name == "slope"


def test_program_that_is_jitted_or_has_its_own_rule_has_its_own_name():
    for wrapped in (jax.jit(loss), jax.checkpoint(loss), functools.partial(loss)):
        assert untrace.source(wrapped)(PARAMS, X).module.name == "loss"
    assert untrace.source(jax.nn.relu)(X).module.name == "relu"


def test_anonymous_program_is_not_named_after_what_made_it():
    src = untrace.source(jax.grad(loss), anonymous=True)(PARAMS, X)
    assert src.module.name == "function"


def test_expanded_gradient_has_its_value_too():
    def f(params, xs):
        value, grads = jax.value_and_grad(loss)(params, xs)
        return value + 1.0, grads

    text = recover(f, PARAMS, X, expand="grad")
    assert "value_and_grad_of_loss(params, xs)" in text
    assert "jax.value_and_grad" not in text
