"""The command line, `wakeful`: arguments in, one call of the code that does it, words or JSON out."""

from __future__ import annotations

from .main import app, main

__all__ = ["app", "main"]
