"""Finds what does not agree between databases and hosts, and repairs what is safe to repair."""
