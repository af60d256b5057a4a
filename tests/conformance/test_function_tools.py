"""Tools from plain functions: what the model is told of them, what they are called with, and what it gets back."""

# ruff: noqa: ARG001, D417, FBT001, FBT002, PLR0917 - the functions are as users write them

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import date
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypedDict, cast

import jsonschema
import msgspec
import pydantic
import pytest

import sideband as sb
from sideband.core.errors import InvalidOption
from sideband.core.messages import ToolCall
from sideband.loop.cancel import CancelScope
from sideband.loop.dispatch import RunningCall
from sideband.models.scripted import Line
from sideband.tools.function import read_tools
from tests.agents import awaited
from tests.loop_builders import AScene, a_call, a_reply


def schema(function: Callable[..., Any], parameter: str = "x") -> dict[str, Any]:
    """The schema of one parameter."""
    found: dict[str, Any] = sb.tool(function).parameters["properties"][parameter]
    return found


async def result(function: Callable[..., Any], **args: object) -> tuple[str, str]:
    """The status and the text of a call that the model makes."""
    scene = AScene()
    (one,) = read_tools([function])
    scene.says(a_reply(a_call(one.name, "c1", **args)), "Done.")
    await scene.play(tools=[function])
    return scene.results()[0][1], scene.result_text()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    TEXT = "a"
    NUMBER = 1


class Place(TypedDict, total=False):
    street: str


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Range(msgspec.Struct):
    start: Point
    end: Point | None = None


class Order(pydantic.BaseModel):
    """An order."""

    amount: int = pydantic.Field(ge=1, description="How many.")
    items: list["Item"] = []


class Item(pydantic.BaseModel):
    title: str


class Node(msgspec.Struct):
    children: list["Node"]


# What the model is told.


@pytest.mark.requirement("library:tool:from-a-function")
@awaited
async def test_a_function_is_a_tool() -> None:
    def forecast(city: str, days: int = 3) -> str:
        """Tell the weather of the next days.

        Args:
            city: A city in Germany.
        """
        return f"{city}: rain for {days} days"

    scene = AScene()
    scene.says(a_reply(a_call("forecast", city="Bonn")), "It rains.")
    await scene.play(tools=[forecast])
    assert scene.model.requests[0].tools == ("forecast",)
    assert scene.result_text() == "Bonn: rain for 3 days"
    (tool,) = read_tools([forecast])
    assert tool.description == "Tell the weather of the next days."
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "A city in Germany."},
            "days": {"type": "integer", "default": 3},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert tool.idempotent is False


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.requirement("library:tool:schema-from-hints", "library:tool:converted-arguments")
@pytest.mark.parametrize(
    ("hint", "expected", "given", "value"),
    [
        pytest.param(str, {"type": "string"}, "a", "a", id="str"),
        pytest.param(int, {"type": "integer"}, 1, 1, id="int"),
        pytest.param(float, {"type": "number"}, 1, 1.0, id="float"),
        pytest.param(bool, {"type": "boolean"}, True, True, id="bool"),
        pytest.param(list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1], id="list"),
        pytest.param(tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1], (1,), id="tuple"),
        pytest.param(dict, {"type": "object"}, {"a": 1}, {"a": 1}, id="dict"),
        pytest.param(
            dict[str, object], {"type": "object", "additionalProperties": {}}, {"a": None}, {"a": None}, id="objects"
        ),
        pytest.param(Any, {}, [1], [1], id="any"),
        pytest.param(str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}, None, None, id="optional"),
        pytest.param(int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "a", "a", id="union"),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b", id="literal"),
        pytest.param(Color, {"type": "string", "enum": ["blue", "red"]}, "red", Color.RED, id="enum"),
        pytest.param(Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH, id="enum-of-numbers"),
        pytest.param(
            Place,
            {
                "type": "object",
                "properties": {"street": {"type": "string"}},
                "required": [],
                "additionalProperties": False,
            },
            {"street": "a"},
            {"street": "a"},
            id="typed-dict",
        ),
        pytest.param(Point, POINT, {"x": 1}, Point(1), id="dataclass"),
        pytest.param(
            Range,
            {
                "type": "object",
                "properties": {"start": POINT, "end": {"anyOf": [POINT, {"type": "null"}], "default": None}},
                "required": ["start"],
                "additionalProperties": False,
            },
            {"start": {"x": 1, "y": 2}},
            Range(Point(1, 2)),
            id="struct",
        ),
        pytest.param(
            Order,
            {
                "type": "object",
                "description": "An order.",
                "properties": {
                    "amount": {"type": "integer", "minimum": 1, "description": "How many."},
                    "items": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
                        "default": [],
                    },
                },
                "required": ["amount"],
            },
            {"amount": 2, "items": [{"title": "tea"}]},
            Order(amount=2, items=[Item(title="tea")]),
            id="pydantic",
        ),
        pytest.param(Path, {"type": "string"}, "a/b", Path("a/b"), id="path"),
        pytest.param(date, {"type": "string", "format": "date"}, "2026-11-16", date(2026, 11, 16), id="date"),
        pytest.param(
            Annotated[int, msgspec.Meta(ge=1, le=9)],
            {"type": "integer", "minimum": 1, "maximum": 9},
            9,
            9,
            id="constrained",
        ),
    ],
)
def test_hints_become_a_schema_and_arguments_become_values(
    hint: object, expected: dict[str, Any], given: object, value: object
) -> None:
    got: list[object] = []

    def take(x: object) -> None:
        got.append(x)

    take.__annotations__["x"] = hint
    assert schema(take) == expected
    jsonschema.Draft202012Validator.check_schema(expected)
    jsonschema.validate(given, expected)
    assert asyncio.run(result(take, x=given)) == ("ok", "The tool returned no value.")
    assert got == [value]


