"""`python -m wakeful` is the command line, for machines where the script is not on the path."""

import sys


def main() -> int:
    """Run the command line; without the extra that carries it, say in one sentence what to install."""
    try:
        from .deploy.cli import main as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("wakeful"):
            raise
        sys.stderr.write(
            f"wakeful: the command line needs {missing.name}: pip install 'wakeful[service]'\n"
        )
        return 2
    run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
