"""`untrace inverse`: the source of a function that is run backwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from untrace.cli.calls import taken
from untrace.cli.messages import explained
from untrace.cli.sources import deliver
from untrace.cli.status import Status


@click.command()
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.option(
    "--argnum",
    "argnums",
    type=int,
    multiple=True,
    metavar="N",
    help="Solve for this argument, given the others; may be given several times.",
)
@click.option("--log-det", is_flag=True, help="Return log |det dx/dy|, too.")
@click.option(
    "--principal",
    is_flag=True,
    help="Invert what is not injective on its principal branch (sin, even powers).",
)
@click.option(
    "--check",
    is_flag=True,
    help="RUN the call, the inverse of what it returns, and the call again.",
)
@click.option(
    "--level",
    type=click.Choice(["api", "lax"]),
    help="Calls (api, the default), or one statement per equation (lax).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Save here instead of printing.",
)
def inverse(
    target: str,
    call: str | None,
    argnums: tuple[int, ...],
    log_det: bool,
    principal: bool,
    check: bool,
    level: str | None,
    output: str | None,
) -> None:
    """Print the source of the inverse of a function.

    \b
    untrace inverse model.py 'flow(x)'
    untrace inverse model.py 'flow(params, x)' --argnum 1 --log-det
    untrace inverse saved.py

    The call is evaluated as by `untrace show`: its function is traced and not run. The
    inverse takes what it returns, then the arguments that are not wanted. A file that
    untrace saved needs no call; it is EXECUTED.

    Exit status: 0 verified, 1 a difference, 2 not invertible, or trouble.
    """
    from untrace.api import source
    from untrace.interpreters import inverse as tools
    from untrace.interpreters.programs import program_of

    function, args, kwargs = taken(target, call)
    with Status() as status, explained(call or target):
        program = program_of(function)
        if program.examples and not args:
            args, kwargs = program.examples, program.keywords
        wanted = [n % max(len(args), 1) for n in argnums] or range(len(args))
        results = _results(program.function, args, kwargs, check)
        is_split = type(results) is tuple and len(results) == len(wanted)
        given = list(results) if is_split else [results]
        given += [arg for i, arg in enumerate(args) if i not in wanted]
        tool = tools.inverse_and_log_det if log_det else tools.inverse
        inverted = tool(
            program.function,
            *args,
            argnums=argnums or None,
            principal=principal,
            check=check,
        )
        if check:
            status.update("checking")
            inverted(*given, **kwargs)
        src = source(inverted, level=level, progress=status.update)(*given, **kwargs)
    deliver(src, output)


def _results(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], is_run: bool
) -> Any:
    """Return what a function returns, or its types."""
    from untrace.interpreters.inverting.tracing import traced

    if is_run:
        return function(*args, **kwargs)
    found = traced(function, args, kwargs)
    return found.result.unflatten(found.types)
