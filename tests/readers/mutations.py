"""Mutated texts of jaxprs: each gives a jaxpr or a `ParseError`, and soon.

    python -m tests.readers.mutations --characters 1000000 --seed 7

ends when a million characters were changed, cut off or put in.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time
import traceback
import warnings
from collections.abc import Iterator

from tests.readers.pasted import pasted
from tests.readers.printed_texts import RELEASES, texts
from tests.readers.test_printed_functions import DROPPED, HOST, RANGE, RULE
from tests.readers.test_printed_kernels import KERNEL
from tests.readers.test_printed_shard_maps import TEXT, VARYING
from untrace import ParseError, parse

CHARACTERS = "abcxyz0123456789 \n\t{}[]()<>=:;,.'\"\\_-+*#~@^é\0"
WORDS = (
    *(
        "{ lambda ",
        "let ",
        " in (",
        "f32[",
        ":f32[]",
        "inf",
        "nan",
        "None",
        "key<fry>[]",
    ),
    *(
        "[...]",
        "<-",
        "+=",
        "Ref{f32[8]}",
        "1e999",
        "-1",
        "jaxpr=",
        "name=",
        "99999999999",
    ),
    *("f64[3]", "f32[b, 2*b]", "f32[b^99]", "GatherScatterMode.CLIP", "PyTreeDef(*)"),
)

FURTHER = (DROPPED, HOST, RANGE, RULE, TEXT, VARYING, KERNEL)


def originals() -> list[str]:
    """Return the texts that are mutated: shorter ones, of all releases and threads."""
    printed = [text for release in RELEASES for _, text in texts(release)]
    shown = [each.text for each in pasted()]
    return [text for text in (*shown, *printed, *FURTHER) if len(text) < 1500]


def mutated(seed: int) -> Iterator[tuple[str, int]]:
    """Yield texts with a few characters, words or stretches changed, and how many."""
    random_ = random.Random(seed)
    known = originals()
    while True:
        text, n_changed = random_.choice(known), 0
        for _ in range(random_.choice((1, 1, 2, 4))):
            before, text = text, _changed(text, random_, known)
            n_changed += _n_changed(before, text)
        yield text, n_changed


def _n_changed(before: str, after: str) -> int:
    shorter, longer = sorted((before, after), key=len)
    start = _n_equal(shorter, longer)
    end = _n_equal(shorter[start:][::-1], longer[start:][::-1])
    return len(longer) - start - end


def _n_equal(shorter: str, longer: str) -> int:
    pairs = enumerate(zip(shorter, longer))
    return next((i for i, (a, b) in pairs if a != b), len(shorter))


def _changed(text: str, random_: random.Random, known: list[str]) -> str:
    start = random_.randrange(len(text) + 1)
    end = min(len(text), start + random_.choice((1, 1, 2, 5, 40)))
    kind = random_.randrange(7)
    if kind == 0:
        return text[:start] + text[end:]
    if kind == 1:
        return text[:start] + random_.choice(CHARACTERS) + text[end:]
    if kind == 2:
        return text[:start] + random_.choice(WORDS) + text[start:]
    if kind == 3:
        return text[:start]
    if kind == 4:
        return text[:end] + text[start:end] + text[end:]
    if kind == 5:
        other = random_.choice(known)
        place = random_.randrange(len(other))
        return text[:start] + other[place : place + 60] + text[end:]
    lines = text.split("\n")
    place = random_.randrange(len(lines))
    return "\n".join([*lines[:place], *lines[place + 1 :], lines[place]])


def main() -> None:
    """Count what comes of mutated texts; show every other exception."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    slowest, n_characters, n_changed = 0.0, 0, 0
    warnings.simplefilter("ignore")
    for text, changed in mutated(options.seed):
        if n_changed >= options.characters:
            break
        n_changed += changed
        n_characters += len(text)
        start = time.perf_counter()
        try:
            parse(text)
            counts["jaxpr"] += 1
        except ParseError as error:
            counts["ParseError"] += 1
            assert error.line >= 1 and error.column >= 1
        except BaseException as error:
            counts[type(error).__name__] += 1
            print(repr(text))
            traceback.print_exc(limit=-4)
        slowest = max(slowest, time.perf_counter() - start)
    print(
        f"{n_changed} characters of {n_characters} changed: {dict(counts)}; "
        f"slowest: {slowest:.2f} s"
    )
    sys.exit(bool(counts.keys() - {"jaxpr", "ParseError"}))


if __name__ == "__main__":
    main()
