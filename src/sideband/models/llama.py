"""The process that serves a local model; it ends when whoever started it closes its standard input, or dies."""

import os
import sys
from importlib import import_module


def main() -> None:
    """Serve the weights of the first argument with as many tokens of context as the second says."""
    weights, context_window = sys.argv[1:]
    # It has no types, and is not part of any extra.
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.n_ctx = int(context_window)
    # One slot: what a turn leaves in the cache is there for the next.
    params.n_parallel = 1
    params.use_jinja = True
    # Its threads never yield; the other half is for what the agent does meanwhile.
    params.cpuparams.n_threads = max((os.cpu_count() or 1) // 2, 1)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Its threads would keep the interpreter from ending in good order.
    os._exit(0)


if __name__ == "__main__":
    main()
