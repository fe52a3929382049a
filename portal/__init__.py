"""HTTP, HTML and WebSocket: the APIs and the pages of Novella."""

__version__ = "0.1.0"
