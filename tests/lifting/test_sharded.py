"""Programs about sharding come back identical, and their files stand alone."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import pytest

import untrace
from tests.lifting.sharding import PROGRAMS

N_DEVICES = 8

pytestmark = pytest.mark.skipif(
    jax.device_count() < N_DEVICES,
    reason=f"needs XLA_FLAGS=--xla_force_host_platform_device_count={N_DEVICES}",
)


def recover(name: str) -> Any:
    """Recover one of the programs in its context."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = PROGRAMS[name]()
        with program.context:
            return untrace.source(program.function, level="lax")(*program.args)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program_is_identical(name: str) -> None:
    src = recover(name)
    assert src.report.strength == "identical", f"{src.report}\n{src}"


FRESH = [
    "abstract_mesh_context",
    "explicit_matmul_grad",
    "fsdp_training_step",
    "legacy_mesh_context",
    "nested_grad",
    "sharded_large_constant",
    "size_one_axes",
    "threefry_not_partitionable",
]

CHECK = """
import pathlib, runpy, sys
from untrace.saved import verify_file
for name in sys.argv[1:]:
    verdict = verify_file(pathlib.Path(name))
    assert verdict.is_verified, (name, str(verdict))
    runpy.run_path(name, run_name="__main__")
"""


def test_saved_files_verify_and_run_in_a_fresh_process(tmp_path: Path) -> None:
    paths = [str(recover(name).save(tmp_path / f"{name}.py")) for name in FRESH]
    command = [sys.executable, "-W", "ignore", "-c", CHECK, *paths]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr


def test_shard_map_reads_as_it_was_written() -> None:
    text = str(recover("matmul_basic"))
    assert 'mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=' in text
    assert 'in_specs=(jax.P("x", "y"), jax.P("y", None))' in text
    assert 'jax.lax.psum(dot, "y")' in text
    assert "_p.bind" not in text


@pytest.mark.parametrize(
    "name", ["no_vma_collectives", "nested", "tensor_parallel", "pytree_specs"]
)
def test_collectives_need_no_bind(name: str) -> None:
    body = str(recover(name))
    assert "_p.bind" not in body and "jax._src" not in body, body


def test_mesh_is_made_once() -> None:
    text = str(recover("sharding_constraint"))
    assert text.count("jax.make_mesh(") == 1
    assert text.count("with_sharding_constraint(") == 3


def test_mesh_in_context_is_not_repeated() -> None:
    text = str(recover("explicit_shard_map"))
    assert "mesh=mesh" not in text
    assert "with jax.set_mesh(mesh):" in text


def test_other_names_do_not_clash_with_the_mesh() -> None:
    text = str(recover("name_of_a_mesh_is_taken"))
    assert "def f(mesh_2):" in text or "mesh_2 = jax.make_mesh" in text, text


def test_header_says_how_many_devices_are_needed() -> None:
    text = str(recover("device_put_device"))
    assert "Needs 4 devices." in text
    assert "--xla_force_host_platform_device_count=4" in text


def test_program_over_an_abstract_mesh_is_traced_and_not_run() -> None:
    text = str(recover("abstract_mesh_context"))
    assert "Its mesh is abstract" in text
    assert "print(jax.make_jaxpr(" in text
