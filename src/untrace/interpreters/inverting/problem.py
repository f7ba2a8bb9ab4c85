"""One call of an inverse: the program, what is known of it, and what is wanted."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.errors import InverseError
from untrace.interpreters.inverse_rules.linear import NOT_UNIQUE
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy, is_tracer
from untrace.interpreters.inverting.network import Network, Node
from untrace.interpreters.inverting.reasons import explained
from untrace.interpreters.inverting.solver import new_network
from untrace.interpreters.inverting.tracing import traced
from untrace.interpreters.log_det import log_det
from untrace.interpreters.sub_programs import split


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for: the arguments of `inverse`."""

    function: Callable[..., Any]
    examples: tuple[Any, ...]
    argnums: int | Sequence[int] | None
    principal: bool
    check: bool | None


class Problem:
    """One call of an inverse: a program, what is known of it and what is wanted."""

    def __init__(
        self, asked: Asked, given: tuple[Any, ...], keywords: dict[str, Any]
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
            same_shapes = [leaf.shape for leaf in self.traced.types] == [
                jnp.shape(leaf) for leaf in jax.tree.leaves(self.results)
            ]
            if same_shapes:
                leaves = [
                    jax.ShapeDtypeStruct(m.shape, m.dtype) for m in self.traced.types
                ]
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
        advice = "" if self.asked.examples else f"{_GUESSED} {_EXAMPLES}"
        self.traced = traced(self.asked.function, args, self.keywords, advice)

    def _match(self, is_needed: bool) -> bool:
        """Compare the results of the function with what was given.

        Raises:
          InverseError: If they differ in more than precision, and must not.
        """
        leaves, tree = jax.tree.flatten(self.results)
        if tree != self.traced.result and len(self.results) == 1:
            leaves, tree = jax.tree.flatten(self.results[0])
        shapes = [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves]
        wanted = [(aval.shape, aval.dtype) for aval in self.traced.types]
        is_alike = tree == self.traced.result and [s for s, _ in shapes] == [
            s for s, _ in wanted
        ]
        if is_alike and (is_needed or shapes == wanted):
            self.given = leaves
            return True
        if is_needed:
            name = function_name(self.asked.function)
            returned, given = _types(self.traced.types), _types(leaves)
            if returned == given:
                returned, given = str(self.traced.result), str(tree)
            raise InverseError(
                f"`{name}` returns {returned}, and its inverse was given {given}. "
                f"{_EXAMPLES}"
            )
        return False

    # ---- solving -------------------------------------------------------------------

    def solve(self, has_log_det: bool) -> tuple[Any, Any]:
        """Return the wanted arguments, and log |det| if it is asked for."""
        network = new_network(self.asked.principal, has_log_det)
        body = split(self.traced.jaxpr)[0]
        inputs = [Cell(var.aval) for var in body.invars]
        outputs = network.add(self.traced.jaxpr, inputs)
        args, _ = jax.tree.unflatten(
            self.traced.arguments, range(len(self.traced.leaves))
        )
        wanted = {n for i in self.wanted for n in jax.tree.leaves(args[i])}
        slots = iter(inputs)
        cells = [next(slots) if d else None for d in self.traced.dynamic]
        for number, (cell, leaf) in enumerate(zip(cells, self.traced.leaves)):
            if cell is not None and number not in wanted:
                network.learn(cell, Lazy.of(leaf, is_static=is_array(leaf)))
        for cell, leaf, aval in zip(outputs, self.given, self.traced.types):
            network.learn(cell, Lazy.of(_as_type(leaf, aval)))
        targets = [cell for n in sorted(wanted) if (cell := cells[n]) is not None]
        names = [self._name(n) for n in sorted(wanted) if cells[n] is not None]
        if not network.solve(targets):
            raise InverseError(explained(network, targets, names))
        term = log_det(network, targets, outputs) if has_log_det else None
        values = iter([cell.whole.value for cell in targets if cell.whole])
        leaves = [
            next(values) if n in wanted and cell is not None else leaf
            for n, (cell, leaf) in enumerate(zip(cells, self.traced.leaves))
        ]
        found, keywords = jax.tree.unflatten(self.traced.arguments, leaves)
        if self._is_checked(network):
            self._check(found, keywords)
        made = [found[i] for i in self.wanted]
        result = made[0] if len(made) == 1 else tuple(made)
        return result, None if term is None else term.value

    def _name(self, n: int) -> str:
        """Return what a leaf of the arguments is called: `x`, `params['w']`."""
        tree = jax.tree.unflatten(self.traced.arguments, self.traced.leaves)
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

    def _is_checked(self, network: Network) -> bool:
        """Return whether the function is applied to what is found.

        What is given beyond what is needed was not looked at; factors of matrices are not
        unique, so that others than the function would find are as good.
        """
        if self.asked.check is not None:
            return self.asked.check
        args, _ = jax.tree.unflatten(self.traced.arguments, self.traced.leaves)
        wanted = [args[i] for i in self.wanted]
        return n_numbers(self.traced.types) > n_numbers(
            jax.tree.leaves(wanted)
        ) and not any(_called(node) in NOT_UNIQUE for node in network.nodes)

    def _check(self, args: Any, keywords: Any) -> None:
        """Apply the function to what was found, if that is known now.

        Raises:
          InverseError: If it does not give what the inverse was given.
        """
        if any(map(is_tracer, jax.tree.leaves((args, keywords, self.given)))):
            return
        made = jax.tree.leaves(self.asked.function(*args, **keywords))
        rtol = _tolerance([*jax.tree.leaves(args), *self.given])
        for i, (one, other) in enumerate(zip(made, self.given, strict=True)):
            if is_tracer(one) or not is_array(one) or _are_close(one, other, rtol):
                continue
            raise InverseError(
                f"`{function_name(self.asked.function)}` of what the inverse found is not "
                f"what it was given, in result {i}: {_shown(one)} instead of "
                f"{_shown(other)}. The results may contradict each other, or lie outside of "
                "the domain of the inverse, or the problem is ill-conditioned. "
                "`check=False` takes what was found."
            )


_GUESSED = "Its inverse traced it at the types of the results."

_EXAMPLES = (
    "Say at which types the arguments are: untrace.inverse(f, *examples), with arrays or "
    "jax.ShapeDtypeStruct."
)


def is_array(value: Any) -> bool:
    """Return whether the elements of a value are known now."""
    return not is_tracer(value) and isinstance(
        value, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
    )


def n_numbers(values: Sequence[Any]) -> int:
    """Count the real numbers in arrays."""
    types = [jaxapi.aval_of(value) for value in values]
    return sum(
        math.prod(aval.shape)
        * (2 if jnp.issubdtype(aval.dtype, jnp.complexfloating) else 1)
        for aval in types
    )


def _called(node: Node) -> str:
    """Return the name of what an equation calls: a jitted function, or its primitive."""
    params = {} if node.eqn is None else node.eqn.params
    return str(params.get("name", node.name))


def _tolerance(values: Sequence[Any]) -> float:
    """Return half the digits of the coarsest of some arrays, as a relative error."""
    types = [jnp.result_type(value) for value in values]
    inexact = [each for each in types if jnp.issubdtype(each, jnp.inexact)]
    return max((float(jnp.finfo(each).eps) for each in inexact), default=0.0) ** 0.5


def _are_close(one: Any, other: Any, rtol: float) -> bool:
    """Compare two arrays; NaN is what it is."""
    one, other = _plain(one), _plain(other)
    if one.dtype.kind in "iub":
        return np.array_equal(one, other)
    scale = np.abs(other[np.isfinite(other)]).max(initial=0)
    return np.allclose(one, other, rtol=rtol, atol=rtol * scale, equal_nan=True)


def _plain(value: Any) -> Any:
    if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    return np.asarray(value)


def _places(asked: Asked, n_given: int) -> tuple[int, list[int] | None]:
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
    return np.array2string(_plain(value).ravel()[:4], precision=4)
