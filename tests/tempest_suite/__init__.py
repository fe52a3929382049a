"""The integration tests of OpenStack (Tempest), run against a separate cloud."""
