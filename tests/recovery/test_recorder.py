"""The recorder sees calls, names and functions, and never changes the trace."""

import cProfile
import dis
import importlib
import sys
import threading

import jax
import jax.numpy as jnp
import jax.scipy.ndimage
import numpy as np
import pytest

import untrace
from untrace import jaxapi
from untrace.lifting.recorded.readers import public_readers
from untrace.recovery import bytecode, held
from untrace.recovery.functions import innermost, peel
from untrace.recovery.record import RETURNED, Body
from untrace.recovery.recorder import Recorder

X = np.ones((3, 4), np.float32)


def record(function, *args):
    """Trace a function under the recorder; return its jaxpr and its run."""
    root = Body(None, record.__code__, {})

    def flat(*values):
        with Recorder(public_readers).recording(root):
            result = function(*values)
        return result

    jaxpr = jax.make_jaxpr(flat)(*args)
    return jaxpr, root.calls[0].bodies[0]


def names(body):
    return [
        getattr(c.function, "name", None) or getattr(c.function, "__name__", "own")
        for c in body.calls
    ]


def test_calls_operators_and_methods_are_seen():
    def f(x):
        y = jnp.tanh(x) @ x.T
        return jnp.sum(y[0], axis=-1) + x.at[0].set(1.0).mean()

    _, body = record(f, X)
    assert names(body) == [
        "tanh",
        "T",
        "__matmul__",
        "__getitem__",
        "sum",
        "set",
        "mean",
        "__add__",
    ]
    assert body.calls[2].target == "y"
    assert body.calls[-1].returns


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        jax.jit,
        jax.grad,
        jax.checkpoint,
        lambda f: jax.vmap(jax.grad(f)),
        lambda f: jax.jit(jax.value_and_grad(f)),
    ],
)
def test_recording_does_not_change_the_trace(wrap):
    def loss(x):
        return jax.nn.logsumexp(jnp.sin(x) * 2.0)

    function = wrap(loss)
    args = (X,)
    plain = jax.make_jaxpr(lambda *values: function(*values))(*args)
    recorded, _ = record(lambda *values: function(*values), *args)
    assert str(plain) == str(recorded)


class Computing:
    """A pytree whose class computes when it is taken apart, made and compared."""

    def __init__(self, x, mark):
        self.x, self.mark, self.total = x, mark, jnp.sum(x)


jax.tree_util.register_pytree_node(
    Computing,
    lambda c: ((c.x,), (c.mark, jnp.ones(2))),
    lambda aux, children: Computing(*children, aux[0]),
)


def test_code_of_classes_that_runs_for_copies_does_not_enter_the_trace():
    def double(held):
        return held.x * 2.0

    def f(x):
        held = Computing(jnp.sin(x), x)
        y = double(held)
        held.mark = y
        return y + double(held)

    plain = jax.make_jaxpr(f)(X)
    recorded, _ = record(f, X)
    assert str(plain) == str(recorded)


def test_traces_of_functions_of_jax_alone_are_those_of_its_caches():
    def inner(x):
        return jnp.where(x > 0.0, x, 0.0)

    def sub_jaxprs(jaxpr):
        return {id(eqn.params["jaxpr"]) for eqn in jaxpr.eqns if "jaxpr" in eqn.params}

    @jax.jit
    def jitted(x):
        return jnp.sum(inner(x))

    plain = jax.make_jaxpr(jitted)(X)
    recorded, _ = record(jitted, X)
    assert sub_jaxprs(plain).isdisjoint(sub_jaxprs(recorded))
    (one,), (other,) = (
        [eqn.params["jaxpr"] for eqn in j.eqns] for j in (plain, recorded)
    )
    assert sub_jaxprs(one) == sub_jaxprs(other) != set()


def test_bodies_are_seen_although_their_traces_are_cached():
    @jax.jit
    def inner(x):
        return jnp.cos(x)

    inner(X)
    jax.jit(lambda x: inner(x))(X)
    _, body = record(lambda x: inner(x), X)
    assert names(body.calls[0].bodies[0]) == ["cos"]


def test_public_functions_are_known_that_the_program_imports_while_it_runs(monkeypatch):
    def f(y):
        from jax.experimental.ode import odeint

        return odeint(lambda y, t: -y * t, y, jnp.linspace(0.0, 1.0, 3))

    monkeypatch.delitem(sys.modules, "jax.experimental.ode", raising=False)
    _, body = record(f, X[0])
    assert names(body)[-1] == "odeint"


def test_other_threads_are_not_recorded():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            jax.make_jaxpr(lambda a: jnp.sin(a) * jnp.cos(a))(1.0)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            _, body = record(lambda x: jnp.exp(x) + 1.0, X)
            assert names(body) == ["exp", "__add__"]
    finally:
        stop.set()
        thread.join()


def test_an_error_in_the_function_leaves_nothing_behind():
    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        untrace.source(fails)(X)
    assert sys.getprofile() is None
    assert untrace.source(jnp.sin)(X).report.is_verified


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("y = f(x)", "y"),
        ("a, b = f(x)", ("a", "b")),
        ("(a, b), c = f(x)", (("a", "b"), "c")),
        ("self.y = f(x)", "y"),
        ("return f(x)", RETURNED),
        ("g(f(x))", None),
        ("y = z = f(x)", "y"),
        ("a, b = f(x), g(x)", "a"),
        ("a, b = x, f(x)", "b"),
        ("a, b = g, f(x * 2 + self.n[0], n=1)[1:]", None),
        ("a, b = f(x), -g(x, n=2)[1:]", "a"),
        ("a, b, c, d = g, f(x), self, x", "b"),
        ("(a, b), c = f(x), g(x)", ("a", "b")),
        ("a, (b, c) = self, f(x)", ("b", "c")),
        ("self.a, b = f(x), g(x)", "a"),
        ("a, self.b = f(x), x", "a"),
        ("a, x[0], b = self, x, f(x)", "b"),
        ("a = f(x), g(x)", None),
        ("return f(x), g(x)", None),
    ],
)
def test_targets_of_assignments(statement, expected):
    space = {}
    exec(f"def h(self, f, g, x):\n    {statement}", space)
    code = space["h"].__code__
    names = "CALL", "CALL_KW"
    calls = [i.offset for i in dis.get_instructions(code) if i.opname in names]
    assert bytecode.target(code, calls[0]) == expected


