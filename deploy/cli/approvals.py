"""stub."""

import typer

app = typer.Typer()


@app.callback()
def _group() -> None:
    """A group."""
