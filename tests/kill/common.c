/* Shared by all processes of the kill test: keys, paths, and the report of a loss. */
#include "tests/kill/kill.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct shared *shared;
char test_dir[PATH_BYTES];
uint64_t run_seed;

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t mix64(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ b * UINT64_C(0xD6E8FEB86659FD93)) + UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t rng_next(uint64_t *state)
{
    return mix64(*state += UINT64_C(0x9E3779B97F4A7C15), 0);
}

uint64_t rng_below(uint64_t *state, uint64_t n)
{
    return rng_next(state) % n;
}

struct tamis_domain the_domain(void)
{
    struct tamis_domain d;
    tamis_domain_init(&d, 1, run_seed);
    return d;
}

struct tamis_key key_at(const struct tamis_domain *d, enum mode log, uint64_t position,
                        bool stranger)
{
    uint64_t salt = (stranger ? 4U : 2U) + (log == MODE_LONE);
    struct le64 bytes = le64_of(mix64(mix64(run_seed, salt), position));
    struct tamis_key key = tamis_key_of(d, &bytes, sizeof bytes);
    key.bytes = NULL; /* so that a stranger is not out of every range */
    return key;
}

const char *path_to(const char *format, ...)
{
    static _Thread_local char paths[4][2 * PATH_BYTES];
    static _Thread_local unsigned next;
    char *p = paths[next++ % 4];
    va_list args;
    size_t n = (size_t)snprintf(p, sizeof paths[0], "%s/", test_dir);
    va_start(args, format);
    vsnprintf(p + n, sizeof paths[0] - n, format, args);
    va_end(args);
    return p;
}

void lost(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    shared->n_lost++;
    fprintf(stderr, "LOST: %s\n  process %ld; run with seed %llu\n", text,
            (long)getpid(), (unsigned long long)run_seed);
    _exit(3);
}

_Noreturn void model_broken(const char *text)
{
    lost("%s", text);
}

void must(int rc, const char *doing, const struct tamis_diag *diag)
{
    if (rc)
        lost("%s: %s (%s: %s)", doing, tamis_strerror(rc), diag ? diag->file : "",
             diag ? diag->what : "");
}

/* A child that was just forked has its copies of all descriptors until it gets the
 * processor for the first time; its parent may be dead and succeeded by then. A lock
 * that it keeps for longer is kept for ever. */
bool try_again(void)
{
    static _Thread_local unsigned n;
    struct timespec t = {0, 100000};
    nanosleep(&t, NULL);
    shared->n_busy++;
    shared->waiting = 1;
    return ++n < 30000;
}

void raise_to(_Atomic uint64_t *v, uint64_t at_least)
{
    uint64_t old = atomic_load(v);
    while (old < at_least && !atomic_compare_exchange_weak(v, &old, at_least))
        ;
}
