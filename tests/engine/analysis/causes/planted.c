/* Preloaded into a server, so that it takes longer for a known reason: the executor in a function that the statement
 * calls, or a commit in making its WAL safe. How much longer is in the environment; what is not there is 0. */
#include <stdlib.h>
#include <unistd.h>

static long planted(const char *name) {
  const char *value = getenv(name);
  return value ? atol(value) : 0;
}

double sin(double x) {
  for (volatile long i = planted("PLANTED_LOOPS"); i > 0; i--)
    ;
  return x;
}

int fdatasync(int file) {
  usleep(planted("PLANTED_SYNC_US"));
  return 0;
}
