"""Keys for tests, whose secrets are their names; and a record that one of them has signed."""

from dataclasses import replace
from hashlib import sha256

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import ROLES, Key, Keyring
from wakeful.commands.models import Command, CommandHeader
from wakeful.commands.signatures import ED25519, HMAC_SHA256, public_half
from wakeful.commands.wire import encode_command
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.protocol import Record

CLUSTER, TOPIC = "memory", "desk.commands.v1"
NOW_MS = 1_700_000_000_000


def key(kid, role="client", *, algorithm=HMAC_SHA256, **more):
    secret = sha256(kid.encode()).digest()
    public = public_half(secret) if algorithm == ED25519 else None
    made = Key(kid, algorithm, secret, public, None, ROLES[role], role=role)
    return replace(made, **more)


def identity(*keys, cluster=CLUSTER):
    return Signed(lambda: Keyring(keys), cluster)


class Ring:
    """Keys that may change while processes run: whoever signs or judges asks for those of that moment."""

    def __init__(self, *keys):
        self.keys = Keyring(keys)

    def __call__(self):
        return self.keys


def command(body, *, tenant="acme", session="s1", actor="ann", command_id="c1", at_ms=NOW_MS):
    return Command(CommandHeader(tenant, session, command_id, at_ms, actor, None, "t", None), body)


def record(said, *headers, topic=TOPIC, at_ms=NOW_MS, own=True):
    """The command as it lies in a topic, under its own headers and these."""
    encoded = encode_command(said)
    where = session_key(said.header.tenant, said.header.session_id)
    all_headers = [*(record_headers(encoded, said.header.command_id) if own else ()), *headers]
    return Record(topic, 0, 7, at_ms, where, encoded.value, all_headers)


def signed(by, said, *, topic=TOPIC, cluster=CLUSTER):
    """The headers with which this key vouches for it, in that place."""
    encoded = encode_command(said)
    where = session_key(said.header.tenant, said.header.session_id)
    return identity(by, cluster=cluster).sign(said, topic, where, encoded.value)
