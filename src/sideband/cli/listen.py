"""Sockets and signals of the commands that serve HTTP."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable

from sideband.inspect.report import CommandError


class PortInUse(CommandError):
    """Another program listens at the port."""


def listen(host: str, port: int, *, remedy: str) -> socket.socket:
    """A socket that listens at this address; `remedy` says how to choose another one if it cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1_024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} on {host} is in use; {remedy}") from None
        why = os.strerror(error.errno or 0)
        raise CommandError(f"port {port} on {host} cannot be used ({why}); {remedy}") from None


def url_of(listening: socket.socket, host: str) -> str:
    """The address of a server that listens on this socket."""
    shown = f"[{host}]" if listening.family is socket.AF_INET6 else host
    return f"http://{shown}:{listening.getsockname()[1]}"


def stop_at_signals() -> asyncio.Event:
    """An event that is set by SIGINT, SIGTERM and SIGHUP."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handle_signal(number, stopping.set)
    return stopping


def handle_signal(number: signal.Signals, stop: Callable[[], object]) -> None:
    """Call `stop` at this signal; but not at a SIGHUP that is ignored, as by `nohup`."""
    if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
        asyncio.get_running_loop().add_signal_handler(number, stop)
