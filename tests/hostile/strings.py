"""Strings that try to get out of where they are written: the same 2,000 in every run.

Were one of them executed, or the text of a subclass that is shown by its own `repr`,
there would be a file `CANARY` in the working directory.
"""

import builtins
import keyword
import random

CANARY = "CANARY"
PAYLOAD = f"open('{CANARY}', 'w').close()"
N_STRINGS = 2000

_AROUND = [
    "{}",
    '"+{}+"',
    "'+{}+'",
    '"""\n{}\n"""',
    "'''\n{}\n'''",
    "\n{}\n",
    "\r{}\r",
    "\u2028{}\u2029",
    "\x0c{}\x85",
    "#\n{}",
    "x  # \r\n{}",
    '"); {}; ("',
    '"]; {}; d["',
    "'); {}; ('",
    "{{{}}}",
    "{{{}!r}}",
    '{{x}}" + {} + f"',
    "\\{}",
    '\\"+{}+\\"',
    "\\'+{}+\\'",
    "\\N{{DASH}}{}",
    "a={},\n    c",
    "a: object = {}\n    b",
    "lambda: {}",
    "x=({})",
    "x:={}",
    "*{}",
    "**{}",
    "%s%({})r",
    "x\n\nFingerprint of `f` on jax 0.0:\n" + "0" * 64 + "\n\n{}",
    "`{}`",
    "</pre><script>{}</script>",
    "\x1b[2J\x1b]0;{}\x07",
    "../../{}",
    "C:\\{}",
    "0{}",
    " {} ",
    "_{}",
    "__{}__",
]
_CHARACTERS = [
    *map(chr, range(0x21)),
    *map(chr, range(0x7F, 0xA1)),
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\ufeff",
    *"\u2028\u2029\ud800\udbff\udc00\udfff\ue000\uffff\U0010ffff\u0301\u00ad\u115f\u3164",
    *"\ufb01\uff41\u212f\u00aa\u0131\u03bb\u4e2d\U0001d400\U0001f600\u0661\u00b2",
    *"\"'`#%{}()[]\\/:;,.=*@!~ ",
]
_WORDS = [
    *keyword.kwlist,
    *keyword.softkwlist,
    *dir(builtins),
    *("jax", "jnp", "np", "main", "self", "example_args", "tracing_context", "_", "__"),
    *("load_arrays", "CONSTANTS", "NamedTuple", "Any", "x_p", "_fields", "_replace"),
    *("f", "x", "d", "count", "index", "name", "args", "kwargs", "ordered", "fmt"),
    *("__class__", "__init__", "__getattr__", "__untrace_stand_in__", "mro", ""),
    *(
        "_class",
        "_if",
        "__def",
        "2x",
        "_2x",
        "a b",
        "a_b",
        "a-b",
        "sidecar.safetensors",
    ),
]
_LONG = [
    "x" * 10_000,
    '"' * 10_000,
    "\\" * 10_001,
    "\n" * 5_000,
    "\u202e" * 3_000,
    f"{PAYLOAD}; " * 300,
    "\\\"'\n" * 2_500,
]


def _strings() -> list[str]:
    draw = random.Random(0)
    found = dict.fromkeys([*_LONG, *_WORDS, *_CHARACTERS])
    found.update(dict.fromkeys(around.format(PAYLOAD) for around in _AROUND))
    while len(found) < N_STRINGS:
        parts = [
            draw.choice(_WORDS),
            draw.choice(_CHARACTERS),
            draw.choice(_AROUND).format(draw.choice([PAYLOAD, *_WORDS])),
            draw.choice(_CHARACTERS),
        ]
        draw.shuffle(parts)
        found["".join(parts[: draw.randint(1, 4)])] = None
    strings = list(found)[:N_STRINGS]
    draw.shuffle(strings)
    return strings


STRINGS = _strings()


class Disguised(str):
    """A string that shows itself as code, and says that it is a name."""

    def __repr__(self) -> str:
        return PAYLOAD

    def __str__(self) -> str:
        return PAYLOAD

    def __format__(self, spec: str) -> str:
        return PAYLOAD

    def isidentifier(self) -> bool:
        return True

    def isprintable(self) -> bool:
        return True


def sample(n: int, salt: int = 0) -> list[str]:
    """Choose strings, disguised ones among them."""
    draw = random.Random(salt)
    chosen = draw.sample(STRINGS, n)
    return [Disguised(s) if i % 7 == 3 else s for i, s in enumerate(chosen)]
