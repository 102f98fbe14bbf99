"""Wakeful for Kafka users in any language: Avro on two topics, and `wakeful run` for hello.py."""

import io
import json
import os
import time
import uuid
from pathlib import Path

from confluent_kafka import Consumer, Producer
from fastavro import schemaless_reader, schemaless_writer
from fastavro.schema import load_schema

SCHEMAS = Path(__file__).parents[1] / "schemas"
LOCK = (line.split() for line in (SCHEMAS / "ids.lock").read_text().splitlines())
IDS = {words[3].removesuffix(".avsc"): int(words[0]) for words in LOCK if words[0].isdigit()}
OUTCOME = load_schema(SCHEMAS / "Outcome.avsc")
NAMESPACE = os.environ.get("WAKEFUL_NAMESPACE", "wakeful")
TENANT, SESSION = os.environ.get("WAKEFUL_TENANT", "local"), f"plain-{uuid.uuid4()}"


def bootstrap() -> str:
    """The broker that the environment names, else the one that `wakeful up` has started here."""
    stack = Path(os.environ.get("WAKEFUL_HOME", ".wakeful")) / "stack.json"
    services = json.loads(stack.read_text())["records"].values() if stack.exists() else ()
    local = [service["address"] for service in services if service["service"] == "kafka"]
    return os.environ.get("WAKEFUL_KAFKA") or local[0]


def send(kind: str, actor: str, **fields: object) -> None:
    """One command: a zero, the schema's id, the Avro body. The key decides the partition and order."""
    header = {"tenant": TENANT, "session_id": SESSION, "command_id": str(uuid.uuid4())}
    header |= {"actor": actor, "channel": "kafka", "issued_at_ms": time.time_ns() // 1_000_000}
    body = io.BytesIO()
    schemaless_writer(body, load_schema(SCHEMAS / f"{kind}.avsc"), {"header": header, **fields})
    value = b"\0" + IDS[kind].to_bytes(4, "big") + body.getvalue()
    producer.produce(f"{NAMESPACE}.commands.v1", value, f"{TENANT}/{SESSION}")
    producer.flush()


producer = Producer({"bootstrap.servers": bootstrap(), "partitioner": "murmur2_random"})
own = {"group.id": SESSION, "auto.offset.reset": "earliest"}
consumer = Consumer({"bootstrap.servers": bootstrap(), **own})
consumer.subscribe([f"{NAMESPACE}.outcomes.v1"])
text = json.dumps({"text": "it came broken"}).encode()
send("OpenSession", "alice", workflow="hello")
message = {"encoding": "json", "inline": text, "digest": b"", "size": len(text)}
send("SendMessage", "alice", message=message)
for record in iter(lambda: consumer.poll(60), None):
    if not record.error() and record.key() == f"{TENANT}/{SESSION}".encode():
        outcome = schemaless_reader(io.BytesIO(record.value()[5:]), OUTCOME)
        print(outcome["kind"], (outcome["message"] or {}).get("inline") or outcome["detail"])
        if outcome["kind"] == "approval_wanted":  # the digest binds it to exactly this action
            action = {name: outcome[name] for name in ("proposal_id", "digest")}
            send("DecideApproval", "sue", **action, decision="approve", comment="fine")
        if outcome["kind"] in ("reply", "failed", "refused", "held"):
            raise SystemExit(outcome["kind"] != "reply")
raise SystemExit("no outcome within 60 s: is `wakeful run examples/hello.py` running?")
