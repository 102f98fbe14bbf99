"""The refund desk: an agent that reads customers' messages, pays back what is due, and does it once.

`desk.py` is the agent, `shop.py` its orders in Postgres, `messages.jsonl` what sixty times customers wrote. `wakeful demo`
runs it with a payment service that loses answers, and kills its processes in the middle: docs/refund-desk.md.
"""
