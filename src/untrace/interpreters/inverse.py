"""Functions run backwards: the public functions.

`inverse(f)` traces `f`, marks its results as known, lets knowledge spread through its
equations until the inputs are known (`inverting/`), and computes them. It is an ordinary
function: it can be jitted, mapped, differentiated, inverted, and written as source.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.capture.inputs import are_dynamic
from untrace.capture.origins import function_name
from untrace.capture.user_code import user_code
from untrace.errors import InverseError
from untrace.interpreters.evaluate import split
from untrace.interpreters.inverse_rules import (
    control,
    cumulative,
    elementwise,
    linear,
    structure,
)
from untrace.interpreters.inverse_rules.calls import body_of, call_rule
from untrace.interpreters.inverse_rules.table import rule_of
from untrace.interpreters.inverting.affine import solve_linear
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.elements import follow_elements
from untrace.interpreters.inverting.lazy import Lazy, is_tracer
from untrace.interpreters.inverting.network import Network, Node, Rule
from untrace.interpreters.inverting.reasons import explained
from untrace.interpreters.log_det import log_det

TABLES = elementwise, structure, linear, cumulative, control
"""The modules that hold rules, so that they are filled."""


def inverse(
    function: Callable[..., Any],
    *examples: Any,
    argnums: int | Sequence[int] | None = None,
    principal: bool = False,
    check: bool = False,
) -> Callable[..., Any]:
    """Return the inverse of a function, made of its equations.

    The function is traced; its results are taken as known, and each equation is solved
    for what it lacks, or evaluated if it lacks nothing, until the arguments are known.

    Args:
      function: A callable whose arguments and result are pytrees of arrays.
      *examples: One for each positional argument of the function, arrays or
        `jax.ShapeDtypeStruct`s: the types at which it is traced. They are not needed if
        each argument has the type of the result at its place.
      argnums: The arguments that are wanted; all positional ones by default. The others
        are given, after the results.
      principal: Invert functions that are not injective on their principal branch: `sin`
        on [-pi/2, pi/2], even powers, `abs` and `cosh` on x >= 0.
      check: Apply the function to what was found, and compare with what was given, where
        values are known (not under `jax.jit`).

    Returns:
      A function of the result, then of the arguments that are not wanted, in their
      order, and of keyword arguments of `f`: `inverse(f)(y)`. The parts of a tuple that
      `f` returns may be given one by one: `inverse(f)(*ys)`. It returns the wanted
      argument, or the tuple of them.

    Raises:
      InverseError: When called, if the function is not invertible. The message names the
        equation, its line, and why. With `check`, also if applying the function does not
        give back what was given.

    >>> import jax, jax.numpy as jnp
    >>> f = lambda x: jnp.exp(jnp.tanh(x))
    >>> float(inverse(f)(f(0.5)).round(4))
    0.5
    """
    known = getattr(function, "__inverse_of__", None)
    if known is not None and not examples and argnums is None and not check:
        return known
    asked = _Asked(function, examples, argnums, principal, check)

    def inverted(*given: Any, **keywords: Any) -> Any:
        return _Problem(asked, given, keywords).solve(False)[0]

    named = _named(inverted, "inverse_of", asked)
    if argnums is None and not principal:
        named.__dict__["__inverse_of__"] = function
    return named


def inverse_and_log_det(
    function: Callable[..., Any],
    *examples: Any,
    argnums: int | Sequence[int] | None = None,
    principal: bool = False,
    check: bool = False,
) -> Callable[..., Any]:
    """Return the inverse of a function together with log |det| of its derivative.

    It is log |det dx/dy|, the one of the *inverse*: the density of y = f(x) is
    `log p(y) = base.log_prob(x) + log_det` for `x, log_det = inverse_and_log_det(f)(y)`.
    The one of `f` itself at x is its negative. It is a single number for all elements of
    the arguments together; for a batch use `jax.vmap`.

    Args:
      function: As for `inverse`.
      *examples: As for `inverse`.
      argnums: As for `inverse`; the derivative is the one by the wanted arguments.
      principal: As for `inverse`.
      check: As for `inverse`.

    Returns:
      A function as `inverse` returns it, whose result is a pair: what the inverse
      returns, and log |det|, `f32[]`. Complex numbers count as two real ones.

    Raises:
      InverseError: When called, as for `inverse`; if there are not as many inputs as
        results; or if log |det| of an equation cannot be computed cheaply.

    >>> import jax.numpy as jnp
    >>> x, log_det = inverse_and_log_det(lambda x: 2 * x)(jnp.ones(3))
    >>> round(float(log_det), 4)  # 3 log(1/2)
    -2.0794
    """
    asked = _Asked(function, examples, argnums, principal, check)

    def inverted(*given: Any, **keywords: Any) -> Any:
        return _Problem(asked, given, keywords).solve(True)

    return _named(inverted, "inverse_and_log_det_of", asked)


def _named(inverted: Any, prefix: str, asked: _Asked) -> Any:
    """Give an inverse its name, and names to what it is given: `y`, known arguments."""
    name = f"{prefix}_{function_name(asked.function)}"
    inverted.__name__ = inverted.__qualname__ = name
    try:
        parameters = list(inspect.signature(asked.function).parameters.values())
    except (TypeError, ValueError):
        return inverted
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return inverted
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    known: list[str] = []
    n_results = len(asked.examples) or len(positional)
    if asked.argnums is not None:
        argnums = asked.argnums
        wanted = [argnums] if isinstance(argnums, int) else list(argnums)
        places = [i % len(positional) for i in wanted if positional]
        known = [name for i, name in enumerate(positional) if i not in places]
        n_results = 1
    ys = ["y"] if n_results == 1 else [f"y_{i + 1}" for i in range(n_results)]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = {*known, *[p.name for p in keywords]}
    ys = [f"{y}_" if y in taken else y for y in ys]
    kind = inspect.Parameter.POSITIONAL_ONLY
    made = [inspect.Parameter(each, kind) for each in (*ys, *known)]
    inverted.__signature__ = inspect.Signature([*made, *keywords])
    return inverted


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked for: the arguments of `inverse`."""

    function: Callable[..., Any]
    examples: tuple[Any, ...]
    argnums: int | Sequence[int] | None
    principal: bool
    check: bool


