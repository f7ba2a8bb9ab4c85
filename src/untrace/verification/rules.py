"""Derivative rules, traced so that they can be compared.

A `custom_jvp_call` or `custom_vjp_call` carries its rules as Python callables. They
are traced in one case, or several if they are told which tangents are zero (see
`jaxapi.rule_cases`); what comes back are jaxprs and a few facts about them, which are
compared like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from untrace import jaxapi
from untrace.verification.identity import identity

# Params that hold the callables, per primitive.
OPAQUE_PARAMS: dict[str, frozenset[str]] = {
    "custom_jvp_call": frozenset({"jvp_jaxpr_fun"}),
    "custom_vjp_call": frozenset({"fwd_jaxpr_thunk", "bwd", "out_trees"}),
}

# Callables that are compared by their traces.
TRACED_PARAMS: dict[str, frozenset[str]] = {"reduce": frozenset({"computation"})}

# Batching rules, which are compared by their traces: all arguments batched, and each alone.
BATCHING_PARAMS: dict[str, frozenset[str]] = {"custom_vmap_call": frozenset({"rule"})}

# The params that hold a batching rule, and the trees of what it takes and returns.
BATCHING_CALL_PARAMS = frozenset({"rule", "in_tree", "out_tree"})

# Primitives made for one call, of Python functions; compared by what these trace to.
TYPED_PARAMS: dict[str, frozenset[str]] = {"call_hi_primitive": frozenset({"_prim"})}

# Trees whose grouping is bookkeeping of JAX's transformations (jax >= 0.11): only the
# numbers of consts, carries and xs or ys have a meaning.
SIZED_PARAMS: dict[str, frozenset[str]] = {"scan": frozenset({"ft_in", "ft_out"})}

Rules = tuple[tuple[str, Any], ...]


def comparable(eqn: Any, name: str) -> Any:
    """Return a param in the form in which it is compared."""
    param = eqn.params[name]
    if name in SIZED_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        sizes = jaxapi.flat_tree_sizes(param)
        return param if sizes is None else sizes
    if name in TRACED_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        try:
            return jaxapi.trace_computation(param, eqn.params["jaxpr"])
        except Exception:  # the user's code; its own object is compared then
            return param
    if name in BATCHING_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        try:
            return jaxapi.batching_rule(eqn.params, [v.aval for v in eqn.invars])
        except Exception:  # it may refuse such arguments
            return param
    if name in TYPED_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        try:
            parts = jaxapi.root_parts(param)
        except Exception:  # the user's code again
            return param
        return param if parts is None else parts
    return param


def batching_identity(eqn: Any, name: str) -> Hashable | None:
    """Return what identifies a batching rule, which may make equations with itself."""
    if name not in BATCHING_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        return None
    avals = tuple([v.aval for v in eqn.invars])
    rule = batching_function(eqn, name)
    return "batching", identity((rule, avals, eqn.params["in_tree"]))


def batching_function(eqn: Any, name: str) -> Any:
    """Return the user's function in a param that holds a batching rule, else None."""
    if name not in BATCHING_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        return None
    return getattr(eqn.params[name], "rule", eqn.params[name])


def batching_call(eqn: Any, name: str) -> jaxapi.BatchingCall | None:
    """Return what a param holds if it holds a batching rule or a tree of one, else None."""
    if name not in BATCHING_CALL_PARAMS:
        return None
    is_one = jaxapi.primitive_name(eqn.primitive) in BATCHING_PARAMS
    return jaxapi.batching_call(eqn.params) if is_one else None


# The function of a batching rule, by its code, and the number of axes it is called with.
Batched = tuple[Any, int]
# So often a batching rule is followed into itself with ever more axes.
_MAX_BATCHED = 2


def batched(eqn: Any, name: str) -> Batched:
    """Return which batching rule stands in an equation, and for how many axes."""
    rule = batching_function(eqn, name)
    n_axes = sum([len(getattr(v.aval, "shape", ())) for v in eqn.invars])
    return getattr(rule, "__code__", type(rule)), n_axes


