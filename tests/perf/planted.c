/* Preloaded into a server: recv(), which its backends read messages with, takes a while longer after each message.
 * A loop does that, not a clock: reading a clock may cost a microsecond, and would count the time in which somebody
 * else has the CPU. How long it runs is in a file that all processes of the server map; see planted.py. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long *iterations; /* after each message */

__attribute__((noinline)) static void spin(long count) {
  for (long i = 0; i < count; i++) __asm__ volatile("");
#if defined(__x86_64__)
  __asm__ volatile("lfence"); /* nothing of the loop is hidden behind what follows */
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

__attribute__((constructor)) static void map(void) {
  const char *path = getenv("PGBED_PLANTED");
  int file = path ? open(path, O_RDWR) : -1;
  void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof *iterations, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (found == MAP_FAILED) abort(); /* a server without it would pass for one with it */
  close(file);
  iterations = found;
}

ssize_t recv(int socket, void *buffer, size_t length, int flags) {
  ssize_t got = syscall(SYS_recvfrom, socket, buffer, length, flags, 0, 0);
  if (got > 0) spin(*iterations);
  return got;
}