class _Problem:
    """One call of an inverse: a program, what is known of it and what is wanted."""

    def __init__(
        self, asked: _Asked, given: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        self.asked = asked
        self.keywords = keywords
        n_known, wanted = _places(asked, len(given))
        n_given = len(given) - n_known
        if n_given < 1:
            raise InverseError(
                f"the inverse takes the results, then {n_known} known arguments; "
                f"{len(given)} were given"
            )
        self.results, known = given[:n_given], list(given[n_given:])
        n_args = n_known + (n_given if wanted is None else len(wanted))
        self.wanted = list(range(n_args)) if wanted is None else wanted
        rest = iter(known)
        self.args = [
            None if i in self.wanted else next(rest, None) for i in range(n_args)
        ]
        self._trace()

    # ---- tracing -------------------------------------------------------------------

    def _trace(self) -> None:
        """Trace the function at the types of the examples, or of the results."""
        if self.asked.examples:
            examples = list(self.asked.examples)
            if len(examples) != len(self.args):
                raise InverseError(
                    f"give one example for each argument: {len(examples)} were given "
                    f"for {len(self.args)}"
                )
            self._trace_at([examples[i] for i in self.wanted])
            self._match(True)
            return
        if len(self.wanted) != len(self.results):
            raise InverseError(
                f"the types of {len(self.wanted)} arguments cannot be told from "
                f"{len(self.results)} results. {_EXAMPLES}"
            )
        self._check_arity()
        self._trace_at(list(self.results))
        if not self._match(False):
            same_shapes = [leaf.shape for leaf in self.made] == [
                jnp.shape(leaf) for leaf in jax.tree.leaves(self.results)
            ]
            if same_shapes:
                leaves = [jax.ShapeDtypeStruct(m.shape, m.dtype) for m in self.made]
                tree = jax.tree.structure(self.results)
                self._trace_at(jax.tree.unflatten(tree, leaves))
            self._match(True)

    def _check_arity(self) -> None:
        """Check that the function takes as many arguments as there are results.

        Raises:
          InverseError: If it does not.
        """
        try:
            signature = inspect.signature(self.asked.function)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*self.args, **self.keywords)
        except TypeError as error:
            raise InverseError(
                f"traced at the types of {len(self.results)} results, "
                f"`{function_name(self.asked.function)}` lacks arguments or has too "
                f"many ({error}). {_EXAMPLES}"
            ) from None

    def _trace_at(self, examples: Sequence[Any]) -> None:
        args = list(self.args)
        for i, example in zip(self.wanted, examples):
            args[i] = example
        leaves, tree = jax.tree.flatten((args, self.keywords))
        dynamic = are_dynamic([args, self.keywords], frozenset())
        out: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            rest = iter(values)
            full = [next(rest) if d else leaf for d, leaf in zip(dynamic, leaves)]
            made_args, made_keywords = jax.tree.unflatten(tree, full)
            made = self.asked.function(*made_args, **made_keywords)
            out[:] = [jax.tree.structure(made), type(made) is tuple]
            return jax.tree.leaves(made)

        flat.__name__ = flat.__qualname__ = function_name(self.asked.function)
        passed = [leaf for leaf, d in zip(leaves, dynamic) if d]
        with user_code():
            self.jaxpr = jax.make_jaxpr(flat)(*passed)
        self.tree, self.is_tuple = out
        self.made = [
            jax.ShapeDtypeStruct(a.shape, a.dtype) if hasattr(a, "dtype") else a
            for a in split(self.jaxpr)[0].out_avals
        ]
        self.leaves, self.dynamic, self.in_tree = leaves, dynamic, tree

    def _match(self, is_needed: bool) -> bool:
        """Compare the results of the function with what was given.

        Raises:
          InverseError: If they differ in more than precision, and must not.
        """
        leaves, tree = jax.tree.flatten(self.results)
        if tree != self.tree and len(self.results) == 1:
            leaves, tree = jax.tree.flatten(self.results[0])
        shapes = [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]
        wanted = [(aval.shape, aval.dtype) for aval in self.made]
        is_alike = tree == self.tree and [s for s, _ in shapes] == [
            s for s, _ in wanted
        ]
        if is_alike and (is_needed or shapes == wanted):
            self.given = leaves
            return True
        if is_needed:
            name = function_name(self.asked.function)
            raise InverseError(
                f"`{name}` returns {_types(self.made)}, and its inverse was given "
                f"{_types(leaves)}. {_EXAMPLES}"
            )
        return False

    # ---- solving -------------------------------------------------------------------

    def solve(self, has_log_det: bool) -> tuple[Any, Any]:
        """Return the wanted arguments, and log |det| if it is asked for."""
        network = new_network(self.asked.principal, has_log_det)
        body = split(self.jaxpr)[0]
        inputs = [Cell(var.aval) for var in body.invars]
        outputs = network.add(self.jaxpr, inputs)
        args, _ = jax.tree.unflatten(self.in_tree, range(len(self.leaves)))
        wanted = {n for i in self.wanted for n in jax.tree.leaves(args[i])}
        slots = iter(inputs)
        cells = [next(slots) if d else None for d in self.dynamic]
        for number, (cell, leaf) in enumerate(zip(cells, self.leaves)):
            if cell is not None and number not in wanted:
                network.learn(cell, Lazy.of(leaf, is_static=is_array(leaf)))
        for cell, leaf, aval in zip(outputs, self.given, self.made):
            network.learn(cell, Lazy.of(_as_type(leaf, aval)))
        targets = [cell for n in sorted(wanted) if (cell := cells[n]) is not None]
        names = [self._name(n) for n in sorted(wanted) if cells[n] is not None]
        if not network.solve(targets):
            raise InverseError(explained(network, targets, names))
        term = log_det(network, targets, outputs) if has_log_det else None
        values = iter([cell.whole.value for cell in targets if cell.whole])
        leaves = [
            next(values) if n in wanted and cell is not None else leaf
            for n, (cell, leaf) in enumerate(zip(cells, self.leaves))
        ]
        found, keywords = jax.tree.unflatten(self.in_tree, leaves)
        if self.asked.check:
            self._check(found, keywords)
        made = [found[i] for i in self.wanted]
        result = made[0] if len(made) == 1 else tuple(made)
        return result, None if term is None else term.value

    def _name(self, n: int) -> str:
        """Return what a leaf of the arguments is called: `x`, `params['w']`."""
        tree = jax.tree.unflatten(self.in_tree, self.leaves)
        path, _ = jax.tree_util.tree_leaves_with_path(tree)[n]
        which, position, *rest = path
        if which.idx:  # a keyword argument
            return f"{position.key}{jax.tree_util.keystr(tuple(rest))}"
        try:
            names = list(inspect.signature(self.asked.function).parameters)
        except (TypeError, ValueError):
            names = []
        i = position.idx
        name = names[i] if i < len(names) else f"argument {i}"
        return f"{name}{jax.tree_util.keystr(tuple(rest))}"

    def _check(self, args: Any, keywords: Any) -> None:
        """Apply the function to what was found.

        Raises:
          InverseError: If it does not give what the inverse was given.
        """
        made = jax.tree.leaves(self.asked.function(*args, **keywords))
        for i, (one, other) in enumerate(zip(made, self.given, strict=True)):
            if is_tracer(one) or is_tracer(other) or not is_array(one):
                continue
            one, other = np.asarray(one), np.asarray(other)
            kind = one.dtype
            rtol = 0.0 if kind.kind in "iub" else float(jnp.finfo(kind).eps) ** 0.5
            scale = np.abs(other).max(initial=0) if rtol else 0
            if not np.allclose(one, other, rtol=rtol, atol=rtol * scale):
                raise InverseError(
                    f"`{function_name(self.asked.function)}` of what the inverse found "
                    f"is not what it was given, in result {i}: "
                    f"{_shown(one)} instead of {_shown(other)}. The values may lie "
                    "outside of the domain of the inverse, or the problem may be "
                    "ill-conditioned."
                )


