"""Laws of two processes on one session: who runs which prompt, and what becomes of a cancelled one."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from sideband.core.apply import apply
from sideband.core.events import (
    Cancelled,
    Checkpoint,
    Event,
    Idled,
    InjectAccepted,
    InjectDelivered,
    InjectRevoked,
    RequestCommitted,
    ResultRecorded,
    Started,
    TurnCommitted,
)
from sideband.core.seams import InjectMode, Seam
from sideband.core.state import SessionState
from tests.faults.schedules.processes import TwoProcesses, accepted_prompts


def events_of(world: TwoProcesses) -> list[Event]:
    return [logged.event for logged in world.store.journal]


def states_of(world: TwoProcesses) -> Iterator[tuple[Event, SessionState]]:
    """Every event, with the state before it; the state changes when the iteration goes on."""
    state = SessionState()
    for event in events_of(world):
        yield event, state
        apply(state, event)


def a_prompt_is_started_at_most_once(world: TwoProcesses) -> Iterator[str]:
    """Of all runs, one has it."""
    started = Counter(event.message_id for event in events_of(world) if isinstance(event, Started) and event.message_id)
    for message_id, times in started.items():
        if times > 1:
            yield f"{message_id} started {times} turns"
    ran = Counter(message_id for message_id, result in world.results if result.turns)
    yield from (f"{times} runs answered {answered}" for answered, times in ran.items() if times > 1)


def every_prompt_is_answered_or_taken_back(world: TwoProcesses) -> Iterator[str]:
    """A completed one has a reply after it; none is cancelled unless clients cancel."""
    replied = _replied(world)
    died = any(process.journal.dead for process in world.processes)
    for message_id, outcome in world.outcomes.items():
        match outcome.status:
            case "completed" if message_id not in replied:
                yield f"{message_id} is told as completed and has no reply"
            case "completed" | "failed":
                pass
            case "cancelled" if world.may_cancel:
                pass
            case "lease_lost" if died:
                pass
            case _:
                yield f"{message_id} ended as {outcome}"
    for message_id in accepted_prompts(world):
        if message_id not in world.outcomes:
            yield f"{message_id} was left without a runner"


def _replied(world: TwoProcesses) -> set[str]:
    return {state.prompt for event, state in states_of(world) if isinstance(event, TurnCommitted)}


def what_was_taken_back_never_runs(world: TwoProcesses) -> Iterator[str]:
    """After a cancel or a revoke was answered, no request belongs to that prompt."""
    taken_back = {
        told.message_id: told.at
        for told in world.told
        if told.answer is True or told.answer in ("revoked", "already_revoked")
    }
    for place, (event, state) in enumerate(states_of(world)):
        match event:
            case Started(message_id=message_id) if place >= taken_back.get(message_id, place + 1):
                yield f"{message_id} started a turn at {place}, after it was taken back"
            case RequestCommitted() if place >= taken_back.get(state.prompt, place + 1):
                yield f"a request of {state.prompt} was sent at {place}, after it was taken back"
            case _:
                pass


def no_request_without_a_prompt(world: TwoProcesses) -> Iterator[str]:
    """Each request belongs to a turn that a message started; each was recorded before it was sent."""
    attempts = 0
    for event, state in states_of(world):
        if isinstance(event, RequestCommitted):
            attempts += 1
            if not state.prompt:
                yield f"the request of turn {event.turn} has no prompt"
    if len(world.sent) > attempts:
        yield f"{len(world.sent)} requests were sent, {attempts} were recorded"


def a_cancel_ends_a_turn(world: TwoProcesses) -> Iterator[str]:
    """Only a running session is cancelled: a second event would hold the next prompt."""
    for place, (event, state) in enumerate(states_of(world)):
        if isinstance(event, Cancelled) and not state.running:
            yield f"the session was cancelled at {place}, when it did not run"


def a_cancelled_turn_is_over(world: TwoProcesses) -> Iterator[str]:
    """Nothing of a turn is committed after its end."""
    for place, (event, state) in enumerate(states_of(world)):
        if _is_of_a_turn(event) and not state.running and not _is_recovered(event):
            yield f"{event} was committed at {place}, when no turn ran"


def _is_of_a_turn(event: Event) -> bool:
    match event:
        case RequestCommitted() | TurnCommitted() | ResultRecorded() | InjectDelivered(audit_only=False):
            return True
        case Checkpoint(seam=seam):
            return seam is not Seam.LOOP_EXIT
        case _:
            return False


def _is_recovered(event: Event) -> bool:
    return isinstance(event, ResultRecorded) and event.status == "unknown"


def a_held_queue_waits(world: TwoProcesses) -> Iterator[str]:
    """After a cancel nothing starts before the next message is accepted, unless the queue is to be delivered."""
    held, place = False, 0
    for commit in world.store.commits:
        if any(isinstance(event, Started) for event in commit) and held and not isinstance(commit[-1], Cancelled):
            yield f"a turn was started at {place}, while the queue was held"
        for event in commit:
            match event:
                case Cancelled(hold_queue=hold):
                    held = hold
                case InjectAccepted():
                    held = False
                case _:
                    pass
        place += len(commit)


def prompts_run_in_order(world: TwoProcesses) -> Iterator[str]:
    """A prompt is started when no earlier one waits; only a call of the model is accepted and started at once."""
    waiting: list[str] = []
    for commit in world.store.commits:
        is_call = len(commit) > 1 and isinstance(commit[0], InjectAccepted)
        for event in commit if not is_call else ():
            match event:
                case InjectAccepted(item=item) if item.mode is InjectMode.QUEUE:
                    waiting.append(item.id)
                case InjectRevoked(message_id=gone) if gone in waiting:
                    waiting.remove(gone)
                case InjectDelivered(message_id=delivered) if delivered in waiting:
                    if waiting[0] != delivered:
                        yield f"{delivered} was started before {waiting[0]}"
                    waiting.remove(delivered)
                case _:
                    pass


def every_message_ends_once(world: TwoProcesses) -> Iterator[str]:
    """Each accepted message is delivered or withdrawn, once."""
    ends = Counter(event.message_id for event in events_of(world) if isinstance(event, InjectDelivered | InjectRevoked))
    for event in events_of(world):
        if isinstance(event, InjectAccepted) and ends[event.item.id] != 1:
            yield f"{event.item.id} ended {ends[event.item.id]} times"


def every_call_has_one_result(world: TwoProcesses) -> Iterator[str]:
    asked = [
        call["id"]
        for event in events_of(world)
        if isinstance(event, TurnCommitted)
        for call in (event.reply or {}).get("tool_calls", ())
    ]
    results = Counter(event.call_id for event in events_of(world) if isinstance(event, ResultRecorded))
    if any(results[call_id] != 1 for call_id in asked) or len(results) != len(asked):
        yield f"asked for {asked}, recorded {dict(results)}"


def a_session_is_idle_in_the_end(world: TwoProcesses) -> Iterator[str]:
    running = False
    for event in events_of(world):
        if isinstance(event, Started):
            if running:
                yield "a turn was started while another one ran"
            running = True
        elif isinstance(event, Idled | Cancelled):
            running = False
    if running:
        yield "a turn was left running"


LAWS: Final = (
    a_prompt_is_started_at_most_once,
    every_prompt_is_answered_or_taken_back,
    what_was_taken_back_never_runs,
    no_request_without_a_prompt,
    a_cancel_ends_a_turn,
    a_cancelled_turn_is_over,
    a_held_queue_waits,
    prompts_run_in_order,
    every_message_ends_once,
    every_call_has_one_result,
    a_session_is_idle_in_the_end,
)
