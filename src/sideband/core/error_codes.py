"""The diagnostics of errors that only a running program can raise: refused requests, stores, models, and facts."""

from typing import Final

from sideband.core.explanation import Diagnostic, Severity, in_python


def _raised(code: str, *names: str, title: str, cause: str, remedy: str, wrong: str, right: str) -> Diagnostic:
    return Diagnostic(
        code=code,
        names=names,
        title=title,
        severity=Severity.ERROR,
        cause=cause,
        remedy=remedy,
        example=in_python(wrong, right),
    )


# Facts (`harn.fact.v1`). One class carries all nine codes, so that it is explained by the code only.
FACTS: Final = (
    _raised(
        "HARN-FACT-001",
        title="Invalid fact record",
        cause="The record is not a mapping, has another schema than `harn.fact.v1`, has a field that does not exist or an `id` that does not follow from its content, or is too large for a store. Options that are not a mapping have this code, too.",
        remedy="Pass `kind`, `claim` and `confidence`, and optionally `evidence`, `provenance`, `valid_until` and `asserted_at`. Leave `id` and `schema` out. Keep long text in a file and let the evidence refer to it.",
        wrong='parse_fact({"kind": "decision", "claim": "Ship on Fridays.", "confidence": 0.9, "certainty": 1})',
        right='parse_fact({"kind": "decision", "claim": "Ship on Fridays.", "confidence": 0.9})',
    ),
    _raised(
        "HARN-FACT-002",
        title="Unknown kind of fact",
        cause="`kind`, or an entry of `kind_filter`, is not one of the five kinds.",
        remedy="Use observation, claim, hypothesis, decision or constraint.",
        wrong='await store_fact(store=store, kind="rumour", claim="Tests are slow.", confidence=0.5)',
        right='await store_fact(store=store, kind="hypothesis", claim="Tests are slow.", confidence=0.5)',
    ),
    _raised(
        "HARN-FACT-003",
        title="Claim that is missing, blank or not text",
        cause="A fact without a claim says nothing. Control characters are refused as well, because the claim becomes the body of a reminder.",
        remedy="Write the claim as one sentence.",
        wrong='await store_fact(store=store, kind="decision", claim="", confidence=0.9)',
        right='await store_fact(store=store, kind="decision", claim="Ship on Fridays.", confidence=0.9)',
    ),
    _raised(
        "HARN-FACT-004",
        title="Confidence that is not a number from 0 to 1",
        cause="`confidence` is required, so that recall can leave out what is doubtful. `min_confidence` has to be a number, too.",
        remedy="Pass a number from 0 to 1.",
        wrong='await store_fact(store=store, kind="decision", claim="Ship on Fridays.", confidence=90)',
        right='await store_fact(store=store, kind="decision", claim="Ship on Fridays.", confidence=0.9)',
    ),
    _raised(
        "HARN-FACT-005",
        title="Malformed evidence",
        cause="`evidence` is not a list, or an entry of it lacks `kind` or `ref`, has an unknown kind or an unknown field.",
        remedy="Pass a list of objects with `kind` (trace_ref, file_range, tool_output or user_input), `ref` and optionally `snippet`.",
        wrong='await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, evidence="ci.log")',
        right="""
        ref = {"kind": "tool_output", "ref": "ci.log"}
        await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, evidence=[ref])
        """,
    ),
    _raised(
        "HARN-FACT-006",
        title="Provenance that is not a plain JSON object",
        cause="`provenance` is not a mapping, or contains something that JSON cannot represent, is nested too deeply or has too many values.",
        remedy="Pass a mapping of strings to JSON values, at most 16 levels deep and with at most 1,000 values.",
        wrong='await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, provenance="me")',
        right='await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, provenance={"by": "me"})',
    ),
    _raised(
        "HARN-FACT-007",
        title="Malformed end of validity",
        cause="`valid_until` is not an object with `event` and `asserted_at`.",
        remedy="Pass the event that ends the validity, as text or as an object, and when that was stated.",
        wrong="""
        ends = "release 2"
        await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, valid_until=ends)
        """,
        right="""
        ends = {"event": "release 2", "asserted_at": "2026-10-02T12:00:00Z"}
        await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, valid_until=ends)
        """,
    ),
    _raised(
        "HARN-FACT-008",
        title="Invalid option for the selection of facts",
        cause="`namespace`, `scope`, `max_facts`, `kind_filter` or `query` has a wrong type, the scope is unknown, or the namespace is too long for a store.",
        remedy="A scope is project, workspace or user. `max_facts` is a whole number. A namespace has at most 200 bytes in a store.",
        wrong='await recall_facts(store=store, scope="galaxy")',
        right='await recall_facts(store=store, scope="workspace")',
    ),
    _raised(
        "HARN-FACT-009",
        title="Time of assertion that is missing or invalid",
        cause="`asserted_at` is neither RFC 3339 text with a time zone nor a number of milliseconds since 1970.",
        remedy="Leave it out, which means now, or write it like `2026-10-02T12:00:00Z`.",
        wrong='await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1, asserted_at="yesterday")',
        right='await store_fact(store=store, kind="claim", claim="CI is red.", confidence=1)',
    ),
)

