"""An MCP server of somebody else's, by hand and without the SDK: it starts at once, and behaves as it is told.

`stranger.py FOLDER [WORD…]`: notes of what it did go to FOLDER; the words change what it says of its tools.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER, WORDS = Path(sys.argv[1]), set(sys.argv[2:])
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
NOTHING = {"type": "object", "properties": {}}
READ = {"readOnlyHint": True}
TOOLS = {
    "read": (NUMBER, READ),
    "die_once": (NUMBER, READ),
    "pay": (NUMBER, {}),
    "pay_and_die": (NUMBER, {}),
    "hang": (NOTHING, READ),
    "fail": (NOTHING, READ),
    "refuse": (NOTHING, READ),
    "picture": (NOTHING, READ),
    "long": (NOTHING, READ),
    "begin": (NOTHING, READ),
    "who": (NOTHING, READ),
    "odd": (
        {
            "type": "object",
            "properties": {"key": {"type": "string"}, "a-b": {"type": ["integer", "null"]}},
        },
        READ,
    ),
}
if "drift" in WORDS:
    text = {"type": "string"}
    TOOLS["read"] = ({**NUMBER, "properties": {"n": text}}, READ)
    TOOLS["hang"] = (NOTHING, {"readOnlyHint": True, "destructiveHint": True})
    del TOOLS["who"]


def note(name, text):
    with (FOLDER / name).open("a") as file:
        file.write(f"{text}\n")


def text(told, *, error=False):
    return {"content": [{"type": "text", "text": told}], "isError": error}


def call(name, arguments, meta):
    note("calls", name)
    match name:
        case "read" | "pay":
            return text(
                f"{name} {arguments['n']} {meta.get('io.wakeful/idempotency-key', '')}".strip()
            )
        case "die_once" | "pay_and_die":
            if (FOLDER / "died").exists() and name == "die_once":
                return text("here again")
            note("died", name)
            sys.stderr.write("so long\n")
            sys.stderr.flush()
            os._exit(9)
        case "hang":
            time.sleep(600)
        case "fail" | "refuse":
            return text(f"no order {name}", error=True)
        case "picture":
            return {
                "content": [
                    {"type": "text", "text": "a whale"},
                    {"type": "image", "mimeType": "image/png", "data": "aGk="},
                    {"type": "resource", "resource": {"uri": "file:///a", "text": "kept"}},
                ]
            }
        case "long":
            return text("x" * (5 * 1024 * 1024))
        case "begin":
            child = subprocess.Popen(["sleep", "600"])
            return text(json.dumps([os.getpid(), child.pid]))
        case "who":
            return text(str(os.getpid()))
        case "odd":
            return {"content": [], "structuredContent": arguments}
    return None


def answer(method, params):
    if method == "initialize":
        served = {"tools": {"listChanged": True}}
        version = params["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": served,
            "serverInfo": {"name": "s", "version": "1"},
        }
    if method == "tools/list":
        listed = [
            {"name": name, "description": name, "inputSchema": schema, "annotations": hints}
            for name, (schema, hints) in TOOLS.items()
        ]
        return {"tools": listed}
    return call(params["name"], params.get("arguments") or {}, params.get("_meta") or {})


note("started", os.getpid())
if "deaf" in WORDS:
    time.sleep(600)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] not in ("initialize", "tools/list", "tools/call"):
        said["error"] = {"code": -32601, "message": "unknown method"}
    else:
        said["result"] = answer(asked["method"], asked.get("params") or {})
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()
if "stubborn" in WORDS:
    time.sleep(600)
