"""Questions and answers over a pair of pipes, one line of JSON each; a question waits for the previous answer.

So the pipes are empty when another process takes them over: a step's relay takes them from the engine, and returns
them.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any

import workloads
from engine.core.lines import Fault, LineChannel, LineError, decoded, encoded
from engine.remote.clock_offset import ROUND_TRIPS, Offset, Trip, best

# Known to both sides: the descriptor of the remote page, and the password file's name.
PAGE_FD, PASSFILE = 100, "password"
ANSWER_S = 20.0


class Channel(LineChannel):
    """The near ends of the pipes: `reading` and `writing`."""

    def ask(self, question: dict[str, Any], timeout_s: float = ANSWER_S) -> dict[str, Any]:
        answer, _ = self.timed(question, timeout_s)
        return answer

    def timed(self, question: dict[str, Any], timeout_s: float = ANSWER_S) -> tuple[dict[str, Any], Trip]:
        """Return the answer, with its `came_ns` and `left_ns`, and the round trip. Raises LineError."""
        data = encoded(question)
        sent_ns = time.monotonic_ns()
        self.write(data, timeout_s)
        line = self.receive(timeout_s)
        received_ns = time.monotonic_ns()
        if self.pending:  # it would be taken for the answer to the next question
            raise LineError(Fault.MALFORMED, "it sent more than it was asked for")
        answer = decoded(line)
        try:
            trip = Trip(sent_ns, int(answer["came_ns"]), int(answer["left_ns"]), received_ns)
        except (ValueError, LookupError, TypeError, OverflowError):
            raise LineError(Fault.MALFORMED, f"its answer makes no sense: {line[:80]!r}") from None
        return answer, trip

    def offset(self) -> Offset:
        return best([self.timed({"do": "clock"})[1] for _ in range(ROUND_TRIPS)])


def code_digest() -> str:
    """Digest of the clients' code, which must be the same on both hosts for counts to mean the same."""
    digest, root = hashlib.sha256(), Path(workloads.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
