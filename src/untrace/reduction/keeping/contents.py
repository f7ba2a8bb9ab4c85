"""Predicates on the program itself: primitives that occur, and any command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from untrace.ir import all_equations
from untrace.reduction.keeping import scripts
from untrace.reduction.keeping.base import Env, Keep, KeepError, settle_env, story
from untrace.reduction.outcome import Outcome, Run
from untrace.reduction.program import Program


@dataclass(frozen=True, init=False)
class Contains(Keep):
    """Primitives occur in the program, at any depth. Nothing is run.

    Args:
      names: Names of primitives, or patterns such as "cum*"; all of them must occur.

    >>> str(Contains("scan", "dot*"))
    "contains('scan', 'dot*')"
    """

    names: tuple[str, ...]

    WORD: ClassVar[str] = "contains"

    def __init__(self, *names: str) -> None:
        given: tuple[Any, ...] = names
        if not given or not all(isinstance(name, str) for name in given):
            raise KeepError("contains: name at least one primitive, as a string")
        object.__setattr__(self, "names", names)

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        return not self._missing(program)

    def describe(self) -> str:
        names = ", ".join(f"`{name}`" for name in self.names)
        return f"The program contains {names}."

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        if program is None:
            return f"The program does not contain all of {', '.join(self.names)}."
        missing = ", ".join(f"`{name}`" for name in self._missing(program))
        known = sorted({eqn.name for eqn in all_equations(program.block)})
        return f"The program has no {missing}. It has: {', '.join(known)}."

    def named(self, program: Program) -> tuple[str, ...]:
        present = dict.fromkeys(eqn.name for eqn in all_equations(program.block))
        return tuple(
            found
            for found in present
            if any(fnmatchcase(found, name) for name in self.names)
        )

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return scripts.contains_lines(name, self.names, program)

    def check_imports(self) -> tuple[str, ...]:
        return ("import fnmatch", "import jax")

    def _missing(self, program: Program) -> list[str]:
        present = {eqn.name for eqn in all_equations(program.block)}
        return [
            name
            for name in self.names
            if not any(fnmatchcase(found, name) for found in present)
        ]

    def __str__(self) -> str:
        return f"contains({', '.join(map(repr, self.names))})"


@dataclass(frozen=True)
class Command(Keep):
    """A shell command succeeds on the program's file, as for shrinkray and C-Reduce.

    Attributes:
      command: With `{file}` where the path of the file goes. Exit status 0 means: keep.
      timeout_s: Wall time, in seconds; a command that takes longer has failed.
      env: Environment variables.

    >>> str(Command("./check.sh {file}"))
    "command('./check.sh {file}')"
    """

    command: str
    timeout_s: float = field(default=60.0, kw_only=True)
    env: Env = field(default=(), kw_only=True)

    WORD: ClassVar[str] = "command"

    def __post_init__(self) -> None:
        if "{file}" not in str(self.command):
            raise KeepError(
                f"command: say where the file goes, as in './check.sh {{file}}', "
                f"not {self.command!r}"
            )
        settle_env(self, self.env)

    @property
    def runs(self) -> tuple[Run, ...]:
        return (
            Run(
                "command", env=self.env, command=self.command, timeout_s=self.timeout_s
            ),
        )

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        return outcomes[0].status == "ok" and outcomes[0].exit_status == 0

    def describe(self) -> str:
        return f"The command `{self.command}` succeeds."

    def with_env(self, env: Env) -> Keep:
        return replace(self, env=tuple({**dict(env), **dict(self.env)}.items()))

    @property
    def how_to_check(self) -> str:
        return "run this file with `--check`, which runs the command on it."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return scripts.command_lines(name, self.command)

    def check_imports(self) -> tuple[str, ...]:
        names = ["pathlib", "shlex", "shutil", "subprocess", "sys", "tempfile"]
        return (*(f"import {name}" for name in names), *scripts.env_lines(self.env))

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        told = outcomes[0].stderr.strip().splitlines()[-3:]
        said = f" It said: {' / '.join(told)}" if told else ""
        return story(outcomes[0]) + said

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        """Return None: what a command's statuses mean is its own business."""
        return None
