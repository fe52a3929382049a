"""Fault campaigns: the product under an adversary, and checkers that know nothing of its code."""
