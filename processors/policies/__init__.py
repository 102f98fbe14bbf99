"""Policy sets in Cedar: the engine behind the `Policy` port, the schema that sets keep to, files of sets, and their tests."""
