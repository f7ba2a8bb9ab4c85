"""Derivative rules: tracing those of `custom_jvp_call` and `custom_vjp_call`.

jax 0.12 returns logs beside the cotangents of a backward rule; jax 0.10 makes a plain
function of a forward rule when a dead result was removed.
"""

# JAX's private hooks; `tests/verification` needs them on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import copy
import threading
import weakref
from collections.abc import (
    Callable,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import compress
from typing import Any, NamedTuple, TypeVar

import jax
from jax._src import ad_util as _ad_util
from jax._src import config as _config
from jax._src import custom_derivatives as _custom_derivatives
from jax._src.interpreters import partial_eval as _pe
from jax._src.linear_util import WrappedFun

from untrace.jaxapi.avals import short_type
from untrace.jaxapi.binds import is_full, outside_traces
from untrace.jaxapi.evaluation import eval_jaxpr
from untrace.jaxapi.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    JaxprLiteral,
    Tracer,
    close_jaxpr,
    is_jaxpr,
    split_jaxpr,
    sub_jaxprs_of,
    var_behind,
)
from untrace.jaxapi.libraries import library_of
from untrace.jaxapi.tracing import trace_flat
from untrace.jaxapi.wrappers import inner_code
from untrace.objects import closed_over

ZEROS = (_ad_util.Zero, _ad_util.SymbolicZero)
MAX_RULE_DEPTH = 12
MAX_RULE_REPEATS = 2
MEMOIZED = inner_code(_pe._memoize, "memoized")
# Functions of these modules keep traces of rules, and lift rules that were kept.
_KEEPING = (_pe.__name__, "jax._src.custom_derivatives")
_LIFTED_FORWARD = inner_code(_custom_derivatives.lift_fwd, "fwd")
_LIFTED = (_LIFTED_FORWARD, inner_code(_custom_derivatives.lift_jvp, "jvp"))
_CONSTANTS_FIRST: Any = _custom_derivatives._handle_consts_in_bwd
SMALL_FUNCTION = 12
"""Equations and results of a function small enough to be followed beyond `MAX_RULE_REPEATS`."""


def follows_rules(names: list[str], name: str, call_jaxpr: Any) -> bool:
    """Whether the rules of `name`, met inside those of `names`, are traced.

    A rule that makes new functions with rules (a fixed point by a fixed point) can be
    traced without end, each time of a larger function; it is followed twice.
    """
    if len(names) >= MAX_RULE_DEPTH:
        return False
    return names.count(name) < MAX_RULE_REPEATS or _is_small(call_jaxpr)


def _is_small(jaxpr: Any) -> bool:
    # Results count: rules may ask for twice as many each time, of as few equations.
    stack, count = [jaxpr], len(split_jaxpr(jaxpr)[0].outvars)
    while stack and count <= SMALL_FUNCTION:
        body, _ = split_jaxpr(stack.pop())
        count += len(body.eqns)
        if any(eqn.primitive.name == "call_exported" for eqn in body.eqns):
            return False  # it may hold any number of them
        stack += sub_jaxprs_of(body.eqns)
    return count <= SMALL_FUNCTION


def custom_jvp_rule(
    eqn_params: Mapping[str, Any], given: Sequence[bool]
) -> tuple[Any, list[bool]]:
    """Trace the rule of a `custom_jvp_call`.

    Args:
      eqn_params: The params of the equation.
      given: For each operand, consts excluded, whether its tangent is given; a symbolic
        zero takes the place of any other.

    Returns:
      The rule as a closed jaxpr over `(*primals, *given_tangents)` (consts excluded)
      with results `(*primals_out, *nonzero_tangents_out)`, and which output tangents are
      symbolic zeros.
    """
    zeros = tuple([not each for each in given])
    with asking(eqn_params):
        jaxpr, consts, out_zeros = _Kept(first_call(eqn_params)).ask(zeros)
    return close_jaxpr(jaxpr, consts), list(out_zeros)


def asked_rule(params: Mapping[str, Any]) -> Any:
    """The callable that JAX asks for the rule of a call, its forward rule if there are two."""
    return params["jvp_jaxpr_fun" if "jvp_jaxpr_fun" in params else "fwd_jaxpr_thunk"]


