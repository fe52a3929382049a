"""Networks as servers use them: reachability, port filters, and the network proxy of the Compute API.

Ports of one server belong to `servers`; networks themselves to `conductor/network`.
"""
