"""Cases of packages in processes of their own, one for each package.

A command that takes `--case NAME` several times, and prints for each of them a line of
JSON that begins with its name, is run; a case that ends it or takes too long costs only
its own answer.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import jax

from tests.corpus.packages.cases import Case, load_all
from tests.corpus.packages.judge import flat, not_installed

STARTING_S = 120.0
"""What imports of a package may take besides, in seconds."""
END = "end"


def answers(
    command: Sequence[str], cases: Iterable[Case], timeout_s: float
) -> Iterator[list[Any]]:
    """Yield the answer of each case, or its name, "no time" or "error", and why.

    Args:
      command: What follows `python`, without the cases.
      cases: In the order of their names.
      timeout_s: Seconds that each of them may take.
    """
    for _, group in groupby(cases, key=lambda case: case.package):
        left = [case.name for case in group]
        while left:
            for answer in _of_one_process(command, left, timeout_s):
                yield answer
                left.remove(answer[0])


def _of_one_process(
    command: Sequence[str], names: list[str], timeout_s: float
) -> list[list[Any]]:
    """Return the answers up to the case that ends the process, with one for that."""
    asked = [part for name in names for part in ("--case", name)]
    process = subprocess.Popen(
        [sys.executable, *command, *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(process, lines), daemon=True).start()
    found: list[list[Any]] = []
    allowed = STARTING_S + timeout_s
    try:
        while len(found) < len(names):
            line = lines.get(timeout=allowed)
            if line == END:
                status = process.wait()
                found.append([names[len(found)], "error", f"exit status {status}"])
                break
            if _is_answer(line, names[len(found)]):
                found.append(json.loads(line))
                allowed = timeout_s
    except queue.Empty:
        found.append([names[len(found)], "no time", f"{allowed:.0f} s"])
    finally:
        process.kill()
        process.wait()
    return found


def _read(process: Any, lines: queue.Queue[str]) -> None:
    for line in process.stdout:
        lines.put(line)
    lines.put(END)


def _is_answer(line: str, name: str) -> bool:
    """Whether a line is no message of a package."""
    return line.startswith(f'["{name}", ')


def judged(names: Iterable[str], judge: Callable[..., Sequence[str]]) -> None:
    """Print the answers of some cases.

    Args:
      names: The names of the cases.
      judge: Takes a name, a function of arrays and those arrays; returns the answer.
    """
    sys.argv = sys.argv[:1]  # packages have commands of their own
    for name in names:
        case = load_all()[name]
        missing = not_installed(case)
        if missing:
            answer: Sequence[str] = [name, "not installed", ", ".join(missing)]
        else:
            with warnings.catch_warnings(), jax.enable_x64(case.x64):
                warnings.simplefilter("ignore")
                answer = _judged(case, judge)
        print(json.dumps([*answer]), flush=True)


def _judged(case: Case, judge: Callable[..., Sequence[str]]) -> Sequence[str]:
    try:
        call = case.make()
        function, leaves = flat(call, call.function)
    except Exception as error:  # a program that does not run here
        return [case.name, "case fails", f"{type(error).__name__}: {error}"[:300]]
    return judge(case.name, function, tuple(leaves))
