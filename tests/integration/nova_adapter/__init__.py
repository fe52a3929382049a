"""Programs that run in an environment of their own, beside an installed Nova."""
