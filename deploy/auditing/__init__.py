"""What an auditor does with a history, live or exported: where it is read from, replaying, exporting, comparing."""
