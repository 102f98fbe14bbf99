"""An agent whose tools are those of an MCP server, as people have reviewed them in mcp_desk.toml."""

import sys
from pathlib import Path

from wakeful.agents import AgentLoop, ScriptedModel, ToolCall
from wakeful.mcp import McpServer

HERE = Path(__file__).parent
FIND = ToolCall("", "desk_find_order", {"order_id": "7"})
REFUND = ToolCall("", "desk_refund", {"order_id": "7", "cents": 25_000})
SCRIPT = {
    "paid back": "It is on its way.",
    "lamp": REFUND,
    "^Not": "I may not do that.",
    ".*": FIND,
}

shop = McpServer(
    "desk",
    command=[sys.executable, str(HERE / "mcp_server.py")],
    manifest=HERE / "mcp_desk.toml",
)
desk = AgentLoop(
    name="mcp-desk",
    version=1,
    model=ScriptedModel(SCRIPT),
    prompt="You work for a shop's customers. Find an order before you refund it.",
    tools=shop.tools,
)
