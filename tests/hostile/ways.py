"""The ways by which a string from outside gets into a program, each a small program of many.

A way takes strings, and returns a function with its arguments and keyword arguments.
"""

import collections
import enum
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import checkify, io_callback, pallas
from jax.experimental.xla_metadata import set_xla_metadata

Program = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
Way = Callable[[list[str]], Program]
WAYS: dict[str, Way] = {}

X = np.arange(3, dtype=np.float32)


def way(make: Way) -> Way:
    WAYS[make.__name__] = make
    return make


def accepted(make: Way, strings: list[str]) -> list[str]:
    """Choose the strings that JAX accepts, by halves."""
    try:
        function, args, kwargs = make(strings)
        jax.make_jaxpr(lambda *args, **kwargs: function(*args, **kwargs))(
            *args, **kwargs
        )
    except Exception:  # JAX refuses strings in many ways, C++ errors among them
        if len(strings) == 1:
            return []
        half = len(strings) // 2
        return accepted(make, strings[:half]) + accepted(make, strings[half:])
    return strings


def named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


# ---- arguments and results -----------------------------------------------------------


@way
def dict_keys(strings):
    def f(d):
        return {key: value * 2 for key, value in d.items()}

    return f, (dict.fromkeys(strings, X),), {}


@way
def dict_keys_in_order(strings):
    def f(d):
        total = sum(d.values())
        return collections.OrderedDict((key, total + i) for i, key in enumerate(d))

    return f, (dict.fromkeys(strings, X),), {}


@way
def numbered_keys(strings):
    def f(d, x):
        for i in range(4):
            x = jnp.tanh(x @ d[f"{strings[0]}{i}"]["w"]) + d[f"{strings[0]}{i}"]["b"]
        return x

    layer = {"w": np.eye(3, dtype=np.float32), "b": X}
    return f, ({f"{strings[0]}{i}": layer for i in range(4)}, X), {}


@way
def tuples_and_numpy_strings_as_keys(strings):
    keys = [(s, np.str_(str.__str__(s))) for s in strings]

    def f(d):
        return {key: value + 1 for key, value in d.items()}

    return f, (dict.fromkeys(keys, X),), {}


@way
def keywords(strings):
    def f(**given):
        return sum(given.values())

    return f, (), dict.fromkeys(strings, X)


@way
def fields(strings):
    cls = type("Record", (tuple,), {"_fields": tuple(strings)})

    def f(record):
        return cls([part * 2 for part in record])

    return f, (cls([X] * len(strings)),), {}


class Held:
    """A node of a tree whose children have names that anyone chose."""

    def __init__(self, parts, names):
        self.parts, self.names = parts, names


jax.tree_util.register_pytree_with_keys(
    Held,
    lambda held: (
        [
            (jax.tree_util.GetAttrKey(name), part)
            for name, part in zip(held.names, held.parts)
        ],
        held.names,
    ),
    lambda names, parts: Held(list(parts), names),
)


@way
def attributes(strings):
    def f(held):
        return Held([part + 1 for part in held.parts], held.names)

    return f, (Held([X] * len(strings), tuple(strings)),), {}


@way
def classes(strings):
    made = []
    for string in strings:
        cls = collections.namedtuple("Pair", "left right")
        cls.__name__ = "Pair" if "\0" in string else _encodable(string)
        cls.__qualname__, cls.__module__ = string, string
        made.append(cls(X, X))

    def f(pairs):
        return [type(pair)(pair.right, pair.left * 2) for pair in pairs]

    return f, (made,), {}


def _encodable(string):
    return str.__str__(string).encode("utf-8", "replace").decode()


@way
def members(strings):
    names = [s for s in strings if not (s.startswith("_") or s == "mro") and s]
    chosen = enum.Enum("chosen", [(name, i) for i, name in enumerate(names)])
    globals()["chosen"] = chosen
    chosen.__module__ = __name__

    def f(d):
        return [{key: part[key] * 2} for part in d for key in part]

    return f, ([{member: X} for member in chosen],), {}


@way
def unequal_members(strings):
    class Chosen(str, enum.Enum):  # noqa: UP042  (its `str` is another)
        pass

    names = [f"m{i}" for i in range(len(strings))]
    chosen = Chosen("Chosen", dict(zip(names, map(str.__str__, strings))))

    def f(d):
        return {key: part * 2 for key, part in d.items()}

    return f, (dict.fromkeys(chosen, X),), {}


# ---- functions -----------------------------------------------------------------------


@way
def function_names(strings):
    def f(x):
        for i, string in enumerate(strings):
            x = jax.jit(named(lambda x, i=i: jnp.sin(x) + i, string))(x)
        return x

    return named(f, strings[0]), (X,), {}


@way
def rule_names(strings):
    def f(x):
        for string in strings:
            rule = jax.custom_jvp(named(lambda x: jnp.sin(x), string))
            rule.defjvp(lambda p, t: (jnp.sin(p[0]), t[0] * 2))
            x = rule(x)
        return x

    return f, (X,), {}


@way
def static_arguments(strings):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
    def scale(x, how):
        return x * len(how)

    scale.defvjp(lambda x, how: (x, None), lambda how, _, ct: (ct * len(how),))

    def f(x):
        for string in strings:
            x = jax.jit(scale, static_argnums=1)(x, string)
        return x

    return f, (X,), {}


