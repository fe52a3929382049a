"""Pruning: deletes ended records older than their retention, in small batches, except those still referenced."""
