"""Open a file that untrace saved: the program in it, and the inputs that it carries.

The file is executed and its function is traced, on `example_args()` or on other
arguments. What follows is done with the traced program.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untrace.capture.capture import capture
from untrace.capture.captured import Captured
from untrace.capture.user_code import user_code
from untrace.errors import LoadError
from untrace.parsing import parse
from untrace.saved import entered, imports_beside, main_name
from untrace.verification.retrace import execute, restored_settings


@dataclass(frozen=True)
class SavedProgram:
    """A file that was executed.

    Attributes:
      path: Where it is.
      text: What it says.
      name: The name of its main function.
      module: What it defines.
    """

    path: Path
    text: str
    name: str
    module: Any

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Call its main function in the context that the file says."""
        with entered(self.module, self.name, self.text):
            return getattr(self.module, self.name)(*args, **kwargs)

    def example_args(self) -> dict[str, Any]:
        """The inputs that the file carries, by the names of parameters.

        Raises:
          LoadError: If there are none.
        """
        try:
            with entered(self.module, self.name, self.text):
                return self.module.example_args()
        except Exception as error:  # an edited file may fail in any way
            raise cannot_load(self.path, error) from error

    def captured(self) -> Captured:
        """The program at the inputs that the file carries.

        Raises:
          LoadError: If it cannot be traced.
        """
        try:
            return self._traced((), self.module.example_args())
        except Exception as error:  # an edited file may fail in any way
            raise cannot_load(self.path, error) from error

    def captured_at(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Captured:
        """The program at other arguments.

        Raises:
          CaptureError: If they cannot be traced.
        """
        with user_code():
            return self._traced(args, kwargs)

    def _traced(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Captured:
        function = getattr(self.module, self.name)
        here = imports_beside(self.path), entered(self.module, self.name, self.text)
        with restored_settings(), here[0], here[1]:
            return capture(function, args, kwargs)


def open_saved(path: Path, name: str | None = None) -> SavedProgram:
    """Execute a file written by `Source.save` or by a reduction.

    Args:
      path: Where it is.
      name: Its main function; if None the one that its header names, or that its main
        block calls.

    Raises:
      LoadError: If it cannot be read or executed, or does not define one program and its
        inputs.
    """
    if not path.exists():
        raise LoadError(f"there is no file {path}.")
    try:
        text = path.read_text(encoding="utf-8")
        name = name or saved_name(text)
        if name is None:
            raise LoadError(
                f"{path} has no `example_args()` beside its function: it was not written "
                "by untrace. Give a call as well, as in: untrace show FILE 'f(x)'."
            )
        with restored_settings(), imports_beside(path):
            module = execute(text, str(path), str(path.resolve()))
    except LoadError:
        raise
    except Exception as error:  # an edited file may fail in any way
        raise cannot_load(path, error) from error
    return SavedProgram(path, text, name, module)


def cannot_load(path: Path, error: Exception) -> LoadError:
    """Say that a file fails, and how."""
    return LoadError(f"cannot load {path}: {type(error).__name__}: {error}")


def saved_name(text: str) -> str | None:
    """Return the name of the function that a saved file is about.

    It is the one that its header names, or that its main block calls.
    """
    return main_name(text) or _called_name(text)


def _called_name(text: str) -> str | None:
    """Find the function that is called with `**example_args()`."""
    tree = parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(
            keyword.arg is None and "example_args" in ast.unparse(keyword.value)
            for keyword in node.keywords
        ):
            named = [n.id for n in ast.walk(node.func) if isinstance(n, ast.Name)]
            found = next((name for name in named if name in functions), None)
            return found or _shown_name(tree)
    return _shown_name(tree)


def _shown_name(tree: ast.Module) -> str | None:
    """Find the function that the main block of a file shows: the last that it names."""
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if "example_args" not in defined:
        return None
    main = tree.body[-1]
    shown = {node.id for node in ast.walk(main) if isinstance(node, ast.Name)}
    shown.discard("example_args")
    return next((name for name in reversed(defined) if name in shown), None)
