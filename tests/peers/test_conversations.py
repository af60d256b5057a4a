"""Whole conversations with the agent, in both versions of the protocol: what happens, and that each frame is right."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from sideband.protocols.frames import ConnectionLost
from tests.loopback import over_sockets
from tests.peers.clients import Editor, Json, OpenFiles, RecordedClient, Refused, recorded, scripted, sideband_acp, text
from tests.peers.schemas import Sent, mistakes_in
from tests.waiting import until

both_versions = pytest.mark.parametrize("version", [1, 2])

EMIT: Final = {"_meta": {"sideband": {"reminders": {"emit": True}}}}
WRITES: Final[Json] = {"call": "write_file", "args": {"path": "new.txt", "content": "one\ntwo\n"}, "say": "I write."}
EDITS: Final[Json] = {"call": "edit_file", "args": {"path": "old.txt", "old_string": "old", "new_string": "new"}}
READS: Final[Json] = {"call": "read_file", "args": {"path": "old.txt"}}
RUNS: Final[Json] = {"call": "run", "args": {"command": "true"}}


class RecordedEditor(Editor):
    client: RecordedClient


@asynccontextmanager
async def an_editor(command: list[str], home: Path, version: int, *, code: int = 0) -> AsyncIterator[RecordedEditor]:
    """An editor whose whole conversation has to be right in the end; `code` is that of the agent."""
    async with recorded(command, home, code=code) as client:
        yield RecordedEditor(client, version)
    assert mistakes_in(client.conversation) == []


async def refusal(editor: Editor, method: str, params: Mapping[str, Any]) -> Refused:
    with pytest.raises(Refused) as raised:
        await editor.client.request(method, params)
    return raised.value


# Turns.


@both_versions
@over_sockets
async def test_the_command_of_the_users_answers_a_prompt(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(sideband_acp(store, text="Hello there."), home, version) as editor:
        await editor.start(workspace)
        assert await editor.prompt("Hi.") == "end_turn"
        assert editor.said() == "Hello there."


@both_versions
@over_sockets
async def test_text_is_streamed_and_a_change_needs_permission(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "One two three.", WRITES, "Done."), home, version) as editor:
        await editor.start(workspace)
        assert await editor.prompt("Count.") == "end_turn"
        assert [chunk["content"]["text"] for chunk in editor.named("agent_message_chunk")] == ["One ", "two ", "three."]
        assert await editor.prompt("Write.") == "end_turn"
        [asked] = editor.client.asked
        told = asked["toolCall"] if version == 1 else asked["subject"]["toolCall"]
        assert told["title"] == "Write new.txt"
        statuses = [call["status"] for call in editor.named("tool_call", "tool_call_update")]
        assert statuses == ["pending", "in_progress", "completed"]
        diff = editor.named("tool_call_update")[-1]["content"][0]
        path = workspace / "new.txt"
        if version == 1:
            assert diff == {"type": "diff", "path": str(path), "oldText": None, "newText": "one\ntwo\n"}
        else:
            assert diff["changes"] == [{"operation": "add", "path": str(path), "fileType": "text"}]
            assert diff["patch"]["text"].splitlines()[-2:] == ["+one", "+two"]
    assert path.read_text("utf-8") == "one\ntwo\n"


@both_versions
@pytest.mark.parametrize("chosen", ["reject_once", None])
@over_sockets
async def test_without_permission_nothing_is_changed(
    version: int, chosen: str | None, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, WRITES, "Then not."), home, version) as editor:
        editor.client.choose = lambda _asked: chosen
        await editor.start(workspace)
        assert await editor.prompt("Write.") == "end_turn"
        assert [call["status"] for call in editor.named("tool_call", "tool_call_update")] == ["pending", "failed"]
    assert not (workspace / "new.txt").exists()


@both_versions
@over_sockets
async def test_cancelling_a_turn_withdraws_an_open_question(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, WRITES, "Now."), home, version) as editor:
        editor.client.choose = lambda _asked: "wait"
        await editor.start(workspace)
        prompting = asyncio.ensure_future(editor.prompt("Write."))
        await editor.client.until(lambda: editor.client.asked)
        await editor.cancel()
        assert await prompting == "cancelled"
        [question] = [
            sent.frame
            for sent in editor.client.conversation
            if sent.by_agent and "params" in sent.frame and "id" in sent.frame
        ]
        withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": question["id"]}}
        await until(lambda: Sent(by_agent=True, frame=withdrawn) in editor.client.conversation)
        assert editor.named("tool_call_update")[-1]["status"] == ("failed" if version == 1 else "cancelled")
        assert await editor.prompt("Again.") == "end_turn"
    assert not (workspace / "new.txt").exists()


@both_versions
@over_sockets
async def test_permission_for_the_session_is_asked_for_once_and_a_mode_may_need_none(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    (workspace / "old.txt").write_text("old\n", encoding="utf-8")
    async with an_editor(scripted(store, RUNS, RUNS, READS, EDITS, "Done."), home, version) as editor:
        editor.client.choose = lambda _asked: "allow_always"
        await editor.start(workspace)
        if version == 1:
            await editor.about("session/set_mode", modeId="edits")
        else:
            told = await editor.about("session/set_config_option", configId="mode", value="edits")
            assert told["configOptions"][0]["currentValue"] == "edits"
        assert await editor.prompt("Go.") == "end_turn"
        assert len(editor.client.asked) == 1
        [mode] = editor.named("current_mode_update", "config_option_update")
        assert (mode["currentModeId"] if version == 1 else mode["configOptions"][0]["currentValue"]) == "edits"
    assert (workspace / "old.txt").read_text("utf-8") == "new\n"


@both_versions
@over_sockets
async def test_a_turn_can_be_cancelled_while_the_model_thinks_and_before_it_begins(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    never = {"until": str(workspace / "never"), "say": "Too late."}
    async with an_editor(scripted(store, never, "Now."), home, version) as editor:
        await editor.start(workspace)
        prompting = asyncio.ensure_future(editor.prompt("Think."))
        await editor.client.until(lambda: editor.named("reminder_emitted"))
        await editor.cancel()
        assert await prompting == "cancelled"
        before = len(editor.client.updates)
        cancelled = asyncio.ensure_future(editor.about("session/prompt", prompt=text("Wait.")))
        await asyncio.sleep(0)
        await editor.cancel()
        if version == 1:
            assert (await cancelled)["stopReason"] == "cancelled"
        else:
            assert (await cancelled)["messageId"]
            await editor.client.until(lambda: editor.stopped(before))
            assert editor.stopped(before) == ["cancelled"]
        assert await editor.prompt("Go.") == "end_turn"
        assert editor.said() == "Now."


@both_versions
@over_sockets
async def test_a_cancelled_request_is_answered_so(version: int, store: Path, workspace: Path, home: Path) -> None:
    never = {"until": str(workspace / "never"), "say": "Too late."}
    async with an_editor(scripted(store, never, "Now."), home, version) as editor:
        await editor.start(workspace)
        if version == 2:
            # The request is answered as soon as the prompt is delivered, so one has to wait behind another.
            await editor.about("session/prompt", prompt=text("Think."))
        prompting = asyncio.ensure_future(editor.about("session/prompt", prompt=text("Wait.")))
        await editor.client.until(lambda: editor.named("reminder_emitted"))
        request_id = max(sent.frame["id"] for sent in editor.client.conversation if not sent.by_agent)
        await editor.client.notify("$/cancel_request", {"requestId": request_id})
        with pytest.raises(Refused, match="-32800"):
            await prompting


@both_versions
@over_sockets
async def test_a_failed_model_ends_the_turn_with_the_reason(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, {"fail": "no such model"}, "Better."), home, version) as editor:
        await editor.start(workspace)
        if version == 1:
            error = await refusal(editor, "session/prompt", {"sessionId": editor.session_id, "prompt": text("Go.")})
            assert (error.code, error.data["reason"]) == (-32603, "model_failed")
            assert "no such model" in error.message
        else:
            assert await editor.prompt("Go.") == "error"
            assert editor.named("state_update")[-1]["error"]["data"]["reason"] == "model_failed"
        assert await editor.prompt("Again.") == "end_turn"


@over_sockets
async def test_files_and_commands_of_a_client_of_version_1_are_used(store: Path, workspace: Path, home: Path) -> None:
    path = workspace / "old.txt"
    path.write_text("old on disk\n", encoding="utf-8")
    async with an_editor(scripted(store, READS, EDITS, RUNS, "Done."), home, 1) as editor:
        files = OpenFiles(editor.client, {path: "old, not saved\n"}, "one\r\ntwo\r\n")
        await editor.start(workspace, **OpenFiles.CAPABILITIES)
        assert await editor.prompt("Go.") == "end_turn"
        results = [
            str(call["content"])
            for call in editor.named("tool_call_update")
            if call.get("status", "in_progress") == "completed"
        ]
        assert "old, not saved" in results[0]
        assert files.files == {path: "new, not saved\n"}
        assert files.commands == [["/bin/sh", "-c", "true"]]
        assert files.released == ["terminal-1"]
        # The client shows its own terminal; the output goes to the model.
        assert results[2] == "[{'type': 'terminal', 'terminalId': 'terminal-1'}]"
    assert path.read_text("utf-8") == "old on disk\n"


# Sessions.


@both_versions
@over_sockets
async def test_a_session_is_replayed_as_it_was_by_another_process(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "One two.", WRITES, "Done."), home, version) as editor:
        await editor.start(workspace, **EMIT)
        await editor.prompt("Count.")
        await editor.about("session/inject_reminder", body="The build is red.", dedupeKey="build", ttlTurns=1)
        await editor.prompt("Write.")
        session_id, live = editor.session_id, summary(editor)
    async with an_editor(scripted(store, "Three."), home, version) as editor:
        await editor.initialize(**EMIT)
        listed = (await editor.client.request("session/list", {}))["sessions"]
        assert [(one["sessionId"], one["cwd"], one["title"]) for one in listed] == [
            (session_id, str(workspace), "Count.")
        ]
        await editor.open(workspace, session_id)
        replayed = summary(editor)
        if version == 1:
            # A client of version 1 shows its own prompts itself, and so gets them only in a replay.
            replayed = [one for one in replayed if one[0] != "user_message_chunk"]
        assert replayed == live
        assert await editor.prompt("More.") == "end_turn"
        assert editor.said().endswith("Three.")


def summary(editor: Editor) -> list[tuple[object, ...]]:
    """What was told, without the pieces in which text was streamed and the steps of a call between begin and end."""
    told: list[tuple[object, ...]] = []
    for update in editor.client.updates:
        name = update["sessionUpdate"]
        match name:
            case "agent_message_chunk" | "user_message_chunk" | "user_message":
                one: tuple[object, ...] = (name, update["messageId"])
            case "tool_call" | "tool_call_update" if update.get("status") not in ("in_progress", "pending"):
                one = (name, update["toolCallId"], update["status"], str(update["content"]))
            case "reminder_emitted" | "reminder_expired":
                one = (name, update["reminderId"])
            case _:
                continue
        if told[-1:] != [one]:
            told.append(one)
    return told


@both_versions
@over_sockets
async def test_a_session_whose_process_was_killed_goes_on(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    never = {"until": str(workspace / "never"), "say": "Too late."}
    async with an_editor(scripted(store, never), home, version, code=-signal.SIGKILL) as editor:
        await editor.start(workspace)
        prompting = asyncio.ensure_future(editor.about("session/prompt", prompt=text("Think.")))
        await editor.client.until(lambda: editor.named("reminder_emitted"))
        editor.client.agent.kill()
        await asyncio.wait([prompting])
        assert isinstance(prompting.exception(), ConnectionLost) == (version == 1)
        session_id = editor.session_id
    async with an_editor(scripted(store, "Back."), home, version) as editor:
        await editor.initialize()
        await editor.open(workspace, session_id)
        if version == 2:
            await editor.client.until(lambda: editor.named("state_update")[-1]["state"] == "idle")
        assert await editor.prompt("Again.") == "end_turn"
        assert editor.said() == "Back."


@both_versions
@over_sockets
async def test_many_sessions_are_listed_page_by_page(version: int, store: Path, workspace: Path, home: Path) -> None:
    other = workspace / "other"
    other.mkdir()
    async with an_editor(scripted(store), home, version) as editor:
        await editor.start(other)
        made = [
            await editor.client.request("session/new", {"cwd": str(workspace), "mcpServers": []}) for _ in range(60)
        ]
        listed: list[str] = []
        cursor: Json = {}
        while True:
            page = await editor.client.request("session/list", {"cwd": str(workspace), **cursor})
            listed += [one["sessionId"] for one in page["sessions"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert sorted(listed) == sorted(one["sessionId"] for one in made)


@both_versions
@over_sockets
async def test_a_resumed_session_goes_on_without_its_past_and_an_observer_may_change_nothing(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "One.", "Two."), home, version) as editor:
        await editor.start(workspace)
        await editor.prompt("First.")
        assert await editor.about("session/close") == {}
        told = len(editor.client.updates)
        await editor.about("session/resume", cwd=str(workspace))
        assert [update["sessionUpdate"] for update in editor.client.updates[told:] if version == 1] == []
        assert await editor.prompt("Second.") == "end_turn"
        await editor.open(workspace, editor.session_id, _meta={"sideband": {"role": "observer"}})
        for method, params in (
            ("session/prompt", {"prompt": text("Third.")}),
            ("session/inject_reminder", {"body": "The build is red."}),
            ("_session/steering", {"prompt": text("Third.")}),
        ):
            error = await refusal(editor, method, {"sessionId": editor.session_id, **params})
            assert (error.code, error.data["reason"]) == (-32602, "not_permitted")
        assert (await editor.about("session/pending_injections"))["pendingCount"] == 0


# Reminders.


@pytest.mark.parametrize(("version", "capabilities"), [(1, {}), (1, EMIT), (2, {})])
@over_sockets
async def test_reminders_live_and_the_client_is_told_in_the_form_that_it_reads(
    version: int, capabilities: Json, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "One.", "Two.", "Three."), home, version) as editor:
        await editor.start(workspace, **capabilities)
        first = await editor.about(
            "_sideband/session/inject_reminder",
            body="The build is red.",
            tags=["build"],
            dedupeKey="build",
            ttlTurns=1,
            roleHint="developer",
            propagate="none",
            preserveOnCompact=False,
            mode="finish_step",
            _meta={"correlation": 7},
        )
        assert first["dedupedCount"] == 0
        second = await editor.about(
            "session/inject_reminder", body="The build is green.", dedupeKey="build", ttlTurns=1
        )
        assert second["dedupedCount"] == 1
        legacy = await editor.about("session/remind", body="It is late.", ttl_turns=2, tags=["time"])
        assert legacy["_meta"]["sideband"]["deprecated"] is True
        unsaid = await editor.about("session/inject_reminder", body="Never mind.")
        assert await editor.about("session/revoke_reminder", reminderId=unsaid["reminderId"]) == {"status": "revoked"}
        assert await editor.about("session/revoke_reminder", reminderId=unsaid["reminderId"]) == {
            "status": "already_revoked"
        }
        changed = {"reminderId": legacy["reminderId"], "body": "It is very late."}
        assert (await editor.about("_sideband/session/replace_reminder", **changed))["status"] == "replaced"
        pending = await editor.about("session/pending_injections")
        assert [row["body"] for row in pending["injections"]] == ["The build is green.", "It is very late."]
        await editor.client.notify("session/remind", {"body": "By notification.", "tags": ["time"]})
        await editor.prompt("Go.")
        await editor.prompt("Go on.")
        assert await editor.about("_sideband/session/clear_reminders", tag="time") == {"removedCount": 1}
        await editor.prompt("And on.")

        bodies = [update["body"] for update in editor.named("reminder_emitted") if update["source"] == "host"]
        assert bodies == [
            *("The build is green.", "It is very late.", "By notification."),
            *("It is very late.", "By notification."),
        ]
        [deduped] = editor.named("reminder_deduped")
        assert deduped["reminderId"] == second["reminderId"]
        assert deduped["droppedReminderIds"] == [first["reminderId"]]
        ours = {second["reminderId"]: "green", legacy["reminderId"]: "late", unsaid["reminderId"]: "never"}
        phases = {
            ours.get(update["reminderId"], "notified"): update["phase"]
            for update in editor.named("reminder_expired")
            if update["reminderId"] in ours or update["phase"] == "cleared"
        }
        assert phases == {"green": "ttl_expired", "late": "ttl_expired", "never": "cleared", "notified": "cleared"}
        carried = [update for update in editor.client.updates if update["sessionUpdate"].startswith("reminder_")]
        assert bool(carried) == (version == 2 or bool(capabilities))


# Messages while a turn runs.


@both_versions
@over_sockets
async def test_messages_are_injected_while_a_turn_runs(version: int, store: Path, workspace: Path, home: Path) -> None:
    (workspace / "old.txt").write_text("old\n", encoding="utf-8")
    gate = workspace / "gate"
    reads = {**READS, "until": str(gate)}
    async with an_editor(scripted(store, reads, "Read.", "Queued."), home, version) as editor:
        await editor.start(workspace)
        idle = await editor.about(
            "_session/steering", prompt=text("Quick."), _meta={"steering": {"idleBehavior": "promptRequired"}}
        )
        assert idle == {"outcome": "promptRequired", "reason": "noRunningTurn"}
        prompting = asyncio.ensure_future(editor.prompt("Read it."))
        await editor.client.until(lambda: editor.named("reminder_emitted"))
        steered = (await editor.about("session/inject", mode="steer", content=text("Be brief.")))["messageId"]
        queued = (await editor.about("session/inject", mode="queue", content=text("Then stop.")))["messageId"]
        gone = (await editor.about("_sideband/session/inject", mode="queue", content=text("Or not.")))["messageId"]
        assert await editor.about("session/revoke_inject", messageId=gone) == {"status": "revoked"}
        with pytest.raises(Refused, match="already_revoked"):
            await editor.about("session/replace_inject", messageId=gone, content=text("Or so."))
        replaced = await editor.about("session/replace_inject", messageId=queued, content=text("Then rest."))
        assert replaced == {"messageId": queued, "status": "replaced"}
        assert await editor.about("_session/steering", prompt=text("Go.")) == {"outcome": "injected"}
        pending = (await editor.about("session/pending_injections"))["injections"]
        assert [(row["kind"], row["mode"]) for row in pending] == [
            ("user", "steer"),
            ("user", "queue"),
            ("user", "steer"),
        ]
        gate.touch()
        assert await prompting == "end_turn"
        await editor.client.until(lambda: editor.said() == "Read.Queued.")
        told = [
            (update["messageId"], update["content"] if version == 1 else update["content"][0])
            for update in editor.named("user_message_chunk" if version == 1 else "user_message")
        ]
        if version == 2:
            del told[0]  # the prompt itself
        assert [told[0], told[2]] == [
            (steered, {"type": "text", "text": "Be brief."}),
            (queued, {"type": "text", "text": "Then rest."}),
        ]
        error = await refusal(editor, "session/revoke_inject", {"sessionId": editor.session_id, "messageId": steered})
        assert (error.code, error.data["reason"]) == (-32010, "already_delivered")


@both_versions
@over_sockets
async def test_a_message_to_an_idle_session_starts_a_turn(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "One.", "Two."), home, version) as editor:
        await editor.start(workspace)
        assert await editor.about("_session/steering", prompt=text("Go.")) == {"outcome": "startedNewTurn"}
        await editor.client.until(lambda: editor.said() == "One.")
        await editor.about("session/inject", mode="queue", content=text("Go on."))
        await editor.client.until(lambda: editor.said() == "One.Two.")


# More than text.

BLOCKS: Final[list[Json]] = [
    {"type": "text", "text": "Look.", "annotations": {"audience": ["assistant"]}},
    {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
    {"type": "resource_link", "uri": "file:///notes.md", "name": "notes.md", "mimeType": "text/markdown"},
    {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "Some text.", "mimeType": "text/plain"}},
]


@both_versions
@over_sockets
async def test_every_kind_of_content_is_taken_and_replayed(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "Seen."), home, version) as editor:
        await editor.start(workspace)
        await editor.about("session/prompt", prompt=BLOCKS)
        await editor.client.until(lambda: editor.said() == "Seen.")
        session_id = editor.session_id
    async with an_editor(scripted(store), home, version) as editor:
        await editor.initialize()
        await editor.open(workspace, session_id)
        if version == 1:
            replayed = [update["content"] for update in editor.named("user_message_chunk")]
        else:
            [message] = editor.named("user_message")
            replayed = message["content"]
        assert replayed == BLOCKS


@both_versions
@over_sockets
async def test_a_reply_that_was_cut_off_begins_again(version: int, store: Path, workspace: Path, home: Path) -> None:
    async with an_editor(scripted(store, {"cut": "One tw"}, "One two three."), home, version) as editor:
        await editor.start(workspace)
        assert await editor.prompt("Count.") == "end_turn"
        if version == 1:
            assert editor.said() == "One tw\n\n(The reply was cut off; it begins again.)\n\nOne two three."
        else:
            [restarted] = editor.named("agent_message")
            assert restarted["content"] == []
            assert editor.said() == "One twOne two three."
        assert len({chunk["messageId"] for chunk in editor.named("agent_message_chunk")}) == 1


@both_versions
@over_sockets
async def test_a_compaction_is_told(version: int, store: Path, workspace: Path, home: Path) -> None:
    script = [*["x" * 3_000] * 3, "Short.", "A summary.", "Short."]
    command = ["env", "SIDEBAND_TEST_WINDOW=2000", *scripted(store, *script)]
    async with an_editor(command, home, version) as editor:
        await editor.start(workspace, session={"compaction": {}})
        for number in range(1, 6):
            await editor.prompt(f"Step {number}.")
        assert [update["status"] for update in editor.named("compaction_update")] == ["completed"]


# Several at once.


@both_versions
@over_sockets
async def test_prompts_that_come_together_are_answered_in_their_order(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store, "One.", "Two.", "Three."), home, version) as editor:
        await editor.start(workspace)
        prompts = [asyncio.ensure_future(editor.about("session/prompt", prompt=text(word))) for word in "abc"]
        answered: list[int] = []
        for number, prompt in enumerate(prompts):
            prompt.add_done_callback(lambda _, number=number: answered.append(number))  # type: ignore[misc]
        await asyncio.wait(prompts)
        await editor.client.until(lambda: editor.said() == "One.Two.Three.")
        assert answered == [0, 1, 2]


@over_sockets
async def test_clients_of_two_processes_and_versions_see_one_session(store: Path, workspace: Path, home: Path) -> None:
    async with (
        an_editor(scripted(store, "One two.", WRITES, "Done."), home, 1) as first,
        an_editor(scripted(store), home, 2) as second,
    ):
        await first.start(workspace, **EMIT)
        await second.initialize()
        # An observer runs nothing, so the turns are those of the first process.
        await second.open(workspace, first.session_id, _meta={"sideband": {"role": "observer"}})
        await first.prompt("Count.")
        await first.about("session/inject_reminder", body="The build is red.", ttlTurns=1)
        await first.prompt("Write.")
        await second.client.until(lambda: len(second.named("state_update")) >= 7)
        assert second.said() == first.said() == "One two.I write.Done."
        ids = [[chunk["messageId"] for chunk in one.named("agent_message_chunk")] for one in (first, second)]
        assert sorted(set(ids[0])) == sorted(ids[1])
        assert [update["content"][0]["text"] for update in second.named("user_message")] == ["Count.", "Write."]
        for editor in (first, second):
            told = [update["body"] for update in editor.named("reminder_emitted") if update["source"] == "host"]
            assert told == ["The build is red."]
        assert (len(first.client.asked), len(second.client.asked)) == (1, 0)


@over_sockets
async def test_a_batch_is_answered_by_a_batch(store: Path, workspace: Path, home: Path) -> None:
    async with an_editor(scripted(store, "One."), home, 2) as editor:
        await editor.start(workspace)
        about = {"sessionId": editor.session_id}
        members = [
            {"jsonrpc": "2.0", "id": "a", "method": "session/prompt", "params": {**about, "prompt": text("Go.")}},
            {"jsonrpc": "2.0", "method": "session/remind", "params": {**about, "body": "It is late."}},
            {"jsonrpc": "2.0", "id": "b", "method": "session/list", "params": {}},
        ]
        editor.client.conversation += [Sent(by_agent=False, frame=member) for member in members]
        editor.client.write(msgspec.json.encode(members))
        await editor.client.until(lambda: editor.said() == "One.")
        answers = {sent.frame.get("id"): sent.frame for sent in editor.client.conversation if sent.by_agent}
        assert answers["a"]["result"].keys() == {"messageId"}
        assert [one["sessionId"] for one in answers["b"]["result"]["sessions"]] == [editor.session_id]


# Errors.

NOWHERE: Final = {"sessionId": "01a1ec15-0000-7000-8000-000000000000"}
ERRORS: Final[Mapping[str, tuple[str, Json, int, str | None]]] = {
    "no-such-method": ("session/explode", {}, -32601, None),
    "no-such-extension": ("_sideband/explode", {}, -32601, None),
    "a-relative-folder": ("session/new", {"cwd": "here", "mcpServers": []}, -32602, "invalid_option"),
    "no-folder": ("session/new", {"mcpServers": []}, -32602, "invalid_option"),
    "mcp-servers": (
        "session/new",
        {"cwd": "/", "mcpServers": [{"type": "sse", "name": "a", "url": "http://127.0.0.1/sse", "headers": []}]},
        -32602,
        "invalid_option",
    ),
    "an-unknown-session": ("session/prompt", {**NOWHERE, "prompt": text("Go.")}, -32002, "unknown_session"),
    "a-session-as-a-list": ("session/prompt", {"sessionId": [], "prompt": text("Go.")}, -32602, "invalid_option"),
    "a-remind-to-an-unknown-session": ("session/inject_reminder", {**NOWHERE, "body": "x"}, -32002, "unknown_session"),
    "a-prompt-as-a-number": ("session/prompt", {"prompt": 7}, -32602, None),
    "an-empty-prompt": ("session/prompt", {"prompt": []}, -32602, None),
    "a-prompt-of-an-unknown-kind": ("session/prompt", {"prompt": [{"type": "poem"}]}, -32602, None),
    "a-wrong-cursor": ("session/list", {"cursor": "x"}, -32602, "invalid_option"),
    "an-unknown-role": ("session/resume", {"_meta": {"sideband": {"role": "king"}}}, -32602, "invalid_option"),
    "a-blank-body": ("session/inject_reminder", {"body": " "}, -32602, "invalid_reminder"),
    "an-unknown-option": ("session/inject_reminder", {"body": "x", "colour": "red"}, -32602, "unknown_option"),
    "an-unknown-propagate": ("session/inject_reminder", {"body": "x", "propagate": "far"}, -32602, "unknown_propagate"),
    "an-unknown-mode-of-a-reminder": (
        "session/inject_reminder",
        {"body": "x", "mode": "wait_for_completion"},
        -32602,
        "unsupported_mode",
    ),
    "a-body-too-large": ("session/inject_reminder", {"body": "x" * 2_000_000}, -32010, "body_too_large"),
    "camel-case-in-the-old-method": ("session/remind", {"body": "x", "ttlTurns": 1}, -32602, "unknown_option"),
    "an-unknown-reminder": ("session/revoke_reminder", {"reminderId": "r"}, -32002, "unknown_reminder_id"),
    "an-unknown-message": ("session/revoke_inject", {"messageId": "m"}, -32002, "unknown_message_id"),
    "a-steer-to-an-idle-session": (
        "session/inject",
        {"mode": "steer", "content": text("x")},
        -32010,
        "no_running_turn",
    ),
    "an-unknown-mode-of-a-message": (
        "session/inject",
        {"mode": "shout", "content": text("x")},
        -32602,
        "unsupported_mode",
    ),
    "another-reminder-with-the-same-key": (
        "session/inject_reminder",
        {"body": "Two.", "_meta": {"sideband": {"idempotencyKey": "key"}}},
        -32602,
        "idempotency_conflict",
    ),
    "an-unknown-idle-behaviour": (
        "_session/steering",
        {"prompt": text("x"), "_meta": {"steering": {"idleBehavior": "sleep"}}},
        -32602,
        "invalid_option",
    ),
}


@both_versions
@over_sockets
async def test_every_refusal_says_what_was_wrong(version: int, store: Path, workspace: Path, home: Path) -> None:
    async with an_editor(sideband_acp(store), home, version) as editor:
        assert (await refusal(editor, "session/new", {})).code == -32600
        error = await refusal(editor, "initialize", {"protocolVersion": 0})
        assert (error.code, error.data) == (-32022, {"requested": 0, "supported": [1, 2]})
        await editor.start(workspace)
        once = {"body": "One.", "mode": "audit_only", "_meta": {"sideband": {"idempotencyKey": "key"}}}
        assert await editor.about("session/inject_reminder", **once) == await editor.about(
            "session/inject_reminder", **once
        )
        found = {}
        for name, (method, params, _, _) in ERRORS.items():
            about = {} if method in ("session/new", "session/list") else {"sessionId": editor.session_id}
            error = await refusal(editor, method, {**about, **params})
            found[name] = (error.code, None if error.data is None else error.data.get("reason"))
        expected = {name: (code, reason) for name, (_, _, code, reason) in ERRORS.items()}
        assert {name: told[0] for name, told in found.items()} == {name: told[0] for name, told in expected.items()}
        assert {name: found[name][1] for name, told in expected.items() if told[1]} == {
            name: told[1] for name, told in expected.items() if told[1]
        }
        only = {1: "session/set_config_option", 2: "session/set_mode"}[version]
        assert (await refusal(editor, only, {"sessionId": editor.session_id})).code == -32601
        assert await editor.prompt("Hi.") == "end_turn"


@both_versions
@over_sockets
async def test_too_much_is_refused_with_the_time_to_wait(
    version: int, store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(scripted(store), home, version) as editor:
        await editor.start(workspace)
        telling = (editor.about("session/inject_reminder", body=f"Fact {number}.") for number in range(120))
        outcomes = await asyncio.gather(*telling, return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        accepted = [outcome for outcome in outcomes if isinstance(outcome, dict)]
        assert len(refused) + len(accepted) == 120
        assert {(error.code, error.data["reason"]) for error in refused} <= {
            (-32010, "rate_limited"),
            (-32010, "too_many_pending"),
        }
        limited = [error for error in refused if error.data["reason"] == "rate_limited"]
        assert all(error.data["retryAfterMs"] > 0 for error in limited)
        assert refused
        assert (await editor.about("session/pending_injections"))["pendingCount"] == len(accepted)


@over_sockets
async def test_without_a_model_a_prompt_is_refused_with_what_to_do(store: Path, workspace: Path, home: Path) -> None:
    command = [part for part in sideband_acp(store) if part != "--model" and not part.startswith("scripted:")]
    async with an_editor(command, home, 1) as editor:
        await editor.start(workspace)
        error = await refusal(editor, "session/prompt", {"sessionId": editor.session_id, "prompt": text("Hi.")})
        assert (error.code, error.data) == (-32603, {"reason": "no_model"})
        assert "SIDEBAND_MODEL" in error.message


@over_sockets
async def test_a_newer_client_is_spoken_to_in_the_newest_version_that_the_agent_has(store: Path, home: Path) -> None:
    async with an_editor(sideband_acp(store), home, 2) as editor:
        params = {"protocolVersion": 7, "capabilities": {}, "info": {"name": "editor", "version": "1.0"}}
        assert (await editor.client.request("initialize", params))["protocolVersion"] == 2


@over_sockets
async def test_lines_that_are_no_requests_are_answered_and_the_connection_stays(
    store: Path, workspace: Path, home: Path
) -> None:
    async with an_editor(sideband_acp(store), home, 1) as editor:
        await editor.start(workspace)
        lines = [b"42", b"null", b'"x"', b"[]", b"{", b"\xff", b"[1,2]", b'{"id":1}', b"x" * 9_000_000]
        for line in lines:
            editor.client.write(line)
        assert await editor.prompt("Hi.") == "end_turn"
        errors = [sent.frame["error"] for sent in editor.client.conversation if "error" in sent.frame]
        codes = [error["code"] for error in errors]
        assert codes == [-32600, -32600, -32600, -32600, -32700, -32700, -32600, -32600, -32600, -32600]
        assert errors[-1]["data"] == {"reason": "frame_too_large", "limit": 8 * 1024 * 1024}
