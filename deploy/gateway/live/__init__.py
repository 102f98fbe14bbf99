"""The live streams of the gateway: committed events, and tokens in flight, as server-sent events."""

from .live import Live

__all__ = ["Live"]
