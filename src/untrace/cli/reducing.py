"""`untrace reduce`: shrink a program that fails."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from untrace.cli.calls import taken
from untrace.cli.messages import (
    ERR,
    explained,
    fail,
    interruptible,
    say,
)


@click.command()
@click.argument("target", metavar="[FILE_OR_MODULE]", required=False)
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.option(
    "--keep",
    metavar="PREDICATE",
    help="What must stay; by default auto(), whatever fails. crashes(), raises(), "
    "nan(), inf(), differs(a, b), "
    "slow_compile(seconds), memory(n_bytes), recompiles(), hangs(timeout_s), "
    "contains(name), check('outputs[0].max() > 1'), command('./check.sh {file}'); combined with &, | and ~.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    default="repro.py",
    show_default=True,
    help="Where the reproducer goes.",
)
@click.option(
    "--resume",
    type=click.Path(exists=True, file_okay=False),
    help="Go on with an interrupted reduction, named by its folder.",
)
@click.option(
    "--journal",
    type=click.Path(file_okay=False),
    help="Folder for the best program so far; by default one named after FILE.",
)
@click.option(
    "-y", "--yes", is_flag=True, help="Run the commands of --resume without asking."
)
@click.option("-j", "--jobs", type=int, default=1, help="Candidates run at once.")
@click.option(
    "--confirm",
    type=int,
    default=1,
    show_default=True,
    help="Runs of the original, for failures that do not always show.",
)
@click.option("--max-runs", type=int, help="Stop with the best after so many runs.")
@click.option("--max-seconds", type=float, help="Stop with the best after so long.")
@click.option(
    "--plot", type=click.Path(dir_okay=False), help="Draw size over runs as SVG."
)
@click.option(
    "--control",
    type=click.Choice(["auto", "none"]),
    default="auto",
    show_default=True,
    help="Demand that failures of values still depend on the inputs.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False),
    help="Write a report for a bug tracker: the program, what it says, where else.",
)
@click.option(
    "--bisect-flags",
    is_flag=True,
    help="For the report: find the passes of XLA without which it is fine.",
)
@click.option(
    "--bisect-jax",
    metavar="FIRST..LAST",
    help="For the report: find the version of JAX that it begins with, in temporary "
    "environments that pip makes.",
)
@click.option(
    "--also",
    metavar="PYTHON",
    multiple=True,
    help="For the report: another interpreter that has JAX; may be repeated.",
)
@click.option("--anonymous", is_flag=True, help="Write no names of the original.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
def reduce(
    target: str | None,
    call: str | None,
    keep: str | None,
    output: str,
    resume: str | None,
    journal: str | None,
    yes: bool,
    jobs: int,
    confirm: int,
    max_runs: int | None,
    max_seconds: float | None,
    plot: str | None,
    control: str,
    report: str | None,
    bisect_flags: bool,
    bisect_jax: str | None,
    also: tuple[str, ...],
    anonymous: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Shrink a failing program to the few equations that fail.

    \b
    untrace reduce model.py 'step(params, batch)' --keep "nan()"
    untrace reduce saved.py --keep "crashes(signal='SIGABRT')" -o repro.py
    untrace reduce issue.txt --keep "nan()"
    untrace reduce torch_model.py 'Model()(x)' --keep "nan()"
    untrace reduce --resume model-reduction

    The call is evaluated as by `untrace show`: its function is traced and not run. A
    file that untrace wrote needs no call, nor does a text in which a printed jaxpr
    stands, which is given made-up inputs. Ctrl-C ends with the best so far.

    A file that untrace wrote, and the programs in the folder of --resume, are EXECUTED;
    shell commands and interpreters that its journal names are shown first, and run when
    you say so.
    """
    from untrace.reduction.wording import is_module_name
    from untrace.terminal import run_reduction

    if is_module_name(Path(output).stem):
        fail(f"{output} would be imported in the place of a module; name it otherwise.")
    if resume is None and target is None:
        fail("give a FILE and a call, or --resume FOLDER.")
    if resume is not None and (target or call or keep):
        fail("--resume goes on with what it began with; leave the rest out.")
    if report is None and (bisect_flags or bisect_jax or also):
        fail(
            "--bisect-flags, --bisect-jax and --also say what --report FILE is to hold."
        )
    if bisect_jax is not None:
        from untrace.reduction.bisecting import versions_between
        from untrace.reduction.report import ends_of

        with explained():  # before the reduction, of which the report would be lost
            versions_between(*ends_of(bisect_jax))
    if resume is None and keep is None:
        keep = "auto()"
    if resume is not None and not yes:
        _confirm_runs(resume)
    if resume is not None:
        function, args, kwargs = Path(resume), (), {}
    else:
        with interruptible(" while the program was read; nothing is written."):
            function, args, kwargs = taken(str(target), call)
    carries = isinstance(function, Path)
    folder = journal or (None if resume else _folder(str(target)))
    options = dict(
        keep=keep,
        jobs=jobs,
        confirm=confirm,
        journal=folder,
        anonymous=anonymous,
        max_runs=max_runs,
        max_seconds=max_seconds,
        control=control,
    )
    with explained(call or str(target)), interruptible("."):
        reduction = run_reduction(
            ERR, function, None if carries else (args, kwargs), options, quiet, as_json
        )
        path = reduction.save(output)
    is_silent = quiet or as_json
    if not is_silent:
        say(reduction.summary(), "green")
        given = " --check" if "`--check`" in reduction.keep.how_to_check else ""
        say(f"wrote {path}; check: python {path}{given}")
    if plot is not None:
        _save_plot(reduction, plot)
    if report is not None:
        told = f": {path} is written, and {report} is not."
        with explained(report), interruptible(told):
            reduction.report(
                report, bisect_flags=bisect_flags, bisect_jax=bisect_jax, pythons=also
            )
    if not is_silent:
        if report is not None:
            say(f"wrote {report}")
        if reduction.others:
            place = folder or resume
            say(f"the other failures are in {place}/other-*.py")


def _confirm_runs(folder: str) -> None:
    """Ask before anything runs that a journal, which may be another's, names."""
    from untrace.terminal import journal_runs

    with explained():
        runs = journal_runs(Path(folder))
    if not runs:
        return
    ERR.print(f"{folder} says to run:", markup=False)
    for line in runs:
        ERR.print(f"  {line}", markup=False, soft_wrap=True)
    if not _is_interactive():
        fail("nobody is here to confirm that: look at it and pass --yes.")
    if not click.confirm("Run that?", err=True):
        fail("not confirmed; nothing was run.")


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _folder(target: str) -> str:
    """Name a journal that is not there yet after the program."""
    stem = Path(target).stem.rpartition(".")[2] or "program"
    names = (f"{stem}-reduction{'' if n == 1 else f'-{n}'}" for n in range(1, 10_000))
    return next(name for name in names if not Path(name).exists())


def _save_plot(reduction: Any, path: str) -> None:
    try:
        reduction.plot(path)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror or error}.")
