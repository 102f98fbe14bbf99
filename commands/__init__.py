"""What may be asked of a session: commands, their checks and decisions."""
