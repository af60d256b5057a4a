"""Chat templates of our own, each with one habit of those that open models come with."""

from functools import cache
from typing import Any, Final, NoReturn

from jinja2 import FileSystemLoader, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tests.programs import ROOT

FOLDER: Final = ROOT / "tests" / "templates"
TEMPLATES: Final = sorted(path.stem for path in FOLDER.glob("[!_]*.jinja"))


def prompt_of(name: str, messages: list[dict[str, Any]]) -> str:
    """What the model reads; `TemplateError` if the template refuses the messages."""
    return _template(name).render(messages=messages)


@cache
def _template(name: str) -> Template:
    # Prompts are no HTML.
    environment = ImmutableSandboxedEnvironment(loader=FileSystemLoader(FOLDER, encoding="utf-8"), autoescape=False)
    environment.globals["raise_exception"] = _refuse
    return environment.get_template(f"{name}.jinja")


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
