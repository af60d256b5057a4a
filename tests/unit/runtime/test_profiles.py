"""The table that comes with the package, row by row, and where the user's own rows are read from."""

import re
from pathlib import Path

import pytest

from sideband.render.profiles import Cache, InlineSystem, LeadingRole, Profile, ProfileError, ProfileRow, Profiles, Wire
from sideband.runtime.profiles import VARIABLE, load_profiles
from tests.programs import run_python

CLAUDE = ("anthropic", "anthropic-bedrock", "anthropic-vertex", "anthropic-foundry")
TEMPLATES = ("openai-compatible", "local")
TRANSPORTS = {*CLAUDE, *TEMPLATES, "openai", "openai-chat", "google"}
CLEARING = "mid-conversation-system-clear-at-2026-08-21"


@pytest.fixture(autouse=True)
def no_file_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def a_file(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def the_table() -> Profiles:
    return load_profiles()


def of(model: str) -> Profile:
    return the_table().of(model)


def about(row: ProfileRow) -> str:
    return f"{row.transport}:{row.model or '*'}"


# The built-in rows


@pytest.mark.requirement("render:profile:rows-are-data")
def test_every_row_cites_a_public_source_and_a_date() -> None:
    rows = the_table().builtin
    assert rows
    assert [about(row) for row in rows if not row.source or not row.verified] == []
    # A page, a repository, or a package with its version.
    cited = re.compile(r"[\w-]+(\.[\w-]+)+[:/ ]|[\w-]+ \d+\.\d+")
    assert [row.source for row in rows if not all(cited.match(f"{part} ") for part in row.source.split("; "))] == []


@pytest.mark.requirement("render:profile:rows-are-data")
def test_there_is_one_row_for_each_transport_and_beginning() -> None:
    keys = [(row.transport, row.model) for row in the_table().builtin]
    assert len(keys) == len({*keys})


def test_every_transport_has_a_row_for_the_models_that_no_row_names() -> None:
    rows = the_table().builtin
    assert {row.transport for row in rows} == TRANSPORTS
    assert {row.transport for row in rows if not row.model} == TRANSPORTS


def test_no_row_contradicts_itself() -> None:
    table = the_table()
    for row in table.builtin:
        profile = table.of(f"{row.transport}:{row.model or 'unheard-of'}")
        if profile.inline_verified:
            assert profile.inline_system is not InlineSystem.NONE, about(row)
        if profile.self_clearing is not None:
            assert profile.inline_system is not InlineSystem.NONE, about(row)
        if profile.prefers_role_developer:
            assert profile.developer_role, about(row)
        assert bool(profile.cache_markers) is (profile.cache is Cache.EXPLICIT), about(row)
        assert bool(profile.cache_ttls) is (profile.cache is Cache.EXPLICIT), about(row)
        assert profile.wire is not Wire.GENERIC or not profile.content_parts, about(row)


@pytest.mark.requirement("render:profile:unknown-model-is-strictest")
@pytest.mark.parametrize("transport", TEMPLATES)
def test_an_unknown_model_of_a_compatible_server_gets_the_strictest_template_and_a_stable_prefix(
    transport: str,
) -> None:
    found = of(f"{transport}:unheard-of")
    assert found == Profile(transport=transport, kv_prefix=True, source=found.source, verified=found.verified)


@pytest.mark.requirement("render:profile:unknown-model-is-strictest")
def test_an_unknown_transport_is_the_strictest() -> None:
    assert of("carrier-pigeon:claude-opus-5") == Profile(transport="carrier-pigeon")


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        *((f"{transport}:claude-opus-5", Wire.ANTHROPIC) for transport in CLAUDE),
        ("openai:gpt-6-sol", Wire.OPENAI_RESPONSES),
        ("openai-chat:gpt-6-sol", Wire.OPENAI_CHAT),
        ("google:gemini-4-argon", Wire.GEMINI),
        ("openai-compatible:gpt-oss-120b", Wire.GENERIC),
        ("local:smollm2-135m", Wire.GENERIC),
    ],
)
def test_each_transport_speaks_its_wire(model: str, wire: Wire) -> None:
    assert of(model).wire is wire


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-opus-5-5",
        "claude-fable-5",
        "claude-fable-5-1",
        "claude-fable-5-2",
        "claude-mythos-5",
        "claude-mythos-5-1",
        "claude-sonnet-5-5",
    ],
)
def test_models_that_heed_an_inline_entry_may_get_one_that_clears_itself(name: str) -> None:
    profile = of(f"anthropic:{name}")
    assert (profile.inline_system, profile.inline_verified, profile.self_clearing) == (
        InlineSystem.AFTER_USER,
        True,
        CLEARING,
    )


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("anthropic:claude-sonnet-5", id="answers-and-ignores-it"),
        pytest.param("anthropic:claude-opus-4-7", id="refuses-it"),
        pytest.param("anthropic:claude-haiku-5-5", id="takes-it-for-tool-output"),
        pytest.param("anthropic:claude-haiku-4-5-20251001", id="older"),
        pytest.param("anthropic:claude-opus-5-7", id="newer-than-the-table"),
        pytest.param("anthropic:claude-ode-6", id="a-family-newer-than-the-table"),
        pytest.param("anthropic-foundry:claude-opus-5", id="not-offered-there"),
        pytest.param("anthropic-vertex:claude-opus-5", id="not-measured-there"),
        pytest.param("anthropic-bedrock:us.anthropic.claude-opus-5-5", id="not-measured-for-this-model"),
        pytest.param("google:gemini-4-argon", id="has-no-such-role"),
        pytest.param("openai-compatible:openai/gpt-oss-120b", id="drops-it-silently"),
    ],
)
def test_what_is_accepted_but_not_known_to_be_heeded_is_not_verified(model: str) -> None:
    assert of(model).inline_verified is False


