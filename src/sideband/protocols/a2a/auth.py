"""Who calls an A2A server: the peers of a file, the operator, or any program of this machine.

```toml
[peers.coordinator]
token_env = "COORDINATOR_TOKEN"   # or token = "...", of at least 16 characters
emit = "all"                      # it sees the reminders of every sender, not only its own

[peers.coordinator.grant]         # it may use more than other peers
ttl_turns = 10
role_hint = "system"

[peers.dashboard]
token_env = "DASHBOARD_TOKEN"
trust = "controller"              # a program of the operator
```
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.core.trust import Ceiling, Grant, Provenance, Trust, TrustPolicy, ceiling_for
from sideband.core.updates import Viewer
from sideband.protocols.http import Headers, bearer_token, is_equal_secret
from sideband.protocols.wire import Via

OPERATOR: Final = "operator"
"""The principal with the operator's token."""

LOCAL: Final = "local"
"""The principal of every other caller of a server without a file of peers."""

MAX_FILE_BYTES: Final = 1024 * 1024
SHORTEST_TOKEN: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_KEYS: Final = ("token", "token_env", "trust", "emit", "grant")
_LEVELS: Final = {"peer": Trust.PEER, "controller": Trust.CONTROLLER}
_OTHERS_CAN_READ: Final = 0o077


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A principal that an A2A server recognises.

    `sees_all`: it is told of the reminders of every sender. `grants` raise single ceilings; `policy` may lift them all.
    """

    name: str
    trust: Trust
    sees_all: bool = False
    grants: tuple[Grant, ...] = ()
    policy: TrustPolicy = TrustPolicy.CEILINGS

    @property
    def provenance(self) -> Provenance:
        """The sender of its reminders."""
        return Provenance(trust=self.trust, principal=self.name, via=Via.A2A)

    @property
    def as_user(self) -> Provenance:
        """The sender of its messages. The owner of a task is the user of that task's conversation."""
        return Provenance(trust=Trust.CONTROLLER, principal=self.name, via=Via.A2A)

    @property
    def viewer(self) -> Viewer:
        """What it may see of a task."""
        return Viewer(provenance=self.provenance, sees_all=self.sees_all)

    @property
    def ceiling(self) -> Ceiling:
        """What its reminders may ask for."""
        return ceiling_for(self.provenance, grants=self.grants, policy=self.policy)

    @property
    def is_operator(self) -> bool:
        """Whether it may use the tasks of all callers."""
        return self.trust <= Trust.CONTROLLER


class KnownPeer(msgspec.Struct, frozen=True, kw_only=True):
    """A caller and its token."""

    caller: Caller
    token: str

    def __repr__(self) -> str:
        """Without the token."""
        return f"KnownPeer(caller={self.caller!r})"


class Callers:
    """Recognises callers by their tokens.

    `peers` are those that may call. With None, every caller may: one with the operator's token as the operator, any other
    as the peer `local`; such a server must not be reachable from other machines.
    """

    def __init__(
        self,
        peers: Sequence[KnownPeer] | None = None,
        *,
        operator_token: str | None = None,
        policy: TrustPolicy = TrustPolicy.CEILINGS,
    ) -> None:
        self.needs_token = peers is not None
        self._peers = [
            msgspec.structs.replace(peer, caller=msgspec.structs.replace(peer.caller, policy=policy))
            for peer in peers or ()
        ]
        if operator_token:
            self._peers.append(KnownPeer(caller=Caller(name=OPERATOR, trust=Trust.CONTROLLER), token=operator_token))
        self._local = Caller(name=LOCAL, trust=Trust.PEER, policy=policy)
        # What a peer without grants of its own may do; the public card says it.
        self.ordinary = self._local

    def caller(self, headers: Headers) -> Caller | None:
        """Who sends a request with these headers; None if it may not."""
        token = bearer_token(headers)
        if token:
            # Every token is compared, so that the time does not depend on which one is right.
            found = [peer.caller for peer in self._peers if is_equal_secret(token, peer.token)]
            if found:
                return found[0]
        return None if self.needs_token else self._local


# The file.


