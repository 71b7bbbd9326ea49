"""Small C programs for the probes' tests: with functions named like a server's, so that the real scripts attach."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Compile = Callable[..., Path]

# First instructions as wanted, whatever the compiler would choose.
PUSH = ("-O0", "-fno-omit-frame-pointer", "-fcf-protection=none")
ENDBR = ("-O1", "-fcf-protection=full")

# A USDT site as <sys/sdt.h> makes it, without needing that header.
SDT = r"""
#define SITE(provider, name) __asm__ volatile( \
    "990: nop\n" \
    ".pushsection .note.stapsdt,\"\",\"note\"\n .balign 4\n" \
    ".4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n" \
    "993: .8byte 990b\n .8byte _.stapsdt.base\n .8byte 0\n" \
    ".asciz \"" provider "\"\n .asciz \"" name "\"\n .asciz \"\"\n" \
    "994: .balign 4\n .popsection\n" \
    ".ifndef _.stapsdt.base\n" \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n .hidden _.stapsdt.base\n _.stapsdt.base: .space 1\n" \
    ".size _.stapsdt.base, 1\n .popsection\n.endif\n")
"""

# Plans for a while, as often as asked: `durations` are pairs of microseconds and count. Waits for a line first.
PLANNER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
__attribute__((noinline)) void FlushErrorState(void) { __asm__ volatile(""); }
__attribute__((noinline)) void pg_plan_query(long long us, int asleep) {
  START
  long long until = now() + us * 1000;
  if (asleep) { struct timespec t = { us / 1000000, us % 1000000 * 1000 }; nanosleep(&t, 0); }
  while (now() < until) { }
  DONE
}
int main(int argc, char **argv) {
  char line[64];
  if (!fgets(line, sizeof line, stdin)) return 1;
  for (int i = 2; i + 1 < argc; i += 2)
    for (int n = atoi(argv[i + 1]); n > 0; n--) pg_plan_query(atoll(argv[i]), atoi(argv[1]));
  puts("done"); fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) return 1;
  return 0;
}
"""

# Has children that plan once each and end, so many as it is told and `argv[2]` us apart, on each line that it reads.
FORKER = (
    PLANNER.partition("int main")[0]
    + r"""
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char line[64];
  while (fgets(line, sizeof line, stdin)) {
    for (int n = atoi(argv[1]); n > 0; n--) {
      pid_t child = fork();
      if (child == 0) { pg_plan_query(20, 0); _exit(0); }
      waitpid(child, 0, 0);
      usleep(atoi(argv[2]));
    }
    puts("done"); fflush(stdout);
  }
  return 0;
}
"""
)

# Two pairs of children that wake each other in turn, as fast as they can and until they are killed.
WAKERS = r"""
#include <stdio.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
static void turns(int in, int out) {
  char token = 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) { write(out, &token, 1); read(in, &token, 1); }
}
int main(void) {
  char line[64];
  if (!fgets(line, sizeof line, stdin)) return 1;
  for (int pair = 0; pair < 2; pair++) {
    int a[2], b[2];
    pipe(a); pipe(b);
    if (fork() == 0) turns(a[0], b[1]);
    if (fork() == 0) turns(b[0], a[1]);
  }
  puts("done"); fflush(stdout);
  pause();
  return 0;
}
"""

# Children, argv[1] of them, that sleep for so short a time that the timer may wake them before they have left the CPU,
# and for 0.1 s once that has happened. Until they are killed.
RACERS = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
static void doze(void) {
  struct rusage before, after;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1);
  for (long ns = 1;; ns = 1 + (ns + 10) % 3000) {
    struct timespec brief = { 0, ns }, lasting = { 0, 100000000 };
    getrusage(RUSAGE_SELF, &before);
    nanosleep(&brief, 0);
    getrusage(RUSAGE_SELF, &after);
    if (after.ru_nvcsw == before.ru_nvcsw) nanosleep(&lasting, 0);
  }
}
int main(int argc, char **argv) {
  char line[64];
  if (!fgets(line, sizeof line, stdin)) return 1;
  for (int n = atoi(argv[1]); n > 0; n--) if (fork() == 0) doze();
  puts("done"); fflush(stdout);
  pause();
  return 0;
}
"""


def compiler(folder: Path) -> Compile:
    """A function that compiles C text to a program in `folder`: compile(name, source, *flags)."""
    program = shutil.which("cc") or shutil.which("gcc")
    if program is None:
        pytest.fail("no C compiler on PATH: these tests compile small programs; install gcc", pytrace=False)

    def compile_(name: str, source: str, *flags: str) -> Path:
        text, binary = folder / f"{name}.c", folder / name
        text.write_text(SDT + source)
        command: Sequence[str] = (program, "-w", *flags, str(text), "-o", str(binary))
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return binary

    return compile_
