"""The command line: `untrace show` and the other tools.

Exit status: 0 verified or no NaN, 1 a difference or a NaN, 2 usage or input error.
Source goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click
from rich.console import Console

from untrace._version import __version__
from untrace.errors import UntraceError
from untrace.folder import OWN_FOLDER
from untrace.parsing import parse
from untrace.printable import printable_lines

VERIFIED, DIFFERENT, USAGE = 0, 1, 2

_err = Console(stderr=True, highlight=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="untrace")
def main() -> None:
    """The inverse of tracing: readable, verified JAX source from JAX programs.

    \b
    untrace show model.py 'train_step(params, batch)'
    untrace show model.py 'jax.grad(loss)(params, x)' -o step.py
    untrace verify step.py
    untrace diff old.py new.py 'train_step(params, batch)'
    untrace reduce model.py 'train_step(params, batch)' --keep "nan()"
    untrace nan-origin model.py 'train_step(params, batch)'
    untrace watch model.py 'loss(params, batch)' --name 'logits*'
    """


@main.command()
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="'F(X, Y)'")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Save here instead of printing.",
)
@click.option(
    "--level",
    type=click.Choice(["api", "lax"]),
    help="Calls as they were written (api, the default for functions), or one "
    "statement per equation (lax).",
)
@click.option("--no-verify", is_flag=True, help="Do not execute, re-trace and compare.")
@click.option(
    "--isolated",
    is_flag=True,
    help="Verify once more, in a fresh process, which executes the text, too.",
)
@click.option(
    "--types", is_flag=True, help="Write the type of every result as a comment."
)
@click.option(
    "--scopes", is_flag=True, help="Write jax.named_scope where the original had it."
)
@click.option("--name", help="Name of the generated function.")
@click.option(
    "--comments",
    type=click.Choice(["none", "origin", "types", "both"]),
    default="none",
    show_default=True,
    help="Comment statements with where they were written, or the types of results.",
)
@click.option(
    "--reroll",
    type=click.Choice(["auto", "none", "for", "scan"]),
    default="auto",
    show_default=True,
    help="Write statements that repeat as a loop: where the program had one, never, "
    "wherever they do; or as a scan over stacked parameters.",
)
@click.option(
    "--expand",
    multiple=True,
    metavar="NAME",
    help="Show what JAX makes of the calls of a transformation, and of no other: grad, "
    "vmap, jvp, scan, jit, custom_vjp, checkpoint, ... May be given several times.",
)
@click.option(
    "--keep-types", is_flag=True, help="Import the classes of libraries (level api)."
)
@click.option(
    "--annotate",
    type=click.Choice(["none", "jaxtyping"]),
    default="none",
    show_default=True,
    help="Annotate signatures with the types of arrays (level api).",
)
@click.option(
    "--symbolic",
    is_flag=True,
    help="Name the dimensions that shapes are made of; the header lists the sizes "
    "at which that was verified (level api).",
)
@click.option(
    "--anonymous",
    is_flag=True,
    help="Write no names of functions, variables, classes, keys or files.",
)
def show(
    target: str,
    call: str,
    output: str | None,
    level: str | None,
    no_verify: bool,
    isolated: bool,
    types: bool,
    scopes: bool,
    name: str | None,
    comments: str,
    reroll: str,
    expand: tuple[str, ...],
    keep_types: bool,
    annotate: str,
    symbolic: bool,
    anonymous: bool,
) -> None:
    """Print the source of a call, as JAX sees it.

    The call expression is evaluated in the namespace of FILE_OR_MODULE, except that the
    outermost function is traced and not run.
    """
    from untrace.highlight import to_terminal

    function, args, kwargs = _evaluate(target, call)
    with _Status() as status:
        make = _source(
            function,
            level=level,
            verify=not no_verify,
            isolated=isolated,
            types=types,
            scopes=scopes,
            name=name,
            comments=comments,
            reroll=reroll,
            expand=expand,
            keep_types=keep_types,
            annotate=annotate,
            symbolic=symbolic,
            anonymous=anonymous,
            progress=status.update,
        )
        with _explained(call):
            src = make(*args, **kwargs) if not _carries_inputs(function) else make
    if output is None:
        to_terminal(str(src), Console(highlight=False, soft_wrap=True))
    else:
        _save(src, output)
    _report(src)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--isolated/--no-isolated",
    default=True,
    show_default=True,
    help="Execute the file in a fresh process, whose crash or hang is a result; or in "
    "this one, which is faster.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="End the fresh process after so long.",
)
@click.option(
    "--no-run",
    is_flag=True,
    help="Do not execute the file: list what it imports, calls or touches beyond "
    "computing with JAX, NumPy and the standard mathematics.",
)
def verify(file: str, isolated: bool, timeout: float, no_run: bool) -> None:
    """Check a saved file again: trace it and compare with its fingerprint.

    The file is EXECUTED, in a fresh process with a clean environment but with your
    rights. Look at files of others first: --no-run reads them and lists what they do
    beyond computing (exit status 1), or finds nothing (0).
    """
    from untrace.isolated import verify_isolated
    from untrace.saved import verify_file

    if no_run:
        _list(file)

    with _Status() as status:
        status.update("verifying")
        with _explained():
            path = Path(file)
            verdict = verify_isolated(path, timeout) if isolated else verify_file(path)
    _say(str(verdict), "green" if verdict.is_verified else "red")
    sys.exit(VERIFIED if verdict.is_verified else DIFFERENT)


def _list(file: str) -> NoReturn:
    """List what a file does beyond computing."""
    from untrace.static_check import check_file

    with _explained():
        found = check_file(Path(file).read_bytes(), file)
    for finding in found:
        click.echo(f"{file}:{finding.line}: {finding.text}")
    n = len(found)
    said = f"{n} thing{'s' * (n != 1)} to look at" if n else "nothing but computations"
    _err.print(f"{file}: {said}. Nothing was executed.", markup=False)
    sys.exit(DIFFERENT if found else VERIFIED)


@main.command()
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
    """Tell whether two programs are the same, and which statements differ.

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
        calls.append(
            Call(Path(target)) if text is None else Call(*_evaluate(target, text))
        )
    with _Status() as status:
        status.update("comparing")
        with _explained(call or before):
            found = diff_calls(calls[0], calls[1], context)
    if not quiet:
        console = Console(highlight=False, soft_wrap=True)
        if console.is_terminal:
            console.print(found)
        else:
            click.echo(str(found))
    sys.exit(DIFFERENT if found.verdict == "different" else VERIFIED)


