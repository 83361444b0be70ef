/* Threads for the time of one call: started, put to work some times, joined before the
 * call returns. If none can be started the caller's thread does all the work.
 *
 *     threads_start(), threads_run() for each piece of work, threads_end()
 *
 * Warning: they make no calls that write. Files belong to the caller's thread, which
 * alone gets the signals of the process. */
#ifndef TAMIS_IO_THREADS_H
#define TAMIS_IO_THREADS_H

#include <stdbool.h>

struct threads;
/* Starts up to n - 1 threads beside the caller's; NULL if none start. All signals are
 * blocked in them, but with read_mappings SIGBUS is as in the caller's thread. */
struct threads *threads_start(unsigned n, bool read_mappings);
unsigned threads_size(const struct threads *threads); /* with the caller; of NULL 1 */
/* All run fn, the caller as number 0. Returns when all have returned. */
void threads_run(struct threads *threads, void (*fn)(void *ctx, unsigned number),
                 void *ctx);
void threads_end(struct threads *threads);

#endif
