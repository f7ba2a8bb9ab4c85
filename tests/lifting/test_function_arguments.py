"""Functions that are passed to the user's functions are parameters of theirs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import untrace

X = np.ones(3, np.float32)


def recover(function, *args):
    """Return the source of a function, which must be proved as it was recorded."""
    source = untrace.source(function)(*args)
    assert source.report.is_verified
    assert not any("from its equations" in note for note in source.report.notes)
    return str(source)


def rise(x):
    return jnp.sin(x) + x**2


def fall(x):
    return jnp.cos(x) - x


def newton(f, x):
    for _ in range(4):
        x = x - f(x) / jax.grad(f)(x)
    return x


def test_a_function_is_one_whatever_functions_it_is_given():
    def f(x, y):
        return newton(rise, x) + newton(fall, x) + newton(lambda x: x**3 - y, y)

    text = recover(f, np.float32(1), np.float32(2))
    assert text.count("def newton") == 1 and "def newton(f, x):" in text
    assert "x - f(x) / jax.grad(f)(x)" in text
    for call in ["newton(rise, x)", "newton(fall, x)", "newton(lambda x: x**3 - y, y)"]:
        assert call in text


def test_functions_with_several_parameters_and_numbers_are_passed():
    def euler(f, y, t, dt):
        return y + dt * f(y, t + dt / 2)

    def decay(y, t):
        return -y * t

    def f(y, k):
        def forced(y, t):
            slope = -y * k
            return slope + jnp.sin(t)

        return euler(decay, y, 0.0, 0.1), euler(forced, y, 0.5, 0.25)

    text = recover(f, X, X)
    assert text.count("def euler") == 1 and "y + dt * f(y, t + dt / 2)" in text
    assert "euler(decay, y, 0.0, 0.1)" in text and "euler(forced, y, 0.5, 0.25)" in text


def compose(f, g, x):
    return f(g(x))


def test_public_functions_partials_and_transformations_are_passed():
    def scale(k, x):
        return k * x

    def f(x, k):
        first = compose(jnp.sin, functools.partial(scale, k), x)
        return compose(jax.vmap(rise), functools.partial(scale, 2 * k), first)

    text = recover(f, X, np.float32(2))
    assert text.count("def compose") == 1 and "return f(g(x))" in text
    assert "compose(jnp.sin, functools.partial(scale, k), x)" in text
    assert "compose(jax.vmap(rise), functools.partial(scale, 2 * k)," in text


def test_two_closures_of_one_function_are_told_apart():
    def times(k):
        def product(x):
            y = x * k
            return y + 1

        return product

    def f(x, k):
        return compose(times(k), times(2 * k), x)

    text = recover(f, np.float32(3), np.float32(2))
    assert "return f(g(x))" in text
    assert "y = x * k" in text and "y = x * product" in text


def test_functions_are_passed_on_and_seen_in_nested_functions():
    def steps(f, x):
        return jax.lax.scan(lambda x, _: (f(x), None), x, None, length=3)[0]

    def twice(f, x):
        return steps(f, x) + steps(lambda x: f(x) * 2, x)

    text = recover(lambda x: twice(rise, x) + twice(fall, x), X)
    assert text.count("def steps") == 1 and text.count("def twice") == 1
    assert "steps(f, x) + steps(lambda x: f(x) * 2, x)" in text


def test_methods_are_passed():
    class Spring:
        def __init__(self, k):
            self.k = k

        def force(self, q):
            return -self.k * q

    def kick(force, q, p):
        return p + 0.1 * force(q)

    def f(q, p, k):
        return kick(Spring(k).force, q, kick(Spring(2 * k).force, q, p))

    text = recover(f, X, X, X)
    assert text.count("def kick") == 1 and "def kick(force, q, p):" in text


def test_a_function_that_is_given_other_integers_each_time_is_no_parameter():
    def series(f, x):
        return f(x, 1) + f(x, 2)

    def power(x, n):
        return jnp.sin(x) ** n

    text = recover(lambda x: series(power, x), X)
    assert "power(x, 1) + power(x, 2)" in text


def test_a_function_that_depends_on_shapes_is_no_parameter():
    def flat(x):
        return jnp.reshape(x, (x.nbytes // 4,)) * 2

    def f(x):
        return compose(flat, flat, x), compose(rise, fall, x)

    text = recover(f, np.ones((2, 3), np.float32))
    assert "f(g(x))" in text and "jnp.reshape(x, (6,))" in text


def test_public_functions_mean_a_parameter_only_where_it_is_seen():
    def other(x):
        return jnp.tanh(x) * 2

    def f(x):
        return compose(jnp.tanh, other, x) + compose(lambda x: other(x) + 1, rise, x)

    text = recover(f, X)
    assert "return jnp.tanh(x) * 2" in text and text.count("def other(x)") == 1


def test_arguments_that_took_their_defaults_are_no_parameters():
    def layer(x, activation=jax.nn.relu):
        return activation(x) + 1

    text = recover(lambda x: layer(x) + layer(x, jax.nn.gelu) + layer(x, jnp.tanh), X)
    assert "return jax.nn.relu(x) + 1" in text
    assert "return activation(x) + 1" in text
    assert "layer_2(x, jax.nn.gelu) + layer_2(x, jnp.tanh)" in text


@functools.partial(jax.jit, static_argnums=(1, 2))
def iterate(x, f, n):
    for _ in range(n):
        x = f(x)
    return x


def test_jitted_functions_take_functions_as_static_arguments():
    def f(x):
        return iterate(x, rise, 3) + iterate(x, f=fall, n=3)

    text = recover(f, X)
    assert text.count("def iterate(x, f):") == 1
    assert "@functools.partial(jax.jit, static_argnums=1)" in text
    assert "iterate(x, rise) + iterate(x, f=fall)" in text


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def solve(f, x, n):
    for _ in range(n):
        x = x - f(x)
    return x


@solve.defjvp
def solve_jvp(f, n, primals, tangents):
    x = solve(f, primals[0], n)
    return x, n * tangents[0] / jax.grad(f)(x)


def test_functions_with_rules_take_functions():
    def f(x):
        return solve(rise, x, 2) + solve(fall, x, 2) + solve(fall, x, 1)

    for function in (f, jax.grad(f)):
        text = recover(function, np.float32(2))
        assert text.count("nondiff_argnums=(0,)") == 2  # for n = 2, and for n = 1
        assert "solve(rise, x) + solve(fall, x) + solve_2(fall, x)" in text


def test_no_function_is_passed_where_the_file_would_be_another_program():
    seen = []

    def odd(x):  # another function each time
        seen.append(x)
        return x * 2 if len(seen) % 2 else x + 1

    text = recover(lambda x: compose(odd, odd, x), X)
    assert "f(g(x))" not in text


def test_many_functions_that_are_no_parameters_take_few_passes():
    def series(f, x):
        return f(x, 1) + f(x, 2)

    def f(x):
        for scale in range(2, 72):
            code = f"def power{scale}(x, n): return x**n * {scale}"
            names = {}
            exec(compile(code, __file__, "exec"), names)
            x = series(names[f"power{scale}"], x)
        return x

    recover(f, X)


def test_functions_in_a_dict_that_is_not_mapped():
    def power(x, params):
        return x ** params["rho"]

    @functools.wraps(power)
    def known_alone(x, **given):
        return power(x, given["params"])

    functions = {"utility": known_alone}

    def utility(x, choice, functions, params):
        return functions["utility"](x, params=params, **choice) + 1.0

    def f(x, choice, params):
        mapped = jax.vmap(utility, in_axes=(0, None, None, None))
        return mapped(x, choice, functions, params)

    text = recover(f, X, {"a": X}, {"rho": 2.0})
    assert "jax.vmap(utility, in_axes=(0, None, None))(x, choice, params)" in text
