"""The proxy between an editor and another ACP agent."""
