"""Names in a home (`WAKEFUL_HOME`) that more than one part of this package knows."""

KEYS_FILE = "keys.json"
"""The keyring: made by `wakeful up`, used where `WAKEFUL_KEYS` names no other."""
