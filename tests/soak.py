"""Many threads that recover programs, call each other's, fail and are interrupted.

`python -m tests.soak --threads 8 --programs 200` prints how long it took and what is left
in memory. Everything is compared with what one thread got alone.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse  # noqa: F401  (adds a filter of warnings when JAX first imports it)

import untrace
from tests.corpus.documented import basics, derivatives, models  # noqa: F401  (register)
from tests.corpus.registry import PROGRAMS, Program

X = np.ones(3, np.float32)
# CPython 3.11 spins in a profiled function for as long as another thread has an interrupt
# to come. If that one waits for a lock which the profiled function holds, both wait for ever.
CAN_INTERRUPT = sys.version_info >= (3, 12)
RAISES = (KeyboardInterrupt, ZeroDivisionError)


def settings() -> dict[str, Any]:
    """Return what stages change while they run, and other threads would notice."""
    monitoring = getattr(sys, "monitoring", None)
    return {
        "recursion limit": sys.getrecursionlimit(),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "profile": sys.getprofile(),
        "tools": [monitoring.get_tool(n) for n in range(6)] if monitoring else [],
        "warnings": list(warnings.filters),
        "modules": {name for name in sys.modules if name.startswith("_untrace_")},
        "jax": dict(jax.config.values),
    }


def chosen(n: int) -> list[Program]:
    """Choose programs evenly from the documented ones."""
    known = list(PROGRAMS.values())
    return [known[i * len(known) // n] for i in range(n)]


def recovered(program: Program) -> str:
    """Return the text of a program, or how it is refused."""
    with program.context():
        try:
            return str(untrace.source(program.function)(*program.args))
        except Exception as error:
            return f"{type(error).__name__}"


def around(inside: Callable[[], Any]) -> str:
    """Return the text of a function that does something else while it is traced."""

    def outer(x: Any) -> Any:
        y = jnp.sin(x)
        inside()
        return y * 2.0

    return str(untrace.source(outer)(X))


@dataclass
class Soak:
    """A run: what each text is to be, and what went wrong."""

    programs: list[Program]
    n_threads: int
    interrupted_every_s: float = 0.01
    alone: dict[str, str] = field(default_factory=dict[str, str])
    wrong: list[str] = field(default_factory=list[str])
    n_interrupts: int = 0
    done: bool = False

    def __post_init__(self) -> None:
        self.alone = {p.name: recovered(p) for p in self.programs}
        self.outer = around(lambda: None)

    def run(self) -> None:
        """Let all threads go through all programs, each in its own order."""
        threads = [
            threading.Thread(target=self._worker, args=(seed,))
            for seed in range(self.n_threads)
        ]
        for thread in threads:
            thread.start()
        rng = random.Random(0)
        while any(thread.is_alive() for thread in threads):
            time.sleep(rng.uniform(0, 2 * self.interrupted_every_s))
            self._interrupt(rng.choice(threads))
        for thread in threads:
            thread.join()

    def _interrupt(self, thread: threading.Thread) -> None:
        if CAN_INTERRUPT and thread.ident in self.interruptible:
            key = ctypes.c_ulong(thread.ident or 0)
            error = ctypes.py_object(KeyboardInterrupt)
            self.n_interrupts += 1
            ctypes.pythonapi.PyThreadState_SetAsyncExc(key, error)

    interruptible: set[int] = field(default_factory=set[int])

    def _worker(self, seed: int) -> None:
        rng = random.Random(seed)
        programs = rng.sample(self.programs, len(self.programs))
        for number, program in enumerate(programs):
            try:
                self._one(program, number)
            except BaseException as error:  # nothing may get lost in a thread
                self.wrong.append(f"{program.name}: {error!r}")

    def _one(self, program: Program, number: int) -> None:
        if number % 4 == 1:
            self._nested(program)
        elif number % 4 == 2:
            self._failing(program)
        elif number % 4 == 3:
            self._interrupted(program)
        self._expect(program.name, recovered(program), self.alone[program.name])

    def _expect(self, name: str, found: str, wanted: str) -> None:
        if found != wanted:
            self.wrong.append(f"{name}:\n{wanted}\nis\n{found}")

    def _nested(self, program: Program) -> None:
        texts: list[str] = []

        def inside() -> None:
            texts.append(around(lambda: texts.append(recovered(program))))

        self._expect("outer", around(inside), self.outer)
        self._expect("outer", texts[1], self.outer)
        self._expect(program.name, texts[0], self.alone[program.name])

    def _failing(self, program: Program) -> None:
        for raised in RAISES:

            def fail(raised: type[BaseException] = raised) -> None:
                recovered(program)
                raise raised

            try:
                around(fail)
                self.wrong.append(f"{program.name}: no {raised.__name__}")
            except RAISES:
                pass

    def _interrupted(self, program: Program) -> None:
        """Be interrupted anywhere, or not at all."""
        me = threading.get_ident()
        try:
            try:
                self.interruptible.add(me)
                recovered(program)
            finally:
                self.interruptible.discard(me)
                for _ in range(100):  # what was sent arrives here
                    pass
        except KeyboardInterrupt:
            self.interruptible.discard(me)


def left() -> tuple[int, float]:
    """Return how many objects are left, and the resident memory in MB."""
    jax.clear_caches()
    for _ in range(3):
        gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return len(gc.get_objects()), pages * 4096 / 1e6


def rounds(n_threads: int, n_programs: int, n_rounds: int) -> Iterator[Soak]:
    """Yield runs after they ended, over the same programs."""
    for _ in range(n_rounds):
        soak = Soak(chosen(n_programs), n_threads)
        soak.run()
        yield soak


def main() -> None:
    """Run it and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    untrace.source(jnp.sin)(X)
    before, began = settings(), time.perf_counter()
    for soak in rounds(options.threads, options.programs, options.rounds):
        seconds = time.perf_counter() - began
        n_objects, resident_mb = left()
        print(
            f"{seconds:.0f} s, {soak.n_interrupts} interrupts, "
            f"{n_objects} objects, {resident_mb:.0f} MB; {len(soak.wrong)} wrong"
        )
        print("\n".join(soak.wrong[:3]))
        for name, value in settings().items():
            if value != before[name]:
                print(f"changed: {name}: {before[name]} -> {value}")


if __name__ == "__main__":
    main()
