"""Read a call that is given as text: the function and its arguments, from the user's file."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from untrace.cli.messages import explained, fail, fail_in_user_code
from untrace.parsing import parse


def evaluate(target: str, call: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Evaluate a call expression but for the call itself."""
    try:
        tree = parse(call.strip(), "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error)  # ValueError: no UTF-8, NUL
        fail(f"{call!r} is not a Python expression: {reason}.")
    if not isinstance(tree.body, ast.Call):
        fail(f"{call!r} is not a call. Write it as you would in the file: 'f(x, y)'.")
    namespace = dict(vars(load(target)))
    whole = tree.body
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
    code = compile(ast.fix_missing_locations(tree), "<call>", "eval")
    try:
        # The user's own expression, in the user's own namespace.
        return eval(code, namespace)
    except Exception as error:
        fail(
            f"cannot evaluate {call!r} in {target}: {type(error).__name__}: {error}.\n"
            "Its function and arguments must be defined at the top level of the file."
        )


def taken(target: str, call: str | None) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return what a tool is given: a call, what is read, or a file that untrace saved."""
    if call is not None:
        return evaluate(target, call)
    found = opened(target)
    return found if isinstance(found, Path) else found.jaxpr, (), {}


def opened(target: str) -> Any:
    """Return what is read of a file, or of standard input for `-`; else the file's path."""
    from untrace.readers.formats import content_of, program_in

    with explained():
        if target != "-":
            return program_in(Path(target)) or Path(target)
        read = content_of(sys.stdin.buffer.read())
        if isinstance(read, bytes) or "\n" in read:
            return program_in(read)
        return program_in(f"{read}\n")


def load(target: str) -> ModuleType:
    """Import a file or module, without running its main block."""
    path = Path(target)
    is_file = path.suffix == ".py" or path.exists()
    if is_file and not path.is_file():
        fail(f"there is no file {target}.")
    sys.path.insert(0, str(path.resolve().parent) if is_file else ".")
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