_EXAMPLES = (
    "Say at which types the arguments are: untrace.inverse(f, *examples), with arrays or "
    "jax.ShapeDtypeStruct."
)


def new_network(principal: bool = False, has_log_det: bool = False) -> Network:
    """Return an empty network with all rules."""
    later = follow_elements, solve_linear
    return Network(_rule, body_of, later, principal, has_log_det)


def _rule(node: Node) -> Rule | None:
    own = None if node.eqn is None else call_rule(node.eqn)
    return own or rule_of(node)


def is_array(value: Any) -> bool:
    """Return whether the elements of a value are known now."""
    return not is_tracer(value) and isinstance(
        value, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
    )


def _places(asked: _Asked, n_given: int) -> tuple[int, list[int] | None]:
    """Return how many arguments are known, and which are wanted (None: all)."""
    if asked.argnums is None:
        n = len(asked.examples)
        return 0, list(range(n)) if n else None
    argnums = asked.argnums
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)
    n_args = len(asked.examples) or _n_positional(asked.function, n_given, len(wanted))
    wanted = [i % n_args if -n_args <= i < 0 else i for i in wanted]
    if not all(0 <= i < n_args for i in wanted) or len(set(wanted)) != len(wanted):
        raise InverseError(f"argnums={argnums} of a function of {n_args} arguments")
    return n_args - len(wanted), sorted(wanted)


def _n_positional(function: Any, n_given: int, n_wanted: int) -> int:
    """Return the number of positional arguments; of those with defaults, if one fits."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    positional = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or not positional:
        return n_given - 1 + n_wanted  # one result
    return sum(p.default is p.empty for p in positional)


def _as_type(leaf: Any, aval: Any) -> Any:
    if getattr(leaf, "dtype", None) == getattr(aval, "dtype", None):
        return leaf
    return jnp.asarray(leaf, aval.dtype)


def _types(values: Sequence[Any]) -> str:
    return ", ".join(jaxapi.short_type(jaxapi.aval_of(v)) for v in values) or "nothing"


def _shown(value: Any) -> str:
    return np.array2string(np.asarray(value).ravel()[:4], precision=4)
