"""The whole system in the simulation: the engine's world, the read side, and everything that is checked at the end."""
