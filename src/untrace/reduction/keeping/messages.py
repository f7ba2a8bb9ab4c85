"""Patterns of messages: the same failure says other numbers in a smaller program.

`pattern` turns a message into a regular expression with numbers, shapes, types, names in
quotes, paths and addresses left open; `label` into a short text for people.
"""

from __future__ import annotations

import re
from collections.abc import Container

MAX_CHARS = 200

_DTYPE = r"(?:b?float\d+\w*|bf16|[fc]\d+|uint\d+|int\d+|[us]\d+|complex\d+|bool|pred)"
_CHANGING: tuple[tuple[str, str], ...] = (
    # what changes in a message, and the expression that stands for it
    (r"'[^'\n]*'", "'[^']*'"),
    (r'"[^"\n]*"', '"[^"]*"'),
    (r"`[^`\n]*`", "`[^`]*`"),
    (r"0x[0-9a-fA-F]+", "0x[0-9a-fA-F]+"),
    (r"(?:/[\w.+\-@]+){2,}(?::\d+)*", r"\S+"),
    (rf"\b{_DTYPE}<?\[[^\]\n]*\]>?(?:\{{[^}}\n]*\}})?", r"\S*\[[^\]]*\]\S*"),
    (rf"\b{_DTYPE}\b", r"\w+"),
    (r"%[\w.\-]+", r"%\S+"),
    (r"<\w+>", r"<\w+>"),
    (r"[\(\[\{][\d,.\s\-+:]*[\)\]\}]", r"[\(\[{][\d,.\s\-+:]*[\)\]}]"),
    (r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"),
)
_N_QUOTES = 3
_TENSOR = re.compile(r"(tensor<)(?:[\d?]+x)*(\w+>)")
_TELLING = re.compile(
    # dtypes, operations of dialects, classes
    rf"(?:\w+\.)*{_DTYPE}|(?:stablehlo|mhlo|chlo|sdy|arith|func|tpu|triton)\.\w+"
    r"|(?:[A-Za-z_]+\.)*_?[A-Z][a-z]+[A-Za-z]*"
)
_CHANGING_INSIDE = tuple(
    (found, "" if found == rf"\b{_DTYPE}\b" else by)
    for found, by in _CHANGING
    if "'[^" not in by
)
"""What changes in a sentence that stands in quotes; dtypes, for which "" stands, stay."""
_ANY_INSIDE = re.compile("|".join(f"({found})" for found, _ in _CHANGING_INSIDE))
_ANY = re.compile("|".join(f"({found})" for found, _ in _CHANGING))
_LAST_WORDS = (
    re.compile(
        r"Check failed|LLVM ERROR|Assertion|what\(\):|corrupted|free\(\)|malloc|"
        r"double free|stack smashing|^F\d{4} |[Uu]nreachable|UNREACHABLE"
    ),
    re.compile(r"Fatal|fatal error|terminate called|std::"),
)
_NOTES = re.compile(r"^-+$|^For simplicity, JAX has removed|^The above exception")
_LOG_PREFIX = re.compile(r"^[FEWI]\d{4} [\d:.]+\s+\d+ ")


def pattern(message: str, words: Container[str] = ()) -> str | None:
    """Return an expression for a message's telling line; None if it has no words.

    What stands in quotes may be a name that changes, such as that of a value. It stays
    where it names a dtype, an operation or a type.

    Args:
      message: What was said.
      words: Names that stay in quotes: those of the primitives in the program, ...

    >>> print(pattern("got `x` of type float32."))
    got `[^`]*` of type \\w+\\.
    """
    line = telling_line(message)
    if not re.search(r"[A-Za-z]{3}", line):
        return None
    return _generalised(line, words).replace(": ", r":\s+")


def _generalised(line: str, words: Container[str]) -> str:
    parts: list[str] = []
    end = 0
    for match in _ANY.finditer(line):
        parts.append(_escape(line[end : match.start()]))
        kind = (match.lastindex or 1) - 1
        is_quoted = kind < _N_QUOTES
        kept = _kept_in_quotes(match.group(), words) if is_quoted else None
        parts.append(kept or _CHANGING[kind][1])
        end = match.end()
    parts.append(_escape(line[end:]))
    return "".join(parts)


def _kept_in_quotes(text: str, words: Container[str]) -> str | None:
    """Return an expression for quoted words that name what fails; None for others."""
    quote, inner = text[0], text[1:-1]
    if inner in words or _TELLING.fullmatch(inner):
        return _escape(text)
    tensor = _TENSOR.fullmatch(inner)
    if tensor is not None:  # its sizes change
        return f"{quote}{tensor[1]}[^{quote}]*{tensor[2]}{quote}"
    if len(inner.split()) > 2:  # a message in a message
        return f"{quote}{_sentence(inner)}{quote}"
    return None


def _sentence(text: str) -> str:
    parts: list[str] = []
    end = 0
    for match in _ANY_INSIDE.finditer(text):
        parts.append(_escape(text[end : match.start()]))
        changed = _CHANGING_INSIDE[(match.lastindex or 1) - 1][1]
        parts.append(changed or _escape(match.group()))
        end = match.end()
    return "".join([*parts, _escape(text[end:])])


def label(message: str) -> str:
    """Return a message's telling line with all that changes left out."""
    return _ANY.sub("…", telling_line(message))


def last_words(stderr: str) -> str:
    """Return the line of a dead process's stderr that says why, or ""."""
    lines = [line.strip() for line in stderr.splitlines()]
    for words in _LAST_WORDS:
        telling = [line for line in lines if words.search(line)]
        if telling:
            return _LOG_PREFIX.sub("", telling[-1])
    return ""


def telling_line(message: str) -> str:
    """Return the line that says most, shortened.

    That is the first one, with the next if it ends in a colon; of a message that holds
    a traceback, as those of host callbacks do, the last.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    lines = [line for line in lines if not _NOTES.search(line)]
    if not lines:
        return ""
    if any(line.endswith("Traceback (most recent call last):") for line in lines):
        return lines[-1][:MAX_CHARS]
    has_more = lines[0].endswith(":") and len(lines) > 1
    return (f"{lines[0]} {lines[1]}" if has_more else lines[0])[:MAX_CHARS]


def _escape(text: str) -> str:
    """Escape what is special, but not blanks: people read these expressions."""
    return re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", text)