@way
def host_functions(strings):
    def f(x):
        for string in strings:
            host = named(lambda x: x, string)
            host.__module__ = string
            jax.debug.callback(host, x)
            x = io_callback(host, jax.ShapeDtypeStruct((3,), jnp.float32), x)
        return x

    return f, (X,), {}


@way
def host_keywords(strings):
    def f(x):
        jax.debug.callback(lambda **given: None, **dict.fromkeys(strings, x))
        return x

    return f, (X,), {}


@way
def formats(strings):
    def f(x):
        for string in strings:
            text = str.__str__(string).replace("{", "{{").replace("}", "}}")
            jax.debug.print(type(string)(text + "{x}"), x=x)
        return x

    return f, (X,), {}


# ---- names that JAX keeps --------------------------------------------------------------


@way
def scopes(strings):
    def f(x):
        for string in strings:
            with jax.named_scope(string):
                x = jnp.sin(x)
        return x

    return f, (X,), {}


@way
def checkpoints(strings):
    def f(x):
        for string in strings:
            x = checkpoint_name(jnp.sin(x), string)
        return x

    policy = jax.checkpoint_policies.save_only_these_names(*map(str.__str__, strings))
    return jax.grad(lambda x: jax.checkpoint(f, policy=policy)(x).sum()), (X,), {}


@way
def axis_names(strings):
    def f(x):
        for string in strings:
            x = jax.vmap(lambda x, s=string: x - jax.lax.psum(x, s), axis_name=string)(
                x
            )
        return x

    return f, (X,), {}


@way
def mesh_axes(strings):
    def f(x):
        for string in strings:
            types = (jax.sharding.AxisType.Auto,)
            mesh = jax.make_mesh((1,), (string,), axis_types=types)
            sharding = jax.NamedSharding(mesh, jax.P(string))
            x = jax.lax.with_sharding_constraint(x, sharding)
        return x

    return f, (X,), {}


@way
def typed_axes(strings):
    types = (jax.sharding.AxisType.Explicit,)
    mesh = jax.make_mesh((1,), strings[:1], axis_types=types)
    sharding = jax.NamedSharding(mesh, jax.P(strings[0]))
    return (
        lambda x: jnp.sin(x) * 2,
        (jax.ShapeDtypeStruct((3,), jnp.float32, sharding=sharding),),
        {},
    )


@way
def composites(strings):
    def f(x):
        for string in strings:

            def composed(x, **given):
                return jnp.sin(x)

            composite = jax.lax.composite(composed, name=string, version=1)
            x = composite(x, key=string)
        return x

    return f, (X,), {}


@way
def composite_attributes(strings):
    def f(x):
        composite = jax.lax.composite(lambda x, **given: jnp.sin(x), name="c")
        return composite(x, **dict.fromkeys(strings, 1))

    return f, (X,), {}


@way
def foreign_targets(strings):
    def f(x):
        kind = jax.ShapeDtypeStruct((3,), jnp.float32)
        for string in strings:
            x = jax.ffi.ffi_call(string, kind)(x, key=string)
        return jax.ffi.ffi_call("t", kind)(x, **dict.fromkeys(strings, np.int32(1)))

    return f, (X,), {}


@way
def metadata(strings):
    def f(x):
        for string in strings:
            with set_xla_metadata(**{string: string, "key": string}):
                x = jnp.sin(x)
            x = set_xla_metadata(x, **{string: string})
        return x

    return f, (X,), {}


@way
def kernels(strings):
    def f(x):
        for string in strings:

            def kernel(i, o):
                o[...] = i[...] * 2

            kernel = named(kernel, string)
            kind = jax.ShapeDtypeStruct((3,), jnp.float32)
            x = pallas.pallas_call(kernel, kind, name=string, interpret=True)(x)
        return x

    return f, (X,), {}


@way
def checks(strings):
    def f(x):
        for string in strings:
            text = str.__str__(string).replace("{", "{{").replace("}", "}}")
            checkify.check(x.sum() > 0, type(string)(text))
        return x

    return checkify.checkify(f), (X,), {}


@way
def open_checks(strings):
    f, args, kwargs = checks(strings)
    return f.__wrapped__, args, kwargs


# ---- code ----------------------------------------------------------------------------


@way
def file_names(strings):
    made = []
    for string in strings:
        if "\0" in string or _encodable(string) != string:
            continue
        space = {"jnp": jnp}
        exec(compile("def g(x):\n    return jnp.sin(x)", string, "exec"), space)
        made.append(space["g"])

    def f(x):
        for g in made:
            x = g(x)
        return x

    return f, (X,), {}


@way
def variables(strings):
    code = (lambda y: jnp.sin(y) + 1).__code__

    def f(x):
        for string in strings:
            g = (lambda y: y).__class__(
                code.replace(co_varnames=(str.__str__(string),)), globals()
            )
            x = g(x)
        return x

    return f, (X,), {}


@way
def primitives(strings):
    from jax.extend.core import Primitive

    def f(x):
        for string in strings:
            primitive = Primitive(string)
            primitive.def_abstract_eval(lambda x, **params: x)
            x = primitive.bind(x, **{string: string})
        return x

    return f, (X,), {}
