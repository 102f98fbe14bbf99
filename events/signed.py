"""The header of a command that names the key that signed it; `commands/signatures.py` has what is signed, and how."""

KEY_HEADER = "wakeful_key"
"""The key's id, UTF-8. An event keeps it as `vouched_by`."""
