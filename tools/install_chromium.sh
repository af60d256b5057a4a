#!/bin/sh
# Installs Debian's Chromium if there is no `chromium` yet. It needs root, or sudo without a password.
set -eu

if command -v chromium >/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo 'error: there is no chromium, and no apt-get to install it with; install Chromium as `chromium`' >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root='sudo -n'
    if ! $as_root true 2>/dev/null; then
        echo 'error: there is no chromium; install it with: sudo apt-get install chromium' >&2
        exit 1
    fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Another installation may be under way.
install() {
    $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends chromium >"$log" 2>&1
}

echo 'Installing chromium'
# The lists of packages may be empty, or so old that the packages they name have been replaced.
if ! install && ! { $as_root apt-get -q update >"$log" 2>&1 && install; }; then
    cat "$log" >&2
    echo 'error: chromium could not be installed' >&2
    exit 1
fi
