/* Preloaded into a server: recv(), which its backends read messages with, takes a while longer after each message.
 * A loop does that, not a clock: reading a clock may cost a microsecond, and would count the time in which somebody
 * else has the CPU. How long it runs is in a file that all processes of the server map; see slices_planted.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 1000

static volatile struct planted {
  long iterations; /* after each message */
  long asked;      /* a backend that is to tell how long that takes, by its process id; it writes 0 when it has */
  long took_ns;    /* CPU time of ROUNDS times so many iterations */
} *planted;

__attribute__((noinline)) static void spin(long iterations) {
  for (long i = 0; i < iterations; i++) __asm__ volatile("");
#if defined(__x86_64__)
  __asm__ volatile("lfence"); /* nothing of the loop is hidden behind what follows */
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

static long cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

__attribute__((constructor)) static void map(void) {
  const char *path = getenv("PGBED_PLANTED");
  int file = path ? open(path, O_RDWR) : -1;
  void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof *planted, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (found == MAP_FAILED) abort(); /* a server without it would pass for one with it */
  close(file);
  planted = found;
}

ssize_t recv(int socket, void *buffer, size_t length, int flags) {
  ssize_t got = syscall(SYS_recvfrom, socket, buffer, length, flags, 0, 0);
  if (got > 0) {
    if (planted->asked && planted->asked == getpid()) {
      long began = cpu_ns();
      for (int i = 0; i < ROUNDS; i++) spin(planted->iterations);
      planted->took_ns = cpu_ns() - began;
      planted->asked = 0;
    }
    spin(planted->iterations);
  }
  return got;
}
