"""Reduce failures of issue trackers as a user would, and print what came out.

    python -m benchmarks.reduce.reported [NAME ...] [--max-seconds N] [--keep-files FOLDER]

Each is the program of an issue of the last two years, written anew, with some of what
may have stood around it. `untrace reduce FILE CALL` runs in a process of its own, without
`--keep`. For each: the predicate that was found, equations before and after, seconds,
lines of the file, and the exit status of the file alone.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).parent
HEADER = ("failure", "kept", "equations", "left", "time", "lines", "status alone")


def names() -> list[str]:
    """List the failures."""
    return sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


def call_of(name: str) -> str:
    """Return the call that fails, which the file names."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CALL":
            return str(ast.literal_eval(node.value))
    raise LookupError(f"{name} names no CALL")


def row(name: str, max_seconds: float, folder: Path) -> list[str]:
    """Reduce one failure; the cells of the table."""
    target = folder / f"{name}.py"
    command = [sys.executable, "-m", "untrace", "reduce", str(FOLDER / f"{name}.py")]
    command += [call_of(name), "-o", str(target), "--max-seconds", str(max_seconds)]
    command += ["--journal", str(folder / f"{name}-journal")]
    environment = {**os.environ, "COLUMNS": "1000"}
    started = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    seconds = time.monotonic() - started
    if done.returncode:
        return [name, done.stderr.strip().splitlines()[0], "", "", f"{seconds:.0f} s"]
    kept = re.search(r"^pinned: (.*)$", done.stderr, re.MULTILINE)
    sizes = re.search(r"from ([\d,]+) to ([\d,]+) equation", done.stderr + done.stdout)
    alone = subprocess.run(
        [sys.executable, str(target)], capture_output=True, check=False
    )
    return [
        name,
        f"`{kept[1]}`" if kept else "",
        *(sizes.groups() if sizes else ("", "")),
        f"{seconds:.0f} s",
        str(len(target.read_text(encoding="utf-8").splitlines())),
        str(alone.returncode),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--max-seconds", type=float, default=600.0)
    parser.add_argument("--keep-files", type=Path)
    options = parser.parse_args()
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep_files or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.names or names():
            cells = row(name, options.max_seconds, folder)
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
