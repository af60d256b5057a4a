"""What a test of code that uses Sideband needs: a scripted model, a clock that stands still, ids that count."""

from sideband.models.scripted import ScriptedModel, ScriptedRequest
from sideband.store.memory import MemoryStore
from sideband.testing.clock import FakeClock
from sideband.testing.ids import CountingIds
from sideband.testing.schedule import LeftBehind, ScheduleError, SeededEventLoop, Stuck, Unhandled, run_schedule

__all__ = [
    "CountingIds",
    "FakeClock",
    "LeftBehind",
    "MemoryStore",
    "ScheduleError",
    "ScriptedModel",
    "ScriptedRequest",
    "SeededEventLoop",
    "Stuck",
    "Unhandled",
    "run_schedule",
]
