"""Wakeful for Kafka users in any language: signed Avro on two topics, and `wakeful run` for hello.py."""

import hmac
import io
import json
import os
import time
import uuid
from pathlib import Path

import fastavro
from confluent_kafka import Consumer, KafkaException, Producer

SCHEMAS = Path(__file__).parents[1] / "schemas"
LOCK = (line.split() for line in (SCHEMAS / "ids.lock").read_text().splitlines())
IDS = {words[3].removesuffix(".avsc"): int(words[0]) for words in LOCK if words[0].isdigit()}
OUTCOME = fastavro.schema.load_schema(SCHEMAS / "Outcome.avsc")
NAMESPACE = os.environ.get("WAKEFUL_NAMESPACE", "wakeful")
TENANT, SESSION = os.environ.get("WAKEFUL_TENANT", "local"), f"plain-{uuid.uuid4()}"
HOME = Path(os.environ.get("WAKEFUL_HOME", ".wakeful"))
RING = json.loads(Path(os.environ.get("WAKEFUL_KEYS") or HOME / "keys.json").read_text())["keys"]
KEY = next(key for key in RING if key["role"] == "client" and key["status"] == "active")
if not (broker := os.environ.get("WAKEFUL_KAFKA")):  # the one that `wakeful up` has started here
    services = json.loads((HOME / "stack.json").read_text())["records"].values()
    broker = next(one["address"] for one in services if one["service"] == "kafka")


def send(kind: str, actor: str, **fields: object) -> None:
    """A zero, the schema's id, the Avro body; signed for this cluster, topic and key, which decides the order."""
    header = {"tenant": TENANT, "session_id": SESSION, "command_id": str(uuid.uuid4())}
    header |= {"actor": actor, "channel": "kafka", "issued_at_ms": time.time_ns() // 1_000_000}
    schema, body = fastavro.schema.load_schema(SCHEMAS / f"{kind}.avsc"), io.BytesIO()
    fastavro.schemaless_writer(body, schema, {"header": header, **fields})
    value = b"\0" + IDS[kind].to_bytes(4, "big") + body.getvalue()
    topic, key = f"{NAMESPACE}.commands.v1", f"{TENANT}/{SESSION}"
    parts = [CLUSTER, topic.encode(), key.encode(), value]
    signed = b"wakeful/1" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    mark = hmac.digest(bytes.fromhex(KEY["secret"]), signed, "sha256")
    kafka.produce(topic, value, key, headers={"wakeful_key": KEY["kid"], "wakeful_signature": mark})
    kafka.flush(30)


kafka = Producer({"bootstrap.servers": broker, "partitioner": "murmur2_random"})
try:
    CLUSTER = kafka.list_topics(timeout=5).cluster_id.encode()
except KafkaException:
    raise SystemExit(f"no answer from kafka at {broker}: start it with `wakeful up`") from None
own = {"group.id": SESSION, "auto.offset.reset": "earliest"}
consumer = Consumer({"bootstrap.servers": broker, **own})
consumer.subscribe([f"{NAMESPACE}.outcomes.v1"])
text = json.dumps({"text": "it came broken"}).encode()
message = {"encoding": "json", "inline": text, "digest": b"", "size": len(text)}
send("OpenSession", "alice", workflow="hello")
send("SendMessage", "alice", message=message)
for record in iter(lambda: consumer.poll(60), None):
    if not record.error() and record.key() == f"{TENANT}/{SESSION}".encode():
        outcome = fastavro.schemaless_reader(io.BytesIO(record.value()[5:]), OUTCOME)
        print(outcome["kind"], (outcome["message"] or {}).get("inline") or outcome["detail"])
        if outcome["kind"] == "approval_wanted":  # the digest binds it to exactly this action
            action = {name: outcome[name] for name in ("proposal_id", "digest")}
            send("DecideApproval", "sue", **action, decision="approve", comment="fine")
        if outcome["kind"] in ("reply", "failed", "refused", "held"):
            raise SystemExit(outcome["kind"] != "reply")
raise SystemExit("no outcome within 60 s: is `wakeful run examples/hello.py` running?")