@pytest.mark.requirement("library:tool:schema-from-hints")
@pytest.mark.parametrize(
    ("default", "shown"),
    [
        pytest.param(Point(1), {"default": {"x": 1, "y": 0}}, id="a-record"),
        pytest.param(Path("a"), {"default": "a"}, id="a-path"),
        pytest.param(Order(amount=1), {"default": {"amount": 1, "items": []}}, id="a-pydantic-model"),
        pytest.param(None, {}, id="none"),
        pytest.param(object(), {}, id="not-json"),
    ],
)
def test_a_default_is_shown_if_json_has_it(default: object, shown: dict[str, Any]) -> None:
    def take(x: Any = default) -> bool:  # noqa: ANN401 - takes anything
        return x is default

    assert schema(take) == shown
    assert asyncio.run(result(take)) == ("ok", "true")


def annotated(
    x: Annotated[str, "From the annotation."],
    y: Annotated[int, msgspec.Meta(description="From the annotation.")] = 1,
    z: Annotated[str, pydantic.Field(description="From the annotation.")] | None = None,
) -> None:
    """Take three things.

    Args:
        x: Not shown.
    """


def in_googles_style(x: str, y: int = 1, z: bool = False) -> None:
    """Take three things.

    They are not related.

    Args:
        x (str): What to search,
            over two lines: like this.

            And a paragraph.
        y: How many.
        unknown: Nothing.

    Returns:
        Nothing.
    """


def in_sphinxs_style(x: str, y: int = 1, z: bool = False) -> None:
    """Take three things.

    :param str x: What to search,
        over two lines.
    :param y: How many.
    :type y: int
    :returns: Nothing.
    """


def undocumented(x: str) -> None: ...


@pytest.mark.requirement("library:tool:described-parameters")
@pytest.mark.parametrize(
    ("function", "description", "parameters"),
    [
        pytest.param(annotated, "Take three things.", ["From the annotation."] * 3, id="annotated"),
        pytest.param(
            in_googles_style,
            "Take three things.\n\nThey are not related.\n\nReturns:\n    Nothing.",
            ["What to search, over two lines: like this. And a paragraph.", "How many.", None],
            id="google",
        ),
        pytest.param(
            in_sphinxs_style,
            "Take three things.\n\n:returns: Nothing.",
            ["What to search, over two lines.", "How many.", None],
            id="sphinx",
        ),
        pytest.param(undocumented, "", [None], id="undocumented"),
    ],
)
def test_descriptions_come_from_annotations_and_docstrings(
    function: Callable[..., Any], description: str, parameters: Sequence[str | None]
) -> None:
    tool = sb.tool(function)
    assert tool.description == description
    assert [entry.get("description") for entry in tool.parameters["properties"].values()] == parameters


