"""A plain reference renderer: the whole body as Python values, built from the first message every time."""

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar

from sideband.core.ledger import Form, Fragment, Lifetime
from sideband.render.escape import neutralise_all
from sideband.render.profiles import Cache, LeadingRole, Placement, Profile, Wire
from sideband.render.tape import EMPTY, texts
from tests.rendering_sessions import SYSTEM, SYSTEM_AFTER, TOOLS, Route, Sent

Json = dict[str, Any]

BLANK = "<conversation-summary>\nThe user sent a message without content.\n</conversation-summary>"
UNPROMPTED = "The next reply answers no message that is shown here."
WORDS = f"{SYSTEM}\n\n{SYSTEM_AFTER}"


def plain_body(route: Route, sent: Sent) -> Json:
    """The expected body of a request, with its cache markers."""
    profile = route.profile
    strings = profile.wire is Wire.GENERIC or (profile.wire is Wire.OPENAI_CHAT and not profile.content_parts)
    kind = StringsPlain if strings else PLAINS[profile.wire]
    plain = kind(profile, route.placement)
    messages = sent.view.messages
    earlier = len(messages) if sent.since is None else sent.since
    plain.converse([*map(plain.of_before, messages[:earlier]), *messages[earlier:]], sent.fragments)
    plain.ask(sent.rendered.fragments)
    return plain.body()