def batched_again(eqn: Any, name: str, around: Sequence[Batched]) -> str:
    """Say that a batching rule is not followed, "" if it is.

    It is usual for one to call its own function, or one like it, on the batch; its rule
    is called with one axis more, and so without end.
    """
    code, n_axes = batched(eqn, name)
    fewer = [other for other in around if other[0] is code and other[1] < n_axes]
    if len(fewer) < _MAX_BATCHED:
        return ""
    return f"{rule_name(eqn, name)}: a batching rule (of batches of batches of batches)"


def unproved(eqn: Any, name: str) -> str:
    """Say what comparing a param leaves open; "" if that is nothing."""
    if name not in BATCHING_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
        return ""
    shown = rule_name(eqn, name)
    return f"{shown}: a batching rule (compared with all or one batched)"


def rule_name(eqn: Any, name: str) -> str:
    """Name the batching rule in an equation."""
    return getattr(eqn.params[name], "__name__", type(eqn.params[name]).__name__)


_MALFORMED = (KeyError, TypeError)  # of an equation that is not as JAX makes it


def cases_of(eqn: Any, cases: jaxapi.RuleCases) -> tuple[jaxapi.RuleCase, ...]:
    """List the cases in which the rules of an equation are compared."""
    try:
        return cases.of(eqn.params, *_avals(eqn))
    except _MALFORMED:  # nor can its rules be traced
        return (jaxapi.RuleCase((), ()),)


def cases_left(eqn: Any) -> str:
    """Say what comparing the rules of an equation in their cases leaves open, if any."""
    try:
        are_all = jaxapi.are_all_cases(eqn.params, *_avals(eqn))
    except _MALFORMED:
        are_all = False
    if are_all:
        return ""
    return (
        f"{name_rule(eqn)}: symbolic zeros (compared with all tangents, with each alone while "
        "they are few, and with those that differentiating by all inputs gives)"
    )


def _avals(eqn: Any) -> tuple[list[Any], list[Any]]:
    return [var.aval for var in eqn.invars], [var.aval for var in eqn.outvars]


def trace_rules(eqn: Any, check_vma: bool, case: jaxapi.RuleCase) -> Rules:
    """Trace the derivative rules of an equation.

    Args:
      eqn: A `custom_jvp_call` or `custom_vjp_call`.
      check_vma: The param of the `shard_map` around it, if there is one.
      case: Which tangents and cotangents are given.

    Returns:
      Label and value of each rule: jaxprs and plain facts about them. A rule that
      raises is represented by the exception, under the label "error".
    """
    trace = (
        _trace_jvp
        if jaxapi.primitive_name(eqn.primitive) == "custom_jvp_call"
        else _trace_vjp
    )
    with jaxapi.rule_context(eqn.ctx, check_vma):
        try:
            return trace(eqn, case)
        except Exception as error:  # the rule is the user's code and may raise anything
            return _error(error)


def names_constants(
    eqn: Any, check_vma: bool, cases: tuple[jaxapi.RuleCase, ...]
) -> bool:
    """Whether a residual is a value that the function closes over, by its position."""
    if jaxapi.primitive_name(eqn.primitive) != "custom_vjp_call":
        return False
    avals, n_consts = [v.aval for v in eqn.invars], eqn.params["num_consts"]

    def sources(case: jaxapi.RuleCase) -> Iterable[int | None]:
        with jaxapi.rule_context(eqn.ctx, check_vma), jaxapi.asking(eqn.params):
            try:
                return jaxapi.custom_vjp_forward(
                    eqn.params, avals, case.given
                ).residuals
            except Exception:  # the user's code; where it raises, nothing is named
                return ()

    return any(s is not None and s < n_consts for case in cases for s in sources(case))


def without_known_residuals(traced: Rules) -> Rules:
    """Leave out residuals whose value is known: the backward rule is traced with them."""
    facts = dict(traced)
    if "fwd" not in facts:
        return traced
    facts["fwd"], facts["residuals"] = jaxapi.without_known_residuals(
        facts["fwd"], facts["residuals"]
    )
    return tuple(facts.items())


def count_arguments_only(traced: Rules, n_consts: int) -> Rules:
    """Say which argument a residual is, whatever the function closes over."""
    return tuple(
        [
            (label, _without(n_consts, value) if label == "residuals" else value)
            for label, value in traced
        ]
    )