# Arguments that do not fit.


def book(
    city: str,
    color: Color = Color.RED,
    size: Literal["s", "m"] | None = None,
    points: list[Point] = [],  # noqa: B006 - a default as users write them
    prices: Mapping[str, int] | None = None,
    order: Order | None = None,
    folder: Path = Path(),
    ranks: dict[str, list[Color]] | None = None,
    pair: tuple[int, str] = (1, "a"),
    address: tuple[Place, int] | None = None,
    spans: dict[str, Range] | None = None,
) -> str:
    """Book something; called only with arguments that fit."""
    return city


@pytest.mark.requirement("library:tool:explained-refusal")
@pytest.mark.parametrize(
    ("args", "why"),
    [
        pytest.param({}, "book: missing required field city. It takes city, color (optional), ", id="missing"),
        pytest.param({"city": 5}, "city: expected str, got int 5. It takes", id="wrong-type"),
        pytest.param(
            {"city": "a", "color": "green"}, "color: invalid enum value 'green'; allowed: 'blue', 'red'.", id="enum"
        ),
        pytest.param({"city": "a", "size": "xl"}, "size: invalid enum value 'xl'; allowed: 'm', 's'.", id="literal"),
        pytest.param(
            {"city": "a", "points": [{"x": 1}, {"x": "2"}]}, "points[1].x: expected int, got str '2'.", id="nested"
        ),
        pytest.param({"city": "a", "points": [{}]}, "points[0]: missing required field x.", id="missing-in-a-record"),
        pytest.param({"city": "a", "prices": {"b": "c"}}, "prices[...]: expected int, got str.", id="in-a-mapping"),
        pytest.param(
            {"city": "a", "order": {"amount": 0}},
            "order: amount: Input should be greater than or equal to 1, got {'amount': 0}.",
            id="pydantic",
        ),
        pytest.param({"city": "a", "order": 5}, "order: Input should be a valid dictionary", id="no-pydantic-model"),
        pytest.param({"city": "a", "folder": 1}, "folder: expected str, got int 1.", id="path"),
        pytest.param({"town": "a", "city": "b"}, "contains unknown field town. It takes", id="unknown"),
        pytest.param({"cty": "a"}, "Did you mean city instead of cty?", id="misspelt"),
        pytest.param(
            {"city": "a", "ranks": {"b": ["gold"]}},
            "ranks[...][0]: invalid enum value 'gold'; allowed: 'blue', 'red'.",
            id="enum-in-a-mapping",
        ),
        pytest.param({"city": "a", "pair": [1, 2]}, "pair[1]: expected str, got int 2.", id="in-a-tuple"),
        pytest.param({"city": None}, "city: expected str, got null. It takes", id="null"),
        pytest.param(
            {"city": "a", "points": [{"x": 1}, {"x": 1, "up": 2}]},
            "points[1] has no field 'up'; the fields are x, y.",
            id="unknown-in-a-dataclass",
        ),
        pytest.param(
            {"city": "a", "address": [{"stret": "b"}, 1]},
            "address[0] has no field 'stret'; did you mean 'street'?",
            id="misspelt-in-a-typed-dict",
        ),
        pytest.param(
            {"city": "a", "spans": {"b": {"start": {"x": 1}, "end": {"x": 1, "z": 2}}}},
            "spans.b.end has no field 'z'; the fields are x, y.",
            id="unknown-in-a-struct-in-a-mapping",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_explained_to_the_model(args: dict[str, Any], why: str) -> None:
    status, text = asyncio.run(result(book, **args))
    assert status == "error"
    assert why in text


@pytest.mark.requirement("library:tool:explained-refusal")
def test_a_function_without_parameters_says_so() -> None:
    def ping() -> str:
        return "pong"

    assert asyncio.run(result(ping, host="a")) == (
        "error",
        "ping: contains unknown field host. It takes no arguments.",
    )


@pytest.mark.requirement("library:tool:null-is-absent")
def test_null_is_absent_unless_the_parameter_may_be_none() -> None:
    def take(days: int = 3, note: str | None = "none given") -> str:
        return f"{days}, {note}"

    assert asyncio.run(result(take, days=None, note=None)) == ("ok", "3, None")


# Context, results and exceptions.


@pytest.mark.requirement("library:tool:context")
@awaited
async def test_the_context_is_passed_and_not_shown() -> None:
    async def save(
        path: str, context: sb.ToolContext, again: Annotated[sb.ToolContext | None, "The same."] = None
    ) -> str:
        context.applied(f"wrote {path}")
        assert again is context
        raise RuntimeError(f"disk full in {context.call_id}")

    assert sb.tool(save).parameters["properties"].keys() == {"path"}
    assert await result(save, path="a") == ("error", "RuntimeError: disk full in c1 Changes already made: wrote a.")


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


@pytest.mark.requirement("library:tool:result-text")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("as it is", "as it is", id="str"),
        pytest.param("", "", id="empty"),
        pytest.param(None, "The tool returned no value.", id="none"),
        pytest.param(b"caf\xc3\xa9", "café", id="bytes"),
        pytest.param(5, "5", id="number"),
        pytest.param({"a": [1, True, None]}, '{"a":[1,true,null]}', id="json"),
        pytest.param([Point(1), Color.RED], '[{"x":1,"y":0},"red"]', id="records"),
        pytest.param(Order(amount=1), '{"amount":1,"items":[]}', id="pydantic"),
        pytest.param([Path("a/b")], '["a/b"]', id="path"),
        pytest.param(Odd(), "an odd thing", id="not-json"),
        pytest.param({"a": float("nan")}, "{'a': nan}", id="not-a-number"),
        pytest.param(2**70, str(2**70), id="large-number"),
    ],
)
def test_every_result_is_a_text(value: object, text: str) -> None:
    def give() -> object:
        return value

    assert asyncio.run(result(give)) == ("ok", text)


@pytest.mark.requirement("library:tool:result-text")
def test_a_record_that_a_tool_takes_and_returns_has_its_defaults() -> None:
    def echo(
        point: Point, ranges: list[Range], named: dict[str, Point]
    ) -> "tuple[Point, list[Range], dict[str, Unknown]]":  # type: ignore[name-defined] # noqa: F821 - only for type checkers
        return point, ranges, named

    status, text = asyncio.run(result(echo, point={"x": 1}, ranges=[{"start": {"x": 2}}], named={"a": {"x": 3}}))
    assert status == "ok"
    assert msgspec.json.decode(text) == [
        {"x": 1, "y": 0},
        [{"start": {"x": 2, "y": 0}, "end": None}],
        {"a": {"x": 3, "y": 0}},
    ]


@pytest.mark.requirement("library:tool:result-text")
def test_a_generator_is_no_result() -> None:
    def give() -> Iterator[int]:
        return (number for number in (1, 2))

    why = "the tool returned a generator, which has no text; it must return a list"
    assert asyncio.run(result(give)) == ("error", why)


@pytest.mark.requirement("library:tool:result-text")
def test_a_tool_output_is_kept() -> None:
    def give() -> sb.ToolOutput:
        return sb.ToolOutput(text="no such user", is_error=True)

    assert asyncio.run(result(give)) == ("error", "no such user")


@pytest.mark.requirement("library:tool:exception-is-the-result")
@pytest.mark.parametrize("error", [ValueError("no such city"), SystemExit("no such city")], ids=["error", "exit"])
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_an_exception_is_the_result(error: BaseException, is_async: bool) -> None:
    def fail() -> str:
        raise error

    async def fail_later() -> str:
        raise error

    assert asyncio.run(result(fail_later if is_async else fail)) == ("error", f"{type(error).__name__}: no such city")


# Threads.


@pytest.mark.requirement("library:tool:blocking-runs-in-a-thread")
@awaited
async def test_a_blocking_function_does_not_block_the_loop() -> None:
    user: ContextVar[str] = ContextVar("user")
    released = threading.Event()

    def wait() -> str:
        released.wait(30)
        return user.get()

    async def release() -> str:
        released.set()
        return "released"

    user.set("ann")
    scene = AScene()
    scene.says(a_reply("wait", "release"), "Done.")
    await scene.play(tools=[wait, release])
    assert sorted(entry["content"] for entry in scene.state.messages if entry["role"] == "tool") == ["ann", "released"]


@pytest.mark.requirement("library:tool:blocking-runs-in-a-thread")
def test_a_blocking_function_may_return_an_awaitable() -> None:
    def later() -> object:
        return asyncio.sleep(0, "later")

    assert asyncio.run(result(later)) == ("ok", "later")


@pytest.mark.requirement("library:tool:blocking-cannot-be-stopped")
def test_a_blocking_function_that_goes_on_is_abandoned() -> None:
    released = threading.Event()

    @sb.tool(seconds=0.01)
    def wait() -> None:
        released.wait(30)

    status, text = asyncio.run(result(wait))
    released.set()
    assert (status, text) == (
        "timed_out",
        "Timed out after 0.01 s. It did not stop when it was cancelled, and was abandoned.",
    )


@pytest.mark.requirement("library:tool:blocking-cannot-be-stopped")
def test_a_cancelled_call_ends_with_its_thread() -> None:
    begun, released = threading.Event(), threading.Event()

    @sb.tool
    def wait() -> None:
        begun.set()
        released.wait(30)

    async def cancel() -> None:
        calling = asyncio.ensure_future(wait.call({}, RunningCall(a_call("wait"), CancelScope())))
        await asyncio.to_thread(begun.wait, 30)
        calling.cancel()
        await asyncio.sleep(0)
        assert not calling.done()
        released.set()
        with pytest.raises(asyncio.CancelledError):
            await calling

    asyncio.run(cancel())


# Ways to make one.


@pytest.mark.requirement("library:tool:options")
def test_options_of_a_tool() -> None:
    @sb.tool(name="add-up", description="Add two numbers.", idempotent=True, seconds=5)
    def add(a: int, b: int) -> int:
        """Not shown."""
        return a + b

    assert (add.name, add.description, add.idempotent, add.seconds) == ("add-up", "Add two numbers.", True, 5)
    assert add(1, b=2) == 3
    assert repr(add) == "<tool add-up>"
    again = sb.tool(add, name="sum")
    assert (again.name, again.description, again(2, 2)) == ("sum", "Not shown.", 4)


class Shop:
    def __init__(self, stock: int) -> None:
        self.stock = stock

    def sell(self, amount: int, *, price: int = 1) -> int:
        """Sell something."""
        self.stock -= amount
        return self.stock * price

    async def __call__(self, amount: int) -> int:
        """Buy something."""
        self.stock += amount
        return self.stock


@pytest.mark.requirement("library:tool:callables")
@pytest.mark.parametrize(
    ("function", "name", "description", "parameters", "text"),
    [
        pytest.param(Shop(10).sell, "sell", "Sell something.", ["amount", "price"], "9", id="method"),
        pytest.param(partial(Shop(10).sell, price=3), "sell", "Sell something.", ["amount"], "27", id="partial"),
        pytest.param(
            partial(partial(Shop.sell, Shop(10)), price=3), "sell", "Sell something.", ["amount"], "27", id="partials"
        ),
        pytest.param(sb.tool(Shop(10), name="buy"), "buy", "Buy something.", ["amount"], "11", id="object"),
    ],
)
def test_other_callables(
    function: Callable[..., Any], name: str, description: str, parameters: list[str], text: str
) -> None:
    (tool,) = read_tools([function])
    assert (tool.name, tool.description, [*tool.parameters["properties"]]) == (name, description, parameters)
    assert asyncio.run(result(function, amount=1)) == ("ok", text)


def refused(function: object) -> InvalidOption:
    with pytest.raises(InvalidOption) as caught:
        read_tools([function])
    return caught.value


def no_hint(x) -> None: ...  # type: ignore[no-untyped-def] # noqa: ANN001 - the mistake


def any_number(*values: int) -> None: ...


def any_name(**values: int) -> None: ...


def positional(x: int, /) -> None: ...


def old_positional(__x: int) -> None: ...  # noqa: PYI063 - the mistake


def complex_number(x: complex) -> None: ...


def two_records(x: Point | Range) -> None: ...


def tree(x: Node) -> None: ...


def mixed(x: Mixed) -> None: ...


def misspelt(x: "Pont") -> None: ...  # type: ignore[name-defined] # noqa: F821 - the mistake


def many() -> Iterator[int]:
    yield 1


def größe() -> None: ...  # noqa: PLC2401 - the mistake


@pytest.mark.requirement("library:tool:refused-signature")
@pytest.mark.parametrize(
    ("function", "field", "why"),
    [
        pytest.param(no_hint, "x", "tools[0], no_hint(): the parameter 'x' has no type hint; write x: str", id="hint"),
        pytest.param(any_number, "values", "the parameter 'values' takes any number of arguments", id="args"),
        pytest.param(any_name, "values", "the parameter 'values' takes arguments of any name", id="kwargs"),
        pytest.param(positional, "x", "the parameter 'x' is positional-only, and a model", id="positional"),
        pytest.param(old_positional, "__x", "is positional-only because of its name; rename it", id="by-name"),
        pytest.param(complex_number, "x", "has no JSON Schema: type <class 'complex'>", id="no-json-type"),
        pytest.param(two_records, "x", "unions may not contain more than one dict-like type", id="union"),
        pytest.param(tree, "x", "it refers to itself, and not every model can resolve that; use dict", id="recursive"),
        pytest.param(misspelt, "tool", "cannot be read: name 'Pont' is not defined", id="unknown-type"),
        pytest.param(many, "tool", "many() is a generator, and a tool has one result; return a list", id="generator"),
        pytest.param(Shop.sell, "self", "pass the method of an object: tools=[object.method]", id="unbound"),
        pytest.param(lambda: 1, "name", "tools[0] is a lambda, which has no name and no type hints", id="lambda"),
        pytest.param(Shop(1), "name", "give it one: sideband.tool(object, name='...')", id="no-name"),
        pytest.param(größe, "name", "letters, digits, _ or - of ASCII, not 'gr\\xf6\\xdfe'", id="not-ascii"),
        pytest.param(Shop, "tools[0]", "is the class Shop; pass a function, or an instance", id="class"),
        pytest.param(mixed, "x", "Make all values of the enum strings", id="mixed-enum"),
        pytest.param(
            partial(cast("Any", tree), z=1),
            "tool",
            "the partial binds an argument that its function does not",
            id="bound",
        ),
        pytest.param(max, "tool", "Python does not know them; write a function with type hints", id="builtin"),
    ],
)
def test_a_signature_that_no_schema_describes_is_refused(function: Callable[..., Any], field: str, why: str) -> None:
    error = refused(function)
    assert why in str(error)
    assert error.field == field


@pytest.mark.requirement("library:tool:refused-signature")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param({"name": "with space"}, "not 'with space'", id="name"),
        pytest.param({"name": 5}, "not 5", id="name-no-text"),
        pytest.param({"description": 5}, "tool, wait(): description must be a string, not 5", id="description"),
        pytest.param(
            {"seconds": 0}, "seconds must be a number above 0, or None for the limit of the run", id="seconds"
        ),
        pytest.param({"seconds": True}, "not True", id="seconds-no-number"),
        pytest.param({"idempotent": "no"}, "idempotent must be True or False, not 'no'", id="idempotent"),
    ],
)
def test_a_wrong_option_of_a_tool_is_refused(options: dict[str, Any], why: str) -> None:
    def wait() -> None: ...

    with pytest.raises(InvalidOption) as caught:
        sb.tool(wait, **options)
    assert why in str(caught.value)
    assert caught.value.field == next(iter(options))


