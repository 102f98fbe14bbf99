"""`wakeful mcp`: manifests of other people's MCP servers, and Wakeful as one."""
