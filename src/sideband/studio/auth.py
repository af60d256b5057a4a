"""Who may use the studio: programs with the operator's token, and browsers that have exchanged a one-time link for a cookie."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from sideband.core.trust import LEVELS, Channel, Provenance
from sideband.protocols.http import HttpRefusal, bearer_token, is_equal_secret
from sideband.protocols.wire import Via

COOKIE: Final = "sideband_studio"
COOKIE_SECONDS: Final = 7 * 24 * 3_600
# Of a time in seconds since the epoch.
_END_DIGITS: Final = 12
# A link works once, and only for a while.
LINK_SECONDS: Final = 600.0
# After so many wrong codes in this time, further wrong ones get the status 429. A valid code is always accepted.
MAX_WRONG_CODES: Final = 20
WRONG_CODES_SECONDS: Final = 60.0

# The values of `Sec-Fetch-Site` that are accepted. Programs that are no browsers do not send it.
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_LEVEL: Final = LEVELS[Channel.OPERATOR_TOKEN]
BROWSER: Final = Provenance(trust=_LEVEL, principal="studio", via=Via.HTTP)
"""The sender of what a person does on the page."""
PROGRAM: Final = Provenance(trust=_LEVEL, principal="http", via=Via.HTTP)
"""The sender of what programs with the operator's token send."""


_NOT_LOGGED_IN: Final = HttpRefusal(
    401, "Open the link that `sideband serve` printed, or send the operator's token as a bearer token.", "not_logged_in"
)
_OTHER_SITE: Final = HttpRefusal(403, "Pages of other sites may not use this server.", "wrong_origin")
_WRONG_CODE: Final = HttpRefusal(
    401, "This link was used already, or is too old. `sideband open` makes a new one.", "not_logged_in"
)
_TOO_MANY_CODES: Final = HttpRefusal(429, "Too many wrong codes; try again in a minute.", "rate_limited")


class Gate:
    """Recognises the operator: by the token that a program sends, or by the cookie of a browser.

    A cookie holds a time and is signed with the operator's token: it stays valid when the server is started again, and
    does not reveal the token. Browsers send the cookies of a host to all its ports, so `port` is part of its name. `now`
    is a clock in seconds since the epoch.
    """

    def __init__(self, token: str, *, port: int, now: Callable[[], float]) -> None:
        self._token = token
        self._now = now
        self._codes: dict[str, float] = {}
        self._wrong: list[float] = []
        self.cookie_name = f"{COOKIE}_{port}"

    def sender(self, headers: Headers) -> Provenance | HttpRefusal:
        """The sender of a request to the API, or why the request is refused."""
        # Browsers send this header with every request, also with those that have no origin.
        if not _OWN_SITES.issuperset(headers.getlist("sec-fetch-site")):
            return _OTHER_SITE
        if len(headers.getlist("authorization")) > 1:
            return _NOT_LOGGED_IN
        bearer = bearer_token(headers)
        if bearer is not None:
            return PROGRAM if is_equal_secret(bearer, self._token) else _NOT_LOGGED_IN
        return BROWSER if self.is_cookie(headers.get("cookie", "")) else _NOT_LOGGED_IN

    def is_cookie(self, header: str) -> bool:
        """Whether the header `Cookie` of a request holds a cookie of this server that is still valid."""
        end, _, signature = cookie_parser(header).get(self.cookie_name, "").partition(".")
        if not (end.isascii() and end.isdigit() and len(end) <= _END_DIGITS) or int(end) <= self._now():
            return False
        return is_equal_secret(signature, self._signature(end))

    def new_cookie(self) -> str:
        """A cookie that is valid for `COOKIE_SECONDS`."""
        end = str(int(self._now()) + COOKIE_SECONDS)
        return f"{end}.{self._signature(end)}"

    def _signature(self, end: str) -> str:
        return hmac.new(self._token.encode(), f"{self.cookie_name}.{end}".encode(), hashlib.sha256).hexdigest()

    def new_code(self) -> str:
        """A code that can be exchanged for the cookie, once."""
        self._forget_old()
        code = secrets.token_urlsafe(24)
        self._codes[code] = self._now() + LINK_SECONDS
        return code

    def log_in(self, code: str) -> HttpRefusal | None:
        """Use a code up; return why it is refused, or None if the browser may have the cookie."""
        self._forget_old()
        found = next((known for known in self._codes if is_equal_secret(code, known)), None)
        if found is not None:
            del self._codes[found]
            return None
        if len(self._wrong) >= MAX_WRONG_CODES:
            return _TOO_MANY_CODES
        self._wrong.append(self._now())
        return _WRONG_CODE

    def _forget_old(self) -> None:
        now = self._now()
        self._codes = {code: end for code, end in self._codes.items() if end > now}
        self._wrong = [time for time in self._wrong if time > now - WRONG_CODES_SECONDS]
