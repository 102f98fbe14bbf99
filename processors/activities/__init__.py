"""Activities: their contracts and declarations, and the worker that runs them."""
