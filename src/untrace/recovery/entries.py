"""The frames that are being recorded."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from untrace import jaxapi
from untrace.recovery.kinds import Own
from untrace.recovery.record import Bind, Body, Call


@dataclass(eq=False)
class Entry:
    """A frame that is being recorded.

    Attributes:
      code: The code that it runs.
      call: The opaque call that it belongs to, if it does.
      body: The run that it is, if that is recorded.
      expected: What may count in it, by the `id` of the code; None stands for everything.
      own: The function of the user or a framework that it runs.
      is_idle: Whether JAX has not been called in the function of a library that it runs.
      is_waiting: Whether it has not been looked at what the function was given, or runs of
        what is mapped over a tree are left out.
      is_tree: Whether it is a call of one of JAX's functions on trees, or a run of what
        is mapped there. What only calls these is idle: it is written as what they do.
      bind: The primitive that it binds.
      mapped: What is mapped over a tree, if something is, as in `expected`.
      leave: Ends what was begun with it.
      start: How much had been bound when it began.
      seen: How much had been when the last function that it was given returned.
    """

    frame: types.FrameType
    code: types.CodeType
    call: Call | None
    body: Body | None
    expected: Mapping[int, Any] | None
    # The others are attributes of the class until they are set, which is cheaper.
    own: Own | None = field(default=None, init=False)
    is_idle: bool = field(default=False, init=False)
    is_waiting: bool = field(default=False, init=False)
    is_tree: bool = field(default=False, init=False)
    is_first: bool = field(default=False, init=False)
    trace: Any = field(default=None, init=False)
    axes: Any = field(default=None, init=False)
    leave: Callable[[], None] | None = field(default=None, init=False)
    start: int = field(default=0, init=False)
    seen: int = field(default=0, init=False)
    bind: Bind | None = field(default=None, init=False)
    around: Body | None = field(default=None, init=False)
    mapped: Mapping[int, Any] | None = field(default=None, init=False)
    setting: jaxapi.Setting = field(default=(), init=False)
