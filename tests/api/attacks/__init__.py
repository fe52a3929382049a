"""Attacks on a running portal, one module per boundary: each was carried out once and must fail from then on."""
