#!/bin/sh
# Succeed if running a Python file compiles a module with a while loop.
# usage: check_loop.sh FILE; $PYTHON is the interpreter.
dump=$(mktemp -d) || exit 2
trap 'rm -rf "$dump"' EXIT
XLA_FLAGS="$XLA_FLAGS --xla_dump_to=$dump --xla_dump_hlo_as_text" \
    "${PYTHON:-python}" "$1" >/dev/null 2>&1 || exit 1
grep -q ' while(' "$dump"/*after_optimizations.txt 2>/dev/null
