"""Other durable engines, and this one, each in a process of its own, for workflow_peers.py."""
