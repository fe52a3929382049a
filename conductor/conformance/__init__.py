"""Conformance test suites for authors of plugins: `driver` for compute drivers. Needs pytest."""
