"""The load balancer API, a subset of Octavia v2, below /load-balancer."""
