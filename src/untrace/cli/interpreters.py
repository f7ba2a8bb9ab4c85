"""`untrace diff`, `divergence`, `watch`, `nan-origin` and `watch-compiles`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from untrace.cli.calls import taken
from untrace.cli.messages import (
    DIFFERENT,
    VERIFIED,
    explained,
    fail,
    fail_in_user_code,
    say,
)
from untrace.cli.status import Status


@click.command()
@click.argument("before", metavar="FILE_A")
@click.argument("after", metavar="FILE_B")
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.argument("call_after", metavar="['G(X, Y)']", required=False)
@click.option(
    "-U",
    "--context",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="Statements to show around each that differs.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; only exit.")
def diff(
    before: str,
    after: str,
    call: str | None,
    call_after: str | None,
    context: int,
    quiet: bool,
) -> None:
    """Whether two programs are the same, and which statements differ.

    \b
    untrace diff old.py new.py 'train_step(params, batch)'
    untrace diff model.py model.py 'loss(params, x)' 'fast_loss(params, x)'
    untrace diff saved.py other_saved.py

    The call is evaluated in each file, as by `untrace show`: functions are traced and not
    run. A second call is for FILE_B. Without a call both are files that untrace saved,
    which are EXECUTED.

    Exit status: 0 equal or equivalent, 1 different, 2 trouble.
    """
    from untrace.comparing import Call, diff_calls

    calls: list[Call] = []
    for target, text in ((before, call), (after, call_after or call)):
        calls.append(Call(*taken(target, text)))
    with Status() as status:
        status.update("comparing")
        with explained(call or before):
            found = diff_calls(calls[0], calls[1], context)
    if not quiet:
        console = Console(highlight=False, soft_wrap=True)
        if console.is_terminal:
            console.print(found)
        else:
            click.echo(str(found))
    sys.exit(DIFFERENT if found.verdict == "different" else VERIFIED)


@click.command()
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.option("--name", "names", multiple=True, help="Names, as in a shell.")
@click.option(
    "--function", "functions", multiple=True, help="Functions that values come from."
)
@click.option("--line", "lines", multiple=True, type=int, help="Lines of your files.")
def watch(
    target: str,
    call: str | None,
    names: tuple[str, ...],
    functions: tuple[str, ...],
    lines: tuple[int, ...],
) -> None:
    """List the values that a call computes, and what each is like.

    \b
    untrace watch model.py 'loss(params, batch)' --name 'logits*'
    untrace watch saved.py

    The call is evaluated as by `untrace show`, but its function is traced and RUN, op by
    op. Without a call it is a file that untrace saved, which is EXECUTED. The options may
    be given several times; a value is listed by the name that it has in the recovered
    source (--level lax) or by that of your variable.
    """
    from untrace.interpreters.watch import watch as watching

    function, args, kwargs = taken(target, call)
    with explained(call or target):
        watched = watching(
            function, names=names or "*", functions=functions or "*", lines=lines
        )(*args, **kwargs)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(watched)
    else:
        click.echo(str(watched))


@click.command("nan-origin")
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.option(
    "--kind",
    type=click.Choice(["nan", "inf", "overflow"]),
    default="nan",
    show_default=True,
    help="What to look for.",
)
def nan_origin(target: str, call: str | None, kind: str) -> None:
    """Find the equation that first makes a NaN which reaches a result.

    \b
    untrace nan-origin model.py 'jax.grad(loss)(params, batch)'
    untrace nan-origin saved.py

    The call is evaluated as by `untrace show`, but its function is traced and RUN, two or
    three times. For a backward pass write the gradient. Without a call it is a file that
    untrace saved, which is EXECUTED.

    Exit status: 0 nothing is found, 1 it is found, 2 trouble.
    """
    from untrace.interpreters.nans.nan_origin import nan_origin as find

    function, args, kwargs = taken(target, call)
    with Status(), explained(call or target):
        found = find(function, kind=kind)(*args, **kwargs)
    if found is None:
        say("no NaN." if kind == "nan" else f"no {kind}.", "green")
        sys.exit(VERIFIED)
    click.echo(str(found))
    sys.exit(DIFFERENT)


@click.command()
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="'F(X, Y)'")
@click.option(
    "--against", metavar="'G(X, Y)'", help="Another program, also run op by op."
)
@click.option(
    "--dtype",
    type=click.Choice(["float16", "bfloat16", "float32", "float64"]),
    help="Compute the second run in this type.",
)
@click.option(
    "--float64", "dtype", flag_value="float64", help="The same as --dtype float64."
)
@click.option(
    "--devices",
    nargs=2,
    metavar="A B",
    help="Run on two devices or platforms, such as cpu gpu:1.",
)
@click.option(
    "--rtol",
    "--tolerance",
    "rtol",
    type=click.FloatRange(min=0),
    help="What is tolerated, relative; by default 64 units of the last place.",
)
@click.option(
    "--atol",
    type=click.FloatRange(min=0),
    default=0.0,
    help="What is tolerated besides.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE.svg",
    help="Draw how the error grows.",
)
def divergence(
    target: str,
    call: str,
    against: str | None,
    dtype: str | None,
    devices: tuple[str, str] | None,
    rtol: float | None,
    atol: float,
    plot: str | None,
) -> None:
    """Find the first value in which two runs part, and how the error grows.

    \b
    untrace divergence model.py 'loss(params, x)'
    untrace divergence model.py 'loss(params, x)' --float64 --plot growth.svg
    untrace divergence model.py 'loss(params, x)' --against 'fast_loss(params, x)'

    The call is evaluated as by `untrace show`, but its function is traced and RUN: jitted
    and op by op, or as the options say.

    Exit status: 0 nothing differs beyond the tolerance, 1 a value does, 2 trouble.
    """
    from untrace.interpreters.called import tool
    from untrace.interpreters.diverging.divergence import diverge, options_of

    try:
        options = options_of(against, dtype, devices, rtol, atol)
    except ValueError as error:
        fail(str(error))
    calls: list[Any] = []
    for text in (call, *([] if against is None else [against])):
        function, args, kwargs = taken(target, text)
        with explained(text):
            calls.append(tool(function, lambda call: call)(*args, **kwargs))
    with Status(), explained(call):
        found = diverge(calls[0], calls[1] if len(calls) > 1 else None, options)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(found)
    else:
        click.echo(str(found))
    if plot is not None:
        with explained():
            found.plot(plot)
        say(f"wrote {plot}")
    sys.exit(VERIFIED if found.first is None else DIFFERENT)


@click.command(
    "watch-compiles",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def watch_compiles(script: str, arguments: tuple[str, ...]) -> None:
    """Run a script, and say at its end which functions were compiled again, and why.

    \b
    untrace watch-compiles train.py --steps 10

    The script is RUN as `python SCRIPT ARGUMENTS` does. The table goes to standard error;
    the exit status is that of the script.
    """
    import runpy

    from untrace.recompiling import watch_compiles as watching

    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    with watching():
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception:  # so may the user's script
            fail_in_user_code(script)