def asked_choices(forward: Any) -> list[tuple[bool, ...]]:
    """Return which operands were perturbed whenever JAX asked for a forward rule."""
    memo = _memo(forward)
    return [] if memo is None else [key for key in memo.traces if key is not _EMPTY]


_EMPTY = object()
_T = TypeVar("_T")


class _Made(dict[Hashable, Any]):
    """What is made of the rules of one call, which keeps the function behind them."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function


_MADE: weakref.WeakValueDictionary[Hashable, _Made] = weakref.WeakValueDictionary()
"""By the function behind the rules, the types of the operands and the settings."""


class _Kept:
    """What JAX keeps of rules that were asked for, behind the callable it asks.

    It keeps the trace of a rule for each choice of tangents that are given, but the trees
    of what a forward rule returned, which the backward rule reads, only of the last one.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.rule = asked_rule(params)
        self.stores, self._traces, self.n_closed_over = _kept_behind(self.rule)

    def stored(self) -> list[Any]:
        """What the last rule stored, and `_EMPTY` where there was none."""
        return [store.val if is_full(store) else _EMPTY for store in self.stores]

    def store(self, values: Sequence[Any]) -> None:
        """Put back what some rule stored."""
        for store, value in zip(self.stores, values, strict=True):
            store.reset()
            if value is not _EMPTY:
                store.store(value)

    @contextlib.contextmanager
    def forgotten(self) -> Generator[None]:
        """Let rules be asked for as if nobody had, and JAX see nothing of it."""
        before = [dict(known) for known in self._traces]
        stored = self.stored()
        for known in self._traces:
            known.clear()
        self.store([_EMPTY] * len(self.stores))
        try:
            yield
        finally:
            for known, entries in zip(self._traces, before):
                known.clear()
                known.update(entries)
            self.store(stored)

    def ask(self, args: tuple[bool, ...]) -> Any:
        """Trace the rule, once, and leave what it stores where JAX looks for it."""

        def asked() -> tuple[Any, list[Any]]:
            # jax 0.10 makes a plain function of it when a dead result was removed.
            call = getattr(self.rule, "call_wrapped", self.rule)
            with self.forgotten():
                return call(*args), self.stored()

        trace, stored = self.once(args, asked)
        self.store(stored)
        return trace

    def once(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """Return what is made of the rules, once.

        It is kept beside the traces of JAX: a rule may make functions anew whenever it is
        traced, and they are to be the same for all who ask.
        """
        known = self._made()
        if key not in known:
            known[key] = make()
        return known[key]

    def _made(self) -> dict[Any, Any]:
        """What was made of the rules, which equations of one call have in common."""
        memo = _memo(self.rule)
        if memo is None:
            return {}
        if _EMPTY not in memo.traces:
            function = memo.function
            key = id(function), memo.avals, _config.trace_context()
            made = _Made(function)
            memo.traces[_EMPTY] = _MADE.setdefault(key, made) if function else made
        return memo.traces[_EMPTY]


# Rules of cached functions, such as `jax.nn.relu`, are those of all threads.
_LOCK = threading.RLock()


@contextlib.contextmanager
def asking(params: Mapping[str, Any]) -> Generator[None]:
    """Leave it to JAX how the rules of a call were asked for last, whatever is asked."""
    with _LOCK:
        kept = _Kept(first_call(params))
        stored = kept.stored()
        try:
            yield
        finally:
            kept.store(stored)


def ask_rule(params: Mapping[str, Any], args: tuple[bool, ...]) -> Any:
    """Answer as the callable does that JAX asks for a rule; to be called while `asking`."""
    return _Kept(first_call(params)).ask(args)


def first_call(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The params of a call, with the rules of the call that is made again in it.

    Evaluating a jaxpr makes its calls again, with rules that evaluate the traces of
    theirs. At the same types and without constants these are the same traces.
    """
    is_jvp = "jvp_jaxpr_fun" in params
    name = "jvp_jaxpr_fun" if is_jvp else "fwd_jaxpr_thunk"
    while not params["num_consts"] and (memo := _memo(params[name])) is not None:
        function = memo.function
        if function is None or function.transforms or _code(function.f) not in _LIFTED:
            break
        lifted = closed_over(function.f)
        first = _memo(lifted[name])
        if lifted["num_consts"] or first is None or first.avals != memo.avals:
            break
        params = {**params, name: lifted[name]}
        if not is_jvp:
            params["bwd"] = _without_constants(params["bwd"])
            params["out_trees"] = closed_over(params["out_trees"])["out_trees"]
    return params


def _without_constants(backward: WrappedFun) -> WrappedFun:
    """Return a backward rule that puts no zeros for constants before what it returns."""
    (transform, _), *transforms = backward.transforms
    assert transform in _CONSTANTS_FIRST.args
    first: Any = copy.copy(backward)
    first.f_transformed = first.f_transformed.args[0]
    first.transforms, first.stores = tuple(transforms), backward.stores[1:]
    return first


class _Memo(NamedTuple):
    """What JAX keeps of a rule: traces of a function at some types.

    `function` is None if they are made of what JAX keeps of another rule.
    """

    traces: dict[Any, Any]
    function: WrappedFun | None
    avals: tuple[Any, ...]


def _memo(rule: Any) -> _Memo | None:
    memoized = getattr(rule, "f", None)
    if _code(memoized) is not MEMOIZED:
        return None
    held = closed_over(memoized)
    inner = closed_over(held["fn"])
    function = inner.get("fwd", inner.get("jvp"))
    return _Memo(held["cells"], function, tuple(inner.get("in_avals", ())))


def _kept_behind(thunk: Any) -> tuple[list[Any], list[dict[Any, Any]], int]:
    """Return the stores of what JAX traces where a rule is asked for, and its traces.

    And how many of the first operands are what the function closed over, before a
    transformation such as `jax.vmap` made a call of all operands of the call: a forward
    rule refuses tangents of these.
    """
    stores: dict[int, Any] = {}
    traces: list[dict[Any, Any]] = []
    n_closed_over = 0
    stack, seen = [thunk], set[int]()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, WrappedFun):
            stores.update((id(s), s) for s in value.stores if s is not None)
            stack.append(value.f)
        elif getattr(value, "__module__", None) in _KEEPING:
            held = closed_over(value)
            if _code(value) is MEMOIZED:
                traces.append(held["cells"])
            if _code(value) is _LIFTED_FORWARD:
                n_closed_over += held["num_consts"]
            stack += held.values()
    return list(stores.values()), traces, n_closed_over


def _code(function: Any) -> Any:
    return getattr(function, "__code__", None)


def lost_capture(
    rules: Iterable[Any], is_seen: Callable[[Any], bool]
) -> RuntimeError | None:
    """Return the error of rules that close over a value of a trace that has ended.

    A rule may close over a value of the function around its call, such as an argument
    in `nondiff_argnums`. Transforming that function makes a new jaxpr, but the rule
    keeps the value of the old one. JAX traces such rules and cannot run them.

    Args:
      rules: Jaxprs of the rules.
      is_seen: Tells whether a variable belongs to a jaxpr around the call.
    """
    for rule in rules:
        tracer = _lost(rule, is_seen, set()) if is_jaxpr(rule) else None
        if tracer is not None:
            shown = short_type(tracer.aval)
            return RuntimeError(
                f"the derivative rule closes over a {shown} of a trace that has ended; "
                "JAX cannot use it either"
            )
    return None


def _lost(jaxpr: Any, is_seen: Callable[[Any], bool], walked: set[int]) -> Any:
    """Return a tracer that a jaxpr or one in it closes over, and no jaxpr around has.

    Sub-programs of a rule may close over what the rule computes. What a library keeps
    in the params of its primitives is its own affair: it may hand over the values of a
    jaxpr beside it, and where it needs those in it, tracing what it computes fails.
    """
    body, consts = split_jaxpr(jaxpr)
    if id(body) in walked:
        return None
    walked.add(id(body))
    for const in consts:
        if isinstance(const, Tracer) and not is_seen(var_behind(const)):
            return const
    callers = [eqn for eqn in body.eqns if not library_of(eqn.primitive)]
    inner = list(sub_jaxprs_of(callers))
    if not inner:
        return None
    own = {*body.invars, *body.constvars}
    own.update(var for eqn in body.eqns for var in eqn.outvars)

    def is_seen_inside(var: Any) -> bool:
        return var in own or is_seen(var)

    found = (_lost(each, is_seen_inside, walked) for each in inner)
    return next((tracer for tracer in found if tracer is not None), None)


class CustomVJPForward(NamedTuple):
    """The forward rule of a `custom_vjp_call`, traced.

    `jaxpr` maps the operands without the leading consts to `(*residuals, *results)`,
    where a residual that is an operand is left out. `residuals` says for each residual
    which operand (consts included) it is, or None if `jaxpr` returns it. `avals` are the
    types of what the backward rule takes: all residuals, then the cotangents.
    `constants` are the residuals whose value is known, by position: JAX hands the value
    over, so that a backward rule may branch on it. `given` says which operands are
    perturbed.
    """

    given: tuple[bool, ...]
    jaxpr: Any
    residuals: tuple[int | None, ...]
    avals: tuple[Any, ...]
    constants: Mapping[int, Any]

    @property
    def n_residuals(self) -> int:
        """How many residuals there are."""
        return len(self.residuals)


class CustomVJPBackward(NamedTuple):
    """The backward rule of a `custom_vjp_call`, traced.

    `jaxpr` maps `(*residuals, *given_cotangents)`, without residuals that are constants,
    to the cotangents that are not zeros, followed by the leaves of `logs` (jax 0.12), and
    `zeros` tells for each operand (consts excluded) whether its cotangent is a symbolic
    zero.
    """

    jaxpr: Any
    zeros: tuple[bool, ...]
    logs: Any

    @property
    def has_logs(self) -> bool:
        """Whether logs are returned beside cotangents."""
        return self.logs is not None and self.logs.num_leaves > 0


def custom_vjp_forward(
    eqn_params: Mapping[str, Any], operand_avals: Sequence[Any], given: Sequence[bool]
) -> CustomVJPForward:
    """Trace the forward rule of a `custom_vjp_call`; to be called while `asking`.

    Args:
      eqn_params: The params of the equation.
      operand_avals: Avals of all its operands, consts first.
      given: For each operand, consts excluded, whether it is perturbed.
    """
    params = first_call(eqn_params)
    kept = _Kept(params)
    n = kept.n_closed_over
    forward, consts = kept.ask((*[False] * n, *given[n:]))
    # Only now: the trees are stored while `fwd` runs.
    _, res_tree, sources = params["out_trees"]()
    n_computed = res_tree.num_leaves - sum(s is not None for s in sources)
    computed = iter([v.aval for v in forward.outvars[:n_computed]])
    residuals = [next(computed) if s is None else operand_avals[s] for s in sources]
    cotangents = [v.aval.to_ct_aval() for v in forward.outvars[n_computed:]]
    closed = close_jaxpr(forward, consts)
    returned = iter(_known_values(closed))
    known = [next(returned) if s is None else _UNKNOWN for s in sources]
    constants = {i: value for i, value in enumerate(known) if value is not _UNKNOWN}
    avals = (*residuals, *cotangents)
    return CustomVJPForward(tuple(given), closed, tuple(sources), avals, constants)


_UNKNOWN = object()


def _known_values(jaxpr: Any) -> Iterator[Any]:
    """Yield what a jaxpr returns where that is a constant, else `_UNKNOWN`."""
    body, consts = split_jaxpr(jaxpr)
    values = dict(zip(body.constvars, consts))
    for atom in body.outvars:
        is_literal = isinstance(atom, JaxprLiteral)
        value = atom.val if is_literal else values.get(atom, _UNKNOWN)
        yield _UNKNOWN if isinstance(value, Tracer) else value


def without_known_residuals(
    jaxpr: Any, residuals: Sequence[int | None]
) -> tuple[Any, tuple[int | None, ...]]:
    """Leave residuals whose value is known out of a traced forward rule.

    The backward rule is traced with these values, so it shows what they are for.

    Args:
      jaxpr: The rule, as in `CustomVJPForward`,
      residuals: and its residuals.
    """
    body, consts = split_jaxpr(jaxpr)
    n_computed = sum(source is None for source in residuals)
    values = [*_known_values(jaxpr)][:n_computed]
    is_kept = [value is _UNKNOWN for value in values]
    outvars = [v for v, kept in zip(body.outvars, is_kept) if kept]
    outvars += body.outvars[n_computed:]
    computed = iter(is_kept)
    kept = [source for source in residuals if source is not None or next(computed)]
    unnamed = body.debug_info._replace(result_paths=None)
    rest = body.replace(outvars=outvars, debug_info=unnamed)
    return (rest if jaxpr is body else close_jaxpr(rest, consts)), tuple(kept)


def custom_vjp_backward(
    eqn_params: Mapping[str, Any],
    forward: CustomVJPForward,
    cotangents: Sequence[bool],
) -> CustomVJPBackward:
    """Trace the backward rule of a `custom_vjp_call`, once; to be called while `asking`.

    Args:
      eqn_params: The params of the equation.
      forward: The forward rule, which was the last one of it that was traced.
      cotangents: For each result whether its cotangent is given; a symbolic zero takes
        the place of any other.
    """
    params = first_call(eqn_params)
    bwd = params["bwd"].f_transformed
    settings = _config.trace_context()
    key = id(bwd), forward.given, forward.avals, tuple(cotangents), settings
    _, made = _Kept(params).once(
        key, lambda: (bwd, _traced_backward(bwd, forward, cotangents))
    )
    return made


def _traced_backward(
    bwd: Callable[..., Any], forward: CustomVJPForward, cotangents: Sequence[bool]
) -> CustomVJPBackward:
    n = forward.n_residuals
    is_given = [i not in forward.constants for i in range(n)] + list(cotangents)
    missing = [
        forward.constants[i] if i in forward.constants else _ad_util.SymbolicZero(aval)
        for i, aval in enumerate(forward.avals)
    ]
    zeros: tuple[bool, ...] = ()
    logs: Any = None

    def backward(*args: Any) -> list[Any]:
        nonlocal zeros, logs
        rest = iter(args)
        pairs = zip(is_given, missing, strict=True)
        full = [next(rest) if given else known for given, known in pairs]
        returned = bwd(*full)
        # jax 0.12 returns (cotangents, logs), jax 0.10 the cotangents.
        has_logs = isinstance(returned, tuple) and len(returned) == 2
        made, logged = (
            returned if has_logs and ClosedJaxpr is Jaxpr else (returned, None)
        )
        zeros = tuple(isinstance(ct, ZEROS) for ct in made)
        leaves, logs = jax.tree.flatten(logged)
        return [ct for ct in made if not isinstance(ct, ZEROS)] + leaves

    avals = [aval for given, aval in zip(is_given, forward.avals) if given]
    return CustomVJPBackward(trace_flat(backward, avals, "backward"), zeros, logs)


def pull_back(
    eqn_params: Mapping[str, Any],
    operand_avals: Sequence[Any],
    given: Sequence[bool],
    args: Sequence[Any],
) -> tuple[Any, tuple[bool, ...]]:
    """Answer as the backward rule of a call does, which is traced once.

    To be called while `asking`, by what JAX asks in the place of the rule.

    Args:
      eqn_params: The params of the equation.
      operand_avals: Avals of all its operands, consts first.
      given: For each operand, consts excluded, whether it is perturbed.
      args: The residuals and the cotangents, symbolic zeros among them.

    Returns:
      What the rule returns, and for each result whether it has a cotangent.
    """
    forward = custom_vjp_forward(eqn_params, operand_avals, given)
    n = forward.n_residuals
    cotangents = tuple([not isinstance(ct, ZEROS) for ct in args[n:]])
    with outside_traces():
        rule = custom_vjp_backward(eqn_params, forward, cotangents)
    is_given = [i not in forward.constants for i in range(n)] + [*cotangents]
    body, consts = split_jaxpr(rule.jaxpr)
    made = iter(eval_jaxpr(body, consts, *compress(args, is_given)))
    operands = operand_avals[eqn_params["num_consts"] :]
    returned = [
        _ad_util.Zero(aval.to_ct_aval()) if is_zero else next(made)
        for is_zero, aval in zip(rule.zeros, operands, strict=True)
    ]
    has_logs = ClosedJaxpr is Jaxpr
    logs = jax.tree.unflatten(rule.logs, made) if has_logs else None
    return ((returned, logs) if has_logs else returned), cotangents


def is_perturbable(aval: Any) -> bool:
    """Whether values of a type have tangents that are not trivial."""
    tangent = aval.to_tangent_aval()
    return getattr(tangent, "dtype", None) != jax.dtypes.float0
