"""Django's PostgreSQL backend with spare connections that survive the death of their server."""