def test_an_inline_entry_on_bedrock_was_measured_but_not_its_clearing() -> None:
    profile = of("anthropic-bedrock:us.anthropic.claude-opus-4-8")
    assert (profile.inline_verified, profile.self_clearing) == (True, None)


@pytest.mark.parametrize("transport", CLAUDE)
@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("claude-3-7-sonnet-20250219", False),
        ("claude-haiku-4-5", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-5", False),
        ("claude-opus-5", False),
        ("claude-fable-5", False),
        ("claude-fable-5-1", True),
        ("claude-fable-5-2", True),
        ("claude-mythos-5-1", True),
        ("claude-opus-5-5", True),
        ("claude-sonnet-5-5", True),
        ("claude-haiku-5-5", True),
        ("claude-opus-5-7", True),
        ("claude-ode-6", True),
    ],
)
def test_thinking_is_bound_since_fable_5_1_and_in_whatever_is_newer(transport: str, name: str, *, bound: bool) -> None:
    assert of(f"{transport}:{name}").prefix_bound_thinking is bound


@pytest.mark.parametrize("transport", ["openai", "openai-chat"])
@pytest.mark.parametrize(
    ("name", "cache"),
    [
        ("gpt-5.5", Cache.IMPLICIT),
        ("gpt-5.6-luna", Cache.EXPLICIT),
        ("gpt-6-astra", Cache.EXPLICIT),
        ("gpt-6.1-sol", Cache.EXPLICIT),
        ("o3", Cache.IMPLICIT),
        ("gpt-9", Cache.IMPLICIT),
    ],
)
def test_openai_takes_breakpoints_from_5_6_on(transport: str, name: str, cache: Cache) -> None:
    profile = of(f"{transport}:{name}")
    assert (profile.cache, profile.cache_markers) == (cache, 4 if cache is Cache.EXPLICIT else 0)
    assert (profile.prefers_role_developer, profile.leading_role) == (True, LeadingRole.DEVELOPER)
    assert (profile.consecutive_assistant, profile.content_parts) == (True, True)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("anthropic:claude-opus-5", 512),
        ("anthropic:claude-mythos-5", 512),
        ("anthropic:claude-opus-4-8", 1024),
        ("anthropic:claude-sonnet-5", 1024),
        ("anthropic:claude-sonnet-4-6", 1024),
        ("anthropic:claude-opus-4-7", 2048),
        ("anthropic:claude-3-5-haiku-20241022", 2048),
        ("anthropic:claude-opus-4-6", 4096),
        ("anthropic:claude-opus-4-5", 4096),
        ("anthropic:claude-haiku-4-5", 4096),
        ("openai:gpt-6-sol", 1024),
        ("google:gemini-2.5-pro", 2048),
        ("google:gemini-3.8-flash", 4096),
        ("anthropic:claude-opus-5-5", 0),
        ("anthropic:claude-ode-6", 0),
    ],
)
def test_the_shortest_prefix_that_is_cached(model: str, tokens: int) -> None:
    assert of(model).cache_minimum_tokens == tokens


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("anthropic:claude-haiku-4-5", 200_000),
        ("anthropic:claude-opus-4-5-20251101", 200_000),
        ("anthropic-bedrock:global.anthropic.claude-opus-5-5", 1_000_000),
        ("openai:gpt-5", 400_000),
        ("openai:gpt-5-mini", 400_000),
        ("openai:gpt-5.4", 1_050_000),
        ("openai:gpt-5.4-mini", 400_000),
        ("openai:gpt-6.1-terra", 1_050_000),
        ("openai-chat:gpt-4o-2024-11-20", 128_000),
        ("google:gemini-4-argon", 1_048_576),
        ("anthropic:claude-mythos-5", None),
        ("openai:gpt-5.9", None),
        ("anthropic:claude-opus-5-7", None),
        ("google:gemini-2.5-pro", None),
        ("local:gemma-4-31b-it", None),
        ("openai-compatible:gpt-oss-20b", None),
    ],
)
def test_a_window_is_known_or_it_is_not_guessed(model: str, window: int | None) -> None:
    assert of(model).context_window == window


