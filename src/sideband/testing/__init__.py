"""Tools for testing code that uses Sideband: a scripted model, a recorder, a fake clock, counting ids, a seeded loop.

Names are imported on first use, because pytest loads the plugin in every run, even in runs that do not use Sideband.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sideband.models.scripted import ScriptedModel as ScriptedModel
    from sideband.models.scripted import ScriptedRequest as ScriptedRequest
    from sideband.store.memory import MemoryStore as MemoryStore
    from sideband.testing.fakes import CountingIds as CountingIds
    from sideband.testing.fakes import FakeClock as FakeClock
    from sideband.testing.recorder import Exchange as Exchange
    from sideband.testing.recorder import WireRecorder as WireRecorder
    from sideband.testing.schedule import LeftBehind as LeftBehind
    from sideband.testing.schedule import ScheduleError as ScheduleError
    from sideband.testing.schedule import SeededEventLoop as SeededEventLoop
    from sideband.testing.schedule import Stuck as Stuck
    from sideband.testing.schedule import Unhandled as Unhandled
    from sideband.testing.schedule import run_schedule as run_schedule

_HOMES = {
    "CountingIds": "sideband.testing.fakes",
    "Exchange": "sideband.testing.recorder",
    "FakeClock": "sideband.testing.fakes",
    "LeftBehind": "sideband.testing.schedule",
    "MemoryStore": "sideband.store.memory",
    "ScheduleError": "sideband.testing.schedule",
    "ScriptedModel": "sideband.models.scripted",
    "ScriptedRequest": "sideband.models.scripted",
    "SeededEventLoop": "sideband.testing.schedule",
    "Stuck": "sideband.testing.schedule",
    "Unhandled": "sideband.testing.schedule",
    "WireRecorder": "sideband.testing.recorder",
    "run_schedule": "sideband.testing.schedule",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - the keys of the table are strings


if not TYPE_CHECKING:
    # A type checker that saw this function would accept every name.
    def __getattr__(name: str) -> Any:  # noqa: ANN401 - any exported object
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
