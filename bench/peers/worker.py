"""A peer's worker process: started in its own environment, told things on its stdin, ended by its pid."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

READY = "READY"
END_LIMIT_S = 10.0


class Worker:
    """`python -m MODULE ARGUMENTS …`; usable in a `with`, at whose end it is ended."""

    def __init__(
        self, module: str, arguments: Sequence[str], *, environ: Mapping[str, str], log: Path
    ) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environ),
                text=True,
            )
        self._module, self._log = module, log
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        try:
            self._wait_ready()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def tell(self, what: Mapping[str, object]) -> None:
        """One line of JSON on its stdin."""
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """SIGTERM, and SIGKILL where that is not heard. A repeat does nothing."""
        self._process.terminate()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_ready(self) -> None:
        for line in self._process.stdout:
            if line.strip() == READY:
                return
        code = self._process.wait()
        raise RuntimeError(f"{self._module} ended with {code} before it was ready: see {self._log}")
