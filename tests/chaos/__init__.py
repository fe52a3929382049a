"""Fault campaigns: the product under injected faults, and checkers that use none of its code."""