# Requests that a session refuses because of its state or its limits.
_REQUESTS: Final = (
    _raised(
        "SIDEBAND-201",
        "UnsupportedMode",
        "unsupported_mode",
        title="Delivery mode that does not exist here",
        cause="The request does not have the given delivery mode. A word that resembles a mode is not replaced by one.",
        remedy="Use one of the modes that the error lists.",
        wrong='await session.inject("Stop after this test.", mode="wait_for_completion")',
        right='await session.inject("Stop after this test.", mode="steer")',
    ),
    _raised(
        "SIDEBAND-202",
        "IdempotencyConflict",
        "idempotency_conflict",
        title="Id that was already used for something else",
        cause="The id was already used, for another reminder or by another sender.",
        remedy="Send a new id. To repeat a request, send it unchanged.",
        wrong="""
        await producer.remind({"id": "build-1", "body": "The build is red.", "ttlTurns": 1})
        await producer.remind({"id": "build-1", "body": "The build is green.", "ttlTurns": 1})
        """,
        right="""
        await producer.remind({"id": "build-1", "body": "The build is red.", "ttlTurns": 1})
        await producer.remind({"id": "build-2", "body": "The build is green.", "ttlTurns": 1})
        """,
    ),
    _raised(
        "SIDEBAND-203",
        "NotPermitted",
        "not_permitted",
        title="Request that only the operator may make",
        cause="The caller's level of trust does not allow this.",
        remedy="Ask the operator to do it, or to grant it.",
        wrong='await peer.inject("Stop here.")',
        right='await session.inject("Stop here.")',
    ),
    _raised(
        "SIDEBAND-204",
        "NotInjectable",
        "not_injectable",
        title="Text that cannot become a reminder",
        cause="The text comes from tool output, a file or a page. Such text is not accepted as a reminder.",
        remedy="Write a hook or a provider that returns the reminder.",
        wrong='await Producer(session, Provenance(trust=Trust.CONTENT)).remind({"body": page_text})',
        right='register_session_hook("post_tool_use", note_page)',
    ),
    _raised(
        "SIDEBAND-205",
        "UnknownSession",
        "unknown_session",
        title="Session that does not exist or is closed",
        cause="The session does not exist, is closed, or does not belong to the caller.",
        remedy="Check the name. A closed session cannot be reopened; start a new one.",
        wrong="""
        await session.close()
        await session.remind("The build is red.", ttl_turns=1)
        """,
        right="""
        session = await store.session()
        await session.remind("The build is red.", ttl_turns=1)
        """,
    ),
    _raised(
        "SIDEBAND-206",
        "UnknownReminder",
        "unknown_reminder_id",
        title="Reminder that is not queued",
        cause="No reminder with this id is queued, or it belongs to another sender.",
        remedy="Session.pending() lists the queued and live reminders. End a live one with Session.clear(id=...).",
        wrong="await session.revoke(live_reminder_id)",
        right="await session.clear(id=live_reminder_id)",
    ),
    _raised(
        "SIDEBAND-207",
        "UnknownMessage",
        "unknown_message_id",
        title="Message that is not queued",
        cause="No message with this id is queued, or it belongs to another sender.",
        remedy="Session.waiting() lists the queued messages and reminders.",
        wrong='await session.replace_message("m-1", "Go on.")',
        right="""
        message_id = await session.inject("Wait.", mode="queue")
        await session.replace_message(message_id, "Go on.")
        """,
    ),
    _raised(
        "SIDEBAND-208",
        "AlreadyDelivered",
        "already_delivered",
        title="Item that was already delivered",
        cause="The reminder or message was delivered to a turn, so it can no longer be revoked or replaced.",
        remedy="End a live reminder with Session.clear(id=...). Correct a message by sending another one.",
        wrong='await session.replace_message(delivered_id, "Use the other branch.")',
        right='await session.inject("Use the other branch.")',
    ),
    _raised(
        "SIDEBAND-209",
        "AlreadyRevoked",
        "already_revoked",
        title="Item that was already revoked",
        cause="The reminder or message was already revoked, so it cannot be replaced.",
        remedy="Send a new one.",
        wrong="""
        await session.revoke(message_id)
        await session.replace_message(message_id, "Go on.")
        """,
        right="""
        await session.revoke(message_id)
        await session.inject("Go on.", mode="queue")
        """,
    ),
    _raised(
        "SIDEBAND-210",
        "NoRunningTurn",
        "no_running_turn",
        title="Message for a running turn, and none is running",
        cause="The mode of the message needs a running turn, and no turn is running.",
        remedy="Send it as a prompt, or with mode='queue', which starts the next turn.",
        wrong='await idle_session.inject("Go on.", mode="steer")',
        right='await idle_session.inject("Go on.", mode="queue")',
    ),
    _raised(
        "SIDEBAND-211",
        "ReplaceNotSupported",
        "replace_not_supported",
        title="Peer that cannot replace messages",
        cause="The peer cannot replace a queued message.",
        remedy="Revoke the message and send another one.",
        wrong='await session.replace_message(message_id, "Go on.")',
        right="""
        await session.revoke(message_id)
        await session.inject("Go on.", mode="queue")
        """,
    ),
    _raised(
        "SIDEBAND-212",
        "SessionBusy",
        "session_busy",
        title="Session that is in use",
        cause="A loop or a model call is running on the session, in this or another process.",
        remedy="Wait until it ends, or cancel it. If its process died, wait until the lease lapses.",
        wrong="""
        run = await agent_run("Fix the login bug", session=session, model=model)
        await agent_loop("Write the tests", session=session, model=model)
        """,
        right="""
        async with await agent_run("Fix the login bug", session=session, model=model) as run:
            await run.finish()
        await agent_loop("Write the tests", session=session, model=model)
        """,
    ),
    _raised(
        "SIDEBAND-213",
        "TaskFinished",
        "task_finished",
        title="Task that has ended",
        cause="The task of the session has ended, and the session with it.",
        remedy="Begin a new task, and send it there.",
        wrong='await finished_task.remind("The build is red.", ttl_turns=1)',
        right='await next_task.remind("The build is red.", ttl_turns=1)',
    ),
    _raised(
        "SIDEBAND-214",
        "TooManyPending",
        "too_many_pending",
        title="Too many pending items",
        cause="The session, or one sender in it, has as many pending reminders, messages or audit records as its limit allows. Live reminders count as pending.",
        remedy="Do what the error suggests: clear live reminders, revoke queued ones, or wait for a turn. Give reminders ttl_turns, so that they expire, or a dedupe_key, so that newer ones replace them; or raise pending_per_session of the store's Limits.",
        wrong="""
        for path in changed:
            await session.remind(f"{path} changed on disk.", preserve_on_compact=True)
        """,
        right="""
        for path in changed:
            await session.remind(f"{path} changed on disk.", dedupe_key=f"file_changed:{path}", ttl_turns=2)
        """,
    ),
    _raised(
        "SIDEBAND-215",
        "TooManyFacts",
        "too_many_facts",
        title="Too many facts in a store",
        cause="The store has as many facts as its limit allows. Nothing was stored.",
        remedy="Remove facts that no longer hold with Store.forget_fact(id), or raise facts of the store's Limits.",
        wrong='open_store("sqlite:///sideband.db")',
        right='open_store("sqlite:///sideband.db", limits=Limits(facts=50_000))',
    ),
    _raised(
        "SIDEBAND-216",
        "RateLimited",
        "rate_limited",
        title="Sender that sends too fast",
        cause="The sender exceeds its rate limit.",
        remedy="Wait for retry_after_ms milliseconds and send it again. The refused request was not stored.",
        wrong='await peer.remind({"body": "The build is red.", "ttlTurns": 1})',
        right="""
        try:
            await peer.remind({"body": "The build is red.", "ttlTurns": 1})
        except RateLimited as error:
            await asyncio.sleep(error.retry_after_ms / 1000)
        """,
    ),
    _raised(
        "SIDEBAND-217",
        "NothingToAnswer",
        "nothing_to_answer",
        title="Request that says nothing new",
        cause="The model has answered everything in the conversation, and no reminder adds text to the request. Sideband writes no message in the name of the user, so there is no request to send.",
        remedy="Send a message, or a reminder that the route can show.",
        wrong="model.plan(view_of_an_answered_conversation)",
        right='await llm_call("Go on.", session=session, model=model)',
    ),
    _raised(
        "SIDEBAND-218",
        "WrongEventLoop",
        "wrong_event_loop",
        title="Store that is used from another event loop",
        cause="A store and its sessions belong to the event loop in which the store was opened. Its wake-ups and locks work in no other one.",
        remedy="Call it in its own event loop with asyncio.run_coroutine_threadsafe(), or open the store in each event loop.",
        wrong="""
        asyncio.run(session.remind("The build is red.", ttl_turns=1))  # in another thread
        """,
        right="""
        asyncio.run_coroutine_threadsafe(session.remind("The build is red.", ttl_turns=1), loop)
        """,
    ),
)

