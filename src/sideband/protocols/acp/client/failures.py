"""The ways in which an agent can fail."""

from typing import ClassVar, Final

# How much of the standard error of an agent an error shows.
STDERR_LINES: Final = 10


class AgentFailed(Exception):
    """An agent cannot be used; `summary` says why and what to do, `stderr` is the end of its standard error."""

    code: ClassVar[str]

    def __init__(self, summary: str, *, stderr: str = "") -> None:
        self.summary = summary
        self.stderr = stderr
        lines = stderr.splitlines()[-STDERR_LINES:]
        super().__init__("\n".join((summary, "The end of its standard error:", *lines)) if lines else summary)


class AgentNotStarted(AgentFailed):
    """The command of the agent could not be started."""

    code = "SIDEBAND-501"


class AgentEnded(AgentFailed):
    """The agent ended, or closed the connection, before it answered."""

    code = "SIDEBAND-502"


class AgentSilent(AgentFailed):
    """The agent did not answer in time."""

    code = "SIDEBAND-503"


class AgentNotUnderstood(AgentFailed):
    """The agent answered with something that is not ACP, or in a protocol version that this client does not speak."""

    code = "SIDEBAND-504"


class LoginRequired(AgentFailed):
    """The agent wants its user to log in first."""

    code = "SIDEBAND-505"
