"""`sideband profiles`: the rows, what one model gets of them, and why."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sideband.cli.profiles import placement, profiles
from sideband.render.profiles import InlineSystem, Placement, Profile
from sideband.runtime.profiles import VARIABLE, load_profiles
from tests.programs import run_sideband

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_file_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def a_file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def said(capsys: Captured, model: str | None = None, file: Path | None = None) -> str:
    assert profiles(model, file=file) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def explained(capsys: Captured, model: str) -> dict[str, Any]:
    assert profiles(model, json=True) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=dict[str, Any])


def listed(capsys: Captured, file: Path) -> list[dict[str, Any]]:
    assert profiles(file=file, json=True) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=list[dict[str, Any]])


def flat(text: str) -> str:
    return " ".join(text.split())


# Without a model


def test_without_a_model_every_row_is_listed(capsys: Captured) -> None:
    text = flat(said(capsys))
    rows = load_profiles().rows
    for row in rows:
        assert (f"{row.model}…" if row.model else "every model") in text
        assert all(f"{field}=" in text for field in row.states)
        assert row.transport in text
        assert f"verified {row.verified}" in text
    assert text.count(", verified ") == len({row.number for row in rows})


def test_a_row_says_whom_it_is_about_and_what_it_states(tmp_path: Path, capsys: Captured) -> None:
    text = '[[profile]]\ntransport = ["a", "b"]\nmodel = ["x", ""]\nkv_prefix = true\ncache_ttls = []\n'
    lines = said(capsys, file=a_file(tmp_path, text)).splitlines()
    start = lines.index(str(tmp_path / "mine.toml"))
    assert lines[start + 1 :] == [
        "",
        "  1  a, b: x…, every model",
        "     kv_prefix=yes, cache_ttls=none",
        "",
        "To see the profile of one model: sideband profiles TRANSPORT:MODEL",
    ]


def test_the_rows_fit_a_page(capsys: Captured) -> None:
    assert max(map(len, said(capsys).splitlines())) <= 100


def test_the_rows_as_json_are_those_of_the_files(tmp_path: Path, capsys: Captured) -> None:
    mine = a_file(tmp_path, '[[profile]]\ntransport = "local"\nmodel = ["x", "y"]\ncontext_window = ""\n')
    rows = listed(capsys, mine)
    assert rows[-1] == {
        "file": str(mine),
        "row": 1,
        "transports": ["local"],
        "models": ["x", "y"],
        "states": {"context_window": None},
        "source": "",
        "verified": "",
    }
    assert sum(len(row["transports"]) * len(row["models"]) for row in rows) == len(load_profiles(mine).rows)


# With one


def test_a_model_gets_each_value_from_a_row_with_its_source_and_date(capsys: Captured) -> None:
    text = said(capsys, "anthropic:claude-opus-5-5")
    found = load_profiles().explain("anthropic:claude-opus-5-5")
    lines = text.splitlines()
    assert lines[0] == "anthropic:claude-opus-5-5"
    for field, _, row in found.stated:
        (line,) = (line for line in lines if line.startswith(f"  {field} "))
        assert line.endswith("strictest template" if row is None else f"built-in row {row.number}")
    for row in found.rows:
        (line,) = (line for line in lines if line.startswith(f"  built-in row {row.number}: "))
        assert line.endswith(f", verified {row.verified}; {row.source}")
    assert flat("prefix_bound_thinking yes") in flat(text)
    assert flat("context_window 1,000,000") in flat(text)
    assert flat("cache_ttls 5m|1h") in flat(text)
    assert flat("placement unset") in flat(text)


def test_a_model_as_json(capsys: Captured) -> None:
    found = explained(capsys, "openai:gpt-6-sol")
    assert (found["transport"], found["model"], found["known_transport"]) == ("openai", "gpt-6-sol", True)
    assert found["placement"] == "tail"
    assert found["fields"].keys() == msgspec.structs.asdict(Profile(transport="x")).keys() - {
        "transport",
        "model",
        "source",
        "verified",
    }
    cache = found["fields"]["cache"]
    assert (cache["value"], cache["file"], cache["beginning"]) == ("explicit", "built-in", "gpt-6")
    (row,) = (row for row in load_profiles().rows if (row.transport, row.model) == ("openai", "gpt-6"))
    assert (cache["row"], cache["source"], cache["verified"]) == (row.number, row.source, row.verified)
    assert found["fields"]["kv_prefix"] == {
        "value": False,
        "file": None,
        "row": None,
        "beginning": None,
        "source": None,
        "verified": None,
    }


@pytest.mark.parametrize(
    ("profile", "chosen", "why"),
    [
        pytest.param(Profile(transport="x"), "tail", "keep the prompt cache intact", id="otherwise"),
        pytest.param(
            Profile(transport="x", placement=Placement.SEED), "seed", "a row of the table sets it", id="stated"
        ),
        pytest.param(
            Profile(transport="x", prefix_bound_thinking=True),
            "tail",
            "no inline entry is known that the model obeys",
            id="bound",
        ),
        pytest.param(
            Profile(
                transport="x",
                prefix_bound_thinking=True,
                inline_system=InlineSystem.AFTER_USER,
                inline_verified=True,
                self_clearing="beta",
            ),
            "native",
            "inline system entries, which the provider removes by itself",
            id="bound-and-clearing",
        ),
    ],
)
def test_a_profile_decides_where_reminders_stand(profile: Profile, chosen: str, why: str) -> None:
    word, reason = placement(profile)
    assert word == chosen
    assert why in reason


@pytest.mark.parametrize(
    ("model", "chosen"),
    [
        ("anthropic:claude-opus-5-5", "native"),
        ("anthropic:claude-sonnet-5-5", "native"),
        ("anthropic:claude-haiku-5-5", "tail"),
        ("anthropic:claude-opus-5", "tail"),
        ("anthropic-bedrock:anthropic.claude-opus-5-5", "tail"),
        ("openai:gpt-6-sol", "tail"),
        ("google:gemini-4-argon", "tail"),
        ("local:qwen3:8b", "tail"),
        ("carrier-pigeon:any", "tail"),
    ],
)
def test_where_the_reminders_of_a_model_stand(model: str, chosen: str, capsys: Captured) -> None:
    assert f"\nPlacement of reminders is {chosen}: " in said(capsys, model)


def test_a_model_that_no_row_names_is_said_to_be_none(capsys: Captured) -> None:
    assert "\nNo row names this model, so only the rows for every model of its transport apply.\n" in said(
        capsys, "openai:gpt-9"
    )
    assert "No row" not in said(capsys, "openai:gpt-6-sol")


def test_a_transport_that_no_row_is_about_gets_the_strictest_template(capsys: Captured) -> None:
    text = said(capsys, "carrier-pigeon:any")
    assert "\nNo row is for the transport 'carrier-pigeon', so the strictest chat template is assumed.\n" in text
    assert "\nThere are rows for anthropic, " in text
    assert text.endswith("Rows that apply; later rows override earlier ones\n  none\n")


def test_rows_of_the_users_are_named_by_their_file(tmp_path: Path, capsys: Captured) -> None:
    mine = a_file(tmp_path, '[[profile]]\ntransport = "anthropic"\nplacement = "tail"\n')
    text = said(capsys, "anthropic:claude-opus-5-5", mine)
    assert "\nPlacement of reminders is tail: a row of the table sets it.\n" in text
    assert text.endswith(f"\n  {mine} row 1: anthropic, every model\n")


def test_the_local_model_needs_no_name(capsys: Captured) -> None:
    assert said(capsys, "local:") == said(capsys, "local:smollm2")


# What goes wrong


@pytest.mark.parametrize("json_too", [False, True], ids=["text", "json"])
def test_a_model_without_a_transport_is_a_mistake_of_the_caller(capsys: Captured, *, json_too: bool) -> None:
    assert profiles("claude-opus-5", json=json_too) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "error: a model is written transport:model, like 'anthropic:claude-opus-5', not 'claude-opus-5'\n"
        "code: SIDEBAND-403; for the cause and the remedy: sideband explain SIDEBAND-403\n"
    )


def test_a_broken_file_is_one_sentence(tmp_path: Path, capsys: Captured) -> None:
    mine = a_file(tmp_path, '[[profile]]\ntransport = "local"\nkv_prefix = "yes"\n')
    assert profiles(file=mine) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {mine}, row 1: kv_prefix must be true or false, not 'yes'\n")


def test_nothing_of_the_users_reaches_the_terminal_as_a_command(tmp_path: Path, capsys: Captured) -> None:
    mine = a_file(
        tmp_path, '[[profile]]\ntransport = "local"\nsource = "\\u001b[31mred"\nself_clearing = "\\u001b[1m"\n'
    )
    for model in (None, "local:\x1b[31m", "\x1b[31m:any"):
        text = said(capsys, model, mine)
        assert all(line.isprintable() for line in text.splitlines())
    assert profiles("\x1b[31m", file=mine) == 2
    assert all(line.isprintable() for line in capsys.readouterr().err.splitlines())


def test_the_command_as_a_user_starts_it(tmp_path: Path) -> None:
    mine = a_file(tmp_path, '[[profile]]\ntransport = "local"\ncontext_window = 8192\n')
    answer = run_sideband("profiles", "local:qwen3:8b", "--json", env={VARIABLE: str(mine)})
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["fields"]["context_window"]["value"] == 8192
