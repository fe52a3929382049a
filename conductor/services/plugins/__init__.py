"""Plugins as operators see them: catalog, settings, panels, proposals and conformance.

Loading and calling plugins belongs to `conductor/plugins`; decisions of filters to `scheduling`.
"""