class Bare:
    """Has what a tool has; each test changes one part."""

    name = "bare"
    description = "Nothing."
    parameters: ClassVar[Any] = {"type": "object"}
    idempotent = False

    async def call(self, args: Mapping[str, Any], context: sb.ToolContext) -> sb.ToolOutput:
        return sb.ToolOutput(text=f"{args}{context.call_id}")


def bare(**parts: object) -> object:
    one = Bare()
    vars(one).update(parts)
    return one


@pytest.mark.requirement("library:tool:refused-value")
@pytest.mark.parametrize(
    ("tools", "field", "why"),
    [
        pytest.param(
            [5], "tools[0]", "tools[0] must be a function with type hints, or an object with name,", id="number"
        ),
        pytest.param([Bare(), "read_file"], "tools[1]", "and call(), not 'read_file'", id="text"),
        pytest.param([[Bare(), None]], "tools[0][1]", "not None", id="in-a-list"),
        pytest.param(book, "tools", "must be a list of tools and functions, not <function book", id="function"),
        pytest.param(Bare(), "tools", "write tools=[...] around it", id="tool"),
        pytest.param("run", "tools", "tools must be a list of tools and functions, not 'run'", id="a-name"),
        pytest.param([Bare], "tools[0]", "is the class Bare; pass an instance of it: Bare(...)", id="class"),
        pytest.param(
            [bare(name="")], "tools[0]", "tools[0]: 'name' of the tool must be a string, not ''", id="no-name"
        ),
        pytest.param(
            [bare(parameters=None)], "tools[0]", "'parameters' of the tool must be a JSON Schema", id="schema"
        ),
        pytest.param([bare(idempotent=1)], "tools[0]", "'idempotent' of the tool must be True or False", id="flag"),
        pytest.param([bare(call=1)], "tools[0]", "'call' of the tool must be a method", id="call"),
        pytest.param([book, Bare(), book], "tools[2]", "tools[0] and tools[2] have the same name, 'book'", id="twice"),
    ],
)
@awaited
async def test_what_is_not_a_tool_is_refused_before_the_run_begins(tools: object, field: str, why: str) -> None:
    scene = AScene()
    scene.says("Never asked.")
    with pytest.raises(InvalidOption) as caught:
        await scene.play(tools=tools)
    assert why in str(caught.value)
    assert caught.value.field == field
    assert scene.model.requests == []
    assert scene.journal == []


