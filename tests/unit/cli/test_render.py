"""`sideband render`: the bytes are those of the renderer, every part is named, and nothing is kept from the reader."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.cli.render import STYLES, render
from sideband.inspect.saved import TYPICAL_MODELS
from sideband.inspect.scene import read_scene
from sideband.render.profiles import Placement, Wire
from sideband.render.renderer import Renderer
from sideband.runtime.profiles import load_profiles
from sideband.testing.oracle import violations
from tests.programs import ROOT, run_sideband

Captured = pytest.CaptureFixture[str]

EXAMPLES: Final = sorted((ROOT / "examples" / "render").glob("*.json"))
TOOL_LOOP: Final = ROOT / "examples" / "render" / "tool_loop.json"
LINE: Final = re.compile(r"^  (\w+) +(.*)$")


def a_file(folder: Path, **fields: object) -> Path:
    """A request of one message, and `fields`."""
    path = folder / "request.json"
    whole = {"messages": [{"role": "user", "content": "Go on."}], "model": "anthropic:claude-opus-4-6", **fields}
    path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    return path


def told(capsys: Captured, path: Path, **options: Any) -> str:  # noqa: ANN401 - the options of the command
    assert render(str(path), **options) == 0
    return capsys.readouterr().out


def document(capsys: Captured, path: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the same
    found: dict[str, Any] = json.loads(told(capsys, path, json=True, **options))
    return found


def named_parts(text: str) -> list[tuple[str, str]]:
    """The labels of the body, each with its text."""
    lines = text.split("bytes\n", 1)[1].split("\n\n", 1)[0].split("\n")
    return [match.groups() for line in lines if (match := LINE.match(line))]  # type: ignore[misc] # two groups each


# The body.


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("wire", TYPICAL_MODELS)
@pytest.mark.parametrize("placement", [placement.value for placement in Placement])
def test_the_body_is_the_one_that_the_renderer_builds(path: Path, wire: Wire, placement: str, capsys: Captured) -> None:
    model = TYPICAL_MODELS[wire]
    profile = load_profiles().of(model)
    assert profile.wire == wire
    renderer = Renderer(profile, model=model.partition(":")[2], placement=Placement(placement))
    rendered = renderer.render(read_scene(path).view())
    found = document(capsys, path, wire=wire, placement=placement)
    assert found["body"].encode() == rendered.request.body
    assert violations(profile, json.loads(found["body"]), found["betas"]) == []
    text = told(capsys, path, wire=wire, placement=placement)
    assert "".join(said for _, said in named_parts(text)) == rendered.request.body.decode()
    assert {label for label, _ in named_parts(text)} <= STYLES.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("wire", TYPICAL_MODELS)
@pytest.mark.parametrize("placement", [placement.value for placement in Placement])
def test_every_reminder_stands_in_a_part_that_says_so(path: Path, wire: Wire, placement: str, capsys: Captured) -> None:
    found = document(capsys, path, wire=wire, placement=placement)
    body = found["body"].encode()
    parts = [(part["kind"], body[part["start"] : part["end"]].decode()) for part in found["parts"]]
    assert "".join(said for _, said in parts) == found["body"]
    for reminder in found["reminders"]:
        assert reminder["state"] == "shown"
        kinds = {kind for kind, said in parts if reminder["body"] in said}
        assert kinds == {"volatile" if placement == "seed" else reminder["scope"]}


@pytest.mark.parametrize("wire", TYPICAL_MODELS)
def test_in_front_too_reminders_that_begin_alike_are_told_apart(wire: Wire, tmp_path: Path, capsys: Captured) -> None:
    bodies = ["Red.", "Red.", "Red. And slow.", "Red"]
    path = a_file(tmp_path, system="Mend.", reminders=[{"body": body, "ttl_turns": 1} for body in bodies])
    found = document(capsys, path, wire=wire, placement="seed")
    body = found["body"].encode()
    cut = [body[part["start"] : part["end"]].decode() for part in found["parts"]]
    assert "".join(cut) == found["body"]
    said = [text for part, text in zip(found["parts"], cut, strict=True) if part["kind"] == "volatile"]
    assert [body in text for body, text in zip(bodies, said, strict=True)] == [True] * 4


@pytest.mark.parametrize("kind", ["head", "stable", "new", "kept", "clearing", "marker", "closing"])
def test_the_example_shows_what_each_label_means(kind: str, capsys: Captured) -> None:
    assert kind in {label for label, _ in named_parts(told(capsys, TOOL_LOOP))}


def test_the_heading_says_for_whom_and_how(capsys: Captured) -> None:
    lines = told(capsys, TOOL_LOOP).splitlines()
    assert lines[:2] == [
        "anthropic:claude-opus-5-5: wire anthropic, placement native",
        "turn 2, betas: mid-conversation-system-clear-at-2026-08-21",
    ]
    assert told(capsys, TOOL_LOOP, model="openai:gpt-6-sol").splitlines()[:2] == [
        "openai:gpt-6-sol: wire openai_responses, placement tail",
        "turn 2, betas: none",
    ]


def test_the_local_model_needs_no_name(tmp_path: Path, capsys: Captured) -> None:
    assert "local:smollm2" in told(capsys, TOOL_LOOP, model="local:").splitlines()[0]
    assert "local:smollm2" in told(capsys, a_file(tmp_path, model="local:")).splitlines()[0]


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = told(capsys, TOOL_LOOP)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert plain != text
    assert "".join(f" {name} " for name in STYLES) in plain
    assert document(capsys, TOOL_LOOP)["body"] in plain


def test_without_colours_the_parts_have_labels(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert named_parts(told(capsys, TOOL_LOOP))[0][0] == "head"


# The reminders.


def test_a_lowered_hint_is_told(tmp_path: Path, capsys: Captured) -> None:
    server = {"body": "3 fail.", "trust": "server", "from": "ci", "propagate": "all", "ttl_turns": 9}
    text = told(capsys, a_file(tmp_path, reminders=[server, {"body": "Red.", "trust": "peer", "from": "x"}]))
    assert "  1  shown as user, volatile: 3 fail. (propagate is none, not all; ttl_turns is 2, not 9)" in text
    assert "  2  shown as user, volatile: Red. (ttl_turns is 3, not none)" in text
    assert '<server-notice from=\\"ci\\">' in text


def test_a_later_reminder_replaces_one_of_its_key(tmp_path: Path, capsys: Captured) -> None:
    reminders = [{"body": f"Version {number}.", "dedupe_key": "k", "ttl_turns": 1} for number in (1, 2)]
    text = told(capsys, a_file(tmp_path, reminders=reminders))
    assert (
        "  1  replaced: Version 1. (a later reminder has the same dedupe_key)\n  2  shown as user, volatile: Version 2."
        in text
    )


def test_what_does_not_fit_is_told_with_the_reason(tmp_path: Path, capsys: Captured) -> None:
    rows = tmp_path / "rows.toml"
    rows.write_text(
        '[[profile]]\ntransport = "x"\ncontext_window = 20_000\naccepts_notices = false\n', encoding="utf-8"
    )
    reminders = [
        {"body": "a " * 600, "ttl_turns": 1},
        {"body": "b " * 600, "ttl_turns": 1},
        {"body": "c " * 6_000, "ttl_turns": 1},
        {"body": "d", "trust": "peer", "from": "x"},
    ]
    path = a_file(tmp_path, reminders=reminders)
    text = told(capsys, path, model="x:y", profiles=rows)
    assert "  1  shown as user, volatile: a a " in text
    assert re.search(
        r"^  2  left out: b b .* \(reminders may take at most 400 tokens of a request\)$", text, re.MULTILINE
    )
    assert re.search(r"^  3  dropped: c c .* \(larger than 2,000 tokens, a tenth of the context", text, re.MULTILINE)
    assert "  4  dropped: d (this route renders no reminders from peers and servers)" in text
    found = document(capsys, path, model="x:y", profiles=rows)
    assert [entry["state"] for entry in found["reminders"]] == ["shown", "left out", "dropped", "dropped"]


def test_a_hint_that_the_route_cannot_keep_is_told(tmp_path: Path, capsys: Captured) -> None:
    path = a_file(tmp_path, reminders=[{"body": "Red.", "role_hint": "user_block", "ttl_turns": 1}])
    assert "\n  HARN-RMD-003: " in told(capsys, path, wire="openai_chat")
    assert [entry["code"] for entry in document(capsys, path, wire="openai_chat")["advice"]] == ["HARN-RMD-003"]
    assert "HARN-RMD-003" not in told(capsys, path)


@pytest.mark.parametrize("wire", TYPICAL_MODELS)
def test_a_conversation_that_ends_with_a_reply_is_shown_only_with_reminders(
    wire: Wire, tmp_path: Path, capsys: Captured
) -> None:
    talk = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Done."}]
    assert render(str(a_file(tmp_path, messages=talk, model=TYPICAL_MODELS[wire]))) == 2
    assert "send a message or a reminder first" in capsys.readouterr().err
    reminders = [{"body": "Red.", "ttl_turns": 1}]
    path = a_file(tmp_path, messages=talk, model=TYPICAL_MODELS[wire], reminders=reminders)
    for placement in ("tail", "seed"):
        assert "Red." in told(capsys, path, placement=placement)


def test_a_request_may_have_none(tmp_path: Path, capsys: Captured) -> None:
    text = told(capsys, a_file(tmp_path))
    assert "\nNo reminders\n" in text
    assert text.endswith("Relative cost: 1.000 times that of the same request without reminders.\n")


# What it costs.


def a_long_talk(folder: Path) -> Path:
    """Old enough to be cached, with one reminder at its end."""
    call = {"id": "c1", "name": "look", "args": {}}
    return a_file(
        folder,
        system="You mend code. " * 2_000,
        messages=[
            {"role": "user", "content": "Begin. " * 100},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "x" * 400},
        ],
        reminders=[{"body": "The build is red.", "ttl_turns": 1}],
    )


def test_at_the_end_a_reminder_costs_itself_and_in_front_the_whole_cache(tmp_path: Path, capsys: Captured) -> None:
    path = a_long_talk(tmp_path)
    tail = document(capsys, path, model="anthropic:claude-opus-5-5", placement="tail")
    seed = document(capsys, path, model="anthropic:claude-opus-5-5", placement="seed")
    assert tail["cached_share"] > 0.95
    assert 1.0 < tail["relative_cost"] < 1.05
    assert seed["relative_cost"] > 8
    assert "Nothing is read from the cache" not in told(capsys, path, model="anthropic:claude-opus-5-5")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            "anthropic:claude-opus-5-5",
            r"About [\d,]+ tokens: [\d,]+ read from the cache \(9\d%\), \d+ written to it, \d+ neither",
        ),
        ("google:gemini-4-argon", r"from the cache \(9\d%\), 0 written to it"),
        ("local:smollm2", r"Relative work: 1\.\d{3} times that of the same request"),
        ("carrier-pigeon:any", r"Nothing is read from the cache: this route has no prompt cache\."),
    ],
)
def test_what_the_cache_gives_back_is_told(model: str, said: str, tmp_path: Path, capsys: Captured) -> None:
    assert re.search(said, told(capsys, a_long_talk(tmp_path), model=model))


# What goes wrong.


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        pytest.param({"messages": 3}, "is not a request: Expected `array`, got `int` - at `$.messages`", id="no-list"),
        pytest.param({"mesages": []}, "is not a request: Object contains unknown field `mesages`", id="unknown-field"),
        pytest.param(
            {"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "y"}]},
            "is not a request: a system message is a summary and must be the first message (messages[1])",
            id="late-system-message",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "native": {"anthropic": 3}}]},
            "is not a request: Expected `array`, got `int` - at `$.messages[0].native[...]`",
            id="native-that-is-no-list",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "native": {"anthropic": [{}]}}]},
            "is not a request: a native block must have a type (messages[0])",
            id="native-block-of-no-type",
        ),
        pytest.param(
            {"messages": [{"role": "developer", "content": "x"}]}, "Invalid value 'developer' - at", id="unknown-role"
        ),
        pytest.param(
            {"messages": [{"role": "tool", "content": "x", "name": "y"}]},
            "missing required field `tool_call_id` - at `$.messages[0]`",
            id="result-of-no-call",
        ),
        pytest.param(
            {"reminders": [{"body": "x"}, {"body": "x", "ttl_turns": 0}]},
            ", reminder 2: HARN-RMD-001: ttl_turns must be between",
            id="bad-ttl",
        ),
        pytest.param(
            {"reminders": [{"body": "x", "colour": "red"}]}, ", reminder 1: HARN-RMD-001: ", id="unknown-option"
        ),
        pytest.param({"reminders": [{"body": "x", "trust": "content"}]}, ", reminder 1: Invalid enum", id="bad-trust"),
        pytest.param({"model": "claude"}, "a model is written transport:model", id="bad-model"),
        pytest.param({"model": None}, "the file names no model; choose one with --model", id="no-model"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(
    fields: dict[str, Any], said: str, tmp_path: Path, capsys: Captured
) -> None:
    assert render(str(a_file(tmp_path, **fields))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert said in captured.err.splitlines()[0]


def test_a_model_and_a_wire_are_one_too_many(capsys: Captured) -> None:
    assert render(str(TOOL_LOOP), model="openai:gpt-6-sol", wire="gemini") == 2
    assert capsys.readouterr().err == "error: a model determines its wire; use --model or --wire, not both\n"


def test_nothing_of_the_users_reaches_the_terminal_as_a_command(tmp_path: Path, capsys: Captured) -> None:
    hostile = "\x7f\u202e\u2028\U000e0041 ok"
    path = a_file(tmp_path, system=hostile)
    text = told(capsys, path, model="x:\u202ey")
    assert all(line.isprintable() for line in text.splitlines())
    assert "\\u007f\\u202e\\u2028\\udb40\\udc41 ok" in text


def test_the_command_as_a_user_starts_it() -> None:
    answer = run_sideband(
        "render", "examples/render/tool_loop.json", "--wire", "gemini", "--placement", "tail", "--json"
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["model"] == "google:gemini-4-argon"
