"""The stored format: one Avro file per record, changed only by adding."""
