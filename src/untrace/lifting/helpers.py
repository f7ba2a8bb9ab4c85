"""Small functions that a generated module defines when it needs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """Source of a helper (its name is the key in `HELPERS`) and what it imports."""

    source: str
    imports: tuple[str, ...] = ()


HELPERS: dict[str, Helper] = {
    "named": Helper(
        '''\
def named(name):
    """Set the name under which JAX knows a function."""

    def rename(function):
        function.__name__ = name
        return function

    return rename
'''
    ),
    "check_failed": Helper(
        '''\
def check_failed(
    failed, message, *args, code=np.int32(0), number=0, debug=False, **kwargs
):
    """Do what `checkify.check(~failed, message, ...)` does, but for the negation."""
    from jax._src import checkify

    exception = checkify.FailedCheckError(
        checkify.get_traceback(), message, *args, **kwargs
    )
    effect = exception.get_effect_type()
    payload, kind = jax.tree.flatten(exception)
    error = checkify.Error(
        {effect: failed}, {effect: code}, {number: kind}, {effect: payload}
    )
    leaves, tree = jax.tree.flatten(error)
    checkify.check_p.bind(*leaves, err_tree=tree, debug=debug)
''',
        ("jax", "numpy"),
    ),
}
