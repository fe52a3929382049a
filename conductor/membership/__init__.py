"""Kinds of group membership. Membership is a hint; only leases and fencing tokens decide about ownership."""
