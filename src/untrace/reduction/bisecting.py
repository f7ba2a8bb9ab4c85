"""Which pass of XLA, and which version of JAX, a failure comes with.

Passes are named by the files that XLA dumps; the fewest are looked for without which the
program is fine. Versions are installed by pip in temporary environments and bisected.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from untrace.errors import KeepError
from untrace.reduction.delta import minimize
from untrace.reduction.elsewhere import FAILS, FINE, UNKNOWN, Asking, Finding

_PASS = re.compile(r"\.after_([\w\-]+)\.")
"""What stands in the name of a dumped file: the pass that was run."""

MAX_PASSES = 400
INSTALL_S = 900.0


def culprit_passes(asking: Asking) -> list[str]:
    """Return the fewest passes found without which the program is fine; [] if none is."""
    passes = _passes(asking)

    def is_fine(disabled: Sequence[str]) -> bool:
        env = {"XLA_FLAGS": without(disabled)}
        return bool(disabled) and asking.ask("", env).verdict == FINE

    if not passes or not is_fine(passes):
        return []
    best = passes

    def suffices(kept: list[str]) -> bool:
        nonlocal best
        if not is_fine(kept):
            return False
        best = kept
        return True

    minimize(passes, suffices)
    return best


def without(passes: Sequence[str]) -> str:
    """Write the flag that leaves passes out."""
    return f"--xla_disable_hlo_passes={','.join(passes)}"


def _passes(asking: Asking) -> list[str]:
    """List the passes that XLA runs on the program, in their order."""
    with tempfile.TemporaryDirectory(prefix="untrace-") as folder:
        flags = f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.*"
        asking.ask("", {"XLA_FLAGS": flags})
        names = sorted(path.name for path in Path(folder).iterdir())
    found = (match[1] for name in names if (match := _PASS.search(name)))
    return list(dict.fromkeys(found))[:MAX_PASSES]


# ---- versions of JAX --------------------------------------------------------------------


def versions_between(first: str, last: str) -> list[str]:
    """List the released versions of JAX from one to another, oldest first.

    Raises:
      KeepError: If the index cannot be asked, or one of the two is none of them.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", "jax"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    lines = [x for x in done.stdout.splitlines() if x.startswith("Available versions:")]
    if not lines:
        raise KeepError(f"cannot list the versions of JAX: {done.stderr.strip()}")
    known = [x.strip() for x in lines[0].partition(":")[2].split(",")][::-1]
    for version in (first, last):
        if version not in known:
            raise KeepError(
                f"{version} is no version of JAX for this Python; the newest are "
                f"{', '.join(known[-5:])}"
            )
    start, end = known.index(first), known.index(last)
    return known[min(start, end) : max(start, end) + 1]


def first_failing(
    versions: Sequence[str], ask: Callable[[str], Finding]
) -> tuple[str, list[Finding]]:
    """Find where a failure begins, or ends, by bisection.

    Versions of which nothing can be told, as they cannot be installed or run here, are
    left out.

    Args:
      versions: Oldest first.
      ask: Runs the program with a version.

    Returns:
      A sentence, and what was asked on the way.
    """
    left = list(versions)
    asked: dict[str, Finding] = {}

    def verdict(version: str) -> str:
        if version not in asked:
            asked[version] = ask(version)
        return asked[version].verdict

    ends = left[0], left[-1]
    unknown = [version for version in ends if verdict(version) == UNKNOWN]
    if unknown:
        sentence = f"Nothing can be told with jax {' and '.join(unknown)}."
        return sentence, _in_order(versions, asked)
    before, after = (verdict(version) == FAILS for version in ends)
    if before == after:
        said = (
            "fails with both jax {} and" if before else "fails with neither jax {} nor"
        )
        return f"It {said.format(ends[0])} {ends[1]}.", _in_order(versions, asked)
    low, high = 0, len(left) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if verdict(left[middle]) == UNKNOWN:
            del left[middle]
            high -= 1
        elif (verdict(left[middle]) == FAILS) == before:
            low = middle
        else:
            high = middle
    now = verdict(left[high])
    sentence = (
        f"It {now} since jax {left[high]} (it {verdict(left[low])} with {left[low]})."
    )
    return sentence, _in_order(versions, asked)


def _in_order(versions: Sequence[str], asked: dict[str, Finding]) -> list[Finding]:
    return [asked[version] for version in versions if version in asked]


def with_version(asking: Asking, version: str) -> Finding:
    """Install a version of JAX in a temporary environment and run the program there."""
    where = f"jax {version}"
    with tempfile.TemporaryDirectory(prefix="untrace-") as folder:
        venv.create(folder, with_pip=True)
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        python = str(Path(folder, scripts, "python"))
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            f"jax=={version}",
            "jaxlib",
        ]
        done = subprocess.run(
            install, capture_output=True, text=True, timeout=INSTALL_S
        )
        if done.returncode:
            lines = done.stderr.splitlines()
            said = [line for line in lines if line.startswith("ERROR:")]
            return Finding(where, UNKNOWN, (said or ["pip failed"])[-1])
        return asking.ask(where, python=python)
