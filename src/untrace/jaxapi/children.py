"""Work that may end the process, done in a child process that imports jaxlib alone.

The parsers of MLIR bytecode and of HLO abort on some inputs that are broken, and so do
compilers of XLA. A child that ends in any way is an exception here.
"""

from __future__ import annotations

import os
import subprocess
import sys

TIMEOUT_S = 300.0
"""After which a child is stopped."""


class ChildError(Exception):
    """A child process did not do its work; the message is the last that it said."""


def run_child(code: str, content: bytes) -> bytes:
    """Run Python code in a process of its own.

    Args:
      code: Reads `content` from standard input, and writes its result to standard output.
      content: Any bytes.

    Returns:
      What it wrote.

    Raises:
      ChildError: If it ended otherwise than by itself and well.
    """
    paths = [path for path in sys.path if path and os.path.exists(path)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-P", "-c", code]
    try:
        done = subprocess.run(
            command, input=content, capture_output=True, timeout=TIMEOUT_S, env=env
        )
    except subprocess.TimeoutExpired:
        raise ChildError(f"it took more than {TIMEOUT_S:.0f} s") from None
    if done.returncode == 0:
        return done.stdout
    raise ChildError(_last_words(done.stderr.decode(errors="replace"), done.returncode))


def _last_words(errors: str, status: int) -> str:
    """Return the first error that a process told of, or how it ended."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    told = [line.partition("error: ")[2] for line in lines if "error: " in line]
    if told:
        return told[0][:300]
    if status < 0:
        return f"the parser ended with signal {-status}"
    return lines[-1][:300] if lines else f"the parser ended with status {status}"


TEXT_OF_BYTECODE = """
import sys
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, func, mhlo, sdy, stablehlo
content = sys.stdin.buffer.read()
context = ir.Context()
for register in (stablehlo.register_dialect, chlo.register_dialect, sdy.register_dialect):
    register(context)
mhlo.register_mhlo_dialect(context)
if b"StableHLO_v" in content[:64]:
    module = stablehlo.deserialize_portable_artifact(context, content)
else:
    module = ir.Module.parse(content, context)
text = module.operation.get_asm(enable_debug_info=True)
sys.stdout.buffer.write(text.encode())
"""

TEXT_OF_HLO = """
import sys
import jaxlib.mlir.ir
from jaxlib import xla_client
text = sys.stdin.buffer.read().decode()
try:
    module = xla_client.hlo.hlo_module_from_text(text)
    made = xla_client.XlaComputation(module.as_serialized_hlo_module_proto())
    found = xla_client._xla.mlir.xla_computation_to_mlir_module(made)
except Exception as error:
    sys.exit("error: " + " ".join(str(error).split()))
sys.stdout.buffer.write(found if isinstance(found, bytes) else found.encode())
"""
