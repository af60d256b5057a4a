"""The ways in which a peer can fail."""

from typing import ClassVar


class PeerFailed(Exception):
    """A peer cannot be used; the message says why and what to do."""

    code: ClassVar[str]


class PeerUnreachable(PeerFailed):
    """There is no connection to the peer, it was lost, or a gateway in front of the peer has none.

    `may_have_arrived` says whether the peer may have received the request.
    """

    code = "SIDEBAND-508"

    def __init__(self, message: str, *, may_have_arrived: bool = True) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived


class PeerSilent(PeerFailed):
    """The peer did not answer in time."""

    code = "SIDEBAND-509"


class PeerNotUnderstood(PeerFailed):
    """The peer answered with something that is not A2A, or that is larger than this client reads."""

    code = "SIDEBAND-510"


class PeerNotTrusted(PeerFailed):
    """The card of the peer names an address to which this client may not send its token."""

    code = "SIDEBAND-511"


class TokenRefused(PeerFailed):
    """The peer requires a token, or refuses the one that it was sent; `status` is that of HTTP."""

    code = "SIDEBAND-512"

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
