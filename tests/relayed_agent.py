"""An agent without a will: it passes its standard streams to a socket, where a test plays the agent.

    python relayed_agent.py SOCKET

The test ends it by a line with a NUL and the exit status, or the number of a signal after a minus. It ends itself if the test closes the socket.
"""

import os
import socket
import sys
import threading


def main() -> None:
    wire = socket.socket(socket.AF_UNIX)
    wire.connect(sys.argv[1])
    os.write(2, b"the agent has started\n")

    def pass_input() -> None:
        while data := os.read(0, 65_536):
            wire.sendall(data)
        wire.shutdown(socket.SHUT_WR)

    threading.Thread(target=pass_input, daemon=True).start()
    for line in wire.makefile("rb"):
        if line[:1] == b"\0":
            status = int(line[1:])
            if status < 0:
                os.kill(os.getpid(), -status)
            os._exit(status)
        os.write(1, line)
    # The thread may still read, and a daemon does not hold up the end.
    os._exit(0)


if __name__ == "__main__":
    main()
