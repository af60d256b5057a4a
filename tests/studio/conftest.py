"""The studio in a real browser. `make test-studio` installs what these tests need; only runs that name this folder
include them, because they take minutes.
"""

import re
import shutil
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from tests.postgres import no_server_stays

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.studio.served import Served
    from tests.studio.service import ModelService
    from tests.studio.visitor import Visitor

__all__ = ["no_server_stays"]

_HERE: Final = Path(__file__).parent
_INSTALLED: Final = all(map(find_spec, ("playwright", "schemathesis"))) and shutil.which("chromium") is not None
_FAILED: Final = pytest.StashKey[bool]()

Visit: TypeAlias = Callable[..., "Visitor"]
Serve: TypeAlias = Callable[..., "Served"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether to leave a file out: `pytest tests/studio` runs everything, `pytest` and `pytest tests` do not."""
    named = (config.invocation_params.dir / argument.partition("::")[0] for argument in config.args)
    is_named = any(path.resolve().is_relative_to(_HERE) for path in named)
    if collection_path.name.startswith("test_") and not (_INSTALLED and is_named):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = item.stash.get(_FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """One browser for all tests of a process; each test has profiles of its own."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - not installed everywhere

    from tests.studio.visitor import ARGUMENTS  # noqa: PLC0415 - the same

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def visit(browser: "Browser", request: pytest.FixtureRequest) -> Iterator[Visit]:
    """Makes visitors. After the test, none of them may have seen an error that the test did not expect."""
    from tests.studio.visitor import Visitor  # noqa: PLC0415 - not installed everywhere

    visitors: list[Visitor] = []

    def make(**options: Any) -> Visitor:  # noqa: ANN401 - those of a visitor
        visitors.append(Visitor(browser, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.settle()
    if request.node.stash.get(_FAILED, False):
        name = re.sub(r"[^\w.-]+", "-", request.node.nodeid.rpartition("/")[2])
        for number, visitor in enumerate(visitors, start=1):
            visitor.keep_screenshot(f"{name}-{number}")
    problems = [problem for visitor in visitors for problem in visitor.unexpected()]
    for visitor in visitors:
        visitor.context.close()
    assert problems == []


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts servers, which are ended after the test."""
    from tests.studio.served import Served  # noqa: PLC0415 - beside the others

    started: list[Served] = []

    def start(*arguments: str, **options: Any) -> Served:  # noqa: ANN401 - those of a server
        folder = tmp_path / f"server-{len(started) + 1}"
        folder.mkdir()
        server = Served(folder, *arguments, **options)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.__exit__()


@pytest.fixture(scope="session")
def rehearsed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a store with a rehearsal that was played to its end; played once, because it takes a while."""
    from tests.studio.served import Served  # noqa: PLC0415 - beside the others

    with Served(tmp_path_factory.mktemp("rehearsed"), "--rehearsal", "--fast") as server:
        server.until_rehearsed()
        server.stop()
    return server.folder / "store.db"


@pytest.fixture
def rehearsed(serve: Serve, rehearsed_store: Path, tmp_path: Path) -> "Served":
    """A server with the rehearsal in its store."""
    copied = tmp_path / "rehearsed.db"
    shutil.copyfile(rehearsed_store, copied)
    return serve(store=f"sqlite:///{copied}")


@pytest.fixture(scope="session")
def shared(rehearsed_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Served"]:
    """A server with the rehearsal in its store, for tests that do not mind what others have added."""
    from tests.studio.served import Served  # noqa: PLC0415 - beside the others

    folder = tmp_path_factory.mktemp("shared")
    shutil.copyfile(rehearsed_store, folder / "store.db")
    with Served(folder) as server:
        yield server


@pytest.fixture
def service() -> Iterator["ModelService"]:
    from tests.studio.service import a_model_service  # noqa: PLC0415 - beside the others

    with a_model_service() as service:
        yield service
