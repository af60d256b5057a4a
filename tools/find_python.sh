#!/bin/sh
# Prints the interpreter for virtual environments: $PYTHON if it is set, otherwise the first suitable one.
set -eu

# Each candidate is run, because a name on PATH is not enough: version managers leave shims for inactive versions, and
# some distributions ship a venv module that cannot install pip.
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

echo "error: Python 3.11 or newer that can make virtual environments is needed, and none of these is suitable: $*;" \
    "install one (Debian, Ubuntu: apt install python3 python3-venv; macOS: brew install python)" \
    "or name it: make PYTHON=/path/to/python3" >&2
exit 1
