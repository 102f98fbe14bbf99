"""`python -m wakeful` is the command line, for machines where the script is not on the path."""

import gc
import sys


def main() -> int:
    """Run the command line; without the extra that carries it, say in one sentence what to install."""
    gc.disable()  # what is imported lives to the end: looking through it took a tenth of a start
    try:
        from .deploy.cli import main as run
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("wakeful"):
            raise
        sys.stderr.write(
            f"wakeful: the command line needs {missing.name}: pip install 'wakeful[service]'\n"
        )
        return 2
    gc.freeze()
    gc.enable()
    run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
