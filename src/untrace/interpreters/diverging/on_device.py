"""Compute the equations of a program on one device."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import jax

from untrace import jaxapi
from untrace.errors import CallError
from untrace.interpreters.evaluate import Step
from untrace.interpreters.sub_programs import is_traced


def device_of(name: Any) -> Any:
    """Find a device.

    Args:
      name: A device of JAX, or the name of a platform, with a number if it is not the
        first: "cpu", "gpu:1".

    Raises:
      CallError: If there is none such.
    """
    if not isinstance(name, str):
        if not isinstance(name, jax.Device):
            raise CallError(
                f"{name!r} is no device: give two such as jax.devices()[0], or names such "
                'as "cpu" and "gpu:1".'
            )
        return name
    platform, _, number = name.partition(":")
    try:
        found = jax.devices(platform)
    except RuntimeError as error:
        here = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise CallError(
            f"there is no platform {platform!r} here; JAX has {here} and cpu."
        ) from error
    index = int(number) if number.isdecimal() and len(number) < 6 else not number and 0
    if index is False or index >= len(found):
        raise CallError(
            f"there is no device {name!r}: {platform} has those from {platform}:0 to "
            f"{platform}:{len(found) - 1}."
        )
    return found[index]


class OnDevice:
    """Computes equations on a device.

    Args:
      device: The device.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._refs: dict[int, tuple[Any, Any]] = {}

    @property
    def label(self) -> str:
        """What the device is called."""
        return f"{self._device.platform}:{self._device.id}"

    @contextlib.contextmanager
    def context(self) -> Generator[None, None, None]:
        """Enter a run: new arrays are on the device, and mutable ones have copies there."""
        self._refs.clear()
        with jax.default_device(self._device):
            yield

    def __call__(self, step: Step, *operands: Any) -> Any:
        """Compute an equation that has no sub-programs, with its operands on the device."""
        return step.bind(*[self._moved(operand) for operand in operands])

    def _moved(self, value: Any) -> Any:
        if is_traced([value]):
            return value
        if jaxapi.is_ref(value):
            return self._copied(value)
        is_elsewhere = isinstance(value, jax.Array) and value.devices() != {
            self._device
        }
        return jax.device_put(value, self._device) if is_elsewhere else value

    def _copied(self, ref: Any) -> Any:
        """Return the copy that stands for a mutable array in this run."""
        if id(ref) not in self._refs:
            content = jaxapi.ref_content(ref)
            if content.devices() == {self._device}:
                return ref
            moved = jax.device_put(content, self._device)
            self._refs[id(ref)] = ref, jax.new_ref(moved)
        return self._refs[id(ref)][1]
