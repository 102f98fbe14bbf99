"""A small MCP server over stdio, as anybody's could be: orders are read, and paid back."""

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

shop = MCPServer("desk")


@shop.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_order(order_id: str) -> dict[str, object]:
    """Finds an order, and what it has cost, in cents."""
    return {"id": order_id, "item": "lamp", "cents": 25_000}


@shop.tool(annotations=ToolAnnotations(idempotent_hint=True, destructive_hint=False))
def label(order_id: str, text: str) -> str:
    """Writes a label on an order; the same once more changes nothing."""
    return f"{order_id} is labelled {text!r}"


@shop.tool()
def refund(order_id: str, cents: int, request_id: str = "") -> str:
    """Pays back what an order has cost."""
    if cents > 100_000:
        raise ValueError("that is more than anything costs here")
    return f"{cents / 100:.2f} paid back for order {order_id}"


if __name__ == "__main__":
    shop.run()
