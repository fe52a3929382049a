"""Kinds of group membership. Membership is a hint; ownership is decided by leases and fencing tokens alone."""
