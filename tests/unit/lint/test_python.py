"""Python: how literals are read, and which calls are checked."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.lint.literals import MAX_DEPTH, Position, Scalar, Table, Unknown, UnreadableSource, Value, plain
from sideband.lint.python import MAX_REPEATED_TEXT, PythonSource, ignored_codes
from tests.unit.lint.checking import check_text, codes, places

ENDLESS = 'session.remind("x")'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('inject_reminder(t, body="x", ttl_turns=1, color=1)', ["001"], id="an-unknown-option"),
        pytest.param('inject_reminder(t, body="x", ttl_turns=1, mode="audit_only")', ["001"], id="an-option-of-others"),
        pytest.param('inject_reminder(t, body="x", ttl_turns=0)', ["001"], id="a-value-out-of-range"),
        pytest.param('inject_reminder(t, body="x", ttl_turns=-1)', ["001"], id="a-negative-value"),
        pytest.param('inject_reminder(t, body=" ", ttl_turns=1)', ["001"], id="a-blank-body"),
        pytest.param("inject_reminder(t, ttl_turns=1)", ["001"], id="no-body"),
        pytest.param('inject_reminder(t, body="x", ttl_turns=1, propagate="up")', ["005"], id="a-wrong-propagate"),
        pytest.param('inject_reminder(t, body="x")', ["004"], id="no-ttl"),
        pytest.param('inject_reminder(t, {"body": "x", "ttl": 1, "ttl_turns": 1})', ["001"], id="options-as-a-dict"),
        pytest.param('inject_reminder(t, options={"body": "", "ttl_turns": 1})', ["001"], id="options-by-name"),
        pytest.param('inject_reminder(transcript=t, body="x", ttl_turns=1)', [], id="the-transcript-by-name"),
        pytest.param("inject_reminder(t, **options)", [], id="options-known-only-at-run-time"),
        pytest.param("inject_reminder(t, color=1, **options)", ["001"], id="more-options-known-only-at-run-time"),
        pytest.param("inject_reminder(*arguments)", [], id="arguments-known-only-at-run-time"),
        pytest.param("inject_reminder(t, options)", [], id="a-dict-known-only-at-run-time"),
        pytest.param("def inject_reminder(t): ...\ninject_reminder(t, color=1)", [], id="a-function-of-their-own"),
        pytest.param("client.inject_reminder(session_id, color=1)", [], id="a-method-of-another-thing"),
        pytest.param(
            "import sideband as sb\nsb.inject_reminder(t, body='')", ["001", "004"], id="as-attribute-of-our-module"
        ),
        pytest.param(
            "import sideband.core.x\nsideband.core.x.inject_reminder(t, body='')", ["001", "004"], id="deeper"
        ),
        pytest.param("from sideband import inject_reminder as put\nput(t, body='')", ["001", "004"], id="renamed"),
        pytest.param("from sideband import runtime\nruntime.inject_reminder(t, body='')", ["001", "004"], id="a-part"),
    ],
)
def test_calls_of_inject_reminder(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('session.remind("x", ttl_turns=1, mode="audit_only")', [], id="all-right"),
        pytest.param('session.remind("x", ttl_turns=1, mode="later")', ["S201"], id="an-unknown-mode"),
        pytest.param('session.remind("", ttl_turns=1)', ["001"], id="a-blank-body"),
        pytest.param("session.remind(ttl_turns=1)", ["001"], id="no-body"),
        pytest.param("session.remind(*arguments, ttl_turns=0)", ["001"], id="a-body-known-only-at-run-time"),
        pytest.param("session.remind(text, ttl_turns=0)", ["001"], id="a-body-that-is-a-name"),
        pytest.param("self.my_session.remind(text)", ["004"], id="any-session"),
        pytest.param('anything.remind("x", ttl_turns=0)', ["001"], id="anything-with-a-field-of-ours"),
        pytest.param('import sideband\nanything.remind("x")', ["004"], id="anything-where-we-are-imported"),
        pytest.param('calendar.remind("dentist", at=noon)', [], id="the-calendar"),
        pytest.param("class S:\n  def remind(self): ...\nS().session.remind(color=1)", [], id="a-method-of-their-own"),
        pytest.param('remind("x", ttl_turns=0)', [], id="a-function"),
    ],
)
def test_calls_of_remind(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("clear_reminders(t)", ["001"], id="no-selector"),
        pytest.param("clear_reminders(t, tag=None)", ["001"], id="a-selector-that-is-none"),
        pytest.param('clear_reminders(t, tag="x")', [], id="a-selector"),
        pytest.param("clear_reminders(t, id=name)", [], id="a-selector-known-only-at-run-time"),
        pytest.param("clear_reminders(t, key=1)", ["001", "001"], id="an-unknown-selector-selects-nothing"),
        pytest.param("clear_reminders(t, **selector)", [], id="selectors-known-only-at-run-time"),
        pytest.param("clear_reminders(t, {})", ["001"], id="an-empty-dict"),
        pytest.param("clear_reminders(t, selector)", [], id="a-selector-that-is-a-name"),
        pytest.param("client.clear_reminders(task)", [], id="a-method-of-another-thing"),
    ],
)
def test_calls_of_clear_reminders(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            '{"body": "x", "ttl_turns": 1, "id": "i", "source": "hook", "fired_at_turn": 2}', [], id="a-record"
        ),
        pytest.param('{"body": "x", "ttl_turns": 0}', ["S105"], id="a-value-that-gives-way-to-the-default"),
        pytest.param('{"body": "x", "ttl_turns": 1, "color": 1}', ["S105"], id="a-key-that-is-passed-over"),
        pytest.param('{"body": "x", "ttl_turns": 1, "propagate": "up"}', ["S105"], id="a-wrong-propagate"),
        pytest.param('{"body": "x"}', ["004"], id="no-ttl"),
        pytest.param("payload", [], id="a-name"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_the_lenient_builder_refuses_nothing_and_hides_nothing(text: str, expected: list[str]) -> None:
    assert codes(f"transcript_reminder_event({text})") == expected


BAD = '{"reminder": {"body": "", "ttl_turns": 1}}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"def hook(event):\n    return {BAD}\nregister_tool_hook('*', post=hook)", id="by-name"),
        pytest.param(f"async def hook(event):\n    return {BAD}\nregister_step_hook(pre=hook)", id="asynchronous"),
        pytest.param(f"register_persona_hook('*', pre=lambda event: {BAD})", id="a-lambda"),
        pytest.param(f"sb.register_tool_hook({{'pattern': '*', 'post': lambda event: {BAD}}})", id="in-a-dict"),
        pytest.param(f"@register_session_hook('file_edited')\ndef hook(event):\n    return {BAD}", id="a-decorator"),
        pytest.param(f"@register_step_hook\ndef hook(event):\n    return {BAD}", id="a-bare-decorator"),
        pytest.param(
            f"class A:\n    def on(self, e):\n        return {BAD}\n    def go(self):\n        register_step_hook(pre=self.on)",
            id="a-method",
        ),
        pytest.param(
            f"def hook(e):\n    if e:\n        return None\n    return {BAD}\nregister_step_hook(pre=hook)", id="later"
        ),
        pytest.param(f"register_step_hook(pre=lambda e: None if e else {BAD})", id="one-way-or-the-other"),
        pytest.param(f"register_step_hook(pre=lambda e: e and {BAD})", id="if-at-all"),
        pytest.param(f"register_step_hook(pre=lambda e: (r := {BAD}))", id="named-in-passing"),
        pytest.param(f"register_step_hook(pre=lambda e: [{BAD}])", id="in-a-list"),
        pytest.param(f"register_step_hook(pre=lambda e: {{'effects': ({BAD},)}})", id="among-effects"),
        pytest.param("register_step_hook(pre=lambda e: {'body': '', 'ttl_turns': 1})", id="bare"),
        pytest.param("register_step_hook(pre=lambda e: {'effects': {}})", id="effects-that-are-no-list"),
        pytest.param("register_step_hook(pre=lambda e: [{'deny': 'no'}])", id="a-list-with-something-else"),
    ],
)
def test_what_hooks_return_is_checked_in_every_form(text: str) -> None:
    assert codes(text) == ["001"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"def hook(event):\n    return {BAD}", id="a-function-that-is-not-registered"),
        pytest.param("def hook(event):\n    return\nregister_step_hook(pre=hook)", id="a-return-of-nothing"),
        pytest.param(
            f"def hook(e):\n    def inner():\n        return {BAD}\n    return inner\nregister_step_hook(pre=hook)",
            id="a-function-inside",
        ),
        pytest.param("register_tool_hook('*', pre=lambda e: {'deny': 'no', 'body': ''})", id="an-action"),
        pytest.param(
            "register_tool_hook('worker_failed', pre=lambda e: {'body': 'x', 'ttl_turns': 1})", id="a-pattern"
        ),
        pytest.param("register_step_hook(pre=imported)", id="a-function-from-elsewhere"),
        pytest.param("register_step_hook(pre=lambda e: build(e))", id="what-a-call-returns"),
        pytest.param(f"@functools.cache\ndef hook(event):\n    return {BAD}", id="another-decorator"),
        pytest.param(f"hooks()()\nhooks['step'](lambda e: {BAD})", id="a-function-without-a-name"),
    ],
)
def test_what_is_no_reminder_of_a_hook_is_left_alone(text: str) -> None:
    assert codes(text) == []


GOOD = '{"body": "x", "ttl_turns": 1}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"register_session_hook('file_edited', lambda e: {GOOD})", [], id="an-event"),
        pytest.param(f"register_session_hook(event='session_idle', fn=lambda e: {GOOD})", [], id="an-event-by-name"),
        pytest.param(f"register_session_hook(SessionEvent.POST_TURN, lambda e: {GOOD})", [], id="an-event-as-a-member"),
        pytest.param(f"register_session_hook('file_edit', lambda e: {GOOD})", ["001"], id="an-unknown-event"),
        pytest.param(f"register_session_hook(event, lambda e: {GOOD})", [], id="an-event-known-only-at-run-time"),
        pytest.param(f"register_session_hook('worker_failed', lambda e: {GOOD})", ["008"], id="a-watched-event"),
        pytest.param("register_session_hook('worker_failed', lambda e: None)", [], id="only-watching"),
        pytest.param(f"register_session_hook('worker_failed', lambda e: [{GOOD}, {GOOD}])", ["008", "008"], id="twice"),
        pytest.param(f"@register_session_hook('worker_failed')\ndef f(e):\n    return {GOOD}", ["008"], id="decorated"),
        pytest.param("register_session_hook()", [], id="nothing"),
    ],
)
def test_the_event_of_a_session_hook(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"id='a', subscribes_to=['session_idle'], evaluate=lambda c: {GOOD}", [], id="all-right"),
        pytest.param(
            "id='a', subscribes_to=['session_idle'], evaluate=lambda c: {'body': ''}", ["004", "006"], id="malformed"
        ),
        pytest.param(
            "id='a', evaluate=lambda c: {'body': 'x', 'ttl_turns': 1, 'color': 1}", ["001"], id="an-unknown-key"
        ),
        pytest.param(
            "id='a', evaluate=lambda c: [{'body': 'x', 'ttl_turns': 1, 'propagate': 'up'}]", ["005"], id="propagate"
        ),
        pytest.param("id='a', subscribes_to=['worker_resumed', 'idle'], evaluate=f", ["001"], id="an-unknown-event"),
        pytest.param("id='a', subscribes_to='idle', evaluate=f", ["001"], id="an-unknown-event-by-itself"),
        pytest.param("id='a', subscribes_to=EVENTS, evaluate=f", [], id="events-known-only-at-run-time"),
        pytest.param(
            "{'id': 'a', 'subscribes_to': ['x'], 'evaluate': lambda c: {'body': 1}}", ["001", "004", "006"], id="a-dict"
        ),
        pytest.param("provider", [], id="a-name"),
    ],
)
def test_providers(text: str, expected: list[str]) -> None:
    assert codes(f"register_reminder_provider({text})") == expected


def test_a_decorated_provider_is_checked() -> None:
    text = "@register_reminder_provider(id='a', subscribes_to=['idle'])\ndef f(ctx):\n    return {'body': '', 'ttl_turns': 1}"
    assert codes(text) == ["001", "006"]


def register(count: int) -> str:
    return "".join(f"register_reminder_provider(id='own{number}', evaluate=f)\n" for number in range(count))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(register(8) + "register_reminder_provider(id='idle_nudge')", [], id="eight-and-a-canonical-one"),
        pytest.param(register(8) + register(8), [], id="eight-twice"),
        pytest.param(register(9), [("007", 9, 28, "providers")], id="the-ninth"),
        pytest.param(register(9) + "agent_loop(t, reminders={'providers': ['-own3']})", [], id="one-switched-off"),
        pytest.param(
            register(8) + "agent_loop(t, reminders={'providers': ['x']})", [("007", 9, 26, "providers")], id="one-more"
        ),
        pytest.param(register(8) + "agent_loop(t, reminders={'providers': [x]})", [], id="one-known-only-at-run-time"),
        pytest.param(
            register(8) + "options = {'reminders': {'providers': ['x']}}", [("007", 9, 26, "providers")], id="in-a-dict"
        ),
        pytest.param(register(9) + "agent_loop(t, reminders=False)", [("007", 9, 28, "providers")], id="no-choice"),
    ],
)
def test_more_than_eight_providers_are_too_many(text: str, expected: list[tuple[str, int, int, str]]) -> None:
    assert places(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "x = {'jsonrpc': '2.0', 'method': 'session/inject_reminder', 'params': {'sessionId': s, 'body': '', 'ttlTurns': 1}}",
            ["002"],
            id="a-dict",
        ),
        pytest.param(
            "send({'method': 'session/remind', 'params': {'body': 'x', 'ttlTurns': 1}})",
            ["001", "004"],
            id="an-argument",
        ),
        pytest.param(
            "call('tasks/inject_reminder', {'taskId': t, 'reminder': {'propagate': 'up'}})", ["002", "005"], id="two"
        ),
        pytest.param("call('session/inject_reminder', {'body': '', 'ttlTurns': 1})", ["002"], id="two-flat"),
        pytest.param("call('session/inject_reminder', {})", [], id="a-default"),
        pytest.param("call('session/inject_reminder', params)", [], id="parameters-known-only-at-run-time"),
        pytest.param("call('session/prompt', {'body': ''})", [], id="another-method"),
        pytest.param("x = {'method': method, 'params': {'body': ''}}", [], id="a-method-known-only-at-run-time"),
    ],
)
def test_messages_of_the_protocols(text: str, expected: list[str]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("model='anthropic:claude-opus-5'", [], id="a-model-that-keeps-it"),
        pytest.param("model='openai:gpt-5.6'", ["003"], id="a-model-that-does-not"),
        pytest.param("model='gpt-5.6'", [], id="a-model-without-a-transport"),
        pytest.param("model=MODEL", [], id="a-model-known-only-at-run-time"),
        pytest.param("**{'model': 'openai:gpt-5.6'}", ["003"], id="a-model-in-a-dict"),
        pytest.param("model='openai:gpt-5.6')\nagent_loop(t, model='anthropic:claude-opus-5'", [], id="both-kinds"),
        pytest.param("", [], id="no-model"),
    ],
)
def test_a_role_hint_is_judged_by_the_models_of_the_file(text: str, expected: list[str]) -> None:
    assert codes(f"session.remind('x', ttl_turns=1, role_hint='user_block')\nagent_loop(t, {text})") == expected


def test_a_comment_silences_a_code_on_its_line_only() -> None:
    text = f"{ENDLESS}  # sideband: ignore[HARN-RMD-004]\n{ENDLESS}\n# sideband: ignore[004]\n{ENDLESS}\n{ENDLESS}\n"
    assert places(text) == [("004", 2, 1, "ttl_turns"), ("004", 5, 1, "ttl_turns")]


def test_a_comment_silences_no_other_code() -> None:
    assert codes('session.remind("")  # sideband: ignore[HARN-RMD-004]') == ["001"]


def test_findings_stand_at_the_option_that_is_wrong() -> None:
    text = """\
    session.remind(
        "x",
        ttl_turns="2",
        tags=["a", ""],
        propagate="up",
        shade=1,
    )
    """
    assert places(text) == [
        ("001", 3, 5, "ttl_turns"),
        ("001", 4, 5, "tags[1]"),
        ("005", 5, 5, "propagate"),
        ("001", 6, 5, "shade"),
    ]


def test_a_hook_that_is_registered_twice_is_reported_once() -> None:
    text = f"def hook(e):\n    return {BAD}\nregister_step_hook(pre=hook)\nregister_step_hook(post=hook)"
    assert codes(text) == ["001"]


WORDS = st.sampled_from(
    ["inject_reminder", "session.remind", "register_session_hook", "register_reminder_provider", "clear_reminders"]
)
EXPRESSIONS = st.recursive(
    st.sampled_from(
        ["1", "-1", "'x'", "''", "None", "name", "f'{x}'", "True", "lambda e: {'body': ''}", "{**x}", "..."]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(
            st.sampled_from(["body", "reminder", "effects", "ttl_turns", "params", "method"]), inner, max_size=4
        ).map(lambda fields: "{" + ", ".join(f"{key!r}: {value}" for key, value in fields.items()) + "}"),
        st.builds("{} + {}".format, inner, inner),
        st.builds("dict(body={})".format, inner),
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["body", "ttl_turns", "id", "subscribes_to", "evaluate", "event", "model", "reminders", "pre", "color"]
)


@given(WORDS, st.lists(EXPRESSIONS, max_size=3), st.dictionaries(KEYS, EXPRESSIONS, max_size=4))
def test_no_call_is_too_strange_to_be_checked(name: str, arguments: list[str], named: dict[str, str]) -> None:
    text = f"{name}({', '.join([*arguments, *(f'{key}={value}' for key, value in named.items())])})"
    assert all(finding.message and finding.line == 1 for finding in check_text(text))


@given(st.text())
def test_no_text_is_too_strange_to_be_read_as_python(text: str) -> None:
    check_text(f"session.remind({text!r}, ttl_turns=1)")
    check_text(text)


# Literals.


def a_value(expression: str) -> Value:
    """What the checker knows of an expression."""
    source = PythonSource(expression.encode())
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Expr)
    return source.value(statement.value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("'a' 'b'", "ab", id="strings-side-by-side"),
        pytest.param("'a' + ('b' + 'c')", "abc", id="strings-added"),
        pytest.param("'ab' * 3", "ababab", id="a-string-repeated"),
        pytest.param("-1", -1, id="a-negative-number"),
        pytest.param("1.5", 1.5, id="a-fraction"),
        pytest.param("True", True, id="a-truth"),
        pytest.param("None", None, id="nothing"),
        pytest.param("['a', ('b', 2)]", ["a", ["b", 2]], id="lists-and-tuples"),
        pytest.param("['a', *more]", ["a"], id="a-list-with-more-in-it"),
        pytest.param("{'a', 'b'}", frozenset({"a", "b"}), id="a-set"),
        pytest.param("{{'a'}, 'b'}", frozenset({frozenset({"a"}), "b"}), id="a-set-that-python-refuses"),
        pytest.param("{'a': {'b': [1]}, 2: 3}", {"a": {"b": [1]}, 2: 3}, id="dicts"),
        pytest.param("{'a': 1, **{'a': 2, 'b': 3}}", {"a": 2, "b": 3}, id="a-dict-poured-into-another"),
        pytest.param("dict(a=1, **{'b': 2})", {"a": 1, "b": 2}, id="a-dict-by-its-name"),
        pytest.param("RoleHint.USER_BLOCK", "user_block", id="a-role-hint"),
        pytest.param("sb.Propagate.ALL", "all", id="how-far"),
        pytest.param("sideband.core.seams.Mode.AUDIT_ONLY", "audit_only", id="a-mode-by-its-long-name"),
        pytest.param("WorkerEvent.WORKER_FAILED", "worker_failed", id="an-event"),
    ],
)
def test_what_is_written_out_is_known(expression: str, value: object) -> None:
    found = a_value(expression)
    assert plain(found) == value
    assert type(plain(found)) is type(value)


@pytest.mark.parametrize(
    ("expression", "text", "calls"),
    [
        pytest.param("name", "{}", (), id="a-name"),
        pytest.param("f'at {now()}: {x!r:>{width}}'", "at {}: {}", ("now",), id="an-f-string"),
        pytest.param("'a ' + name + ' b'", "a {} b", (), id="strings-and-names-added"),
        pytest.param("'a %s' % time.time()", "a %s", ("time.time",), id="the-percent-sign"),
        pytest.param("'a {}'.format(uuid.uuid4())", "a {}", ("format", "uuid.uuid4"), id="format"),
        pytest.param("str(datetime.datetime.now())", "{}", ("str", "datetime.datetime.now"), id="a-call"),
        pytest.param("RoleHint.SHOUTED", "{}", (), id="a-word-that-does-not-exist"),
        pytest.param("not True", "{}", (), id="a-negation"),
        pytest.param("-'a'", "{}", (), id="a-sign-in-front-of-text"),
        pytest.param("1 + 2", "{}{}", (), id="a-sum"),
        pytest.param("'a' * n", "{}", (), id="a-string-repeated-who-knows-how-often"),
        pytest.param(f"'a' * {MAX_REPEATED_TEXT + 1}", "{}", (), id="a-string-repeated-without-end"),
        pytest.param("{'a', b}", "", (), id="a-set-with-a-name"),
        pytest.param("f()()", "{}", ("f",), id="a-call-of-what-a-call-returns"),
    ],
)
def test_what_is_computed_is_unknown_but_not_a_blank(expression: str, text: str, calls: tuple[str, ...]) -> None:
    found = a_value(expression)
    assert isinstance(found, Unknown)
    assert (found.text, found.calls) == (text, calls)


@pytest.mark.parametrize(
    "expression", ["{'a': 1, **more}", "{'a': 1, name: 2}", "{'a': 1, [1]: 2}", "dict(a=1, **more)"]
)
def test_a_dict_with_unknown_keys_is_open(expression: str) -> None:
    found = a_value(expression)
    assert isinstance(found, Table)
    assert found.open
    assert plain(found) == {"a": 1}


@pytest.mark.parametrize("expression", ["{**{'a': 1, **more}}", "dict(**{'a': 1, **more})"])
def test_what_is_poured_in_keeps_the_dict_open(expression: str) -> None:
    found = a_value(expression)
    assert isinstance(found, Table)
    assert found.open


def test_a_key_that_comes_twice_in_python_is_not_ours_to_report() -> None:
    found = a_value("{'a': 1, 'a': 2}")
    assert isinstance(found, Table)
    assert (found.repeated, plain(found)) == ((), {"a": 2})


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("[" * (MAX_DEPTH + 20) + "]" * (MAX_DEPTH + 20), id="lists"),
        pytest.param(" + ".join(["'a'"] * 400), id="a-long-sum"),
        pytest.param("f'{x}' + " * 300 + "'a'", id="a-long-text"),
    ],
)
def test_what_is_nested_too_deeply_is_unknown_at_its_end(expression: str) -> None:
    assert plain(a_value(expression)) is not None


def test_places_count_characters_and_not_bytes() -> None:
    source = PythonSource("x = {'ü🙂': 1, 'after': 2}".encode())
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Assign)
    table = source.value(statement.value)
    assert isinstance(table, Table)
    assert [entry.at for entry in table.entries] == [Position(1, 6), Position(1, 15)]


def test_the_encoding_that_a_file_declares_is_used() -> None:
    source = PythonSource("# coding: latin-1\n'ü'".encode("latin-1"))
    statement = source.tree.body[0]
    assert isinstance(statement, ast.Expr)
    assert source.value(statement.value) == Scalar(value="ü", at=Position(2, 1))


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        pytest.param(b"x = (\n", 1, id="a-bracket-left-open"),
        pytest.param(b"x = 1\n  y = 2\n", 2, id="an-indent-from-nowhere"),
        pytest.param("x = 'ü'".encode("latin-1"), 1, id="not-utf-8"),
        pytest.param(b"# coding: no-such-thing\n", 1, id="an-encoding-that-does-not-exist"),
        pytest.param(b"# coding: hex\n00", 1, id="an-encoding-that-is-not-text"),
        pytest.param(b"x = '\x00'", 1, id="a-zero-byte"),
        pytest.param(b"x = " + b"(" * 300 + b")" * 300, 1, id="too-many-brackets"),
        pytest.param(b"x = " + b"-" * 100_000 + b"1", 1, id="too-many-signs"),
    ],
)
def test_what_is_not_python_is_refused_where_it_is_noticed(raw: bytes, line: int) -> None:
    with pytest.raises(UnreadableSource, match=r"not Python: .") as refused:
        PythonSource(raw)
    assert refused.value.at.line == line
    assert refused.value.at.column >= 1


def test_a_doubtful_escape_is_no_reason_to_complain() -> None:
    assert plain(a_value(r"'\d'")) == r"\d"


IGNORING = """\
first()  # sideband: ignore[HARN-RMD-004]
# sideband: ignore[rmd-001, 005,nonsense]  because of this and that
third()
'# sideband: ignore[HARN-RMD-002]'
fifth()  # an ordinary comment
sixth()  #sideband:ignore[003] and # sideband: ignore[004]
  # sideband: ignore[006]
"""


def test_comments_silence_their_own_line_and_alone_the_next() -> None:
    assert {line: sorted(codes) for line, codes in ignored_codes(IGNORING).items()} == {
        1: ["HARN-RMD-004"],
        2: ["HARN-RMD-001", "HARN-RMD-005"],
        3: ["HARN-RMD-001", "HARN-RMD-005"],
        6: ["HARN-RMD-003"],
        7: ["HARN-RMD-006"],
        8: ["HARN-RMD-006"],
    }


def test_comments_are_found_whatever_ends_a_line() -> None:
    for end in (b"\n", b"\r\n", b"\r"):
        source = PythonSource(b"x = 1" + end + b"y = 2  # sideband: ignore[004]" + end)
        assert source.ignored() == {2: {"HARN-RMD-004"}}


def test_comments_behind_what_cannot_be_read_are_not_found() -> None:
    assert ignored_codes("x = 1  # sideband: ignore[004]\ny = (\n") == {1: {"HARN-RMD-004"}}