@pytest.mark.parametrize("transport", TEMPLATES)
@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("google/gemma-2-9b-it", "leading_role", LeadingRole.USER),
        ("gemma2:9b", "leading_role", LeadingRole.USER),
        ("mistralai/Mistral-Nemo-Instruct-2407", "user_after_tool", False),
        ("Qwen/Qwen3.5-27B", "user_text_resets_reasoning", True),
        ("qwen3:8b", "user_text_resets_reasoning", True),
        ("MiniMaxAI/MiniMax-M2", "user_text_resets_reasoning", True),
        ("MiniMaxAI/MiniMax-M1-80k", "user_text_resets_reasoning", False),
        ("openai/gpt-oss-120b", "inline_system", InlineSystem.NONE),
        ("mistralai/Mistral-Nemo-Instruct-2407", "call_id_length", 9),
        ("Qwen/Qwen3.5-27B", "call_id_length", 0),
        ("phi-3.5-mini-instruct", "tool_role", False),
        ("google/gemma-2-9b-it", "tool_role", False),
        ("THUDM/glm-4-9b-chat", "tool_role", False),
        ("zai-org/GLM-4.6", "tool_role", True),
    ],
)
def test_templates_that_need_more_than_the_strictest(transport: str, name: str, field: str, value: object) -> None:
    profile = of(f"{transport}:{name}")
    assert getattr(profile, field) == value
    assert (profile.kv_prefix, profile.wire) == (True, Wire.GENERIC)


# The user's rows


MINE = '[[profile]]\ntransport = "local"\ncontext_window = 8192\n'


@pytest.mark.requirement("render:profile:user-overrides")
@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_may_be_named(kind: type, tmp_path: Path) -> None:
    table = load_profiles(kind(a_file(tmp_path, MINE)))
    assert table.of("local:anything").context_window == 8192
    assert table.of("local:anything").kv_prefix is True


@pytest.mark.requirement("render:profile:user-overrides")
def test_without_one_the_environment_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(a_file(tmp_path, MINE)))
    assert load_profiles().of("local:anything").context_window == 8192


def test_the_file_that_is_named_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "is-not-there.toml"))
    assert load_profiles(a_file(tmp_path, MINE)).of("local:anything").context_window == 8192


def test_an_empty_variable_names_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert load_profiles().overrides == ()


def test_a_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    a_file(tmp_path, MINE)
    assert load_profiles("~/mine.toml").of("local:anything").context_window == 8192


def test_an_unknown_home_folder_is_named() -> None:
    expected = "~nobody-of-this-name/mine.toml cannot be read: the home directory is unknown"
    with pytest.raises(ProfileError, match=re.escape(expected)):
        load_profiles("~nobody-of-this-name/mine.toml")


def test_a_mistake_names_the_file_the_row_and_the_field(tmp_path: Path) -> None:
    path = a_file(tmp_path, MINE + '[[profile]]\ntransport = "local"\nmodel = "x"\ncache = "often"\n')
    expected = f"{path}, row 2: cache must be one of 'none', 'implicit', 'explicit', not 'often'"
    with pytest.raises(ProfileError, match=re.escape(expected)):
        load_profiles(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    with pytest.raises(ProfileError, match=re.escape(f"{missing} cannot be read: No such file or directory")):
        load_profiles(missing)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ProfileError, match=re.escape(f"{path} cannot be read: it is not UTF-8")):
        load_profiles(path)


def test_the_built_in_rows_are_read_once() -> None:
    assert load_profiles().builtin is load_profiles().builtin


def test_the_table_is_found_from_any_folder(tmp_path: Path) -> None:
    statement = "from sideband.runtime.profiles import load_profiles as p; print(p().of('openai:gpt-6-sol').wire)"
    assert run_python("-c", statement, cwd=tmp_path).stdout.strip() == "openai_responses"
