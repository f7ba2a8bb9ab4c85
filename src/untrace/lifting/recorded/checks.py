"""What holds between the passes, in every test (`UNTRACE_STRICT`).

Groups of expressions are what Python's parser finds in their text. The text of every
function is Python, each is defined once, and each is called with as many arguments as it
takes. When nothing more is learnt, all that they read is defined.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence

from untrace.lifting.printing import Function
from untrace.lifting.recorded.terms import (
    BARE,
    CALL,
    DICT,
    INDEX,
    LIST,
    PARENS,
    TUPLE_OF,
    Group,
    Term,
)
from untrace.lifting.recorded.tree import Draft
from untrace.parsing import parse, walk

_BUILTINS = frozenset(vars(builtins))


def check_nodes(draft: Draft) -> None:
    """Check that the expressions of a function, which is written, are what they say.

    Raises:
      AssertionError: If Python's parser finds other groups in the text of one.
    """
    for term in draft.terms():
        text = term.render()
        groups = Counter((one.kind, len(one.texts())) for one in _groups_in(term))
        if not groups:
            continue
        try:
            tree = parse(text)
        except SyntaxError as error:
            raise AssertionError(f"no Python: {text}") from error
        missing = groups - Counter(one for node in walk(tree) for one in _found(node))
        assert not missing, f"in `{text}`, the parser does not find {missing}"


def _groups_in(term: Term) -> Iterator[Group]:
    """Yield the displays, calls and indices in an expression, and what is folded into it."""
    yield from (one for one in term.groups() if one.kind not in (PARENS, BARE))
    for ref in term.refs():
        if ref.name.folded is not None:
            yield from _groups_in(ref.name.folded)


def _found(node: ast.AST) -> Iterator[tuple[int, int]]:
    """Yield as what groups a node may be written, and the number of their items."""
    match node:
        case ast.Tuple(elts=items):
            yield TUPLE_OF, len(items)
        case ast.List(elts=items):
            yield LIST, len(items)
        case ast.Dict(values=items):
            yield DICT, len(items)
        case ast.Call(args=args, keywords=keywords):
            yield CALL, len(args) + len(keywords)
        case ast.Subscript(slice=index):
            yield INDEX, len(index.elts) if isinstance(index, ast.Tuple) else 1
            yield INDEX, 1  # which may be a tuple
        case ast.ListComp():
            yield LIST, 1
        case ast.DictComp():
            yield DICT, 1
        case ast.GeneratorExp():
            yield TUPLE_OF, 1
        case _:
            pass


def check_functions(functions: Sequence[Function], after: str) -> None:
    """Check the functions of a module.

    Args:
      functions: All of them.
      after: The pass that was done last.

    Raises:
      AssertionError: If it left what is no program.
    """
    trees = {one.name: _tree(one, after) for one in functions}
    assert len(trees) == len(functions), f"after {after}: two functions have one name"
    for name, tree in trees.items():
        for call in _calls(tree, trees.keys()):
            assert _fits(call, trees[call.func.id].args), (  # type: ignore[attr-defined]
                f"after {after}, in `{name}`: `{ast.unparse(call)}` does not fit"
            )


def check_defined(
    functions: Sequence[Function], is_global: Callable[[str], bool]
) -> None:
    """Check that a finished module defines what its functions read.

    Args:
      functions: All of them.
      is_global: Whether the module has anything else of a name: an import, a number.

    Raises:
      AssertionError: If they read what nothing defines.
    """
    known = {one.name for one in functions} | _BUILTINS
    for one in functions:
        missing = [
            name for name in _read(_tree(one, "all")) - known if not is_global(name)
        ]
        assert not missing, f"in `{one.name}`, nothing defines {sorted(missing)}"


def _tree(function: Function, after: str) -> ast.FunctionDef:
    text = "\n".join(function.text_lines())
    try:
        found = next(n for n in parse(text).body if isinstance(n, ast.FunctionDef))
    except SyntaxError as error:
        raise AssertionError(f"after {after}: no Python: {error}\n{text}") from error
    return found


def _calls(tree: ast.FunctionDef, names: Container[str]) -> Iterator[ast.Call]:
    """Yield the calls of functions of the module, whose names nothing here hides."""
    own = _bound(tree)
    for node in ast.walk(tree):
        function = node.func if isinstance(node, ast.Call) else None
        called = function.id if isinstance(function, ast.Name) else ""
        if called in names and called not in own:
            yield node  # type: ignore[misc]


def _bound(tree: ast.FunctionDef) -> set[str]:
    """List what is bound anywhere in a function: a name means one thing in it."""
    nodes = list(ast.walk(tree))
    found = {n.arg for n in nodes if isinstance(n, ast.arg)}
    found |= {n.id for n in nodes if isinstance(n, ast.Name) and not _is_read(n)}
    nested = [n for n in nodes if isinstance(n, ast.FunctionDef) and n is not tree]
    return found | {n.name for n in nested}


def _read(tree: ast.FunctionDef) -> set[str]:
    """List the names that a function reads from around it."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_read(n)}
    return names - _bound(tree)


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _fits(call: ast.Call, taken: ast.arguments) -> bool:
    """Whether a call passes what a function takes, as far as stars tell."""
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        return True
    if any(keyword.arg is None for keyword in call.keywords):
        return True
    positional = [*taken.posonlyargs, *taken.args]
    names = {arg.arg for arg in (*positional, *taken.kwonlyargs)}
    given = {keyword.arg for keyword in call.keywords}
    if taken.vararg is None and len(call.args) > len(positional):
        return False
    if taken.kwarg is None and not given <= names:
        return False
    passed = given | {arg.arg for arg in positional[: len(call.args)]}
    n_required = len(positional) - len(taken.defaults)
    required = {arg.arg for arg in positional[:n_required]}
    pairs = zip(taken.kwonlyargs, taken.kw_defaults)
    required |= {arg.arg for arg, default in pairs if default is None}
    return required <= passed