def _without(n_consts: int, sources: tuple[int | None, ...]) -> tuple[int | None, ...]:
    return tuple([None if s is None else s - n_consts for s in sources])


def lost_rules(traced: Rules, is_seen: Callable[[Any], bool]) -> Rules | None:
    """Represent rules that JAX cannot use by the error that says so, None for others.

    Args:
      traced: The traced rules.
      is_seen: Tells whether a variable belongs to a jaxpr around the equation.
    """
    error = jaxapi.lost_capture((value for _, value in traced), is_seen)
    return None if error is None else _error(error)


def _error(error: Exception) -> Rules:
    return (("error", f"{type(error).__name__}: {error}"),)


def _trace_jvp(eqn: Any, case: jaxapi.RuleCase) -> Rules:
    jaxpr, zeros = jaxapi.custom_jvp_rule(eqn.params, case.given)
    return (("jvp", jaxpr), ("jvp zeros", tuple(zeros)))


def _trace_vjp(eqn: Any, case: jaxapi.RuleCase) -> Rules:
    avals = [v.aval for v in eqn.invars]
    with jaxapi.asking(eqn.params):
        forward = jaxapi.custom_vjp_forward(eqn.params, avals, case.given)
        backward = jaxapi.custom_vjp_backward(eqn.params, forward, case.cotangents)
    return (
        ("fwd", forward.jaxpr),
        ("residuals", forward.residuals),
        ("bwd", backward.jaxpr),
        ("bwd zeros", backward.zeros),
        ("bwd logs", backward.logs),
    )


def name_rule(eqn: Any) -> str:
    """Name the function whose derivative an equation customises."""
    body, _ = jaxapi.split_jaxpr(eqn.params["call_jaxpr"])
    name = getattr(body.debug_info, "func_name", None) or "function"
    return f"{jaxapi.primitive_name(eqn.primitive)} of `{name}`"


# Rules made anew by every call have no identity; so deep, all are looked at,
_ALL_DEEP = 4
# if no more than so many are looked at for no other reason.
_MAX_MORE = 60


class TooManyRules(Exception):
    """Rules ask for others, several each, whose traces would take minutes."""


class FollowedRules:
    """Decides which rules that are met inside others are looked at.

    Args:
      all_deep: So deep, all are.
    """

    def __init__(self, all_deep: int = _ALL_DEEP) -> None:
        self.names: list[str] = []
        """The names of the rules around, outermost first."""
        self._all_deep, self._n_more = all_deep, 0

    def decide(self, name: str, eqn: Any) -> tuple[bool, bool]:
        """Whether rules are looked at, and whether only because all are so deep."""
        if jaxapi.follows_rules(self.names, name, eqn.params["call_jaxpr"]):
            return True, False
        is_more = len(self.names) < self._all_deep
        return is_more, is_more

    def count_more(self) -> None:
        """Count one that is looked at only because all are so deep.

        Raises:
          TooManyRules: If there were too many.
        """
        self._n_more += 1
        if self._n_more > _MAX_MORE:
            raise TooManyRules


T = TypeVar("T")


def with_depth(make: Callable[[FollowedRules], T]) -> T:
    """Make something of rules, of fewer if all that are followed usually are too many.

    The number of rules decides, not time: a program has one result.
    """
    try:
        return make(FollowedRules())
    except TooManyRules:
        return make(FollowedRules(0))


def identify_rules(eqn: Any, check_vma: bool) -> Hashable:
    """Identify the rules of an equation, to notice when rules lead back to themselves.

    It is usual for a `fwd` or a jvp rule to call the function it belongs to. Equal
    identities mean the same Python functions, with the same static arguments, at the
    same operand types and in the same context; tracing them again in the same case gives
    nothing new.
    """
    params = jaxapi.first_call(eqn.params)
    names = sorted(OPAQUE_PARAMS[jaxapi.primitive_name(eqn.primitive)])
    return identity(
        (
            jaxapi.primitive_name(eqn.primitive),
            tuple([v.aval for v in eqn.invars]),
            tuple([params[name] for name in names]),
            (params["num_consts"], bool(params["symbolic_zeros"]), check_vma),
            tuple([getattr(eqn.ctx, name) for name in jaxapi.CONTEXT_FIELDS]),
        )
    )
