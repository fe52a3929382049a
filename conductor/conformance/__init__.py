"""The laws for plugins as test suites that their authors run: `driver` for compute drivers. Needs pytest."""
