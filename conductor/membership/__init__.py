"""Who is alive: kinds of group membership. What they say is a hint; ownership is decided by leases and tokens alone."""
