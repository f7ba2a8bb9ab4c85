"""Ordered effects: a module with tokens as one without, whose calls of the host say so.

A token orders what a program does: each call takes the one that the call before it gives.
JAX has one for each order of effects, from the arguments of `main` on, through calls, loops
and branches. Here it is followed along its way, and taken away; a call of the host keeps
the name of its order (`ORDER`). Effects stand in the order of the operations, which is that
of the tokens, since the newest token of an order is the only one that may be used.

Tokens that begin inside of the module (`create_token`, `after_all`) belong to the order of
the functions that give results, if they do not come from an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from untrace.errors import LoadError
from untrace.jaxapi.module_types import Block, Function, Module, Operation, Value
from untrace.readers.stablehlo.calls import where_from
from untrace.readers.stablehlo.identities import CALLS, ORDER

TOKEN = "!stablehlo.token"
IO, DEBUG = "io", "debug"
"""The orders that JAX has: of functions that may give results, and of those for debugging."""

_STARTS = ("stablehlo.create_token", "stablehlo.after_all")
_TAKING = {
    *("stablehlo.custom_call", "stablehlo.infeed", "stablehlo.outfeed"),
    *("stablehlo.send", "stablehlo.recv"),
}


def without_tokens(module: Module) -> Module:
    """Return a module that has no tokens.

    Args:
      module: Its functions do not call themselves. What has no tokens is returned as it
        is. Where `orders` does not say which order the tokens among the arguments of
        `main` are of, that follows from what the functions of each order give.

    Raises:
      LoadError: If tokens are not handed on in one line, or there are more orders than
        JAX has.
    """
    if not _has_tokens(module):
        return module
    tokens = [i for i, v in enumerate(module.main.block.arguments) if _is_token(v)]
    names = module.orders or _orders(module, len(tokens))
    following = _Following(module, names)
    main, returned = following.called(module.main.name, tuple(range(len(tokens))))
    if returned != [*range(len(tokens))]:
        raise LoadError(
            "cannot read the module: `main` does not return the tokens that it takes"
        )
    functions = {name: following.made.get(name, f) for name, f in _others(module)}
    return replace(module, functions={**functions, **following.made, main.name: main})


def _has_tokens(module: Module) -> bool:
    arguments = (v for f in module.functions.values() for v in f.block.arguments)
    return any(map(_is_token, arguments)) or any(
        _is_token(v) for one in module.operations() for v in one.results
    )


def _is_token(value: Value) -> bool:
    return value.type == TOKEN


def _others(module: Module) -> list[tuple[str, Function]]:
    """Return the functions that have no tokens in their signature."""
    return [
        (name, function)
        for name, function in module.functions.items()
        if not any(map(_is_token, function.block.arguments))
    ]


def _orders(module: Module, n_tokens: int) -> list[str]:
    """Return which order each token among the arguments of `main` is of.

    Functions for debugging give no results; where no function gives one, the module does
    not tell the orders apart.
    """
    following = _Following(module, [str(index) for index in range(n_tokens)])
    following.called(module.main.name, tuple(range(n_tokens)))
    giving = [str(index) in following.giving for index in range(n_tokens)]
    if n_tokens > 2 or sum(giving) > 1:
        raise LoadError(
            f"cannot read the module: its effects have {n_tokens} orders, and "
            f"functions of {sum(giving)} of them give results; JAX has one order for such "
            "functions, and one for those that debug. Lower the function without "
            "ordered effects of other packages."
        )
    if n_tokens == 2 and not any(giving):
        return [DEBUG, IO]
    return [IO if is_giving else DEBUG for is_giving in giving]


class _Following:
    """Follows the tokens of a module, and makes its functions without them.

    An order is the position of its token among those of `main`; those of tokens that begin
    inside of the module are negative.

    Attributes:
      made: The functions that were made.
      giving: The names of the orders of which a call gives results.
    """

    def __init__(self, module: Module, names: Sequence[str]) -> None:
        self.module = module
        self.names = names
        self.made: dict[str, Function] = {}
        self.giving: set[str] = set()
        self._known: dict[tuple[str, tuple[int, ...]], tuple[Function, list[int]]] = {}
        self._name = ""
        self._n_inner = 0

    def called(self, name: str, orders: tuple[int, ...]) -> tuple[Function, list[int]]:
        """Return a function, and the orders of the tokens that it returns.

        `orders` are those of the tokens among its arguments.
        """
        if (name, orders) not in self._known:
            function, outer = self.module.functions[name], self._name
            self._name = name
            given = zip(filter(_is_token, function.block.arguments), orders)
            scope = {order: value for value, order in given}
            block, returned = self._block(function.block, scope)
            self._name = outer
            made = replace(
                function,
                name=f"{name}.{len(self._known)}" if name in self.made else name,
                block=block,
                argument_paths=_kept(function.argument_paths, function.block.arguments),
                result_paths=_kept(function.result_paths, function.block.returned),
            )
            self.made[made.name] = made
            self._known[name, orders] = made, returned
        return self._known[name, orders]

    def _block(
        self, block: Block, newest: dict[int, Value], is_whole: bool = True
    ) -> tuple[Block, list[int]]:
        """Return a block without tokens, and the orders of those that it returns.

        `newest` has the newest token of each order, and is changed. All that the block has
        changed must be returned, if it `is_whole`.
        """
        before = dict(newest)
        operations = [self._operation(one, newest) for one in block.operations]
        tokens = [value for value in block.returned if _is_token(value)]
        returned = [self._order(value, newest) for value in tokens]
        changed = {k for k, v in newest.items() if before.get(k, v) is not v}
        if is_whole and changed - {*returned}:
            raise self._refused("has an effect whose token it does not hand on")
        made = Block(
            tuple(v for v in block.arguments if not _is_token(v)),
            tuple(one for one in operations if one is not None),
            tuple(v for v in block.returned if not _is_token(v)),
        )
        return made, returned

    def _operation(
        self, operation: Operation, newest: dict[int, Value]
    ) -> Operation | None:
        """Return an operation without tokens; None if it does nothing else."""
        tokens = [v for v in operation.operands if _is_token(v)]
        orders = [self._order(value, newest, operation) for value in tokens]
        results = [v for v in operation.results if _is_token(v)]
        attributes, regions = operation.attributes, operation.regions
        if operation.name in _STARTS:
            given = {one for one in orders if one >= 0}
            if len(given) > 1:
                raise self._refused("joins the orders of two effects", operation)
            self._n_inner += 1
            newest[given.pop() if given else -self._n_inner] = results[0]
            return None
        if operation.name in CALLS:
            name = str(attributes["callee"])
            made, orders = self.called(name, tuple(orders))
            attributes = {**attributes, "callee": type(attributes["callee"])(made.name)}
        elif regions:
            regions, orders = self._regions(operation, orders, newest)
        elif tokens and operation.name not in _TAKING:
            raise self._refused("works on tokens", operation)
        elif tokens:
            names = [self._named(order) for order in orders]
            attributes = {**attributes, ORDER: ",".join(names)}
            if len(results) < len(operation.results):
                self.giving.update(names)
        if len(orders) != len(results):
            raise self._refused(
                "gives another number of tokens than it takes", operation
            )
        newest.update(zip(orders, results))
        return replace(
            operation,
            operands=tuple(v for v in operation.operands if not _is_token(v)),
            results=tuple(v for v in operation.results if not _is_token(v)),
            attributes=attributes,
            regions=regions,
        )

    def _regions(
        self, operation: Operation, orders: list[int], newest: dict[int, Value]
    ) -> tuple[tuple[Block, ...], list[int]]:
        """Return regions without tokens, and the orders of the tokens of the results."""
        made: list[Block] = []
        returned: list[list[int]] = []
        for region in operation.regions:
            inner = dict(newest)
            inner.update(zip(orders, filter(_is_token, region.arguments)))
            block, found = self._block(region, inner)
            made.append(block)
            returned.append(found)
        if operation.name == "stablehlo.while":
            returned = returned[1:]  # the condition returns a predicate
            if returned != [orders]:
                raise self._refused("exchanges tokens", operation)
        if any(one != returned[0] for one in returned):
            raise self._refused("hands on other tokens in each branch", operation)
        return tuple(made), returned[0]

    def _order(
        self,
        value: Value,
        newest: dict[int, Value],
        operation: Operation | None = None,
    ) -> int:
        """Return the order that a token is of."""
        for order, token in newest.items():
            if token is value:
                return order
        raise self._refused(
            "takes a token that is not the newest of its order", operation
        )

    def _named(self, order: int) -> str:
        return IO if order < 0 else self.names[order]

    def _refused(self, why: str, operation: Operation | None = None) -> LoadError:
        what = f"`{operation.name}` in " if operation else ""
        where = where_from(operation.place) if operation else ""
        return LoadError(
            f"cannot read {what}`{self._name}`{where}: it {why}. JAX hands on the token "
            "of each order of effects from one to the next."
        )


def _kept(paths: tuple[str, ...], values: tuple[Value, ...]) -> tuple[str, ...]:
    """Return the paths of values that are no tokens."""
    if len(paths) != len(values):
        return paths
    return tuple(path for path, v in zip(paths, values) if not _is_token(v))
