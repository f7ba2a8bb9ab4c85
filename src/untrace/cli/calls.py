"""Read a call that is given as text: the function and its arguments, from the user's file."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import linecache
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from untrace.cli.arguments import read_arguments
from untrace.cli.messages import explained, fail, fail_in_user_code
from untrace.parsing import parse

Given = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A function and its arguments."""

CALL = "<call>"
"""The file name of the call, whose text can be looked up under it."""

STDIN = "<stdin>"
"""That of a program that is piped in."""

_ALWAYS = {"jax": "jax", "jnp": "jax.numpy", "np": "numpy"}
"""Names that are there in every call, if the file has not others of that name."""


def evaluate(target: str, call: str) -> Given:
    """Evaluate a call expression but for the call itself."""
    tree = _parsed(call)
    if not isinstance(tree.body, ast.Call):
        fail(f"{call!r} is not a call. Write it as you would in the file: 'f(x, y)'.")
    namespace = _namespace(load(target))
    taking(tree, namespace)
    return _evaluated(tree, namespace, target, call)


def taking(tree: ast.Expression, namespace: dict[str, Any]) -> None:
    """Let a call expression give its function and arguments, and not call it."""
    whole = tree.body
    assert isinstance(whole, ast.Call)
    taken = ast.Call(
        ast.Name("__untrace_take__", ast.Load()),
        [whole.func, *whole.args],
        whole.keywords,
    )
    namespace["__untrace_take__"] = lambda function, *args, **kwargs: (
        function,
        args,
        kwargs,
    )
    tree.body = ast.copy_location(taken, whole)
    ast.fix_missing_locations(tree)


def function_at(target: str, expression: str, given: str | None) -> Given:
    """Evaluate a function, and take its arguments from elsewhere.

    Args:
      target: A file or module.
      expression: The function, in its names.
      given: Types as JAX prints them; if None, what `example_args()` of the file returns.
    """
    tree = _parsed(expression)
    module = load(target)
    function = _evaluated(tree, _namespace(module), target, expression)
    if not callable(function):
        fail(f"{expression!r} in {target} is no function.")
    if given is not None:
        with explained():
            return function, *read_arguments(given)
    examples = getattr(module, "example_args", None)
    if examples is None:
        fail(
            f"give a call, as in: untrace show {target} '{expression}(x)'; or the types "
            f"of its arguments, as in: --args 'f32[8,128], i32[]'; or define "
            f"`example_args()` in {target}, which returns them."
        )
    with explained(f"example_args() of {target}"):
        found = examples()
    if isinstance(found, Mapping):
        return function, (), {str(key): value for key, value in found.items()}
    return function, tuple(found) if isinstance(found, (tuple, list)) else (found,), {}


def named_function(target: str) -> tuple[str, str] | None:
    """Split `model.py:function` and `package.module:function`; None if it is neither."""
    path, colon, name = target.rpartition(":")
    if not colon or Path(target).exists():
        return None
    is_dotted = all(part.isidentifier() for part in name.split("."))
    return (path, name) if path and is_dotted else None


def _parsed(call: str) -> ast.Expression:
    try:
        return parse(call.strip(), "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error)  # ValueError: no UTF-8, NUL
        fail(f"{call!r} is not a Python expression: {reason}.")


def _namespace(module: ModuleType) -> dict[str, Any]:
    always = {name: importlib.import_module(of) for name, of in _ALWAYS.items()}
    return {**always, **vars(module)}


def _evaluated(
    tree: ast.Expression, namespace: dict[str, Any], target: str, text: str
) -> Any:
    """Evaluate the user's own expression, in the user's own namespace."""
    code = compile(ast.fix_missing_locations(tree), CALL, "eval")
    lines = [f"{line}\n" for line in text.strip().split("\n")]
    # Lambdas of the call are looked up as those of files are.
    linecache.cache[CALL] = (len(text), None, lines, CALL)
    try:
        return eval(code, namespace)
    except Exception as error:
        fail(
            f"cannot evaluate {text!r} in {target}: {type(error).__name__}: {error}.\n"
            "Its function and arguments must be defined at the top level of the file."
        )


def taken(target: str, call: str | None) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return what a tool is given: a call, what is read, or a file that untrace saved."""
    from untrace.readers.formats import refuse_unread

    if call is not None:
        return evaluate(target, call)
    named = named_function(target)
    if named is not None:
        return function_at(*named, None)
    found = opened(target)
    if not isinstance(found, Path):
        return found.jaxpr, (), {}
    if found.suffix != ".py":
        with explained():
            refuse_unread(found)
    return found, (), {}


def opened(target: str) -> Any:
    """Return what is read of a file, or of standard input for `-`; else the file's path."""
    from untrace.readers.formats import content_of, in_no_format, program_in

    with explained():
        if target != "-":
            return program_in(Path(target)) or Path(target)
        read = content_of(sys.stdin.buffer.read())
        if isinstance(read, str) and _defines_functions(read):
            fail("give a call as well, as in: untrace show - 'f(x)'.")
        if isinstance(read, str) and "\n" not in read:
            read = f"{read}\n"
        found = program_in(read)
        if found is None:
            raise in_no_format("standard input")
        return found


def _defines_functions(text: str) -> bool:
    """Whether a text is a program of Python."""
    try:
        tree = parse(text, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree))


def is_module(target: str) -> bool:
    """Whether a module of that name can be imported."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(target) is not None
    except (ImportError, ValueError):
        return False


def load(target: str) -> ModuleType:
    """Import a file, a module, or what standard input has for `-`, without its main block."""
    if target == "-":
        return _standard_input()
    path = Path(target)
    is_file = path.suffix == ".py" or path.exists()
    if is_file and not path.is_file():
        fail(f"there is no file {target}.")
    folder = path.resolve().parent if is_file else Path.cwd()
    sys.path.insert(0, str(folder))
    try:
        if not is_file:
            return importlib.import_module(target)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            fail(f"{target} is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        if error.name == target:
            fail(f"there is neither a file nor a module {target}.")
        fail_in_user_code(target)
    except Exception:  # so may the user's file
        fail_in_user_code(target)


def _standard_input() -> ModuleType:
    """Execute a program that is piped in, as `python -` does but for its main block."""
    text = sys.stdin.buffer.read().decode()
    module = ModuleType("stdin")
    module.__file__ = STDIN
    lines = text.splitlines(keepends=True)
    linecache.cache[STDIN] = (len(text), None, lines, STDIN)
    sys.path.insert(0, str(Path.cwd()))
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, STDIN, "exec"), vars(module))
    except Exception:
        fail_in_user_code("standard input")
    return module