def test_spelling_of_arguments():
    def h(f, x):
        f(x, 1, axis=0)

    calls = [
        i.offset
        for i in dis.get_instructions(h.__code__)
        if i.opname in ("CALL", "CALL_KW")
    ]
    found = bytecode.spelling(h.__code__, calls[0])
    assert (found.n_positional, found.keywords) == (2, ("axis",))


def test_transformations_are_opened_without_losing_one():
    def f(x):
        return x.sum()

    made = jaxapi.transformed(jax.vmap(jax.grad(f, argnums=(0,)), in_axes=1))
    assert (made.maker, made.options) == (("jax", "vmap"), {"in_axes": 1})
    inner = jaxapi.transformed(made.function)
    assert (inner.maker, inner.options) == (("jax", "grad"), {"argnums": (0,)})
    assert innermost(jax.jit(jax.checkpoint(f))) is f
    assert peel(jax.jit(f, donate_argnums=0)).value.options["donate_argnums"] == (0,)


def test_every_hook_is_there():
    """Recording stands on private names of JAX; this fails when one has moved."""
    readers = public_readers()
    for function in [jnp.sum, jax.lax.scan, jax.nn.softmax, jax.random.normal]:
        assert id(jaxapi.open_boundary(function).__code__) in readers
    assert len(readers) > 900


def test_what_a_call_binds_at_its_own_trace_is_seen():
    def f(x):
        return jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.max(x)))(x) + 1.0

    _, body = record(f, X)
    call = next(c for c in body.calls if c.bodies)
    sine = call.bodies[0].calls[0]
    assert [bind.primitive.name for bind in sine.span.binds()] == ["jit"]
    outer = call.span.binds()
    assert len(outer) > 3  # forward and backward
    assert all(bind.trace is call.span.trace for bind in outer)
    assert sine.span.trace is not call.span.trace


def test_modules_of_jax_that_the_function_imports_are_watched(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax.scipy.ndimage")

    def program(x):
        ndimage = importlib.import_module("jax.scipy.ndimage")
        return ndimage.map_coordinates(x, [x, x], order=1)

    text = str(untrace.source(program)(np.eye(3, dtype=np.float32)))
    assert "return map_coordinates(x, [x, x], order=1)\n" in text


def test_a_profiler_goes_on():
    profiler = cProfile.Profile()
    profiler.enable()
    src = untrace.source(lambda x: jnp.sin(x))(np.float32(1.0))
    sorted([1])
    profiler.disable()
    assert src.report.strength == "identical"
    names = {row.code for row in profiler.getstats() if isinstance(row.code, str)}
    assert any("sorted" in name for name in names)


@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_iterators_that_a_library_returns_are_not_looked_into():
    one = {"a": X}
    returned = [iter(one), one.values(), zip([X]), (x for x in [X]), map(abs, [X])]
    assert not any(map(held.has_array, returned))
    assert held.has_array(one)


@jax.tree_util.register_pytree_node_class
class Labelled:
    """An array with a label that is a tuple, and adds in a way of its own."""

    class Label(tuple):
        """Like the representations of equivariant networks."""

        __slots__ = ()

        def __radd__(self, other):
            raise ValueError("it adds labels alone")

    def __init__(self, array, label):
        self.array, self.label = array, label

    def tree_flatten(self):
        return (self.array,), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(*children, label)


def test_tuples_that_add_in_a_way_of_their_own_are_looked_through():
    def f(x):
        return jnp.sin(x.array) + len(x.label)

    made = untrace.source(f)(Labelled(X, Labelled.Label((1, 2))))
    assert made.report.strength == "identical", str(made)
    assert "Written from" not in str(made)


def test_a_fault_of_the_recorder_does_not_end_the_job(monkeypatch):
    def fails(self, value):
        raise ValueError("injected")

    monkeypatch.setattr("untrace.recovery.snapshots.Snapshots.take", fails)
    made = untrace.source(jnp.sin)(X)
    assert made.report.is_verified
    assert "a fault of untrace stopped that (ValueError: injected" in " ".join(
        str(made).split()
    )
    with pytest.raises(ZeroDivisionError):  # the user's own error stays what it is
        untrace.source(lambda x: x / 0 if 1 / 0 else x)(X)


@pytest.mark.parametrize("operator", ["add", "radd", "iadd", "eq", "contains", "bool"])
@pytest.mark.parametrize("held", [("a", 1), ["a", 1], {"a": 1}])
def test_operators_of_what_a_function_is_given_are_not_called(operator, held) -> None:
    def refuse(*args):
        raise AssertionError(operator)

    base = type(held)
    kind = type(
        "Held", (base,), {f"__{operator}__": refuse, "__hash__": object.__hash__}
    )
    given = kind(held)

    def layer(given, x):
        return jnp.tanh(x) * x

    src = untrace.source(lambda x: layer(given, x) + layer(given, x * 2))(jnp.ones(3))
    assert "from its equations" not in str(src).lower(), str(src)
    assert "def layer(x):" in str(src), str(src)
