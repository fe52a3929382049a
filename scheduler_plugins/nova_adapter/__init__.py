"""Adapter that runs filters and weighers of OpenStack Nova without changes to them."""
