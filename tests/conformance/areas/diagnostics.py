"""Diagnostics, the linter and the command line."""

from typing import Final

from tests.conformance.entry import Rules, Source, rules

TABLE: Final[Rules] = (
    *rules(
        Source.GUIDE_DIAGNOSTICS,
        {
            "diagnostics:code:001": "HARN-RMD-001 means an unknown option or an option of the wrong shape given to a strict producer.",
            "diagnostics:code:002": "HARN-RMD-002 means an invalid reminder that came over a bridge.",
            "diagnostics:code:003": "HARN-RMD-003 means a role hint that the chosen route cannot keep.",
            "diagnostics:code:004": "HARN-RMD-004 means a reminder that compaction may discard and that has no finite TTL.",
            "diagnostics:code:005": "HARN-RMD-005 means an unknown `propagate`.",
            "diagnostics:code:006": "HARN-RMD-006 means a provider that returned a malformed reminder.",
            "diagnostics:code:007": "HARN-RMD-007 means too many enabled providers.",
            "diagnostics:code:008": "HARN-RMD-008 means a reminder effect from a hook event that allows none.",
        },
    ),
    *rules(
        Source.OURS,
        {
            "diagnostics:table:title-cause-remedy-example": "Each code has a title, a cause, a remedy and an example.",
            "diagnostics:table:one-for-all-uses": "`explain`, `lint` and the documentation take titles and remedies from one table, which has an entry for every code that an error carries.",
            "diagnostics:table:every-error-has-a-code": "Every error that a program can catch carries a code that `sideband explain` knows, and `explain` also finds it by the name of its class and by its reason.",
            "diagnostics:table:warnings-are-never-raised": "HARN-RMD-003 and HARN-RMD-004 are warnings, and no error carries them.",
            "diagnostics:table:own-codes": "Entries of the table that are not of the families HARN-RMD and HARN-FACT have codes that begin with SIDEBAND-.",
        },
    ),
)

LINT: Final[Rules] = (
    *rules(
        Source.OURS,
        {
            "lint:code:001": "`lint` reports an unknown option, or one of the wrong shape, as HARN-RMD-001.",
            "lint:code:002": "`lint` reports an invalid bridge reminder as HARN-RMD-002.",
            "lint:code:005": "`lint` reports an unknown `propagate` as HARN-RMD-005.",
            "lint:code:006": "`lint` reports a malformed reminder that a provider returns as HARN-RMD-006.",
            "lint:code:007": "`lint` reports a list of more than eight enabled providers that are not canonical as HARN-RMD-007.",
            "lint:code:008": "`lint` reports a reminder effect of a worker hook as HARN-RMD-008.",
            "lint:code:same-as-at-run-time": "A mistake that `lint` reports has the same code when the program runs.",
            "lint:options:of-a-loop": "`lint` reads the `reminders` option of a loop in Python, JSON and TOML, and reports unknown keys, ids and settings with the nearest known name, and values of the wrong type; a provider to turn off that no checked file registers is advice.",
            "lint:code:ineffective-hook": "`lint` reports a hook that returns a value without effect as SIDEBAND-108.",
            "lint:004:finite-ttl-is-fine": "`lint` does not report HARN-RMD-004 for a reminder with a finite TTL or with `preserve_on_compact`.",
            "lint:input:python-calls": "`lint` reads calls of the producer functions in Python files without running them.",
            "lint:input:python-literals": "`lint` reads dict literals given to or returned from producers in Python files.",
            "lint:input:json": "`lint` reads reminder specs in JSON files.",
            "lint:input:toml": "`lint` reads reminder specs in TOML files.",
            "lint:finding:file-and-line": "Each finding names the file and the line.",
            "lint:finding:severity": "HARN-RMD-003 and HARN-RMD-004 are reported as warnings and the other codes of that family as errors.",
            "lint:output:text": "`lint` prints findings as lines of text.",
            "lint:output:json": "`lint` prints findings as JSON.",
            "lint:output:sarif": "`lint` prints findings as a valid SARIF 2.1.0 log.",
        },
    ),
    *rules(
        Source.GUIDE_RENDERING,
        {"lint:code:003": "`lint` reports a hard-coded `user_block` for a route that cannot keep it as HARN-RMD-003."},
    ),
    *rules(
        Source.GUIDE_COMPACTION,
        {
            "lint:code:004": "`lint` reports a reminder without a finite TTL whose `preserve_on_compact` is false or absent as HARN-RMD-004."
        },
    ),
)

