"""Schedules: a built-in workflow that sleeps until it is time, and what it reckons with. Its times are pure functions."""
