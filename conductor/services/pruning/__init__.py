"""Removes what is over and older than its retention, in small batches, and never what somebody still needs."""
