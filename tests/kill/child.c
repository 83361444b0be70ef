/* A forked child that outlives its parent, the writer (R14): what it inherited refuses
 * to work, but for filters; and it keeps no lock, which the next writer will find out.
 */
#include "tests/kill/kill.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

struct live live;

static void expect_forked(int rc, const char *what)
{
    if (rc != TAMIS_ERR_FORKED)
        lost("in a forked child %s gets %d (%s)", what, rc, tamis_strerror(rc));
}

static void try_all(void)
{
    struct tamis_store_info info;
    struct tamis_edit *edit;
    struct tamis_domain d = the_domain();
    if (live.writer) {
        expect_forked(tamis_writer_add_key(live.writer, "x", 1), "an add");
        expect_forked(tamis_writer_commit(live.writer, UINT64_MAX, NULL), "a commit");
        expect_forked(tamis_writer_seal(live.writer, UINT64_MAX, NULL, NULL), "a seal");
    }
    if (live.store) {
        expect_forked(tamis_store_info(live.store, &info, NULL), "a store");
        expect_forked(tamis_edit_begin(live.store, &edit, NULL), "an edit");
    }
    if (live.filter) {
        uint64_t n = shared->log[MODE_LONE].acked;
        struct tamis_key key = key_at(&d, MODE_LONE, n - 1, false);
        if (n > live.filter_number * LONE_KEYS &&
            n <= (live.filter_number + 1) * LONE_KEYS &&
            tamis_filter_probe(live.filter, &key, NULL))
            lost("in a forked child a key is ABSENT");
    }
    if (live.writer)
        shared->n_refused++;
}

void child_leave(const struct orders *o, bool tries)
{
    char byte;
    if (fork() != 0)
        return;
    close(o->hold[1]);
    if (tries)
        try_all();
    shared->n_children++;
    while (read(o->hold[0], &byte, 1) > 0)
        ;
    _exit(0);
}

/* At a random instant, whatever the other threads are at. */
static void *fork_once(void *arg)
{
    const struct orders *o = arg;
    struct timespec t = {0, (long)(o->seed % 8000000)};
    nanosleep(&t, NULL);
    child_leave(o, false);
    return NULL;
}

void child_thread(const struct orders *o)
{
    static struct orders ours;
    pthread_t thread;
    ours = *o;
    if (pthread_create(&thread, NULL, fork_once, &ours) != 0)
        lost("no thread");
    pthread_detach(thread);
}
