"""Wakeful over HTTP: commands in, queries out, a live stream, and the console on top. `wakeful serve` runs it.

```
request ─ authentication (who) ─ permission (may) ─┬─ commands ─ signed ─▶ Kafka ─▶ 202, status URL, position
                                                   ├─ queries ─ row-level security ─▶ Postgres
                                                   └─ live ─ one reader for all streams ─▶ server-sent events
```

Nothing is decided here: what a session makes of a command, its processor says. So a gateway has no state of its own, and
any number of them may run side by side.
"""
