"""Plugins of a data centre that numbers its racks."""
