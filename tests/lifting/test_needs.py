"""What of the results of calls a program has need for."""

from __future__ import annotations

from collections import Counter

from untrace.lifting.recorded.functions.needs import References, needs
from untrace.lifting.recorded.terms import Name
from untrace.recovery.record import Call


def test_a_call_returns_all_again_if_what_it_does_not_return_is_read() -> None:
    read, unread = (Call(None, (), {}, None) for _ in range(2))
    names = Name("lost"), Name("lost")
    paths = {names[0]: Counter([()])}
    # Neither is among the calls that are kept: a function is written once for several.
    references = References(lost=list(zip(names, (read, unread))), paths=paths)
    whole: set[Call] = set()
    assert needs(references, whole) == {}
    assert whole == {read}
