"""A program that serves a local model; it ends when its standard input is closed, and so with its parent process.

It is started by its path and imports only xllamacpp, so that it starts fast and uses little memory.
"""

import os
import sys
from importlib import import_module


def main() -> None:
    """Serve the weights of the first argument, with the context window of the second, in tokens."""
    weights, context_window = sys.argv[1:]
    # Imported by name: the package has no type information and belongs to no extra.
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.n_ctx = int(context_window)
    # One slot, so that each turn finds the prompt cache of the turn before.
    params.n_parallel = 1
    params.use_jinja = True
    # The server's threads never yield, so leave half of the cores to the agent.
    params.cpuparams.n_threads = max((os.cpu_count() or 1) // 2, 1)
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # The server's threads would block a regular interpreter exit.
    os._exit(0)


if __name__ == "__main__":
    main()