# Failures of the store, after which the request may be repeated.
_STORES: Final = (
    _raised(
        "SIDEBAND-301",
        "StoreRefused",
        "store_refused",
        title="Store that cannot be opened",
        cause="The address cannot be opened as a store. Nothing there was changed.",
        remedy="Do what the error suggests. `sideband doctor` shows what is installed.",
        wrong='open_store("sqlite:///notes.txt")',
        right='open_store("sqlite:///sideband.db")',
    ),
    _raised(
        "SIDEBAND-302",
        "StoreDamaged",
        "store_damaged",
        title="Damaged store",
        cause="The store holds something other than what was written to it.",
        remedy="Restore a backup. `sideband doctor --verify` shows what is damaged.",
        wrong='open_store("sqlite:///damaged.db")',
        right='open_store("sqlite:///backup.db")',
    ),
    _raised(
        "SIDEBAND-303",
        "StoreNewer",
        "store_newer",
        title="Store of a newer version",
        cause="The store was written by a newer version of Sideband.",
        remedy="Upgrade Sideband.",
        wrong='open_store("sqlite:///written-by-a-newer-version.db")',
        right="""
        # pip install --upgrade sideband
        open_store("sqlite:///written-by-a-newer-version.db")
        """,
    ),
    _raised(
        "SIDEBAND-304",
        "StoreUnavailable",
        "store_unavailable",
        title="Store that cannot be reached",
        cause="The disk is full or failed, the server cannot be reached, or another process locks the file. Nothing was written.",
        remedy="Remove the cause and try again.",
        wrong='open_store("postgresql://db.internal/agents", patience_seconds=1)',
        right='open_store("postgresql://db.internal/agents", patience_seconds=30)',
    ),
    _raised(
        "SIDEBAND-305",
        "OutcomeUnknown",
        "outcome_unknown",
        title="Commit whose outcome is not known",
        cause="The server or the disk failed during a commit, and Sideband could not find out whether it was made.",
        remedy="When the store works again, read the journal before you repeat the request.",
        wrong="""
        # after OutcomeUnknown
        await session.remind(body, ttl_turns=1)
        """,
        right="""
        # after OutcomeUnknown
        if body not in [pending.reminder.body for pending in await session.pending()]:
            await session.remind(body, ttl_turns=1)
        """,
    ),
    _raised(
        "SIDEBAND-306",
        "StoreClosed",
        "store_closed",
        title="Store that is closed",
        cause="The store was used after it was closed.",
        remedy="Open it again, or use it inside its `async with`.",
        wrong="""
        async with open_store("sqlite:///sideband.db") as store:
            session = await store.session("fix-login")
        await session.remind("The build is red.", ttl_turns=1)
        """,
        right="""
        async with open_store("sqlite:///sideband.db") as store:
            session = await store.session("fix-login")
            await session.remind("The build is red.", ttl_turns=1)
        """,
    ),
    _raised(
        "SIDEBAND-307",
        "NotStorable",
        "not_storable",
        title="Value that cannot be stored",
        cause="A value cannot be written to the journal, or a name cannot be the name of a session.",
        remedy="Use values that JSON can represent. The name of a session may have at most 2,000 bytes.",
        wrong="await store.session(prompt_text)",
        right='await store.session("fix-login")',
    ),
    _raised(
        "SIDEBAND-308",
        "LeaseLost",
        "lease_lost",
        title="Run whose lease was lost",
        cause="The lease of the session lapsed or was taken over, so another process may run the session.",
        remedy="Stop this run. Everything that it committed is kept.",
        wrong='open_store("sqlite:///sideband.db", lease_seconds=1)',
        right='open_store("sqlite:///sideband.db", lease_seconds=30)',
    ),
    _raised(
        "SIDEBAND-309",
        "CursorLost",
        "cursor_lost",
        title="Subscriber that was too slow",
        cause="A subscriber was too slow and was cut off.",
        remedy="Subscribe again with the `after` from the error; no event is lost.",
        wrong="""
        async for record in session.events():
            await show_slowly(record)
        """,
        right="""
        async for record in session.events(after=seen):
            seen = record.seq
            await show_slowly(record)
        """,
    ),
    _raised(
        "SIDEBAND-310",
        "CursorExpired",
        "cursor_expired",
        title="Events that are no longer kept",
        cause="The events that a subscriber asked for are no longer kept.",
        remedy="Subscribe again with the `after` from the error. To keep more events, raise kept_events of open_store.",
        wrong="session.events(after=1)",
        right="session.events(after=error.oldest)",
    ),
)

