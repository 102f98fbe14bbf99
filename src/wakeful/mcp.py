"""`wakeful.mcp`: tools of MCP servers as activities; see docs/mcp.md. The SDK is not loaded before a worker connects."""

from .processors.mcp.claims import Claims
from .processors.mcp.errors import (
    Disconnected,
    NotConnected,
    SchemaChanged,
    ServerError,
    ToolFailed,
    ToolRefused,
    WrongManifest,
)
from .processors.mcp.servers import McpServer, McpTool, mcp_tools

__all__ = [
    "Claims",
    "Disconnected",
    "McpServer",
    "McpTool",
    "NotConnected",
    "SchemaChanged",
    "ServerError",
    "ToolFailed",
    "ToolRefused",
    "WrongManifest",
    "mcp_tools",
]
