"""What runs in an environment of its own, beside an installed Nova."""