COMMAND_LINE: Final[Rules] = (
    *rules(
        Source.GUIDE_DIAGNOSTICS,
        {"cli:explain:prints-the-entry": "`sideband explain` with a code prints its title, cause, remedy and example."},
    ),
    *rules(
        Source.OURS,
        {
            "cli:explain:unknown-code": "`sideband explain` with an unknown code prints an error and exits with 2.",
            "cli:lint:exit-0": "`sideband lint` exits with 0 when it finds no mistake, or only advice.",
            "cli:lint:exit-1": "`sideband lint` exits with 1 when it finds an error or a warning.",
            "cli:lint:exit-2": "`sideband lint` exits with 2 when it is used wrongly or cannot read its input.",
            "cli:schema:writes-the-artifacts": "`sideband schema` writes the protocol artifacts into the given folder.",
            "cli:schema:check": "`sideband schema` can check instead of write, and then fails when a file is missing or differs.",
            "cli:doctor:names-missing-extras": "`sideband doctor` says which extras are installed and how to install those that are not.",
            "cli:doctor:reports-the-limits": "`sideband doctor` reports every limit and its default.",
            "cli:doctor:verifies-a-store": "`sideband doctor --verify` rebuilds every session of a store from its events, compares it with its snapshot and tail, and names every row that was changed or is missing.",
            "cli:events:public-projection": "`sideband events` prints the public form of the events of one session, or of all sessions with `--all`, or only those of one kind or after one position.",
            "cli:events:follows-other-processes": "`sideband events --follow` prints the new events of every process until it is interrupted.",
            "cli:events:export-spares-stores": "`sideband events --export` does not replace a file of a SQLite store, whether the events are read from a store or from a server.",
            "cli:events:says-where-to-resume": "`sideband events` refuses a position whose events are no longer kept, and names the position to continue from.",
            "cli:render:as-it-was-sent": "`sideband render` shows the last request of a saved session, or the request of a given turn, with exactly the bytes that were sent, also while another process runs the session.",
            "cli:render:as-another-model": "With another model or placement, `sideband render` shows the request as it would be if the whole session had run with that model or placement.",
            "cli:render:the-next-request": "`sideband render --next` shows the request that a session would send next, including the items that wait in its inbox.",
            "cli:sessions:lists-them": "`sideband sessions` lists the sessions of a store with their state, turn and number of pending items.",
            "cli:store:commands-make-no-store": "A command that reads a store, or tells one of its sessions something, never creates a store.",
            "cli:output:no-control-characters": "No control character and no invisible character of a text reaches the terminal, and in JSON it is an escape that stands for the same text.",
            "cli:output:columns": "A table is aligned by the columns of the terminal, of which some characters take two, and cuts long texts, which JSON has in full.",
            "cli:open:printed-link": "`sideband open` takes the address of a server or the link that `sideband serve` printed, and makes a new link.",
            "cli:serve:rehearsal-model": "`sideband serve --rehearsal` without a model says that a script plays the rehearsal.",
            "cli:demo:signals": "`sideband demo` ends with 128 and the number of the signal at SIGINT, SIGTERM and SIGHUP, and leaves no folder.",
            "cli:demo:narrow": "`sideband demo` fits into 40 columns, with its keys and words in full.",
            "cli:store:user-store": "Without `--store` a command uses the user's store: the one that `$SIDEBAND_STORE` names, or else a file in the user's data directory, which `open_store(\"user:\")` creates for the user only.",
            "cli:store:old-address": "A store address as a positional argument of `sessions`, `events` or `render` is refused with the option to write instead.",
            "cli:target:id-or-address": "`--to` names a session in every command: by its id in the store of `--store`, or as `STORE_URL#ID`; for `sideband facts` it names the store of that session.",
            "cli:target:only-open-session": "Without `--to` a command is about the only open session of its store, apart from those of sub-agents, which count only if no other session is open; none or several is an error that lists up to 20 of them with title or agent and last change, newest first.",
            "cli:target:unknown-session": "A session id that does not exist is an error that lists the nearest ids, and no session is created.",
            "cli:target:a2a-task": "`a2a+http://HOST:PORT#TASK` names a task of an agent for `remind`, `pending`, `revoke` and `clear`; `inject` is refused.",
            "cli:target:without-scheme": "A target `HOST:PORT` of this machine is refused with the address to write instead.",
            "cli:target:needs-a-protocol": "A target `agent:NAME` is refused as one that this version cannot reach, with the forms that work.",
            "cli:remind:options": "`sideband remind` sends a reminder with a body from its argument or from standard input, and each option becomes the field of the reminder.",
            "cli:remind:operator": "A reminder from the command line is the operator's: trust level T0, source `in_pipeline`, and it shares keys with the code of the agent.",
            "cli:remind:reaches-a-running-loop": "A reminder that `sideband remind` has acknowledged is durable, and a loop that runs in another process takes it at its next seam.",
            "cli:remind:id": "`--id` is the idempotency key of `sideband remind`: a repeat prints the same answer and changes nothing, another payload is an `idempotency_conflict`.",
            "cli:inject:modes": "`sideband inject` sends a user message: `steer` reaches the running turn of another process, `queue` waits for the next turn.",
            "cli:pending:lists": "`sideband pending` lists the inbox in acceptance order and then the live reminders, and changes nothing.",
            "cli:revoke:answers": "`sideband revoke` withdraws a queued reminder or message and answers `revoked`, or `already_revoked` on a repeat.",
            "cli:clear:selects": "`sideband clear` ends the queued and live reminders that match all of `--key`, `--tag` and `--id`, and prints their number; no match is not an error.",
            "cli:transcript:turn-by-turn": "`sideband transcript` prints for each turn what the model was told on the side, by whom, under which key and in which role, then the reply and its tool calls, and at the end what is live and what waits.",
            "cli:transcript:as-json": "`sideband transcript --json` prints the transcript of the session, as `Session.transcript` returns it, with its live reminders.",
            "cli:facts:list-add-remove": "`sideband facts` lists the facts of a store, or those recalled for a query; `facts add` stores one durably and creates the store if there is none, and `facts remove` forgets one.",
            "cli:errors:code-and-status": "An error that has a code is printed with the code and the command that explains it; the status is 1 if the session refuses a correct request and 2 if the command is wrong or the session cannot be reached.",
            "cli:errors:what-to-write": "An argument that a command does not take and an unknown option are refused on one line that says what to write instead.",
            "cli:help:options-and-examples": "The help of every command explains each of its options, and the overview shows the commands in groups.",
        },
    ),
)

