"""The runner, and what ends a turn: cancels from any process, closing as data, permission by predicate."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

RUNNER: Final[Rules] = rules(
    Source.OURS,
    {
        "inbox:content:forms": "A user message is a text, or blocks of text, images, documents, audio and resources; an image, a document or audio has base64 data with its media type, or a URL, and the spelling `mimeType` of ACP and MCP is read too.",
        "inbox:content:refused": "A block of an unknown type, without a media type or with data that is not base64 is refused before it is accepted, in a sentence that names the block and the field and does not repeat the data.",
        "runner:prompt:one-run-each": "Each queued message gets a run of its own, in order, with its own budget and result.",
        "runner:prompt:content-blocks": "A prompt of several content blocks reaches the model whole.",
        "runner:prompt:withdrawn-costs-no-request": "A prompt that is withdrawn before its turn causes no request and no other effect.",
        "runner:prompt:steer-waits-for-its-turn": "A `steer` sent right after a prompt is part of the first request of the turn that the prompt starts.",
        "runner:hold:waits-for-the-next-message": "After a cancelled turn a runner starts what is queued when the next message is accepted, in order.",
        "runner:hold:deliver-starts-what-is-left": "With `queue_after_cancel` set to `deliver`, everything left over starts a turn, steers too.",
        "runner:lease:one-of-them-runs-it": "Of several runners on one session, one runs a prompt, and once.",
        "runner:lease:refused-runner-retries": "A runner that is refused the lease runs the prompt when the lease is released or has lapsed.",
        "runner:lease:looks-again-after-release": "A prompt that is sent when the session has just become idle finds a runner.",
        "runner:failure:next-prompt-runs": "A run that fails does not end its runner.",
        "runner:close:within-two-seconds": "Closing a runner takes at most two seconds and leaves an idle session, even if a tool ignores its cancellation.",
        "runner:close:leaves-the-queue-to-others": "Closing a runner ends its turn and holds nothing: what is queued runs in another process.",
        "runner:outcome:of-every-end": "The outcome of a message tells how its turn ended: completed, failed with the error, cancelled, withdrawn, out of budget, or closed.",
        "runner:outcome:from-any-process": "The outcome of a message is the same in every process, whichever one ran its turn.",
        "runner:text:with-the-reply-id": "Streamed text is passed on with the id that the reply will have.",
        "runner:dead:open-turn-is-ended": "A turn that a dead process left open is ended without a request.",
        "runner:dead:resume-continues-it": "With `resume`, a turn that was open when the runner started is continued.",
        "runner:daemon:interrupt-starts-a-run": "With `daemon=True` an interrupt starts a run; without it, the interrupt waits for the next prompt.",
    },
)

ENDINGS: Final[Rules] = rules(
    Source.OURS,
    {
        "loop:cancel:one-commit-from-any-process": "A cancel from any process or handle ends the turn in one commit; the run ends as cancelled and commits nothing more.",
        "loop:cancel:nothing-runs-writes-nothing": "A cancel when nothing runs writes nothing, so that it does not hold the next prompt.",
        "loop:cancel:prompt-that-has-not-started": "A cancel that names the first prompt of an idle session writes started, delivered and cancelled together.",
        "loop:cancel:prompt-that-waits-for-another-turn": "A cancel that names a prompt which waits for another turn withdraws the prompt, and that turn goes on.",
        "loop:cancel:prompt-that-is-over": "A cancel that names a prompt whose turn is over changes nothing.",
        "loop:cancel:while-a-run-begins": "A run whose prompt is cancelled before its turn ends as cancelled, without a request.",
        "loop:cancel:task-within-two-seconds": "Code that ignores the cancellation of the task that drives the run is abandoned after two seconds.",
        "loop:closing:records-in-the-same-commit": "The commit that makes a session idle sets the records that `closing` has for the status of the run.",
        "loop:closing:ends-the-session": "With `ends`, that commit also ends every item and then the session, with the reason `task_finished`; the ends of the items precede the records.",
        "loop:closing:cancel-from-any-process": "A cancel from any process applies `closing` too.",
        "loop:closing:dead-run-applies-nothing": "The recovery of a dead run applies no `closing`.",
        "loop:idle:has-the-status": "The event that makes a session idle has the status of the run; the recovery of a dead run has none.",
        "loop:agent:name-is-recorded": "A run records its name in the session when the name differs from that of the last run.",
        "loop:permission:predicate": "A call for which the permission handler's `needs` returns False is made without a question; a failing `needs` asks.",
        "loop:tool:knows-its-call-id": "A running tool knows the id of its call.",
        "promises:close:busy-session": "Closing a session that another process or handle runs is refused as `session_busy` and changes nothing.",
    },
)
