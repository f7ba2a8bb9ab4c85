"""Level "api": functions with derivative rules that are given to transformations."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)


@jax.custom_jvp
def log1pexp(x):
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * x_dot


@jax.custom_jvp
def sine(x):
    return jnp.sin(x)


@sine.defjvp
def sine_jvp(primals, tangents):
    return jnp.sin(primals[0]), 2.0 * tangents[0]


@jax.custom_vjp
def clipped(x):
    return jnp.sin(x)


clipped.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (jnp.clip(g, 0.0, 1.0) * x,))


@pytest.mark.parametrize("function", [log1pexp, sine, clipped])
def test_rules_of_what_is_differentiated_itself_are_written(function):
    src = untrace.source(lambda x: jax.vmap(jax.grad(function))(x))(X)
    assert src.report.is_verified, str(src.report)
    assert not src.report.notes
    assert f"jax.vmap(jax.grad({function.__name__}))(x)" in str(src)


def test_a_long_function_that_its_rule_calls_again_is_written_once():
    @jax.custom_jvp
    def long(x):
        for _ in range(120):
            x = jnp.sin(x) * 2.0
        return x

    @long.defjvp
    def long_jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return long(x), long(x + 1.0) * t

    made = untrace.source(jax.make_jaxpr(long)(1.0), level="lax")
    assert made.report.strength == "identical"
    assert str(made).count("@jax.custom_jvp") == 1


@jax.custom_jvp
def times(x, *others):
    out = jnp.sin(x)
    for other in others:
        out = out * other
    return out


@times.defjvp
def times_jvp(primals, tangents):
    return times(*primals), sum(tangents) * jnp.cos(primals[0])


@jax.custom_vjp
def masked(x, mask):
    return x if mask is None else x * mask


masked.defvjp(
    lambda x, mask: (masked(x, mask), mask),
    lambda mask, g: (g, None) if mask is None else (g * mask, jnp.zeros_like(mask)),
)


@jax.custom_vjp
def ridge(a):
    return a + jnp.eye(a.shape[0])


def ridge_bwd(n, g):
    return (g * jnp.arange(n.shape[0]),)


ridge.defvjp(lambda a: (ridge(a), a), ridge_bwd)


@jax.custom_vjp
def shifted(x, shift=2.0):
    return x + shift


shifted.defvjp(lambda x, shift: (shifted(x, shift), None), lambda _, g: (g, 0 * g[0]))


KINDS = {
    "numbers of arguments": lambda x: times(x) + times(x, x) + times(x, x, x),
    "trees": lambda x: masked(x, None) + masked(x, x),
    "shapes": lambda x: ridge(jnp.outer(x, x)).sum() + ridge(jnp.diag(x[:2])).sum(),
    "defaults": lambda x: shifted(x) + shifted(x, 3.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_differentiated", [False, True])
def test_functions_with_rules_that_take_several_kinds_of_arguments(
    kind, is_differentiated
):
    function = KINDS[kind]
    given = jax.grad(lambda x: function(x).sum()) if is_differentiated else function
    src = untrace.source(lambda x: given(x))(X)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src), str(src)


def test_variants_of_the_same_text_are_one_function():
    src = untrace.source(lambda x: clipped(x).sum() + clipped(x[:2]).sum())(X)
    assert src.report.strength == "identical"
    assert str(src).count("@jax.custom_vjp") == 1
    assert str(src).count("clipped.defvjp(") == 1


def test_variants_of_the_same_text_with_other_rules_are_two():
    @jax.custom_vjp
    def same(x):
        return x * 2.0

    same.defvjp(
        lambda x: (same(x), x), lambda x, g: (g * jnp.arange(float(x.shape[0])),)
    )
    src = untrace.source(lambda x: same(x).sum() + same(x[:2]).sum())(X)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src), str(src)


def written_from_calls(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src), str(src)
    return str(src)


def test_rules_that_name_a_function_that_closes_over_an_argument():
    def program(x, w):
        @jax.custom_vjp
        def scaled(x):
            return jnp.sin(x) * w

        def forward(x):
            return scaled(x), x

        scaled.defvjp(forward, lambda kept, ct: (ct * 2.0 + kept,))
        return jax.grad(lambda x: scaled(x).sum())(x)

    text = written_from_calls(program, X, X)
    assert "        def forward(x)" in text and "scaled.defvjp(forward, " in text


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def halved(x, tolerance):
    return jax.lax.while_loop(lambda y: y.sum() > tolerance, lambda y: y * 0.5, x)


def halved_forward(x, tolerance):
    return halved(x, tolerance), x


halved.defvjp(halved_forward, lambda tolerance, kept, ct: (ct * kept,))


def test_a_number_that_a_function_with_rules_is_fixed_to():
    def halves(x, tolerance=1e-10):
        return jnp.sin(halved(x, tolerance)).sum()

    text = written_from_calls(lambda x: jax.grad(halves)(x), X)
    assert "halved_forward)" in text or "halved_forward, " in text


@jax.custom_vjp
def told(x, y):
    return x * jnp.sin(y)


def told_forward(x, y):
    assert not y.perturbed
    return told(x.value, y.value), (y.value,)


told.defvjp(
    told_forward,
    lambda kept, ct: (ct * kept[0], jnp.zeros_like(ct)),
    symbolic_zeros=True,
)


def test_a_rule_that_refuses_some_tangents_does_not_refuse_all():
    def program(x, y):
        return told(x, jax.lax.stop_gradient(y)).sum()

    src = untrace.source(lambda x, y: program(x, y))(X, X)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src)
    slopes = [jax.grad(f)(X, X) for f in (program, src.load())]
    np.testing.assert_array_equal(*slopes)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def mixed(tree, power):
    return tree["a"] ** power * tree["b"], jnp.sin(tree["b"])


def mixed_forward(tree, power):
    a, b = tree["a"], tree["b"]
    kept = {"power": a.value**power if b.perturbed else None}
    return mixed({"a": a.value, "b": b.value}, power), (kept, b.value, a.perturbed)


def mixed_backward(power, kept, cotangents):
    powers, b, needs_a = kept
    product, sine = cotangents
    zero = jax.custom_derivatives.SymbolicZero
    slope = jnp.zeros_like(b) if isinstance(sine, zero) else sine * jnp.cos(b)
    if powers["power"] is not None and not isinstance(product, zero):
        slope = slope + product * powers["power"]
    slope_of_a = b * power if needs_a else None
    return ({"a": slope_of_a, "b": slope},)


mixed.defvjp(mixed_forward, mixed_backward, symbolic_zeros=True)


def test_rules_that_are_told_what_is_perturbed_keep_their_names():
    def loss(a, b, mix=1.0):
        product, sine = mixed({"a": a, "b": b}, 2)
        return jnp.sum(product * mix) + jnp.sum(sine)

    text = written_from_calls(lambda a, b: jax.grad(loss, (0, 1))(a, b), X, X + 1)
    for line in (
        "    powers, b, needs_a = kept\n    product, sine = cotangents\n",
        '    return ({"a": slope_of_a, "b": slope},)\n',
        "mixed.defvjp(\n    *by_perturbed(",
        "    symbolic_zeros=True,\n",
    ):
        assert line in text, text
    src = untrace.source(loss)(X, X + 1)
    made = src.load()
    for places in (0, 1, (0, 1)):
        slopes = [jax.grad(f, places)(X, X + 1) for f in (loss, made)]
        jax.tree.map(np.testing.assert_array_equal, *slopes)


def test_filtered_rules_of_equinox_come_back_from_their_calls():
    @eqx.filter_custom_vjp
    def scaled(pair, y):
        return pair[0] * jnp.sin(pair[1]) * y

    @scaled.def_fwd
    def _(perturbed, pair, y):
        return scaled(pair, y), pair[0] * y if perturbed[1] else None

    @scaled.def_bwd
    def _(kept, ct, perturbed, pair, y):
        slope = None if kept is None else ct * kept * jnp.cos(pair[1])
        return ct * jnp.sin(pair[1]) * y, slope

    def loss(x, y, z):
        return jnp.sum(scaled((x, y), z))

    src = untrace.source(lambda x, y, z: jax.grad(loss)(x, y, z))(X, X, X)
    assert src.report.is_verified, str(src.report)
    text = str(src)
    assert "scaled" in text and "written from its equations: rules" not in text


def harmonics(n):
    @jax.custom_jvp
    def waves(x):
        return tuple(jnp.sin(x * i) for i in range(n))

    @waves.defjvp
    def _(primals, tangents):
        made = harmonics(2 * n)(*primals)
        return made[:n], tuple(tangents[0] * wave for wave in made[n:])

    return waves


def test_rules_that_make_ever_larger_functions_have_an_end():
    src = untrace.source(lambda x: sum(harmonics(13)(x)))(X)
    assert src.report.is_verified, str(src.report)
    assert len(str(src).splitlines()) < 5_000


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
@functools.partial(jax.jit, static_argnums=(0,))
def scaled(f, x, scale):
    return jnp.sin(f(x)) * scale


def scaled_fwd(f, x, scale):
    return scaled(f, x, scale), (x, scale)


def scaled_bwd(f, residuals, g):
    x, scale = residuals
    return g * jnp.cos(x) * scale, jnp.sum(g)


scaled.defvjp(scaled_fwd, scaled_bwd)


def test_a_jitted_function_with_rules_is_given_a_number():
    """JAX does not run it again at the types of the number, which it has traced."""

    def loss(x):
        return scaled(jnp.tanh, x, 2.0).sum() + scaled(jnp.tanh, x, 3).sum()

    src = untrace.source(loss)(X)
    assert src.report.strength, f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    assert "scaled(jnp.tanh, x, 2.0)" in str(src), str(src)


@jax.custom_jvp
def step_above(x, threshold=1.0):
    return (x > threshold).astype(jnp.float32)


@step_above.defjvp
def step_above_jvp(primals, tangents):
    x, threshold = primals
    x_dot, threshold_dot = tangents
    slope = 1 / (jnp.abs(x - threshold) + 1) ** 2
    return step_above(x, threshold), slope * x_dot + threshold_dot


def test_numbers_that_a_rule_is_given_are_its_arguments():
    def total(xs):
        spikes = jax.tree.map(lambda x: step_above(x, 0.5), xs)
        return sum(jnp.sum(spike) for spike in spikes) + jnp.sum(step_above(xs[0]))

    src = untrace.source(jax.grad(total))([X, np.ones((2, 3), np.float32)])
    assert src.report.strength == "identical"
    text = str(src)
    assert text.count("@jax.custom_jvp") == 1
    assert "slope = 1 / (jnp.abs(x - threshold) + 1) ** 2" in text
    assert "lambda x: step_above(x, 0.5)" in text


@pytest.mark.parametrize("is_jitted", [False, True])
def test_rules_that_want_some_arguments_alone_perturbed(is_jitted):
    @jax.custom_vjp
    def scaled(x, y, a, b, c):
        return jnp.sin(x) * a + b * c * y

    def fwd(*args):
        assert [arg.perturbed for arg in args] == [True, True, False, False, False]
        x, _, a, b, c = [arg.value for arg in args]
        return scaled(*[arg.value for arg in args]), (x, a, b, c)

    def bwd(residuals, cotangent):
        x, a, b, c = residuals
        return jnp.cos(x) * a * cotangent, cotangent * b * c, None, None, None

    scaled.defvjp(fwd, bwd, symbolic_zeros=True)

    def loss(*args):
        return scaled(*args).sum()

    def f(*args):
        return jax.grad(jax.jit(loss) if is_jitted else loss, (0, 1))(*args)

    args = [np.full(3, n, np.float32) for n in range(5)]
    src = untrace.source(f)(*args)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    jax.tree.map(np.testing.assert_array_equal, src.load()(*args), f(*args))


@pytest.mark.parametrize("transform", [jax.jit, jax.checkpoint, jax.vmap])
@pytest.mark.parametrize("is_vjp", [False, True])
def test_rules_that_transformations_made_are_written_as_these_made_them(
    transform, is_vjp
):
    def sine(x):
        return jnp.sin(x)

    function = (jax.custom_vjp if is_vjp else jax.custom_jvp)(sine)
    if is_vjp:
        forward = transform(lambda x: (jnp.sin(x), x))
        function.defvjp(forward, transform(lambda x, g: (2.0 * x * g,)))
    else:
        function.defjvp(transform(lambda x, dx: (jnp.sin(x[0]), 2.0 * dx[0])))
    src = untrace.source(lambda x: jax.grad(lambda x: function(x).sum())(x))(X)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    assert f"jax.{transform.__name__}(" in str(src)


def test_a_jitted_function_is_a_forward_rule_and_called_in_the_function_of_it():
    @jax.custom_vjp
    def cost(a, labels, rate):
        return cost_fwd(a, labels, rate)[0]

    @jax.jit
    def cost_fwd(a, labels, rate):
        labels = (1.0 - rate) * labels + rate
        return jnp.sum(labels * a), (labels, rate)

    @jax.jit
    def cost_bwd(residuals, cotangent):
        labels, rate = residuals
        return cotangent * labels * rate, None, None

    cost.defvjp(cost_fwd, cost_bwd)
    src = untrace.source(lambda a, y: jax.value_and_grad(cost)(a, y, 0.1))(X, X)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    assert str(src).count("def cost_fwd") == 1
    assert "cost.defvjp(cost_fwd, cost_bwd)" in str(src)
