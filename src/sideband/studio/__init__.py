"""The studio: a page on which a person sees a store and acts on it, and the HTTP API that it uses."""

from sideband.studio.app import Studio

__all__ = ["Studio"]
