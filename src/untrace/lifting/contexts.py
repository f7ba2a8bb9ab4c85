"""Write the context managers under which equations, and whole programs, were traced."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Equation
from untrace.jaxapi import written
from untrace.lifting.lifter import Lifter
from untrace.syntax.names import is_name

IN_CONTEXT = "Call it within `tracing_context()`, in which it was traced."
"""What the header of a file with a context says."""


def managers(context: Any, ambient: Any, lifter: Lifter) -> list[str]:
    """List the `with` items that turn the ambient context into `context`."""
    if context is ambient:
        return []
    now, before = jaxapi.context_fields(context), jaxapi.context_fields(ambient)
    items: list[str] = []
    for field, value in now.items():
        if value == before.get(field):
            continue
        if field == "xla_metadata":
            value = _added(value, before.get(field))
        items.append(WRITERS[field](value, lifter))
    return items


def entered(
    setting: jaxapi.Setting, around: jaxapi.Setting, lifter: Lifter
) -> tuple[str, ...]:
    """List the `with` items that turn the settings around a call into its own."""
    items: list[str] = []
    if setting == around:
        return ()
    for field, value, before in zip(jaxapi.SETTINGS, setting, around):
        if value == before or (field, value) in jaxapi.STRICTER:
            continue
        if field == "xla_metadata":
            value = _added(dict(value or ()), dict(before or ()))
        if field == "scopes":
            items += [_scope(name, lifter) for name in _entered_scopes(value, before)]
        else:
            items.append(WRITERS[field](value, lifter))
    return tuple(items)


def named_scope(eqn: Equation, lifter: Lifter) -> list[str]:
    """List the `with` item that gives an equation its name scope, if it has one."""
    names = jaxapi.scope_names(eqn.source_info)
    return [_scope("/".join(names), lifter)] if names else []


def _scope(name: str, lifter: Lifter) -> str:
    return f"{lifter.imports.module('jax')}.named_scope({lifter.spell(name)})"


def _entered_scopes(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes that are entered inside of others; all where a new trace has none."""
    return now[len(before) :] if now[: len(before)] == before else now


def ambient_managers(lifter: Lifter) -> list[str]:
    """List the `with` items that turn the state of a new process into the present one.

    That of 64-bit types is none of them: the functions of the module enter it.
    """
    now, plain = jaxapi.context_fields(jaxapi.ambient_context()), jaxapi.DEFAULT_CONTEXT
    mesh, legacy = jaxapi.ambient_mesh(), jaxapi.legacy_mesh()
    items: list[str] = []
    for field, value in now.items():
        if value == plain.get(field):
            continue
        if (
            field == "cur_abstract_mesh"
            and mesh is not None
            and mesh.abstract_mesh == value
        ):
            items.append(
                f"{lifter.imports.module('jax')}.set_mesh({lifter.spell(mesh)})"
            )
        else:
            items.append(WRITERS[field](value, lifter))
    items += _ambient_settings(now, lifter)
    if not legacy.empty:
        items.append(lifter.spell(legacy))
    return items


def _ambient_settings(known: Container[str], lifter: Lifter) -> list[str]:
    """List the `with` items for settings that no equation has in its context."""
    setting = dict(zip(jaxapi.SETTINGS, jaxapi.current_setting()))
    items = [
        WRITERS[name](setting[name], lifter)
        for name, plain in jaxapi.MANAGERS.items()
        if setting[name] != plain
        and (name, setting[name]) not in jaxapi.STRICTER
        and name not in known
        and name != "enable_x64"
    ]
    private = jaxapi.private_managers()
    return [*items, *(_config(name)(v, lifter) for name, v in private.items())]


def settings_notes() -> tuple[str, ...]:
    """Say which settings a program is traced under, if not those of a clean process."""
    changed = [
        f"{name}={value!r}"
        for name, value in jaxapi.changed_settings().items()
        if (name, value) not in jaxapi.STRICTER
    ]
    return (f"Settings: {', '.join(changed)}.",) if changed else ()


def tracing_context(items: Sequence[str], lifter: Lifter) -> list[str]:
    """Write the function that enters the context in which a program was traced."""
    if not items:
        return []
    lifter.note(IN_CONTEXT)
    contextlib = lifter.imports.module("contextlib")
    return [
        f"@{contextlib}.contextmanager",
        "def tracing_context():",
        '    """Enter the context that this program is traced in."""',
        f"    with {', '.join(items)}:",
        "        yield",
    ]


def _added(metadata: Any, before: Any) -> Any:
    """Return the entries that an inner context adds to those of the outer one."""
    return {
        k: v
        for k, v in (metadata or {}).items()
        if (before or {}).get(k, _MISSING) != v
    }


_MISSING = object()


def _compute_on(value: Any, lifter: Lifter) -> str:
    name = lifter.imports.attribute(*jaxapi.COMPUTE_CONTEXT)
    return f"{name}({lifter.spell(value)})"


def _metadata(value: Any, lifter: Lifter) -> str:
    name = lifter.imports.attribute("jax.experimental.xla_metadata", "set_xla_metadata")
    items = value or {}
    if all(map(is_name, items)):
        texts = [f"{key}={lifter.spell(item)}" for key, item in items.items()]
        return f"{name}({', '.join(texts)})"
    return f"{name}(**{lifter.spell(dict(items))})"


def _manager(name: str) -> Callable[[Any, Lifter], str]:
    def write(value: Any, lifter: Lifter) -> str:
        return f"{lifter.imports.module('jax')}.{name}({lifter.spell(value)})"

    return write


def _disable_jit(value: Any, lifter: Lifter) -> str:
    return f"{lifter.imports.module('jax')}.disable_jit({'' if value else 'False'})"


def _mesh(value: Any, lifter: Lifter) -> str:
    return f"{lifter.imports.module('jax')}.sharding.use_abstract_mesh({lifter.spell(value)})"


def _config(option: str) -> Callable[[Any, Lifter], str]:
    def write(value: Any, lifter: Lifter) -> str:
        config = lifter.imports.attribute(*written.CONFIG)
        return f"{config}.{option}({lifter.spell(value)})"

    return write


def _layout_mode(value: Any, lifter: Lifter) -> str:
    name = lifter.imports.attribute(*written.LAYOUT_CONTEXT)
    return f"{name}({lifter.spell(value)})"


WRITERS: dict[str, Callable[[Any, Lifter], str]] = {
    **{name: _manager(name) for name in jaxapi.MANAGERS},
    "compute_type": _compute_on,
    "disable_jit": _disable_jit,
    "xla_metadata": _metadata,
    "cur_abstract_mesh": _mesh,
    "remove_size_one_mesh_axis": _config("remove_size_one_mesh_axis_from_type"),
    "no_collectives": _config("no_collectives"),
    "cur_layout_mode": _layout_mode,
}