WATCH: Final[Rules] = rules(
    Source.OURS,
    {
        "cli:watch:reminds": "`sideband watch` reminds a session of changed files (`--files`), of the result of a test command (`--tests`) or of another command (`--command`), and of the state of the repository (`--git`).",
        "cli:watch:target-and-json": "`sideband watch` names its session with `--to`, like every other command, and prints JSON with `--json`.",
        "cli:watch:tells-as-operator": "`sideband watch` tells the session each notice as a reminder of the operator, with the key, TTL and tags of the notice.",
        "cli:watch:survives-refusals": "If the session refuses a reminder, `sideband watch` prints the refusal and goes on.",
        "cli:watch:signals-end-with-0": "SIGINT, SIGTERM and SIGHUP end `sideband watch` with the exit code 0, except for a SIGHUP that is ignored, as by `nohup`.",
        "cli:watch:lost-server": "While a server cannot be reached, `sideband watch` says so once and keeps the newest notice of each key, which it tells when the server is back.",
        "cli:watch:session-end": "`sideband watch` ends with the exit code 1 when its session is closed or deleted.",
        "cli:watch:nothing-left": "`sideband watch` ends with the exit code 2 when nothing that it watched exists any more, and names the options.",
        "cli:watch:mistakes": "`sideband watch` refuses a wrong or missing option, an unknown session and a missing extra with the exit code 2, and tells nothing.",
        "cli:watch:store-not-told": "Changes of the store in which the session is kept are not told.",
    },
)

TIMELINE: Final[Rules] = rules(
    Source.OURS,
    {
        "cli:timeline:shows-a-session": "`sideband timeline` shows the timeline of a session, named with `--to`, and prints it as JSON with `--json`.",
        "cli:timeline:bars": "`sideband timeline` draws each reminder as a bar that is dashed while it is queued and solid while it is live, with a dot in each turn that showed it and the mark of its end, and reminders with one key in one lane.",
        "cli:timeline:fits": "`sideband timeline` draws the last turns that fit into the terminal, says how many are not shown, and needs neither colour nor Unicode.",
        "cli:timeline:pruned": "A session whose older events are no longer kept is shown from the oldest event on, with everything that is pending.",
    },
)

SERVER: Final[Rules] = rules(
    Source.OURS,
    {
        "cli:http:every-command": "`http://HOST:PORT#ID` names a session of a running `sideband serve` for `remind`, `inject`, `pending`, `revoke`, `clear`, `watch`, `events`, `transcript` and `timeline`, and `http://HOST:PORT` names the server for `sessions`, `facts` and `events --all`.",
        "cli:http:same-answers": "What a command reads from a server is what it reads from the store of that server.",
        "cli:http:same-refusals": "A request that a server refuses has the same exit status and message as with its store, with the code that clients get.",
        "cli:http:which-session": "Without an id a command is about the only open session of the server, and an unknown id or several open sessions are an error that lists them.",
        "cli:http:token": "A command sends the token of `$SIDEBAND_TOKEN`, or else the operator's own token, which only a server on this machine gets.",
        "cli:http:unreachable": "A server that cannot be reached, refuses the token or is another program is an error that says what to do, and exits with 2.",
        "cli:http:unknown-outcome": "If the connection is lost after a request was sent, the error says that it is not known whether the request was accepted, and names the command that shows it.",
        "cli:http:not-text": "An argument that is not UTF-8 is refused with the exit code 2, and nothing is sent.",
        "cli:http:follow": "`sideband events --follow` goes on after the last event when the connection to the server was lost, and says once that it is lost and when it is back.",
        "cli:http:no-control-bytes": "No control character of a server's answer reaches the terminal.",
    },
)
