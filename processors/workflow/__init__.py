"""Workflows: what users write, and how it is driven and replayed. Pure: no clock, no random, no I/O."""