# Failures of models, profiles and workers.
_RUNS: Final = (
    _raised(
        "SIDEBAND-401",
        "ModelError",
        "model_failed",
        title="Model that failed",
        cause="The model service refused the request or could not be reached, the credentials are wrong, or the reply could not be read. Failures of the connection were retried.",
        remedy="The message quotes the service. Check the name of the model, the key in the environment, and the network; `sideband doctor` shows what is set.",
        wrong='await agent_loop("Fix the login bug", model="anthropic:claude-opus")',
        right='await agent_loop("Fix the login bug", model="anthropic:claude-opus-5")',
    ),
    _raised(
        "SIDEBAND-402",
        "WrongPhase",
        title="Worker in the wrong phase",
        cause="A worker can be worked once, suspended while it works, and resumed while it is suspended or after its process has ended. The method was called in another phase; nothing has changed.",
        remedy="Look at `worker.phase` first, and make a new worker with `spawn` for another task.",
        wrong="""
        await worker.work()
        await worker.work()
        """,
        right="""
        await worker.work()
        other = await spawn(session, store, "Write the tests.", model=model)
        """,
    ),
    _raised(
        "SIDEBAND-403",
        "ProfileError",
        title="Invalid model profile",
        cause="A file of profiles is invalid, or a model is not written as `transport:model`.",
        remedy="The message names the file, the row and the field. `sideband profiles` lists the fields with the values in use.",
        wrong='await agent_loop("Fix the login bug", model="claude-opus-5")',
        right='await agent_loop("Fix the login bug", model="anthropic:claude-opus-5")',
    ),
)

