"""The agent side of ACP: what programs import. `agent.websocket` needs the extra `serve`."""

from sideband.protocols.acp.agent.agent import AcpAgent

__all__ = ["AcpAgent"]
