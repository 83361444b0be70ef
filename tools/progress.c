/* A line on stderr with keys, rate and time left, only when stderr is a terminal. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

static struct {
    pthread_mutex_t lock;
    bool active, shown;
    const char *what;
    uint64_t total, bytes, keys;
    double start, last;
} p = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_start(const char *what, uint64_t total_bytes)
{
    p.active = isatty(STDERR_FILENO) == 1;
    p.what = what;
    p.total = total_bytes;
    p.bytes = p.keys = 0;
    p.start = p.last = now();
}

static void show(double at)
{
    double seconds = at - p.start;
    double rate = seconds > 0 ? (double)p.keys / seconds : 0;

    fprintf(stderr, "\r\033[K%s: %llu key%s, %.2f M keys/s", p.what,
            (unsigned long long)p.keys, p.keys == 1 ? "" : "s", rate / 1e6);
    if (p.total > 0 && p.bytes > 0 && p.bytes <= p.total)
        fprintf(stderr, ", %.0f%%, %.0f s left",
                100 * (double)p.bytes / (double)p.total,
                seconds * (double)(p.total - p.bytes) / (double)p.bytes);
    fflush(stderr);
    p.shown = true;
}

void progress_advance(uint64_t n_keys, uint64_t n_bytes)
{
    double at;

    pthread_mutex_lock(&p.lock);
    p.keys += n_keys;
    p.bytes += n_bytes;
    at = p.active ? now() : p.last;
    if (at - p.last >= 0.2) {
        p.last = at;
        show(at);
    }
    pthread_mutex_unlock(&p.lock);
}

void progress_end(void)
{
    if (!p.active)
        return;
    p.total = 0;
    show(now());
    fprintf(stderr, ", %.1f s\n", now() - p.start);
    p.active = p.shown = false;
}

void progress_clear(void)
{
    pthread_mutex_lock(&p.lock);
    if (p.shown)
        fputs("\r\033[K", stderr);
    p.active = p.shown = false;
    pthread_mutex_unlock(&p.lock);
}
