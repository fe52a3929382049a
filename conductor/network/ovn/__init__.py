"""The projection of networks into OVN's northbound database, which carries the traffic of guests."""
