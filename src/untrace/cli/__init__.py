"""The command line: `untrace show` and the other tools.

Exit status: 0 verified, or nothing found, 1 a difference or a NaN, 2 usage or input error,
130 interrupted before there was a result of `reduce`.
Source goes to standard output, everything else to standard error.
"""

from __future__ import annotations

import click

from untrace._version import __version__
from untrace.cli.interpreters import (
    diff,
    divergence,
    nan_origin,
    watch,
    watch_compiles,
)
from untrace.cli.inverting import inverse
from untrace.cli.messages import warned
from untrace.cli.reducing import reduce
from untrace.cli.showing import show, verify

__all__ = ["main", "show"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="untrace")
@click.pass_context
def main(context: click.Context) -> None:
    """The inverse of tracing: readable, verified JAX source from JAX programs.

    \b
    untrace show model.py 'train_step(params, batch)'
    untrace show model.py 'jax.grad(loss)(params, x)' -o step.py
    untrace show issue.txt
    untrace verify step.py
    untrace diff old.py new.py 'train_step(params, batch)'
    untrace reduce model.py 'train_step(params, batch)' --keep "nan()"
    untrace nan-origin model.py 'train_step(params, batch)'
    untrace watch model.py 'loss(params, batch)' --name 'logits*'
    untrace divergence model.py 'loss(params, batch)' --float64
    untrace inverse model.py 'flow(x)' --log-det
    """
    context.with_resource(warned())


_COMMANDS = (
    *(show, verify, diff, divergence, reduce),
    *(nan_origin, watch, watch_compiles, inverse),
)
for _command in _COMMANDS:
    main.add_command(_command)
