"""The integration tests of OpenStack (Tempest), run against a cloud of its own."""
