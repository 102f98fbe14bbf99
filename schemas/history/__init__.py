"""Older versions of records, byte for byte as they were released."""
