"""The HTTP API does what its own description says, for requests that follow the description and for some that do not."""

from collections.abc import Iterator
from typing import Any, Final, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sideband.studio.openapi import openapi
from sideband.studio.routes import OPERATIONS
from tests.unit.studio.studio_thread import StudioThread, a_studio_thread

CHECKS: Final = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
# Its answer does not end, and each rehearsal runs for a while.
LEFT_OUT: Final = frozenset({"/api/stream", "/api/rehearsal"})
SCHEMA: Final = schemathesis.openapi.from_dict(openapi(OPERATIONS))
FOUND: Final = [
    operation
    for operation in (cast("Any", result).ok() for result in SCHEMA.get_all_operations())
    if operation.path not in LEFT_OUT
]
# A profile with more examples reaches further.
EXAMPLES: Final = max(20, settings().max_examples // 10)
MODES: Final = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioThread]:
    with a_studio_thread(tmp_path_factory.mktemp("studio")) as running:
        # Something to read.
        running.program("POST", f"/api/sessions/{running.session}/remind", {"body": "The build is red.", "ttlTurns": 3})
        running.program("POST", f"/api/sessions/{running.session}/prompt", {"content": "Mend the build."})
        yield running


@pytest.mark.requirement("studio:api:described")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", FOUND, ids=lambda operation: f"{operation.method.upper()} {operation.path}")
def test_answers_are_as_described(studio: StudioThread, operation: Any, mode: GenerationMode) -> None:  # noqa: ANN401 - of schemathesis
    headers = {"Authorization": f"Bearer {studio.token}"}
    url = f"http://127.0.0.1:{studio.port}"

    @settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck])
    @given(
        case=operation.as_strategy(generation_mode=mode),
        session=st.sampled_from([studio.session, studio.session, None]),
        turn=st.sampled_from(["next", "1", None]),
    )
    def check(case: Any, session: str | None, turn: str | None) -> None:  # noqa: ANN401 - of schemathesis
        # What was drawn for these is hardly ever something that exists.
        for name, value in (("id", session), ("turn", turn)):
            if value is not None and name in case.path_parameters and "/sessions/" in operation.path:
                case.path_parameters[name] = value
        case.call_and_validate(base_url=url, headers=headers, checks=CHECKS)

    check()