# Agents that the ACP client drives.
_AGENTS: Final = (
    _raised(
        "SIDEBAND-501",
        "AgentNotStarted",
        title="Agent that could not be started",
        cause="The command of the agent does not exist or is not executable, or the folder to start it in is missing.",
        remedy="Run the command in a terminal. Give its full path if the program that starts it has another PATH.",
        wrong='connect("claude-agent-acpp")',
        right='connect("claude-agent-acp")',
    ),
    _raised(
        "SIDEBAND-502",
        "AgentEnded",
        title="Agent that ended",
        cause="The process of the agent ended, closed its output, or no longer reads its input.",
        remedy="The message has the end of its standard error. Connect again and load the session.",
        wrong='await session.prompt("Go on.")',
        right="""
        async with connect(command) as agent:
            session = await agent.load_session(session_id)
            await session.prompt("Go on.")
        """,
    ),
    _raised(
        "SIDEBAND-503",
        "AgentSilent",
        title="Agent that does not answer",
        cause="The agent did not answer a request within `answer_seconds`, or it is not an ACP agent.",
        remedy="Check that the command speaks ACP on its standard streams; some agents need an option such as `--acp`. Raise `answer_seconds` for an agent that starts slowly.",
        wrong='connect("gemini")',
        right='connect("gemini --acp", answer_seconds=120)',
    ),
    _raised(
        "SIDEBAND-504",
        "AgentNotUnderstood",
        title="Agent whose answer is not understood",
        cause="The answer of the agent is not ACP, or it speaks only another version of it than the client.",
        remedy="Update the agent, or use one that speaks version 1 of ACP.",
        wrong='connect("old-agent")',
        right='connect("claude-agent-acp")',
    ),
    _raised(
        "SIDEBAND-505",
        "LoginRequired",
        title="Agent that wants a login",
        cause="The agent opens no session before its user has logged in.",
        remedy="Log in with the agent's own command, or call `authenticate` with one of `agent.auth_methods`.",
        wrong="session = await agent.new_session()",
        right="""
        await agent.authenticate("gemini-api-key")
        session = await agent.new_session()
        """,
    ),
    _raised(
        "SIDEBAND-506",
        "UpdatesLost",
        title="Updates of an agent that were not read",
        cause="A stream keeps a limited number of updates for a slow reader; then it ends.",
        remedy="Read the stream in a task of its own, or load the session again, which replays it.",
        wrong="""
        updates = session.updates()
        await a_long_time()
        """,
        right="reading = asyncio.create_task(read(session.updates()))",
    ),
    _raised(
        "SIDEBAND-507",
        "NotSupportedByAgent",
        title="Method that an agent does not support",
        cause="The agent does not advertise what was asked of it, or does not know the method. Nothing has changed.",
        remedy="Look at `agent.capabilities` first. Behind `sideband acp-proxy` any agent can be told reminders and messages.",
        wrong='connect("opencode acp")',
        right='connect("sideband acp-proxy -- opencode acp")',
    ),
)

