"""The engine on the log in memory: virtual time, one thread, and one seed that decides everything."""
