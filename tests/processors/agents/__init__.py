"""The model port, without a network: endpoints are local, and say what a test tells them to."""
