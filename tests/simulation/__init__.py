"""The simulation, and what it proves."""
