"""Filters and weighers that were written for OpenStack Nova, run as they are."""
