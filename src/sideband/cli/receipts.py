"""What became of every reminder, as a table."""

from collections.abc import Mapping, Sequence

from rich.table import Table

from sideband.core.events import AuditRecorded, Deduped, Dropped, Event, Expired, Fired, Revoked


def receipts(labels: Mapping[str, str], journal: Sequence[Event]) -> Table:
    """One row for each reminder: in which turns it was shown, and how it ended."""
    table = Table("reminder", "shown in turns", "ended as")
    for reminder_id, label in labels.items():
        turns = [str(event.turn) for event in journal if isinstance(event, Fired) and event.reminder_id == reminder_id]
        table.add_row(label, ", ".join(turns) or "never", ", ".join(endings(reminder_id, journal)))
    return table


def endings(reminder_id: str, journal: Sequence[Event]) -> list[str]:
    """How a reminder ended; exactly one way once its session is closed."""
    found: list[str] = []
    for event in journal:
        match event:
            case Expired(reminder_id=gone, reason=reason) if gone == reminder_id:
                found.append(f"expired ({reason.value})")
            case Dropped(reminder_id=gone, reason=why) if gone == reminder_id:
                found.append(f"dropped ({why.value})")
            case Deduped(replaced_id=gone) if gone == reminder_id:
                found.append("deduped")
            case Revoked(reminder_id=gone) if gone == reminder_id:
                found.append("revoked")
            case AuditRecorded(reminder=reminder) if reminder.id == reminder_id:
                found.append("audit_recorded")
            case _:
                pass
    return found


def summary(labels: Mapping[str, str], journal: Sequence[Event]) -> str:
    """How many there were, and that none was lost."""
    ended = sum(len(endings(reminder_id, journal)) == 1 for reminder_id in labels)
    return f"{len(labels)} reminders, {ended} ended in exactly one way, {len(labels) - ended} lost."