class Plain:
    """One conversation. Blocks that could be marked are remembered as they are written."""

    marker: ClassVar[Json] = {}

    def __init__(self, profile: Profile, placement: Placement) -> None:
        assert placement is not Placement.SEED
        self.profile = profile
        self.placement = placement
        self.out: list[Json] = []
        self.stable: list[Json] = []
        self.answered: Json | None = None
        self.blocks = self.new_blocks = 0
        self.all_kept = True
        self.open: dict[str, tuple[str, str]] = {}
        self.ids: list[str] = []
        self.last = ""
        self.marks = profile.cache is Cache.EXPLICIT and bool(self.marker)

    # The conversation, mended where no wire would take it.

    def converse(self, messages: Sequence[Mapping[str, Any]], fragments: Sequence[Fragment]) -> None:
        waiting = list(fragments)
        for place, message in enumerate(messages):
            while waiting and waiting[0].anchor <= place:
                self.close_calls()
                self.fragment(waiting.pop(0))
            self.message(message)
        for fragment in waiting:
            self.fragment(fragment)

    def of_before(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """A message that is older than the window."""
        return message

    def message(self, message: Mapping[str, Any]) -> None:
        role = message["role"]
        if role == "tool" and message["tool_call_id"] in self.open:
            call_id, name = self.open.pop(message["tool_call_id"])
            said = [neutralise_all(text) for text in texts(message)]
            self.result(call_id, name, said, ok=message["status"] == "ok")
            self.last = "user"
            return
        self.close_calls()
        if role == "assistant":
            self.answer(message)
        elif role == "system":
            self.summary([message["content"]])
        elif role == "tool":
            self.summary([f"Result of {message['name']}:", *texts(message)])
        else:
            self.user(self.parts(message), joins=False)

    def parts(self, message: Mapping[str, Any]) -> Sequence[str | Json]:
        """What the user says: texts, and blocks as the wire has them."""
        content = message["content"]
        if isinstance(content, str):
            return [content] if content.strip() else [BLANK]
        said = [self.part(block) for block in content]
        return [part for part in said if not isinstance(part, str) or part.strip()] or [BLANK]

    def part(self, block: Mapping[str, Any]) -> str | Json:
        kind = block.get("type", "text")
        if kind == "text":
            return str(block["text"])
        if kind not in ("image", "document", "audio"):
            return "\n\n".join([*texts({"content": [block]}), *map(neutralise_all, resource_texts(block))])
        given = block.get("media_type") or block.get("mimeType") or ""
        media_type = {"audio/x-wav": "audio/wav"}.get(given, given)
        of_kind = [known for known in self.profile.media if (known.split("/")[0] in (kind, "application"))]
        if not self.takes_media():
            reason = "it would stand inside a tool result, which holds text only"
        elif media_type not in self.profile.media if media_type else not of_kind:
            reason = f"this model does not take {media_type or f'{kind} content'}"
        elif "url" in block and (
            not self.profile.media_urls or (shaped := self.shaped(kind, media_type, block)) is None
        ):
            reason = f"this model does not take {kind} content by URL"
        else:
            shaped = self.shaped(kind, media_type, block)
            assert shaped is not None
            return shaped
        return f"[{kind} left out: {reason}]"

    def takes_media(self) -> bool:
        return True

    def shaped(self, kind: str, media_type: str, block: Mapping[str, Any]) -> Json | None:
        """An image, a document or audio as the wire has it; None if it has no form for it."""
        raise NotImplementedError

    def close_calls(self) -> None:
        for call_id, name in self.open.values():
            self.result(call_id, name, ["No result was recorded."], ok=False)
            self.last = "user"
        self.open = {}

    def answer(self, message: Mapping[str, Any]) -> None:
        self.answered = self.stable[-1] if self.stable else None
        self.new_blocks = -self.blocks
        starts = self.profile.wire in (Wire.ANTHROPIC, Wire.GEMINI) or (
            isinstance(self, StringsPlain) and self.profile.strict_alternation
        )
        if (self.last == "assistant" and not self.profile.consecutive_assistant) or (starts and not self.last):
            self.summary([UNPROMPTED])
        calls = message.get("tool_calls", [])
        said = [] if calls and texts(message) == [EMPTY] else texts(message)
        native = message.get("native", {}).get(self.native_name)
        ids = {call["id"]: self.new_call_id(call["id"]) for call in calls}
        self.assistant(said, [{**call, "id": ids[call["id"]]} for call in calls], renamed(native, ids))
        self.open = {call["id"]: (ids[call["id"]], call["name"]) for call in calls}
        self.last = "assistant"

    def new_call_id(self, given: str) -> str:
        """An id that no call before has."""
        variants = (given, *(f"{given}_{number}" for number in range(2, len(self.ids) + 3)))
        self.ids.append(next(fit for fit in map(self.fitting, variants) if fit not in self.ids))
        return self.ids[-1]

    def fitting(self, call_id: str) -> str:
        return call_id

    @property
    def native_name(self) -> str:
        return self.profile.wire.value

    def ask(self, fragments: Sequence[Fragment]) -> None:
        self.all_kept = all(fragment.scope is Lifetime.KEPT for fragment in fragments)
        self.close_calls()
        for fragment in fragments:
            marked = list(self.stable)
            self.fragment(fragment)
            if fragment.scope is not Lifetime.KEPT:
                self.stable = marked
            if fragment.scope is Lifetime.VOLATILE and fragment.form is Form.RESULT:
                self.uncover()
        self.new_blocks += self.blocks

    def uncover(self) -> None:
        """A volatile text went into the last result."""

    def fragment(self, fragment: Fragment) -> None:
        if fragment.form is Form.RESULT and self.result_is_open():
            self.fold(fragment.text)
        elif fragment.form is not Form.MESSAGE or fragment.role == "user":
            self.user([fragment.text], joins=True)
        else:
            self.entry(fragment.role, fragment.text)
            self.last = self.last and fragment.role

    # The body.

    def body(self) -> Json:
        wanted = [block for block in (self.answered, *self.stable[-1:]) if block is not None]
        for block in wanted[-self.most_marks() :]:
            if self.marks:
                block.update(self.marker)
        return self.head()

    def most_marks(self) -> int:
        return self.profile.cache_markers or 4

    def head(self) -> Json:
        raise NotImplementedError

    def user(self, said: Sequence[str | Json], *, joins: bool) -> None:
        raise NotImplementedError

    def result(self, call_id: str, name: str, said: Sequence[str], *, ok: bool) -> None:
        raise NotImplementedError

    def assistant(self, said: Sequence[str], calls: Sequence[Json], native: Any) -> None:  # noqa: ANN401 - any JSON
        raise NotImplementedError

    def summary(self, said: Sequence[str]) -> None:
        text = neutralise_all("\n\n".join(said))
        self.user([f"<conversation-summary>\n{text}\n</conversation-summary>"], joins=True)

    def entry(self, role: str, text: str) -> None:
        raise NotImplementedError

    def result_is_open(self) -> bool:
        raise NotImplementedError

    def fold(self, text: str) -> None:
        raise NotImplementedError


class AnthropicPlain(Plain):
    marker: ClassVar[Json] = {"cache_control": {"type": "ephemeral"}}

    def of_before(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.profile.prefix_bound_thinking or "anthropic" not in message.get("native", {}):
            return message
        said = [block for block in message["native"]["anthropic"] if block["type"] != "thinking"]
        return {**message, "native": {"anthropic": said}}

    def shaped(self, kind: str, media_type: str, block: Mapping[str, Any]) -> Json | None:
        by_url = {"type": "url", "url": block.get("url")}
        source = by_url if "url" in block else {"type": "base64", "media_type": media_type, "data": block["data"]}
        return {"type": kind, "source": source, **({"title": block["title"]} if "title" in block else {})}

    def user(self, said: Sequence[str | Json], *, joins: bool) -> None:
        del joins
        blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in said]
        self._blocks().extend(blocks)
        self.stable += blocks
        self.blocks += len(blocks)
        self.last = "user"

    def _blocks(self) -> list[Json]:
        if not self.out or self.out[-1]["role"] != "user":
            self.out.append({"role": "user", "content": []})
        content: list[Json] = self.out[-1]["content"]
        return content

    def result(self, call_id: str, name: str, said: Sequence[str], *, ok: bool) -> None:
        del name
        block: Json = {"type": "tool_result", "tool_use_id": call_id}
        block["content"] = [{"type": "text", "text": text} for text in said]
        if not ok:
            block["is_error"] = True
        self._blocks().append(block)
        self.stable.append(block)
        self.blocks += 1

    def assistant(self, said: Sequence[str], calls: Sequence[Json], native: Any) -> None:  # noqa: ANN401 - any JSON
        uses = [{"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]} for call in calls]
        blocks = [dict(block) for block in native or [*({"type": "text", "text": text} for text in said), *uses]]
        self.out.append({"role": "assistant", "content": blocks})
        self.stable += [block for block in blocks[-1:] if block["type"] != "thinking"]
        self.blocks += len(blocks)

    def entry(self, role: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self.out.append({"role": role, "clear_at": "next_user_message", "content": content})

    def result_is_open(self) -> bool:
        return bool(self.out) and self.out[-1]["content"][-1].get("type") == "tool_result"

    def fold(self, text: str) -> None:
        self.out[-1]["content"][-1]["content"].append({"type": "text", "text": text})
        self.blocks += 1

    def uncover(self) -> None:
        if self.stable and self.stable[-1] is self.out[-1]["content"][-1]:
            self.stable.pop()

    def head(self) -> Json:
        tools = [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in TOOLS
        ]
        system = {"type": "text", "text": WORDS, **(self.marker if self.marks and self.most_marks() > 2 else {})}
        automatic = self.profile.cache is Cache.IMPLICIT and self.all_kept and self.new_blocks < 20
        return {
            **(self.marker if automatic else {}),
            "model": "model-1",
            "max_tokens": 32_000,
            "stream": True,
            "tools": tools,
            "system": [system],
            "messages": self.out,
        }


class ChatPlain(Plain):
    marker: ClassVar[Json] = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    part_type = "text"

    def shaped(self, kind: str, media_type: str, block: Mapping[str, Any]) -> Json | None:
        data = f"data:{media_type};base64,{block.get('data')}"
        match kind, "url" in block:
            case "image", by_url:
                return {"type": "image_url", "image_url": {"url": block["url"] if by_url else data}}
            case "document", False:
                return {"type": "file", "file": {"filename": block["title"], "file_data": data}}
            case "audio", False:
                return {"type": "input_audio", "input_audio": {"data": block["data"], "format": "wav"}}
        return None

    def user(self, said: Sequence[str | Json], *, joins: bool) -> None:
        if not (joins and self.out and self.out[-1].get("role") == "user"):
            self.out.append(self.new("user"))
        self.add(said)
        self.last = "user"

    def new(self, role: str) -> Json:
        return {"role": role, "content": []}

    def add(self, said: Sequence[str | Json], key: str = "content") -> None:
        parts = [{"type": self.part_type, "text": part} if isinstance(part, str) else part for part in said]
        self.out[-1][key].extend(parts)
        self.stable += parts

    def result(self, call_id: str, name: str, said: Sequence[str], *, ok: bool) -> None:
        del name, ok
        self.out.append({"role": "tool", "tool_call_id": call_id, "content": []})
        self.add(said)

    def assistant(self, said: Sequence[str], calls: Sequence[Json], native: Any) -> None:  # noqa: ANN401 - any JSON
        message: Json = {"role": "assistant", "content": "\n\n".join(said)}
        if calls:
            message["tool_calls"] = [
                {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": _dumped(call)}}
                for call in calls
            ]
        self.out += native or [message]

    def entry(self, role: str, text: str) -> None:
        self.out.append(self.new(role))
        self.add([text])

    def result_is_open(self) -> bool:
        return bool(self.out) and self.out[-1].get("role") == "tool"

    def fold(self, text: str) -> None:
        self.add([text])

    def head(self) -> Json:
        functions = [{"type": "function", "function": tool} for tool in TOOLS]
        lead = self.new(self.profile.leading_role.value)
        lead["content"] = [{"type": self.part_type, "text": WORDS, **(self.marker if self.marks else {})}]
        return {
            "model": "model-1",
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.caching(),
            "tools": functions,
            "messages": [lead, *self.out],
        }

    def caching(self) -> Json:
        own = {"prompt_cache_key": "session-1", "prompt_cache_options": {"mode": "explicit"}}
        return own if self.marks else {}


class ResponsesPlain(ChatPlain):
    part_type = "input_text"

    def shaped(self, kind: str, media_type: str, block: Mapping[str, Any]) -> Json | None:
        data = f"data:{media_type};base64,{block.get('data')}"
        match kind, "url" in block:
            case "image", by_url:
                return {"type": "input_image", "detail": "auto", "image_url": block["url"] if by_url else data}
            case "document", True:
                return {"type": "input_file", "file_url": block["url"]}
        return {"type": "input_file", "filename": block["title"], "file_data": data}

    def new(self, role: str) -> Json:
        return {"type": "message", "role": role, "content": []}

    def result(self, call_id: str, name: str, said: Sequence[str], *, ok: bool) -> None:
        del name, ok
        self.out.append({"type": "function_call_output", "call_id": call_id, "output": []})
        self.add(said, "output")

    def assistant(self, said: Sequence[str], calls: Sequence[Json], native: Any) -> None:  # noqa: ANN401 - any JSON
        words = [{"type": "message", "role": "assistant", "content": text} for text in said]
        made = [
            {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": _dumped(call)}
            for call in calls
        ]
        self.out += native or [*words, *made]

    def result_is_open(self) -> bool:
        return bool(self.out) and self.out[-1]["type"] == "function_call_output"

    def fold(self, text: str) -> None:
        self.add([text], "output")

    def head(self) -> Json:
        body = super().head()
        del body["stream_options"]
        body |= {"store": False, "include": ["reasoning.encrypted_content"], "input": body.pop("messages")}
        body["tools"] = [{"type": "function", "strict": False, **tool} for tool in TOOLS]
        return body


class GeminiPlain(Plain):
    def __init__(self, profile: Profile, placement: Placement) -> None:
        super().__init__(profile, placement)
        if profile.leading_role is LeadingRole.USER:
            self.out.append({"role": "user", "parts": [{"text": WORDS}]})

    def _parts(self) -> list[Json]:
        if not self.out or self.out[-1]["role"] != "user":
            self.out.append({"role": "user", "parts": []})
        parts: list[Json] = self.out[-1]["parts"]
        return parts

    def shaped(self, kind: str, media_type: str, block: Mapping[str, Any]) -> Json | None:
        del kind
        if "url" in block:
            return {"fileData": {"fileUri": block["url"]}}
        return {"inlineData": {"mimeType": media_type, "data": block["data"]}}

    def user(self, said: Sequence[str | Json], *, joins: bool) -> None:
        del joins
        self._parts().extend({"text": part} if isinstance(part, str) else part for part in said)
        self.last = "user"

    def result(self, call_id: str, name: str, said: Sequence[str], *, ok: bool) -> None:
        response = {"output" if ok else "error": "\n\n".join(said)}
        self._parts().append({"functionResponse": {"id": call_id, "name": name, "response": response}})

    def assistant(self, said: Sequence[str], calls: Sequence[Json], native: Any) -> None:  # noqa: ANN401 - any JSON
        parts = native or [*({"text": text} for text in said), *({"functionCall": call} for call in calls)]
        signed = [{**part} for part in parts]
        first = next((part for part in signed if "functionCall" in part), None)
        if first is not None and self.profile.call_signature is not None:
            first.setdefault("thoughtSignature", self.profile.call_signature)
        self.out.append({"role": "model", "parts": signed})

    def result_is_open(self) -> bool:
        return bool(self.out) and "functionResponse" in self.out[-1]["parts"][-1]

    def fold(self, text: str) -> None:
        response = self.out[-1]["parts"][-1]["functionResponse"]["response"]
        for key in response:
            response[key] += f"\n\n{text}"

    def head(self) -> Json:
        tools = [
            {"name": tool["name"], "description": tool["description"], "parametersJsonSchema": tool["parameters"]}
            for tool in TOOLS
        ]
        leads = self.profile.leading_role is LeadingRole.USER
        return {
            "generationConfig": {},
            "tools": [{"functionDeclarations": tools}],
            **({} if leads else {"systemInstruction": {"parts": [{"text": WORDS}]}}),
            "contents": self.out,
        }


class StringsPlain(ChatPlain):
    marker: ClassVar[Json] = {}

    def __init__(self, profile: Profile, placement: Placement) -> None:
        super().__init__(profile, placement)
        self.out.append({"role": profile.leading_role.value, "content": [WORDS]})
        # Whether the last message of the user tells what calls have returned.
        self.tells_results = False

    @property
    def native_name(self) -> str:
        return Wire.GENERIC.value

    # While it is written, content is a list of texts and blocks.

    def takes_media(self) -> bool:
        return self.out[-1]["role"] != "tool" or self.profile.user_after_tool

    def user(self, said: Sequence[str | Json], *, joins: bool) -> None:
        folds = self.out[-1]["role"] == "tool" and not self.profile.user_after_tool
        if folds or (self.tells_results and self.out[-1]["role"] == "user"):
            self.out[-1]["content"] += said if joins else ["The user says:", *said]
            return
        first = len(self.out) == 1 and self.out[0]["content"] == [WORDS]
        joins = joins or first or self.profile.strict_alternation
        if not (joins and self.out[-1]["role"] == "user"):
            self.out.append({"role": "user", "content": []})
        self.out[-1]["content"] += said
        self.last = "user"

    def result(self, call_id: str, name: str, said: Sequence[str], *, ok: bool) -> None:
        del ok
        if self.profile.tool_role:
            self.out.append({"role": "tool", "tool_call_id": call_id, "content": list(said)})
            return
        if self.out[-1]["role"] == "assistant":
            self.out.append({"role": "user", "content": []})
        text = "\n\n".join(said)
        self.fold(f'<call-result id="{call_id}" tool="{name}">\n{text}\n</call-result>')
        self.tells_results = True

    def assistant(self, said: Sequence[str], calls: Sequence[Json], native: Any) -> None:  # noqa: ANN401 - any JSON
        self.tells_results = False
        if calls and not self.profile.tool_role:
            told = [f"Call {call['id']}: {call['name']} {_dumped(call)}" for call in calls]
            said, calls, native = [*said, *told], [], None
        super().assistant(said, calls, native)

    def fitting(self, call_id: str) -> str:
        length = self.profile.call_id_length
        fits = not length or (len(call_id) == length and call_id.isalnum())
        return call_id if fits else blake2b(call_id.encode()).hexdigest()[:length]

    def entry(self, role: str, text: str) -> None:
        self.out.append({"role": role, "content": [text]})

    def fold(self, text: str) -> None:
        self.out[-1]["content"].append(text)

    def content(self, message: Json) -> object:
        """The content of a message: a string, or a list for the user if the template knows lists."""
        content = message["content"]
        if isinstance(content, str) or message["role"] == "assistant":
            return content
        if message["role"] != "user" or not self.profile.content_parts:
            return "\n\n".join(content)
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]

    def head(self) -> Json:
        functions = [{"type": "function", "function": tool} for tool in TOOLS]
        usage = {"include_usage": True}
        return {
            "model": "model-1",
            "stream": True,
            "stream_options": usage,
            "tools": functions,
            "messages": [{**message, "content": self.content(message)} for message in self.out],
        }


PLAINS: Mapping[Wire, type[Plain]] = {
    Wire.ANTHROPIC: AnthropicPlain,
    Wire.OPENAI_CHAT: ChatPlain,
    Wire.OPENAI_RESPONSES: ResponsesPlain,
    Wire.GEMINI: GeminiPlain,
}


def _dumped(call: Json) -> str:
    return json.dumps(call["args"], separators=(",", ":"), ensure_ascii=False)


def resource_texts(block: Mapping[str, Any]) -> list[str]:
    """The text of an embedded resource, if there is any."""
    return [block["resource"]["text"]] if "resource" in block else []


def renamed(value: Any, ids: Mapping[str, str]) -> Any:  # noqa: ANN401 - any JSON
    """A reply with other ids for its calls."""
    match value:
        case list():
            return [renamed(item, ids) for item in value]
        case dict():
            inner = {name: renamed(item, ids) for name, item in value.items()}
            return inner | {name: ids[inner[name]] for name in ("id", "call_id") if inner.get(name) in ids}
        case _:
            return value


def strings_in(value: object) -> Iterator[str]:
    """Every string in a JSON value."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from strings_in(item)
        case dict():
            for item in value.values():
                yield from strings_in(item)
