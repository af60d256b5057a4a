#!/bin/sh
# Prints the interpreter to make virtual environments with: $PYTHON where that is set, else the first that fits.
set -eu

# A name on PATH proves little: version managers leave shims for versions that are switched off, and some
# distributions ship a venv module that cannot install pip. Running the candidate answers both.
fits='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'

if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3.13 python3.12 python3.11 python3
fi

for candidate; do
    if "$candidate" -c "$fits" >/dev/null 2>&1; then
        printf '%s\n' "$candidate"
        exit 0
    fi
done

echo "error: Python 3.11 or newer that can make virtual environments is needed, and $* will not do;" \
    "install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)" \
    "or name it: make PYTHON=/path/to/python3" >&2
exit 1