def read_peers_file(path: str | Path) -> tuple[KnownPeer, ...]:
    """The peers of a file, which only its owner may be able to read; `InvalidOption` names what is wrong."""
    file = Path(path)
    try:
        status = file.stat()
        if os.name == "posix" and status.st_mode & _OTHERS_CAN_READ:
            raise InvalidOption(
                f"{file} holds tokens, and other users can read it; run: chmod 600 {file}", field=str(file)
            )
        if status.st_size > MAX_FILE_BYTES:
            raise InvalidOption(f"{file} has more than {MAX_FILE_BYTES:,} bytes", field=str(file))
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidOption(f"{file} cannot be read: {error.strerror or error}", field=str(file)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidOption(f"{file} is not TOML: {error}", field=str(file)) from None
    return read_peers(read)


def read_peers(config: Mapping[str, Any]) -> tuple[KnownPeer, ...]:
    """The peers of a configuration, which has them by name under `peers`."""
    peers = config.get("peers")
    if not isinstance(peers, Mapping) or not peers:
        raise InvalidOption('the file must have a table for each peer: [peers.NAME] with token = "..."', field="peers")
    read = tuple(_peer(name, entry) for name, entry in peers.items())
    names_by_token: dict[str, str] = {}
    for peer in read:
        other = names_by_token.setdefault(peer.token, peer.caller.name)
        if other != peer.caller.name:
            raise InvalidOption(
                f"peers.{other} and peers.{peer.caller.name} have the same token; give each one its own", field="peers"
            )
    return read


def _peer(name: str, entry: object) -> KnownPeer:
    place = f"peers.{name}"
    if _NAME.fullmatch(name) is None or name in (OPERATOR, LOCAL):
        raise InvalidOption(
            f"the name of a peer must have 1 to 64 letters, digits, '.', '_' or '-', and be neither {OPERATOR!r} nor "
            f"{LOCAL!r}; {shown(name)} is not such a name",
            field="peers",
            value=name,
        )
    if not isinstance(entry, Mapping):
        raise InvalidOption(f"{place} must be a table, not {shown(entry)}", field=place)
    for key in entry:
        if key not in _KEYS:
            raise InvalidOption(
                f"{place} has no key {shown(key)}; {suggestion(key, _KEYS, kind='keys')}", field=f"{place}.{key}"
            )
    trust = _LEVELS[_word(entry, "trust", "peer", _LEVELS, place)]
    granted = entry.get("grant", {})
    if not isinstance(granted, Mapping) or (granted and trust is not Trust.PEER):
        raise InvalidOption(
            f"{place}.grant must be a table of fields and their highest values, and belongs to a peer with "
            "trust = 'peer'; a controller may use everything",
            field=f"{place}.grant",
        )
    grants = tuple(Grant(trust=trust, principal=name, field=field, value=value) for field, value in granted.items())
    sees_all = _word(entry, "emit", "own", ("own", "all"), place) == "all"
    return KnownPeer(
        caller=Caller(name=name, trust=trust, sees_all=sees_all, grants=grants), token=_token(entry, place)
    )


def _word(
    entry: Mapping[str, Any], key: str, default: str, words: Mapping[str, Any] | Sequence[str], place: str
) -> str:
    word = entry.get(key, default)
    if word not in words:
        raise InvalidOption(
            f"{place}.{key} must be {' or '.join(map(repr, words))}, not {shown(word)}", field=f"{place}.{key}"
        )
    return str(word)


def _token(entry: Mapping[str, Any], place: str) -> str:
    # An error never repeats a token.
    if ("token" in entry) == ("token_env" in entry):
        raise InvalidOption(f"{place} must have either token or token_env", field=place)
    token = entry.get("token")
    if (variable := entry.get("token_env")) is not None:
        token = os.environ.get(variable) if isinstance(variable, str) else None
        if not token:
            raise InvalidOption(
                f"{place}.token_env names the variable {shown(variable)}, which is not set", field=f"{place}.token_env"
            )
    if not isinstance(token, str) or len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise InvalidOption(
            f"{place}.token must be a text of at least {SHORTEST_TOKEN} printable ASCII characters",
            field=f"{place}.token",
        )
    return token
