"""The door: how a producer of any kind tells a session something."""

from typing import Final

from tests.conformance.entry import Rules, Source, divergence, rules

DOOR: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "door:payload:object-or-json-text": "A producer takes an object or its JSON text, with the same result, and refuses JSON text that repeats a key.",
            "door:payload:rules-of-its-surface": "Each producer reads payloads by the rules of its own surface.",
            "door:trust:from-the-producer": "What a producer sends has the trust level and the principal of the producer, whatever the payload says.",
            "door:refusal:changes-nothing": "A refused request raises its error and writes nothing.",
            "door:rate:of-sender-and-session": "All producers of one store with the same sender share one rate in each session.",
            "door:rate:free-requests-cost-nothing": "A repeat, a newer version of something that still waits, and a request that is refused before its rate is checked cost no token.",
            "door:rate:capacity-comes-after": "A request that is refused for want of capacity has used its token.",
            "door:rate:refusals-are-recorded": "Requests over the rate are recorded at most once a second, as one event with their count.",
            "door:notify:refusal-is-counted": "For a sender that reads no reply, refusals are recorded at most once a second for each sender, session and reason, with their count, and nothing is raised.",
            "door:notify:ends-with-the-store": "Closing a store records the refusals that were counted and leaves no task.",
            "door:grants:raise-the-ceiling": "A grant of the operator raises the ceiling of that producer until the grant ends.",
            "door:versions:id-serves-as-the-key": "On MCP a reminder without a dedupe key has its id as the key.",
            "door:meta:kept-with-the-item": "The `_meta` object of a request is kept with the item and shown with it.",
            "door:receipt:same-time-and-version": "A repeat gets the time of acceptance and the version of the first reply.",
            "door:pending:own-items-only": "A peer or a server lists its own items only, with positions counted among these; a controller lists all.",
            "door:messages:controllers-only": "Only the operator and controllers send, revoke and replace user messages.",
            "door:owner:unknown-to-other-peers": "A session with an `owner` is unknown to every peer of another name, for every method, its view and its updates.",
            "door:verbs:on-every-store": "Every method of a producer gives the same results on all stores.",
        },
    ),
    *divergence(
        Source.MCP_NOTIFICATION,
        "door:versions:newer-takes-the-place",
        "On MCP the same id with another payload is a newer version: it takes the place of the pending one, queued or live, and its id ends in `~2`, `~3` and so on.",
        reason="The proposal gives each notification an id and does not say what a second one with other text means; a server gets no reply, so an error would leave the stale text in place and nobody would know.",
    ),
)