@pytest.mark.requirement("library:tool:refused-value")
def test_a_missing_part_of_a_tool_is_named() -> None:
    class Half:
        name = "half"

        def call(self) -> None: ...

    assert "tools[0]: 'description' of the tool is missing" in str(refused(Half()))


# Workspace tools.


def greet(name: str) -> str:
    return f"Hello, {name}."


@pytest.mark.requirement("library:tool:spread-workspace")
@pytest.mark.parametrize(
    "arrange",
    [
        pytest.param(lambda tools: tools, id="as-the-sequence"),
        pytest.param(lambda tools: [*tools, greet], id="spread"),
        pytest.param(lambda tools: [tools, greet], id="in-a-list"),
        pytest.param(lambda tools: [tools[0]], id="one-of-them"),
    ],
)
@awaited
async def test_changes_of_files_are_noticed(tmp_path: Path, arrange: Callable[[Any], Any]) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    scene = AScene()
    edited: list[str] = []
    scene.hooks.register_session_hook("file_edited", lambda context: edited.append(context.path))

    def change(_view: object) -> str:
        (tmp_path / "a.txt").write_text("another\n", encoding="utf-8")
        return "Read."

    lines: list[Line] = [a_reply(a_call("read_file", path="a.txt")), change, "Noticed."]
    scene.says(*lines)
    tools = arrange(sb.workspace_tools(tmp_path))
    await scene.play(tools=tools)
    await scene.play(tools=tools)
    assert edited == ["a.txt"]


@pytest.mark.requirement("library:tool:spread-workspace")
@awaited
async def test_two_workspaces_are_watched(tmp_path: Path) -> None:
    scene = AScene()
    edited: list[str] = []
    scene.hooks.register_session_hook("file_edited", lambda context: edited.append(context.path))
    kept = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("one\n", encoding="utf-8")
        reading: Any = sb.workspace_tools(tmp_path / name)[0]
        kept.append(msgspec.structs.replace(reading, name=f"read_{name}"))

    def change(_view: object) -> str:
        for name in ("a", "b"):
            (tmp_path / name / f"{name}.txt").write_text("another\n", encoding="utf-8")
        return "Read."

    calls = [ToolCall(id=name, name=f"read_{name}", args={"path": f"{name}.txt"}) for name in ("a", "b")]
    scene.says(a_reply(*calls), change, "Noticed.")
    await scene.play(tools=kept)
    await scene.play(tools=kept)
    assert edited == ["a.txt", "b.txt"]
