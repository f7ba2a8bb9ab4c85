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
from untrace.reduction.elsewhere import FAILS, FINE, Asking, Finding

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

    Args:
      versions: Oldest first.
      ask: Runs the program with a version.

    Returns:
      A sentence, and what was asked on the way.
    """
    asked = {version: ask(version) for version in (versions[0], versions[-1])}

    def fails(version: str) -> bool:
        if version not in asked:
            asked[version] = ask(version)
        return asked[version].verdict == FAILS

    low, high = 0, len(versions) - 1
    before, after = fails(versions[low]), fails(versions[high])
    if before == after:
        verb = "fails" if before else "does not fail"
        return f"It {verb} with both jax {versions[low]} and {versions[high]}.", [
            *asked.values()
        ]
    while high - low > 1:
        middle = (low + high) // 2
        if fails(versions[middle]) == before:
            low = middle
        else:
            high = middle
    word = "fails since" if after else "is fine since"
    sentence = f"It {word} jax {versions[high]} (asked last: {versions[low]})."
    return sentence, [asked[version] for version in versions if version in asked]


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
            said = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
            return Finding(where, "cannot be told", said[0])
        return asking.ask(where, python=python)
