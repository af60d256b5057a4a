"""The profile table: how rows are read, which of them hold for a model, and what they make of it together."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.render.profiles import (
    Cache,
    Explanation,
    InlineSystem,
    LeadingRole,
    Placement,
    Profile,
    ProfileError,
    ProfileRow,
    Profiles,
    Stated,
    Wire,
    parse_profiles,
    split_model,
)

FIELDS = {field.name: field for field in msgspec.structs.fields(Profile)}
ABOUT = {"transport", "model", "source", "verified"}


def a_table(text: str = "", *, overrides: str = "") -> Profiles:
    return Profiles(
        builtin=parse_profiles(text, origin="built-in"), overrides=parse_profiles(overrides, origin="mine.toml")
    )


def a_row(transport: str = "hosted", model: str = "", **states: str) -> str:
    """A row as a file has it; values are written as TOML writes them."""
    about = f'[[profile]]\ntransport = "{transport}"\nmodel = "{model}"\n'
    return about + "".join(f"{field} = {value}\n" for field, value in states.items())


def where(explanation: Explanation, field: str) -> Stated:
    (found,) = (stated for stated in explanation.stated if stated.field == field)
    return found


# Reading a file


def test_a_row_states_only_what_its_file_says() -> None:
    (row,) = parse_profiles(
        """
        [[profile]]
        transport = "hosted"
        model = "Sage"
        wire = "openai_chat"
        cache_ttls = ["5m", "1h"]
        context_window = 8192
        source = "the provider's page"
        verified = "2026-11-15"
        """,
        origin="mine.toml",
    )
    assert row == ProfileRow(
        origin="mine.toml",
        number=1,
        transport="hosted",
        model="sage",
        states={"wire": Wire.OPENAI_CHAT, "cache_ttls": ("5m", "1h"), "context_window": 8192},
        source="the provider's page",
        verified="2026-11-15",
    )


def test_a_row_without_a_model_is_about_every_model() -> None:
    (row,) = parse_profiles('[[profile]]\ntransport = "hosted"', origin="mine.toml")
    assert (row.model, row.states, row.source, row.verified) == ("", {}, "", "")


def test_a_row_that_lists_transports_and_models_is_one_for_each_pair() -> None:
    text = '[[profile]]\ntransport = ["a", "b", "a"]\nmodel = ["x", "y", "X"]\nkv_prefix = true'
    rows = parse_profiles(text, origin="mine.toml")
    assert [(row.transport, row.model, row.number) for row in rows] == [
        ("a", "x", 1),
        ("a", "y", 1),
        ("b", "x", 1),
        ("b", "y", 1),
    ]
    assert all(row.states == {"kv_prefix": True} for row in rows)


def test_a_date_may_be_written_without_quotes() -> None:
    (row,) = parse_profiles(a_row(verified="2026-11-15"), origin="mine.toml")
    assert row.verified == "2026-11-15"


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "profile = []"], ids=["empty", "comment", "no-rows"])
def test_a_file_may_have_no_rows(text: str) -> None:
    assert parse_profiles(text, origin="mine.toml") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[[profile]", "mine.toml is not a TOML file: Expected ']]'", id="not-toml"),
        pytest.param("rows = 1", "mine.toml: 'rows' is unknown; the file may hold [[profile]] rows only", id="key"),
        pytest.param("profile = 1", "mine.toml: rows must be written [[profile]]", id="not-a-table"),
        pytest.param("profile = [1]", "mine.toml: rows must be written [[profile]]", id="not-rows"),
        pytest.param(
            "[[profile]]",
            "mine.toml, row 1: transport must be a name or a list of names, not None",
            id="transport-missing",
        ),
        pytest.param(
            a_row(transport=""), "mine.toml, row 1: transport must be a name or a list of names, not ''", id="transport"
        ),
        pytest.param(
            '[[profile]]\ntransport = ["a", 1]',
            "mine.toml, row 1: transport must be a name or a list of names, not ['a', 1]",
            id="transport-list",
        ),
        pytest.param(
            '[[profile]]\ntransport = "a"\nmodel = []',
            "mine.toml, row 1: model must be a name or a list of names, not []",
            id="model",
        ),
        pytest.param(
            a_row() + a_row(model="x", inline_verifed="true"),
            "mine.toml, row 2: there is no field 'inline_verifed'; did you mean inline_verified?",
            id="misspelt-field",
        ),
        pytest.param(a_row(zzz="1"), "mine.toml, row 1: there is no field 'zzz'", id="unknown-field"),
        pytest.param(
            a_row(kv_prefix='"yes"'), "mine.toml, row 1: kv_prefix must be true or false, not 'yes'", id="flag"
        ),
        pytest.param(
            a_row(cache='"often"'),
            "mine.toml, row 1: cache must be one of 'none', 'implicit', 'explicit', not 'often'",
            id="word",
        ),
        pytest.param(
            a_row(placement='"front"'),
            "mine.toml, row 1: placement must be one of 'seed', 'tail', 'native', not 'front'",
            id="optional-word",
        ),
        pytest.param(
            a_row(cache_ttls='"5m"'), "mine.toml, row 1: cache_ttls must be a list of texts, not '5m'", id="list"
        ),
        pytest.param(
            a_row(media='["image/png", "video/mp4"]'),
            "mine.toml, row 1: media must be types of images, of audio or 'application/pdf', not 'video/mp4'",
            id="media-type",
        ),
        pytest.param(
            a_row(cache_markers="1.5"), "mine.toml, row 1: cache_markers must be a whole number, not 1.5", id="number"
        ),
        pytest.param(
            a_row(context_window="true"),
            "mine.toml, row 1: context_window must be a whole number, not True",
            id="optional-number",
        ),
        pytest.param(a_row(self_clearing="1"), "mine.toml, row 1: self_clearing must be a text, not 1", id="text"),
        pytest.param(
            a_row(context_window="0"), "mine.toml, row 1: context_window must be at least 1, not 0", id="no-window"
        ),
        pytest.param(
            a_row(call_id_length="7"),
            "mine.toml, row 1: call_id_length must be 0, or 8 to 128, not 7",
            id="ids-too-short",
        ),
        pytest.param(
            a_row(cache_markers="-1"), "mine.toml, row 1: cache_markers must be at least 0, not -1", id="negative"
        ),
        pytest.param(a_row(source="1"), "mine.toml, row 1: source must be a text, not 1", id="source"),
        pytest.param(
            a_row(verified='"lately"'),
            "mine.toml, row 1: verified must be a date like 2026-11-15, not 'lately'",
            id="verified",
        ),
        pytest.param(
            a_row(model="x") + a_row(model="X"),
            "mine.toml, row 2: model: row 1 is about the same (hosted, x)",
            id="twice",
        ),
        pytest.param(
            a_row() + a_row(), "mine.toml, row 2: model: row 1 is about the same (hosted, every model)", id="all-twice"
        ),
    ],
)
def test_a_mistake_is_one_sentence_that_names_file_row_and_field(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profiles(text, origin="mine.toml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", sorted(FIELDS.keys() - ABOUT))
def test_every_field_of_a_profile_can_be_stated_and_refused(field: str) -> None:
    with pytest.raises(ProfileError, match=rf"mine\.toml, row 1: {field} must be [a-z]"):
        parse_profiles(a_row(**{field: "{}"}), origin="mine.toml")


# Which rows hold


@pytest.mark.requirement("render:profile:unknown-model-is-strictest")
@pytest.mark.parametrize("model", ["elsewhere:sage-5", "hosted:other"], ids=["transport", "model"])
def test_what_no_row_is_about_gets_the_strictest_template(model: str) -> None:
    profile = a_table(a_row(model="sage", content_parts="true")).of(model)
    transport, _ = split_model(model)
    assert profile == Profile(transport=transport)
    assert (profile.wire, profile.leading_role, profile.inline_system) == (
        Wire.GENERIC,
        LeadingRole.SYSTEM,
        InlineSystem.NONE,
    )
    assert (profile.multiple_leading_system, profile.developer_role) == (False, False)
    assert (profile.strict_alternation, profile.content_parts) == (True, False)
    assert (profile.user_after_tool, profile.fold_into_tool_result) == (False, True)
    assert (profile.cache, profile.context_window) == (Cache.NONE, None)


def test_a_transport_with_any_row_is_known() -> None:
    table = a_table(a_row(model="sage"), overrides=a_row(transport="mine"))
    assert table.transports == ("hosted", "mine")
    assert [table.explain(f"{name}:x").known for name in ("hosted", "mine", "elsewhere")] == [True, True, False]


@pytest.mark.parametrize(
    ("name", "window"),
    [
        pytest.param("other", 1, id="no-row-names-it"),
        pytest.param("sage", 2, id="exactly-a-beginning"),
        pytest.param("sage-4", 2, id="the-only-beginning"),
        pytest.param("sage-5", 3, id="the-longer-beginning"),
        pytest.param("sage-5-mini", 4, id="the-longest-beginning"),
        pytest.param("a-sage-5", 1, id="not-a-beginning"),
        pytest.param("SAGE-5", 3, id="in-capitals"),
        pytest.param("wise-corp/sage-5", 3, id="after-an-organisation"),
        pytest.param("/models/wise/Sage-5.Q4_K_M.gguf", 3, id="in-a-folder"),
        pytest.param("anthropic.sage-5", 3, id="as-bedrock-calls-it"),
        pytest.param("us.anthropic.sage-5-v1:0", 3, id="as-bedrock-calls-it-in-a-region"),
        pytest.param("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.sage-5", 3, id="as-a-bedrock-arn"),
        pytest.param("wise-corp/other", 5, id="the-organisation-itself"),
    ],
)
def test_the_longest_beginning_wins(name: str, window: int) -> None:
    beginnings = {"": 1, "sage": 2, "sage-5": 3, "sage-5-mini": 4, "wise-corp/o": 5}
    # The order of the file says nothing.
    text = "".join(a_row(model=model, context_window=str(size)) for model, size in reversed(beginnings.items()))
    assert a_table(text).of(f"hosted:{name}").context_window == window


def test_rows_are_laid_over_each_other() -> None:
    table = a_table(
        a_row(wire='"anthropic"', content_parts="true", cache='"explicit"')
        + a_row(model="sage", cache='"implicit"', context_window="100")
        + a_row(model="sage-5", context_window="200")
    )
    profile = table.of("hosted:sage-5")
    assert (profile.wire, profile.content_parts, profile.cache) == (Wire.ANTHROPIC, True, Cache.IMPLICIT)
    assert (profile.context_window, profile.model) == (200, "sage-5")


@pytest.mark.parametrize(
    ("field", "value"),
    [("context_window", "100"), ("self_clearing", '"beta"'), ("call_signature", '"skip"'), ("placement", '"tail"')],
    ids=["window", "beta", "signature", "placement"],
)
def test_an_empty_text_takes_back_what_a_shorter_beginning_stated(field: str, value: str) -> None:
    table = a_table(a_row(**{field: value}) + a_row(model="sage", **{field: '""'}))
    assert getattr(table.of("hosted:other"), field) is not None
    assert getattr(table.of("hosted:sage"), field) is None


def test_a_row_of_another_transport_does_not_hold() -> None:
    assert a_table(a_row(transport="hosted-too", kv_prefix="true")).of("hosted:sage").kv_prefix is False


# The user's rows


@pytest.mark.requirement("render:profile:user-overrides")
@pytest.mark.parametrize("model", ["", "sage", "sage-5"], ids=["every-model", "a-family", "the-model"])
def test_what_a_user_states_wins_over_every_built_in_row(model: str) -> None:
    built_in = a_row(inline_verified="false", context_window="100") + a_row(model="sage-5", inline_verified="true")
    table = a_table(built_in, overrides=a_row(model=model, inline_verified="false"))
    profile = table.of("hosted:sage-5")
    assert profile.inline_verified is False
    assert profile.context_window == 100


@pytest.mark.requirement("render:profile:user-overrides")
def test_among_the_users_rows_the_longest_beginning_wins() -> None:
    overrides = a_row(model="sage-5", placement='"native"') + a_row(placement='"seed"')
    table = a_table(overrides=overrides)
    assert table.of("hosted:sage-5").placement is Placement.NATIVE
    assert table.of("hosted:other").placement is Placement.SEED


def test_a_user_may_bring_a_transport_of_their_own() -> None:
    table = a_table(a_row(), overrides=a_row(transport="gateway", wire='"openai_chat"'))
    assert table.of("gateway:anything").wire is Wire.OPENAI_CHAT


@pytest.mark.parametrize(
    ("states", "complaint"),
    [
        pytest.param(
            {"wire": '"anthropic"', "prefers_role_developer": "true", "developer_role": "true"},
            "mine.toml, row 1: prefers_role_developer cannot be True for hosted:sage-5: its wire has no developer role",
            id="a-role-that-the-wire-does-not-have",
        ),
        pytest.param(
            {"prefers_role_developer": "true"},
            "mine.toml, row 1: prefers_role_developer cannot be True for hosted:sage-5: developer_role is false",
            id="a-role-that-the-model-does-not-have",
        ),
        pytest.param(
            {"wire": '"anthropic"', "leading_role": '"user"'},
            "mine.toml, row 1: leading_role cannot be 'user' for hosted:sage-5: "
            "its wire has a field for the system text",
            id="a-system-text-without-a-message",
        ),
        pytest.param(
            {"wire": '"gemini"', "leading_role": '"developer"'},
            "mine.toml, row 1: leading_role cannot be 'developer' for hosted:sage-5: its wire has no developer role",
            id="a-leading-role-that-the-wire-does-not-have",
        ),
        pytest.param(
            {"wire": '"openai_chat"', "content_parts": "true", "tool_role": "false"},
            "mine.toml, row 1: tool_role cannot be False for hosted:sage-5: its wire has a form for results",
            id="results-as-text-where-the-wire-has-a-form",
        ),
        pytest.param(
            {"media": '["image/png"]'},
            "mine.toml, row 1: media cannot be ['image/png'] for hosted:sage-5: content_parts is false",
            id="images-in-plain-strings",
        ),
        pytest.param(
            {"wire": '"anthropic"', "content_parts": "true", "media": '["audio/wav"]'},
            "mine.toml, row 1: media cannot be ['audio/wav'] for hosted:sage-5: its wire has no form for audio",
            id="audio-that-the-wire-has-no-form-for",
        ),
        pytest.param(
            {"wire": '"openai_chat"', "content_parts": "true", "media": '["audio/mpeg", "audio/ogg"]'},
            "mine.toml, row 1: media cannot be ['audio/mp3', 'audio/ogg'] for hosted:sage-5: "
            "its wire has a form for audio/wav and audio/mp3 only",
            id="audio-of-another-format",
        ),
    ],
)
def test_what_no_request_could_follow_is_a_mistake(states: dict[str, str], complaint: str) -> None:
    table = a_table(a_row(cache='"none"'), overrides=a_row(**states))
    with pytest.raises(ProfileError) as raised:
        table.of("hosted:sage-5")
    assert str(raised.value) == complaint


# Saying why


def test_every_field_tells_which_row_it_comes_from() -> None:
    table = a_table(
        a_row(wire='"anthropic"', cache='"explicit"') + a_row(model="sage", cache='"implicit"'),
        overrides=a_row(content_parts="true"),
    )
    explanation = table.explain("hosted:sage-5")
    first, second, mine = table.rows
    assert explanation.rows == (first, second, mine)
    assert where(explanation, "wire") == ("wire", Wire.ANTHROPIC, first)
    assert where(explanation, "cache") == ("cache", Cache.IMPLICIT, second)
    assert where(explanation, "content_parts") == ("content_parts", True, mine)
    assert where(explanation, "strict_alternation") == ("strict_alternation", True, None)


def test_a_profile_names_its_source_by_the_strongest_row_that_has_one() -> None:
    table = a_table(
        a_row(source='"a page"', verified='"2026-01-01"')
        + a_row(model="sage", source='"a better page"', verified='"2026-02-02"'),
        overrides=a_row(model="sage", context_window="9"),
    )
    profile = table.of("hosted:sage-5")
    assert (profile.source, profile.verified) == ("a better page", "2026-02-02")


@st.composite
def tables(draw: st.DrawFn) -> Profiles:
    """Tables of rows about beginnings of `abab…`, each of which states a window, a flag, or nothing."""

    def rows(origin: str) -> tuple[ProfileRow, ...]:
        models = draw(st.lists(st.text("ab", max_size=4), unique=True, max_size=6))
        return tuple(
            ProfileRow(
                origin=origin,
                number=number,
                transport=draw(st.sampled_from(["t", "u"])),
                model=model,
                states=draw(
                    st.fixed_dictionaries({}, optional={"context_window": st.integers(1), "kv_prefix": st.booleans()})
                ),
            )
            for number, model in enumerate(models, 1)
        )

    return Profiles(builtin=rows("built-in"), overrides=rows("mine"))


@given(tables(), st.text("ab", min_size=1, max_size=6))
def test_the_profile_is_what_the_explanation_says_and_each_value_is_that_of_the_strongest_row(
    table: Profiles, name: str
) -> None:
    explanation = table.explain(f"t:{name}")
    for field, value, row in explanation.stated:
        assert getattr(explanation.profile, field) == value
        claims = [
            candidate
            for candidate in table.rows
            if candidate.transport == "t" and name.startswith(candidate.model) and field in candidate.states
        ]
        strongest = max(claims, key=lambda claim: (claim.origin == "mine", len(claim.model)), default=None)
        assert row == strongest
        assert value == (FIELDS[field].default if strongest is None else strongest.states[field])


# The name of a model


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        ("anthropic:claude-opus-5", ("anthropic", "claude-opus-5")),
        ("openai-compatible:qwen3:8b", ("openai-compatible", "qwen3:8b")),
    ],
    ids=["plain", "a-name-with-colons"],
)
def test_a_model_is_a_transport_and_a_name(model: str, parts: tuple[str, str]) -> None:
    assert split_model(model) == parts


@pytest.mark.parametrize("model", ["", ":", "claude-opus-5", "anthropic:", ":claude-opus-5"])
def test_a_model_without_transport_or_name_is_refused(model: str) -> None:
    expected = f"a model is written transport:model, like 'anthropic:claude-opus-5', not {model!r}"
    with pytest.raises(ProfileError, match=re.escape(expected)):
        a_table().explain(model)
