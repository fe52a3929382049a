"""Real services for tests: private servers on free ports, ended by whoever started them."""
