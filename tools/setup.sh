#!/bin/sh
# Installs a lock file and the project (editable) into a virtual environment. Running it again repairs the environment.
# Prints one line per step; the output of a tool is shown only if it fails.
# Usage: setup.sh .venv requirements/dev.lock
set -eu
cd "${0%/*}/.."

venv=$1
lock=$2
export PIP_DISABLE_PIP_VERSION_CHECK=1
started=$(date +%s)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

step() {
    printf '%s\n' "$1"
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "error: set-up stopped at: $*" >&2
        exit 1
    fi
}

# After an interrupted set-up the environment has no pip; after a system upgrade its interpreter may be missing.
if "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    echo "[1/3] $venv exists"
else
    python=$(sh tools/find_python.sh)
    step "[1/3] Creating $venv with $("$python" --version)" "$python" -m venv --clear "$venv"
fi
step "[2/3] Installing $(grep -c '^[A-Za-z0-9]' "$lock") locked packages" \
    "$venv/bin/python" -m pip install --require-hashes -r "$lock"
step "[3/3] Installing sideband, editable" \
    "$venv/bin/python" -m pip install --no-deps --no-build-isolation -e .
echo "Set up in $(($(date +%s) - started)) s"
