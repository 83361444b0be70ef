/* A progress line on stderr: work done, rate, time left. Only on a terminal. */
#include <pthread.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"
#include "talk.h"

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
    p.active = is_terminal(STDERR_FILENO);
    p.what = what;
    p.total = total_bytes;
    p.bytes = p.keys = 0;
    p.start = p.last = now();
}

static const char *rate_text(char text[TEXT_BYTES], double rate)
{
    if (rate >= 1e5)
        snprintf(text, TEXT_BYTES, "%.2f M keys/s", rate / 1e6);
    else
        snprintf(text, TEXT_BYTES, "%.0f keys/s", rate);
    return text;
}

/* "2:05" from a minute on. */
static void span_text(char text[TEXT_BYTES], double seconds)
{
    unsigned long s = seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 1000000000;
    if (s >= 3600)
        snprintf(text, TEXT_BYTES, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else if (s >= 60)
        snprintf(text, TEXT_BYTES, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(text, TEXT_BYTES, "%lu s", s);
}

/* Not past the edge: the next line would not overwrite a wrapped one. */
static void show(double at, bool done)
{
    double seconds = at - p.start > 1e-9 ? at - p.start : 1e-9;
    char line[256], rate[TEXT_BYTES], left[TEXT_BYTES];
    int n, width = (int)screen_width(STDERR_FILENO) - 1;
    if (p.keys > 0)
        n = snprintf(line, sizeof(line), "%s: %s, %s", p.what, COUNTED(p.keys, "key"),
                     rate_text(rate, (double)p.keys / seconds));
    else
        n = snprintf(line, sizeof(line), "%s: %s, %s/s", p.what, SIZE(p.bytes),
                     SIZE((double)p.bytes / seconds));
    if (done) {
        snprintf(line + n, sizeof(line) - (size_t)n, ", %.1f s", seconds);
    } else if (p.bytes > 0 && p.bytes <= p.total) {
        span_text(left, seconds * (double)(p.total - p.bytes) / (double)p.bytes);
        snprintf(line + n, sizeof(line) - (size_t)n, ", %.0f%%, %s left",
                 100 * (double)p.bytes / (double)p.total, left);
    }
    fprintf(stderr, "\r\033[K%.*s", width, line);
    fflush(stderr);
    p.shown = true;
}

void progress_advance(uint64_t n_keys, uint64_t n_bytes)
{
    pthread_mutex_lock(&p.lock);
    p.keys += n_keys;
    p.bytes += n_bytes;
    double at = p.active ? now() : p.last;
    if (at - p.last >= 0.2) {
        p.last = at;
        show(at, false);
    }
    pthread_mutex_unlock(&p.lock);
}

void progress_end(void)
{
    if (!p.active)
        return;
    show(now(), true);
    fputc('\n', stderr);
    p.active = p.shown = false;
}

static void wipe(bool for_good)
{
    pthread_mutex_lock(&p.lock);
    if (p.shown)
        fputs("\r\033[K", stderr);
    p.shown = false;
    p.active = p.active && !for_good;
    pthread_mutex_unlock(&p.lock);
}

void progress_wipe(void)
{
    wipe(false);
}

void progress_clear(void)
{
    wipe(true);
}

void progress_close(const char *format, ...)
{
    bool active = p.active;
    double seconds = now() - p.start;
    char rate[TEXT_BYTES];
    va_list args;
    progress_clear();
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (active)
        fprintf(stderr, ", %s, %.1f s",
                rate_text(rate, (double)p.keys / (seconds > 1e-9 ? seconds : 1e-9)),
                seconds);
    fputc('\n', stderr);
}
