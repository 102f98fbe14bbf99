"""Tools of MCP servers as activities; users import `wakeful.mcp`. The SDK is loaded when a worker connects, and not before."""
