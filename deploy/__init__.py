"""Composition: settings, command line and the local stack."""
