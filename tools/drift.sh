#!/bin/sh
# Fails if a generated file is out of date, and names it. Changes nothing; `make gen-protocol-artifacts docs` updates the
# files.
set -u
cd "${0%/*}/.."

status=0
.venv/bin/sideband schema --out spec/protocol-artifacts --check || status=1
.venv/bin/python -m tests.conformance.pages --check || status=1
.venv/bin/python tools/diagnostics_page.py --check || status=1
if [ $status -ne 0 ]; then
    echo 'error: generated files are stale; run: make gen-protocol-artifacts docs' >&2
fi
exit $status
