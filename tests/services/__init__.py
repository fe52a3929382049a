"""Real services for tests: private servers on free ports, which end with their test run."""
