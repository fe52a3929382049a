"""Workflow engine: executes flows durably, one claimed run at a time. Start reading in executor.py."""
