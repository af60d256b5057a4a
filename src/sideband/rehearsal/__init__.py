"""The rehearsal: what `sideband demo` and the studio play to show all of Sideband without a key."""

from sideband.rehearsal.play import OnReply
from sideband.rehearsal.rehearsal import Rehearsal

__all__ = ["OnReply", "Rehearsal"]
