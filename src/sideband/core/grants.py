"""Raising a ceiling for one source."""

from sideband.core.errors import NotPermitted
from sideband.core.events import Event, Granted
from sideband.core.trust import Grant, Provenance, Trust


def issue_grant(grant: Grant, actor: Provenance) -> tuple[Event, ...]:
    """The operator alone may grant, and each grant is on record."""
    if actor.trust is not Trust.OPERATOR:
        raise NotPermitted("only the operator of a session may raise a ceiling", field="grant", value=grant.principal)
    return (Granted(grant=grant),)
