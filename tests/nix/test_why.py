"""The last line of a failed `./bench`: the cause, whatever Nix prints after it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside  # reads a script of nix/, which no check of Nix has
SCRIPT = Path(__file__).parents[2] / "nix/why.sh"
NO_NETWORK = "what it is made of cannot be fetched without network"
HINT = "(use '--show-trace' to show detailed location information)"
BUILDER = "builder for '/nix/store/9c3b-made.drv' failed with exit code 1"
OF_NIX = (
    f"error: {BUILDER};\n       last 8 log lines:\n       > {{}}\n"
    "       For full logs, run 'nix log /nix/store/9c3b-made.drv'."
)


def why(folder: Path, log: str) -> str:
    (file := folder / "log").write_text(f"{log}\n")
    command = ["bash", "-euo", "pipefail", "-c", '. "$0"; why_not_built "$1"', str(SCRIPT), str(file)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize(
    "line",
    [
        "ConnectionError: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/click/",
        "after connection broken by 'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed'))'",
        "'ConnectTimeoutError(<HTTPSConnection object>, 'Connection to host.example timed out. (connect timeout=15)')'",
        "npm error request to https://host.example/left-pad failed, reason: getaddrinfo EAI_AGAIN packages",
        "npm error request to https://host.example/left-pad failed, reason: connect ECONNREFUSED 127.0.0.1:9",
        "[ERROR] Plugin maven-dependency-plugin:3.8.1 or one of its dependencies could not be resolved: Could not "
        "transfer artifact p:pom:3.8.1 from/to central (https://host.example/maven2): Connect to 127.0.0.1:9 "
        "failed: Connection refused (Connection refused)",
        "W: Failed to fetch http://host.example/debian/dists/sid/InRelease  Could not connect to host.example:80 "
        "(192.0.2.1). - connect (111: Connection refused)",
        "E: Failed to fetch http://host.example/x.deb  Temporary failure resolving: name resolution",
        "error: unable to download 'https://host.example/flake-registry.json': Couldn't resolve host name (6)",
    ],
)
def test_what_no_host_answers_is_a_lack_of_network(tmp_path: Path, line: str) -> None:
    assert why(tmp_path, f"{OF_NIX.format(line)}\n{HINT}") == f"{NO_NETWORK}\n"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (OF_NIX.format("make: *** [Makefile:7: all] Error 2"), BUILDER),
        (OF_NIX.format("FileNotFoundError: could not connect to server: no such file"), BUILDER),
        (f"error: {BUILDER}\nerror: 2 dependencies of derivation '/nix/store/a.drv' failed to build", BUILDER),
        ("error:\n       … while evaluating the file\n       error: undefined variable 'x'", "undefined variable 'x'"),
        ("error: undefined variable 'x'\n       at /nix/store/s/default.nix:3:1:", "undefined variable 'x'"),
        ("Killed", "Killed"),
    ],
)
def test_the_cause_of_any_other_failure_is_its_error_and_no_hint(tmp_path: Path, log: str, cause: str) -> None:
    assert why(tmp_path, log if cause == log else f"{log}\n{HINT}") == f"{cause}\n"
