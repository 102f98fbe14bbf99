"""The stored format: one Avro file per record, changed only by adding."""

from .library import Library, SchemaVersion, bundled

__all__ = ["Library", "SchemaVersion", "bundled"]
