"""The files and terminals of an ACP client: the tools of the agent work on them by the same rules as on the disk."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sideband.core.messages import Reply, ToolCall
from sideband.models.scripted import Line, ScriptedModel
from sideband.protocols.acp.agent import AcpAgent, client_tools
from tests.acp_desk import FILES, TERMINALS, Desk
from tests.acp_editor import Editor, an_agent, connected, on_pipes, result_of
from tests.acp_scenes import Held, calling
from tests.waiting import until


def results(model: ScriptedModel) -> list[str]:
    """The results of all tool calls, as the model was given them."""
    return [str(message["content"]) for message in model.requests[-1].messages if message["role"] == "tool"]


def ended(editor: Editor, call_id: str) -> dict[str, Any]:
    """The update with the result of a call."""
    (update,) = [
        update
        for update in editor.updates("tool_call_update")
        if update["toolCallId"] == call_id and update.get("status") in ("completed", "failed")
    ]
    return update


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Scene:
    """An agent with one editor, its desk, and a session in a folder."""

    def __init__(self, agent: AcpAgent, model: ScriptedModel, editor: Editor, folder: Path, session: str) -> None:
        self.agent = agent
        self.model = model
        self.editor = editor
        self.desk = Desk(editor)
        self.folder = folder
        self.session = session

    async def run(self) -> list[str]:
        """The results of the calls of one turn."""
        assert (await self.editor.prompted(self.session))["stopReason"] == "end_turn"
        return results(self.model)

    def path(self, name: str) -> str:
        return str(self.folder / name)


@asynccontextmanager
async def a_scene(folder: Path, *script: Line, **capabilities: Any) -> AsyncIterator[Scene]:  # noqa: ANN401
    model = ScriptedModel(script)
    async with an_agent(model=model) as agent, connected(agent, **capabilities) as editor:
        scene = Scene(agent, model, editor, folder, await editor.new(folder))
        try:
            yield scene
        finally:
            await scene.desk.close()


# Files.


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_the_agent_reads_what_is_not_saved_and_edits_it_through_the_client(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("saved\n", encoding="utf-8")
    script = (
        calling("read_file", path="a.txt"),
        calling("edit_file", "c-2", path="a.txt", old_string="t s", new_string="t S"),
    )
    async with a_scene(tmp_path, *script, **FILES) as scene:
        scene.desk.buffers[str(file)] = "not saved\n"
        read, edited = await scene.run()
        diff = ended(scene.editor, "c-2")["content"][0]
        assert scene.desk.asked[-1] == (
            "fs/write_text_file",
            {"sessionId": scene.session, "path": str(file), "content": "not Saved\n"},
        )
    assert (read, edited) == ("not saved\n", "edited a.txt, 1 replacement at line 1")
    assert file.read_text(encoding="utf-8") == "not Saved\n"
    assert diff == {"type": "diff", "path": str(file), "oldText": "t s", "newText": "t S"}


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_new_file_is_written_through_the_client_in_a_folder_that_is_made(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("write_file", path="new/b.txt", content="new\n"), **FILES) as scene:
        (written,) = await scene.run()
        assert scene.desk.buffers == {scene.path("new/b.txt"): "new\n"}
        diff = ended(scene.editor, "c-1")["content"][0]
    assert written == "created new/b.txt, 4 bytes"
    assert diff == {"type": "diff", "path": str(tmp_path / "new/b.txt"), "oldText": None, "newText": "new\n"}


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_buffer_that_was_not_read_or_has_changed_since_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("saved\n", encoding="utf-8")
    typed = Held(
        Reply(
            tool_calls=(
                ToolCall(id="c-2", name="write_file", args={"path": "a.txt", "content": "x"}),
                ToolCall(id="c-3", name="edit_file", args={"path": "a.txt", "old_string": "typed", "new_string": "x"}),
                ToolCall(id="c-4", name="write_file", args={"path": "b.txt", "content": "x"}),
                ToolCall(id="c-5", name="write_file", args={"path": "draft.txt", "content": "x"}),
            )
        )
    )
    async with a_scene(tmp_path, calling("read_file", path="a.txt"), typed.line, **FILES) as scene:
        turn = scene.editor.prompt(scene.session, "Go on.")
        await typed.begun.wait()
        scene.desk.buffers |= {scene.path("a.txt"): "typed since\n", scene.path("draft.txt"): "never saved\n"}
        typed.release()
        await result_of(turn)
        assert "fs/write_text_file" not in scene.desk.methods
        shown = [
            frame["params"]["toolCall"]["content"][0]["oldText"]
            for frame in scene.editor.frames
            if frame.get("method") == "session/request_permission" and "content" in frame["params"]["toolCall"]
        ]
    assert sorted(results(scene.model)[1:]) == [
        "a.txt has changed since it was read; read_file it again",
        "a.txt has changed since it was read; read_file it again",
        "b.txt was not read yet; read_file it first, so that its content is not lost",
        "draft.txt was not read yet; read_file it first, so that its content is not lost",
    ]
    # The user decides about what is in the buffer.
    assert sorted(shown) == ["never saved\n", "saved\n", "typed", "typed since\n"]


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_no_path_of_the_model_leads_a_client_out_of_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    script = [
        calling("read_file", f"c-{path}", path=path)
        for path in ("../secret.txt", "link.txt", str(tmp_path / "secret.txt"))
    ]
    async with a_scene(folder, *script, **FILES) as scene:
        texts = await scene.run()
        assert scene.desk.asked == []
    assert not any(text == "secret" for text in texts)


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_client_is_asked_by_the_name_that_it_has_for_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "a.txt").write_text("saved\n", encoding="utf-8")
    async with a_scene(tmp_path / "named", calling("read_file", path="a.txt"), **FILES) as scene:
        scene.desk.buffers[str(tmp_path / "named" / "a.txt")] = "not saved\n"
        assert await scene.run() == ["not saved\n"]


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_without_an_answer_that_helps_the_disk_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    script = (
        calling("read_file", path="a.txt"),
        calling("read_file", "c-2", path="a.txt"),
        calling("read_file", "c-3", path="no.txt"),
    )
    async with a_scene(tmp_path, *script[:1], **FILES) as scene:
        scene.desk.refuse(scene.editor, "fs/read_text_file")
        assert await scene.run() == ["saved\n"]
    async with a_scene(tmp_path, *script[1:], **FILES) as scene:
        scene.desk.offer(scene.editor, "fs/read_text_file", lambda _params: {"content": None})
        assert await scene.run() == ["saved\n", "no.txt: No such file or directory"]


@pytest.mark.requirement("acp:client:files")
@pytest.mark.parametrize(
    ("code", "result", "content"),
    [
        pytest.param(-32603, "the editor could not write a.txt: not today", "saved\n", id="refused"),
        pytest.param(-32601, "wrote a.txt, 4 bytes", "new\n", id="unknown-method-so-the-disk-is-written"),
    ],
)
@on_pipes
async def test_a_client_that_cannot_write(tmp_path: Path, code: int, result: str, content: str) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    script = (calling("read_file", path="a.txt"), calling("write_file", "c-2", path="a.txt", content="new\n"))
    async with a_scene(tmp_path, *script, **FILES) as scene:
        scene.desk.refuse(scene.editor, "fs/write_text_file", code)
        assert (await scene.run())[1] == result
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == content


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_client_that_does_not_answer_has_the_call_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_tools, "ANSWER_SECONDS", 0.05)
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    script = (
        calling("read_file", path="a.txt"),
        calling("write_file", "c-2", path="b.txt", content="new\n"),
        calling("run", "c-3", command="touch ran"),
    )
    async with a_scene(tmp_path, *script, **FILES, **TERMINALS) as scene:
        for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create"):
            scene.desk.ignore(scene.editor, method)
        read, write, run = await scene.run()
    assert read == "the editor did not read a.txt within 0.05 s"
    assert write == "the editor did not read b.txt within 0.05 s"
    assert run == "the editor did not start the command within 0.05 s; it is not known whether it runs"
    assert names_in(tmp_path) == ["a.txt"]


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_write_without_an_answer_tells_how_to_find_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_tools, "ANSWER_SECONDS", 0.05)
    async with a_scene(
        tmp_path, calling("write_file", path="b.txt", content="new\n"), fs={"writeTextFile": True}
    ) as scene:
        scene.desk.ignore(scene.editor, "fs/write_text_file")
        (text,) = await scene.run()
        assert scene.desk.methods == ["fs/write_text_file"]
    assert text == "the editor did not write b.txt within 0.05 s; read_file it to see whether it has"


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_client_that_disconnects_during_a_call_leaves_it_to_the_next_client_or_the_disk(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    held = Held(calling("write_file", "c-2", path="a.txt", content="new\n"))
    model = ScriptedModel([calling("read_file", path="a.txt"), held.line])
    async with an_agent(model=model) as agent, connected(agent) as witness:
        session = await witness.new(tmp_path)
        await witness.call("session/set_mode", sessionId=session, modeId="edits")
        async with connected(agent, **FILES) as second:
            await second.call("session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            other = Desk(second)
            other.buffers[str(tmp_path / "a.txt")] = "of the second\n"
            other.ignore(second, "fs/write_text_file")
            async with connected(agent, **FILES) as first:
                desk = Desk(first)
                desk.ignore(first, "fs/read_text_file")
                first.prompt(session, "Go on.")
                await desk.until_asked("fs/read_text_file")
            await held.begun.wait()
            held.release()
            await other.until_asked("fs/write_text_file")
        await witness.update("agent_message_chunk")
    assert results(model) == ["of the second\n", "wrote a.txt, 4 bytes"]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "new\n"


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_the_client_whose_prompt_runs_is_asked_before_the_others_and_observers_never(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    read = calling("read_file", path="a.txt")
    model = ScriptedModel([read, "Done.", read, "Done.", read])
    observer_role = {"sideband": {"role": "observer"}}
    async with (
        an_agent(model=model) as agent,
        connected(agent, **FILES) as observer,
        connected(agent) as plain,
        connected(agent, **FILES) as first,
        connected(agent, **FILES) as second,
        connected(agent, version=2, **FILES) as newer,
    ):
        session = await plain.new(tmp_path)
        resume = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await observer.call("session/resume", **resume, _meta=observer_role)
        for client in (newer, first, second):
            await client.call("session/resume", **resume)
        desks = {name: Desk(client) for name, client in (("observer", observer), ("first", first), ("second", second))}
        for name, desk in desks.items():
            desk.buffers[str(tmp_path / "a.txt")] = name
        asked = []
        for client in (second, first, plain):
            await client.prompted(session)
            asked.append(results(model)[-1])
        assert not [frame for frame in newer.frames if frame.get("method", "").startswith("fs/")]
    assert asked == ["second", "first", "first"]


@pytest.mark.requirement("acp:client:files")
@on_pipes
async def test_a_cancel_ends_a_call_that_waits_for_the_client(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    async with a_scene(tmp_path, calling("read_file", path="a.txt"), **FILES) as scene:
        scene.desk.ignore(scene.editor, "fs/read_text_file")
        turn = scene.editor.prompt(scene.session, "Go on.")
        await scene.desk.until_asked("fs/read_text_file")
        scene.editor.notify("session/cancel", sessionId=scene.session)
        assert (await result_of(turn))["stopReason"] == "cancelled"
        await scene.editor.frame(lambda frame: frame.get("method") == "$/cancel_request")


@pytest.mark.requirement("acp:client:files", "acp:order:slow-client")
@on_pipes
async def test_a_client_that_does_not_answer_does_not_stop_the_tools_of_other_sessions(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    many = tuple(ToolCall(id=f"c-{number}", name="read_file", args={"path": "a.txt"}) for number in range(40))
    model = ScriptedModel([Reply(tool_calls=many), calling("read_file", path="a.txt"), "Done."])
    async with an_agent(model=model) as agent, connected(agent) as other, connected(agent, **FILES) as frozen:
        desk = Desk(frozen)
        desk.ignore(frozen, "fs/read_text_file")
        frozen.prompt(await frozen.new(tmp_path), "Go on.")
        await until(lambda: len(desk.asked) == len(many))
        await other.prompted(await other.new(tmp_path))
        assert results(model) == ["saved\n"]


@pytest.mark.requirement("acp:client:files", "acp:client:terminals")
@on_pipes
async def test_a_client_is_asked_only_for_what_it_offers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("saved\n", encoding="utf-8")
    script = (
        calling("read_file", path="a.txt"),
        calling("write_file", "c-2", path="a.txt", content="new\n"),
        calling("run", "c-3", command="cat a.txt"),
    )
    async with a_scene(tmp_path, *script, fs={"readTextFile": True}) as scene:
        assert await scene.run() == ["saved\n", "wrote a.txt, 4 bytes", "new\n"]
        assert set(scene.desk.methods) == {"fs/read_text_file"}


# Terminals.


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_command_runs_in_a_terminal_that_the_client_shows(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("run", command="echo $PAGER; pwd"), **TERMINALS) as scene:
        async with connected(scene.agent) as other:
            await other.call("session/resume", sessionId=scene.session, cwd=str(tmp_path), mcpServers=[])
            (text,) = await scene.run()
            await other.until(lambda: [one for one in other.updates("tool_call_update") if one.get("content")])
            told_other = ended(other, "c-1")["content"]
            assert not [one for one in other.updates() if "term-0" in str(one)]
        updates = scene.editor.updates("tool_call", "tool_call_update")
        asked = dict(scene.desk.asked)
    shown = [{"type": "terminal", "terminalId": "term-0"}]
    assert text == f"cat\n{tmp_path}\n"
    assert scene.desk.methods == ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"]
    created = asked["terminal/create"]
    assert (created["command"], created["args"], created["cwd"]) == (
        "/bin/sh",
        ["-c", "echo $PAGER; pwd"],
        str(tmp_path),
    )
    assert [(update.get("status"), update.get("content")) for update in updates][-2:] == [
        (None, shown),
        ("completed", shown),
    ]
    assert told_other == [{"type": "content", "content": {"type": "text", "text": text}}]


@pytest.mark.requirement("acp:client:terminals")
@pytest.mark.parametrize(
    ("args", "text"),
    [
        pytest.param({"command": "echo no; exit 3"}, "no\n[exit code 3]", id="exit-code"),
        pytest.param({"command": "kill -9 $$"}, "[killed by signal 9; no output]", id="signal"),
        pytest.param({"command": ["printf", "a\\r\\nb"]}, "a\nb", id="line-ends"),
        pytest.param(
            {"command": "echo begun; sleep 60", "timeout": 1},
            "begun\n[timed out after 1 s and was killed with all that it started]",
            id="time-out",
        ),
        pytest.param(
            {"command": ["no-such-program"]},
            "no-such-program cannot be run in a terminal of the editor: No such file or directory",
            id="cannot-be-started",
        ),
    ],
)
@on_pipes
async def test_the_end_of_a_command_in_a_terminal_reads_like_that_of_any_command(
    tmp_path: Path, args: dict[str, Any], text: str
) -> None:
    async with a_scene(tmp_path, calling("run", **args), **TERMINALS) as scene:
        assert await scene.run() == [text]


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_long_output_of_a_terminal_is_truncated_and_says_so(tmp_path: Path) -> None:
    long = "head -c 100000 /dev/zero | tr '\\0' x"
    longer = "head -c 3000000 /dev/zero | tr '\\0' x"
    script = (calling("run", command=long), calling("run", "c-2", command=longer))
    async with a_scene(tmp_path, *script, **TERMINALS) as scene:
        first, second = await scene.run()
    assert "[truncated: 67232 of 100000 bytes are left out here]" in first
    assert second.endswith("\n[the beginning of its output is left out]")
    assert len(second) < 40_000


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_cancel_kills_the_command_and_releases_its_terminal(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("run", command="echo begun; exec sleep 60"), **TERMINALS) as scene:
        turn = scene.editor.prompt(scene.session, "Go on.")
        await scene.desk.until_asked("terminal/wait_for_exit")
        (terminal,) = scene.desk.terminals.values()
        await until(lambda: b"begun" in terminal.output)
        scene.editor.notify("session/cancel", sessionId=scene.session)
        assert (await result_of(turn))["stopReason"] == "cancelled"
        await scene.desk.until_asked("terminal/release")
        assert terminal.process.returncode == -9
        session = await scene.agent.find(scene.session)
        async with aclosing(session.updates(follow=False)) as updates:
            texts = [str(update) async for update in updates]
    assert scene.desk.methods[-3:] == ["terminal/kill", "terminal/output", "terminal/release"]
    assert any("Cancelled. Changes already made: ran: echo begun; exec sleep 60." in text for text in texts)


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_cancel_while_the_terminal_is_created_kills_the_command(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("run", command="exec sleep 60"), **TERMINALS) as scene:
        release = asyncio.Event()

        async def create(params: dict[str, Any]) -> dict[str, Any]:
            await release.wait()
            return await scene.desk.create(params)

        scene.desk.offer(scene.editor, "terminal/create", create)
        turn = scene.editor.prompt(scene.session, "Go on.")
        await scene.desk.until_asked("terminal/create")
        scene.editor.notify("session/cancel", sessionId=scene.session)
        # A notification and a request of one session take effect in their order.
        await scene.editor.call("session/pending_injections", sessionId=scene.session)
        release.set()
        assert (await result_of(turn))["stopReason"] == "cancelled"
        await scene.desk.until_asked("terminal/release")
        (terminal,) = scene.desk.terminals.values()
        assert terminal.process.returncode == -9


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_client_that_does_not_know_terminals_has_the_command_run_by_the_agent(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("run", command="echo here"), **TERMINALS) as scene:
        scene.desk.refuse(scene.editor, "terminal/create", -32601)
        assert await scene.run() == ["here\n"]


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_client_that_disconnects_while_a_command_runs_does_not_make_it_run_again(tmp_path: Path) -> None:
    held = Held()
    runs = tmp_path / "runs"
    model = ScriptedModel([calling("run", command="echo x >> runs; exec sleep 60"), held.line])
    async with an_agent(model=model) as agent:
        async with connected(agent, **TERMINALS) as editor:
            desk = Desk(editor)
            session = await editor.new(tmp_path)
            editor.prompt(session, "Go on.")
            await desk.until_asked("terminal/wait_for_exit")
            await until(lambda: runs.exists() and runs.read_text(encoding="utf-8"))
        await held.begun.wait()
        await desk.close()
    (text,) = results(model)
    assert text == "the connection to the editor was lost while the command ran; it is not known how it ended"
    assert runs.read_text(encoding="utf-8") == "x\n"


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_client_that_disconnects_while_it_starts_a_command_has_the_call_fail(tmp_path: Path) -> None:
    held = Held()
    model = ScriptedModel([calling("run", command="touch ran"), held.line])
    async with an_agent(model=model) as agent:
        async with connected(agent, **TERMINALS) as editor:
            desk = Desk(editor)
            desk.ignore(editor, "terminal/create")
            session = await editor.new(tmp_path)
            editor.prompt(session, "Go on.")
            await desk.until_asked("terminal/create")
        await held.begun.wait()
    (text,) = results(model)
    assert text == (
        "the connection to the editor was lost while the command was started; it is not known whether it runs"
    )
    assert names_in(tmp_path) == []


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_terminal_without_an_id_has_the_call_fail(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("run", command="touch ran"), **TERMINALS) as scene:
        scene.desk.offer(scene.editor, "terminal/create", lambda _params: {})
        (text,) = await scene.run()
    assert text == "the editor has answered without the id of a terminal; it is not known whether the command runs"
    assert names_in(tmp_path) == []


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_terminal_that_cannot_tell_its_end_or_output_is_ended(tmp_path: Path) -> None:
    script = (calling("run", command="echo out; exec sleep 60"), calling("run", "c-2", command="echo out"))
    async with a_scene(tmp_path, *script, **TERMINALS) as scene:
        scene.desk.refuse(scene.editor, "terminal/wait_for_exit")
        wait_for_release = scene.desk.release

        def release(params: dict[str, Any]) -> dict[str, Any]:
            # The second command is waited for, but its output cannot be read.
            scene.desk.offer(scene.editor, "terminal/wait_for_exit", scene.desk.wait)
            scene.desk.refuse(scene.editor, "terminal/output")
            return wait_for_release(params)

        scene.desk.offer(scene.editor, "terminal/release", release)
        first, second = await scene.run()
    assert first.endswith("[its exit code is not known; no output]") or first == "out\n[its exit code is not known]"
    assert second == "the command ran, but the editor did not give its output: not today"


@pytest.mark.requirement("acp:client:terminals")
@on_pipes
async def test_a_command_that_is_not_allowed_reaches_no_terminal(tmp_path: Path) -> None:
    async with a_scene(tmp_path, calling("run", command="touch ran"), **TERMINALS) as scene:
        await scene.editor.call("session/set_mode", sessionId=scene.session, modeId="read_only")
        (text,) = await scene.run()
        assert scene.desk.asked == []
    assert text.startswith("Permission refused: ")
    assert names_in(tmp_path) == []