# Agents that the A2A client gives tasks to.
_PEERS: Final = (
    _raised(
        "SIDEBAND-508",
        "PeerUnreachable",
        title="Agent over A2A that cannot be reached",
        cause="There is no connection to the agent, it was lost, or a gateway in front of the agent has none.",
        remedy="Check the address and that the agent is running; then try again. `wait` connects again by itself.",
        wrong='connect("http://127.0.0.1:8643")',
        right='connect("http://127.0.0.1:8642")',
    ),
    _raised(
        "SIDEBAND-509",
        "PeerSilent",
        title="Agent over A2A that does not answer",
        cause="The agent did not answer a request within `answer_seconds`.",
        remedy="Try again, or raise `answer_seconds`. `send` and `wait` have no limit, because a task may take long.",
        wrong="connect(url, answer_seconds=1)",
        right="connect(url, answer_seconds=120)",
    ),
    _raised(
        "SIDEBAND-510",
        "PeerNotUnderstood",
        title="Agent over A2A whose answer is not understood",
        cause="The answer is not one of A2A 1.0 or 0.3, is larger than the client reads, or the address is not that of an agent.",
        remedy="Give the address below which the card is: `/.well-known/agent-card.json` must be there.",
        wrong='connect("https://agents.example.org/worker/.well-known/agent-card.json")',
        right='connect("https://agents.example.org/worker")',
    ),
    _raised(
        "SIDEBAND-511",
        "PeerNotTrusted",
        title="Agent card that names another origin",
        cause="The card says that the agent is at another scheme, host or port than the card. The token would be sent there.",
        remedy="If both belong to the same agent, allow that origin.",
        wrong='connect("https://cards.example.org", token=token)',
        right='connect("https://cards.example.org", token=token, allowed_origins=["https://agents.example.org"])',
    ),
    _raised(
        "SIDEBAND-512",
        "TokenRefused",
        title="Agent over A2A that refuses the token",
        cause="The agent wants a token and got none, or another one than it knows.",
        remedy="Pass the token that the operator of the agent gave you; on the command line, set `SIDEBAND_TOKEN`.",
        wrong='connect("https://agents.example.org")',
        right='connect("https://agents.example.org", token=os.environ["WORKER_TOKEN"])',
    ),
    _raised(
        "SIDEBAND-513",
        "NotSupportedByPeer",
        title="Method that an agent over A2A does not support",
        cause="The card of the agent does not offer the method, or the agent does not know it. Nothing has changed.",
        remedy="Ask `peer.offers` first. `remind` does not raise this: its result says what became of the reminder.",
        wrong='await peer.clear(task_id, tag="ci")',
        right="""
        if peer.offers("tasks/clear_reminders"):
            await peer.clear(task_id, tag="ci")
        """,
    ),
)

RAISED: Final = (*_REQUESTS, *_STORES, *_RUNS, *_AGENTS, *_PEERS)
