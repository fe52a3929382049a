"""Programs that run in a separate environment with an installed Nova."""
