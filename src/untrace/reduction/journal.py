"""The journal: a folder that always holds the best program so far.

`best-N.py` (with its sidecar) is a complete program; `journal.json` names the newest
one and says what is being kept; `events.jsonl` has a line for every judged candidate;
`other-N.py` are the smallest programs that failed in another way, written at the end.
Files appear complete or not at all, and the old program is deleted only after the new
one is named, so that a process killed at any moment leaves a folder to go on from.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from untrace.errors import LoadError, SaveError, UntraceError
from untrace.printable import printable
from untrace.reduction.program import Program
from untrace.reduction.writing import written
from untrace.result import write_text

FORMAT = 1


@dataclass
class Journal:
    """Keeps the state of a reduction in a folder.

    Attributes:
      folder: Where; made if it is not there.
      facts: What `journal.json` says beside the name of the best program.
      trouble: The last error of writing, or "" (a full disk does not end a reduction).
    """

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    _number: int = 0
    _best: str = ""

    def start(self, facts: dict[str, Any], program: Program) -> None:
        """Begin with the whole program.

        Raises:
          SaveError: If the folder cannot be written.
        """
        self.facts = facts
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SaveError(
                f"cannot make the folder {self.folder}: {error.strerror or error}. "
                "Choose another one."
            ) from error
        self._write(program)

    def keep(self, program: Program, facts: dict[str, Any]) -> None:
        """Write a better program; should that fail, remember why and go on."""
        self.facts |= facts
        try:
            self._write(program)
            self.trouble = ""
        except (OSError, SaveError) as error:
            self.trouble = str(error)

    def set_aside(self, others: Mapping[str, Program]) -> None:
        """Write the programs that fail in another way, each with what it does."""
        for number, (label, program) in enumerate(others.items(), 1):
            source = replace(
                written(program), title=printable(f"Another failure: {label}")
            )
            with contextlib.suppress(OSError, UntraceError):
                source.save(self.folder / f"other-{number}.py")

    def note(self, kind: str, facts: dict[str, Any]) -> None:
        """Append an event."""
        line = json.dumps({"event": kind, **facts})
        with contextlib.suppress(OSError), self._events().open("a") as file:
            file.write(line + "\n")

    def _write(self, program: Program) -> None:
        # A process killed while it wrote may have left the sidecar of a program alone.
        while (self.folder / f"best-{self._number + 1}.safetensors").exists():
            self._number += 1
        name = f"best-{self._number + 1}.py"
        written(program).save(self.folder / name)
        text = json.dumps({"format": FORMAT, "best": name, **self.facts}, indent=1)
        write_text(self.folder / "journal.json", text + "\n")
        old, self._best, self._number = self._best, name, self._number + 1
        if old:
            for suffix in (".py", ".safetensors"):
                (self.folder / old).with_suffix(suffix).unlink(missing_ok=True)

    def _events(self) -> Path:
        return self.folder / "events.jsonl"

    # ---- going on --------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path) -> Journal:
        """Open the journal of a reduction that was interrupted.

        Raises:
          LoadError: If there is none, or it cannot be read.
        """
        path = folder / "journal.json"
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            best, number = facts.pop("best"), facts.pop("format")
            count = int(best.removeprefix("best-").removesuffix(".py"))
        except FileNotFoundError:
            raise LoadError(
                f"{folder} holds no journal.json: give the folder that a reduction named "
                "when it began."
            ) from None
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise LoadError(f"cannot read {path}: {error}.") from error
        if number != FORMAT:
            raise LoadError(f"{path} was written by another version of untrace.")
        if best != f"best-{count}.py":  # never a path out of the folder
            raise LoadError(f"cannot read {path}: {best!r} is not one of its programs.")
        return cls(folder, facts, "", count, best)

    @property
    def best(self) -> Path:
        """Return the path of the best program."""
        return self.folder / self._best

    def verdicts(self) -> Iterator[tuple[str, bool]]:
        """Read what is known of candidates; a last line cut short is passed over."""
        try:
            lines = self._events().read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        for line in lines:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event.get("event") == "judged":
                    yield str(event["digest"]), bool(event["verdict"])