@main.command(
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
            _fail_in_user_code(script)


@main.command()
@click.argument("target", metavar="[FILE_OR_MODULE]", required=False)
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.option(
    "--keep",
    metavar="PREDICATE",
    help="What must stay: crashes(), raises(), nan(), inf(), differs(a, b), "
    "slow_compile(seconds), memory(n_bytes), recompiles(), hangs(timeout_s), "
    "contains(name), command('./check.sh {file}'); combined with &, | and ~.",
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
    anonymous: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Shrink a failing program to the few equations that fail.

    \b
    untrace reduce model.py 'step(params, batch)' --keep "nan()"
    untrace reduce saved.py --keep "crashes(signal='SIGABRT')" -o repro.py
    untrace reduce --resume model-reduction

    The call is evaluated as by `untrace show`: its function is traced and not run. A
    file that untrace wrote needs no call. Ctrl-C ends with the best so far.

    A file that untrace wrote, and the programs in the folder of --resume, are EXECUTED;
    shell commands and interpreters that its journal names are shown first, and run when
    you say so.
    """
    from untrace.terminal import run_reduction

    if resume is None and target is None:
        _fail("give a FILE and a call, or --resume FOLDER.")
    if resume is not None and (target or call or keep):
        _fail("--resume goes on with what it began with; leave the rest out.")
    if resume is None and keep is None:
        _fail('say what to keep, such as --keep "nan()" or --keep "crashes()".')
    if resume is not None and not yes:
        _confirm_runs(resume)
    if call is None:
        function, args, kwargs = Path(resume or str(target)), (), {}
        carries = True
    else:
        function, args, kwargs = _evaluate(str(target), call)
        carries = False
    folder = journal or (None if resume else _folder(str(target)))
    options = dict(
        keep=keep,
        jobs=jobs,
        confirm=confirm,
        journal=folder,
        anonymous=anonymous,
        max_runs=max_runs,
        max_seconds=max_seconds,
    )
    with _explained(call or str(target)):
        reduction = run_reduction(
            _err, function, None if carries else (args, kwargs), options, quiet, as_json
        )
        path = reduction.save(output)
    if plot is not None:
        _save_plot(reduction, plot)
    if not quiet and not as_json:
        _say(reduction.summary(), "green")
        _say(f"wrote {path}; check: python {path}")
        if reduction.others:
            place = folder or resume
            _say(f"the other failures are in {place}/other-*.py")


@main.command("nan-origin")
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="'F(X, Y)'")
@click.option(
    "--kind",
    type=click.Choice(["nan", "inf", "overflow"]),
    default="nan",
    show_default=True,
    help="What to look for.",
)
def nan_origin(target: str, call: str, kind: str) -> None:
    """Find the equation that first makes a NaN which reaches a result.

    The call is evaluated as by `untrace show`, but its function is traced and RUN, two or
    three times. For a backward pass write the gradient: 'jax.grad(loss)(params, x)'.
    """
    from untrace.interpreters.nans.nan_origin import nan_origin as find

    function, args, kwargs = _evaluate(target, call)
    with _Status(), _explained(call):
        found = find(function, kind=kind)(*args, **kwargs)
    if found is None:
        _say("no NaN." if kind == "nan" else f"no {kind}.", "green")
        sys.exit(VERIFIED)
    click.echo(str(found))
    sys.exit(DIFFERENT)


@main.command()
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="'F(X, Y)'")
@click.option("--name", "names", multiple=True, help="Names, as in a shell.")
@click.option(
    "--function", "functions", multiple=True, help="Functions that values come from."
)
@click.option("--line", "lines", multiple=True, type=int, help="Lines of your files.")
def watch(
    target: str,
    call: str,
    names: tuple[str, ...],
    functions: tuple[str, ...],
    lines: tuple[int, ...],
) -> None:
    """List the values that a call computes, and what each is like.

    The call is evaluated as by `untrace show`, but its function is traced and RUN, op by
    op. The options may be given several times; a value is listed by the name that it has
    in the recovered source (--level lax) or by that of your variable.
    """
    from untrace.interpreters.watch import watch as watching

    function, args, kwargs = _evaluate(target, call)
    with _explained(call):
        watched = watching(
            function, names=names or "*", functions=functions or "*", lines=lines
        )(*args, **kwargs)
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(watched)
    else:
        click.echo(str(watched))


def _confirm_runs(folder: str) -> None:
    """Ask before anything runs that a journal, which may be another's, names."""
    from untrace.terminal import journal_runs

    with _explained():
        runs = journal_runs(Path(folder))
    if not runs:
        return
    _err.print(f"{folder} says to run:", markup=False)
    for line in runs:
        _err.print(f"  {line}", markup=False, soft_wrap=True)
    if not _is_interactive():
        _fail("nobody is here to confirm that: look at it and pass --yes.")
    if not click.confirm("Run that?", err=True):
        _fail("not confirmed; nothing was run.")


def _is_interactive() -> bool:
    return sys.stdin.isatty()


def _folder(target: str) -> str:
    """Name a journal that is not there yet after the program."""
    stem = Path(target).stem.rpartition(".")[2] or "program"
    names = (f"{stem}-reduction{'' if n == 1 else f'-{n}'}" for n in range(1, 10_000))
    return next(name for name in names if not Path(name).exists())


def _evaluate(target: str, call: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Evaluate a call expression but for the call itself."""
    try:
        tree = parse(call.strip(), "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error)  # ValueError: no UTF-8, NUL
        _fail(f"{call!r} is not a Python expression: {reason}.")
    if not isinstance(tree.body, ast.Call):
        _fail(f"{call!r} is not a call. Write it as you would in the file: 'f(x, y)'.")
    namespace = dict(vars(_load(target)))
    whole = tree.body
    taken = ast.Call(
        ast.Name("__untrace_take__", ast.Load()),
        [whole.func, *whole.args],
        whole.keywords,
    )
    namespace["__untrace_take__"] = lambda function, *args, **kwargs: (
        function,
        args,
        kwargs,
    )
    tree.body = ast.copy_location(taken, whole)
    code = compile(ast.fix_missing_locations(tree), "<call>", "eval")
    try:
        # The user's own expression, in the user's own namespace.
        return eval(code, namespace)
    except Exception as error:
        _fail(
            f"cannot evaluate {call!r} in {target}: {type(error).__name__}: {error}.\n"
            "Its function and arguments must be defined at the top level of the file."
        )


def _load(target: str) -> ModuleType:
    """Import a file or module, without running its main block."""
    path = Path(target)
    is_file = path.suffix == ".py" or path.exists()
    if is_file and not path.is_file():
        _fail(f"there is no file {target}.")
    sys.path.insert(0, str(path.resolve().parent) if is_file else ".")
    try:
        if not is_file:
            return importlib.import_module(target)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            _fail(f"{target} is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        if error.name == target:
            _fail(f"there is neither a file nor a module {target}.")
        _fail_in_user_code(target)
    except Exception:  # so may the user's file
        _fail_in_user_code(target)


def _source(function: Any, **options: Any) -> Any:
    """Call `untrace.source`, telling the user which options contradict each other."""
    from untrace.api import source

    try:
        return source(function, **options)
    except UntraceError as error:
        _fail(str(error))
    except ValueError as error:
        if _carries_inputs(function):  # it was recovered at once
            raise
        _fail(f"{error}.")


def _carries_inputs(function: Any) -> bool:
    from untrace import jaxapi

    return jaxapi.is_jaxpr(function) or jaxapi.is_traced(function)


def _save_plot(reduction: Any, path: str) -> None:
    try:
        reduction.plot(path)
    except OSError as error:
        _fail(f"cannot write {path}: {error.strerror or error}.")


def _save(src: Any, output: str) -> None:
    with _explained():
        path = src.save(output)
    n_lines = str(src).count("\n")
    stored = src.module.stored
    sidecar = (
        f" and {path.with_suffix('.safetensors').name} ({len(stored)} arrays)"
        if stored
        else ""
    )
    _say(f"wrote {path} ({n_lines} lines){sidecar}")


def _report(src: Any) -> NoReturn:
    report = src.report
    if report.strength == "unverified":
        sys.exit(VERIFIED)
    style = "green" if report.is_verified else "bold red"
    n = report.n_equations
    _err.print(f"{n} equation{'s' * (n != 1)}. {report}", style=style, markup=False)
    sys.exit(VERIFIED if report.is_verified else DIFFERENT)


@contextlib.contextmanager
def _explained(users: str = "") -> Generator[None, None, None]:
    """End with a message instead of an exception.

    Args:
      users: The user's expression or file, whose code runs here and may raise anything.
    """
    try:
        yield
    except UntraceError as error:
        _fail(str(error))
    except Exception:  # so may any code of the user's
        if not users:
            raise
        _fail_in_user_code(users)


def _say(text: str, style: str | None = None) -> None:
    """Print to standard error, where what text quotes cannot steer the terminal."""
    _err.print(printable_lines(text), style=style, markup=False)


def _fail(message: str) -> NoReturn:
    _say(f"untrace: {message}", "red")
    sys.exit(USAGE)


def _fail_in_user_code(what: str) -> NoReturn:
    """Show the user's own traceback, without our frames."""
    kind, error, trace = sys.exc_info()
    frames = [
        f
        for f in traceback.extract_tb(trace)
        if not f.filename.startswith((OWN_FOLDER, "<frozen"))
    ]
    text = "".join(traceback.format_list(frames)) + "".join(
        traceback.format_exception_only(kind, error)
    )
    _say(f"untrace: an error in {what}:", "red")
    _say(text.rstrip())
    sys.exit(USAGE)


class _Status:
    """A spinner on standard error, only where that is a terminal."""

    def __init__(self) -> None:
        self._status = _err.status("tracing") if _err.is_terminal else None

    def __enter__(self) -> _Status:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._status:
            self._status.stop()

    def update(self, stage: str) -> None:
        """Show what is being done."""
        if self._status:
            self._status.update(stage)


if __name__ == "__main__":
    main()
