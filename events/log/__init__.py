"""The log: its protocol, Kafka, and the in-memory one for tests and simulation."""
