#!/bin/sh
# Fails, showing the difference, when a generated file is not what its generator writes today. The working tree is
# left as it was: repairing it is `make gen-protocol-artifacts docs`.
set -eu
cd "${0%/*}/.."

generated='spec/protocol-artifacts docs/requirements.md docs/divergences.md docs/diagnostics.md'

kept=$(mktemp -d)
restore() {
    for path in $generated; do
        rm -rf "$path"
        if [ -e "$kept/$path" ]; then
            mkdir -p "${path%/*}"
            cp -Rp "$kept/$path" "$path"
        fi
    done
    rm -rf "$kept"
}
trap restore EXIT
trap 'exit 130' INT TERM

for path in $generated; do
    if [ -e "$path" ]; then
        mkdir -p "$kept/${path%/*}"
        cp -Rp "$path" "$kept/$path"
    fi
done

# From nothing, so that a file which no generator writes any more is a difference too.
rm -rf $generated
make --no-print-directory gen-protocol-artifacts docs

status=0
for path in $generated; do
    diff -ruN "$kept/$path" "$path" || status=1
done
if [ $status -ne 0 ]; then
    echo 'error: generated files are stale; run: make gen-protocol-artifacts docs' >&2
fi
exit $status
