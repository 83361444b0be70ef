/* A writer's life without a store: lone filters are created, filled and sealed one
 * after the other; and stores are created, which takes turns. */
#include "tests/kill/kill.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <unistd.h>

/* Removes what a cut creation leaves; no store is there to sweep it. */
static void remove_temporaries(void)
{
    DIR *d = opendir(path_to("lone"));
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".tmp"))
            unlink(path_to("lone/%s", e->d_name));
    if (d)
        closedir(d);
}

static int open_or_create(uint64_t number, struct tamis_writer **w,
                          struct tamis_diag *diag)
{
    struct tamis_domain domain = the_domain();
    struct tamis_writer_options opt = {.size = sizeof opt, .domain = &domain};
    opt.growth =
        (struct tamis_growth){.error = 1e-3, .factor = 1.3, .first_capacity = 200};
    shared->phase = PHASE_OPEN;
    const char *path = path_to("lone/%llu", (unsigned long long)number);
    int rc;
    do
        rc = tamis_writer_open(path, w, diag);
    while (rc == TAMIS_ERR_BUSY && try_again());
    if (rc == ENOENT && number >= shared->lone_made) {
        shared->phase = PHASE_CREATE;
        rc = tamis_writer_create(path, &opt, w, diag);
        shared->n_created += rc == 0;
    }
    if (rc == 0)
        raise_to(&shared->lone_made, number + 1);
    live.alone = rc == 0 && number % 2; /* the others are everybody's */
    if (live.alone)
        must(tamis_writer_one_thread(*w), "one_thread", diag);
    return rc;
}

static void drop_old(uint64_t number)
{
    uint64_t keep = number > 3 ? number - 3 : 0;
    raise_to(&shared->lone_dropped, keep);
    for (uint64_t i = keep > 8 ? keep - 8 : 0; i < keep; i++)
        unlink(path_to("lone/%llu", (unsigned long long)i));
}

static void seal(struct tamis_writer *w, uint64_t end)
{
    struct tamis_filter_info info;
    struct tamis_diag diag;
    must(tamis_writer_info(w, &info), "info", NULL);
    shared->n_growths += info.n_stages - 1;
    raise_to(&shared->log[MODE_LONE].asked, end);
    shared->phase = PHASE_SEAL;
    must(tamis_writer_seal(w, end, NULL, &diag), "seal", &diag);
    raise_to(&shared->log[MODE_LONE].acked, end);
    shared->n_seals++;
}

static void fill(const struct orders *o, uint64_t *rng, struct tamis_writer *w,
                 uint64_t number)
{
    uint64_t base = number * LONE_KEYS, end = base + LONE_KEYS;
    uint64_t from = resume_from(w, MODE_LONE, base);
    bool whole = rng_below(rng, 3) > 0;
    uint64_t to = whole ? end : from + rng_below(rng, end - from + 1);
    add_and_commit(o, rng, w, MODE_LONE, from, to);
    if (whole)
        seal(w, end);
    live.writer = NULL;
    shared->phase = PHASE_CLOSE;
    must(tamis_writer_close(w), "close", NULL);
}

void lone_writer(const struct orders *o)
{
    uint64_t rng = o->seed, made = shared->lone_made, number = made ? made - 1 : 0;
    struct tamis_diag diag;
    struct tamis_writer *w;
    remove_temporaries();
    trap_allow_child(true);
    if (made)
        tamis_filter_open(path_to("lone/%llu", (unsigned long long)number), NULL,
                          &live.filter, NULL);
    live.filter_number = number;
    if (o->child == CHILD_OF_THREAD)
        child_thread(o);
    do {
        int rc = open_or_create(number, &w, &diag);
        if (rc == TAMIS_ERR_SEALED) {
            if (shared->log[MODE_LONE].asked < (number + 1) * LONE_KEYS)
                lost("sealed, and nobody had asked for it");
            raise_to(&shared->log[MODE_LONE].acked, (number + 1) * LONE_KEYS);
            drop_old(number++);
            continue;
        }
        must(rc, "opening or creating a lone filter", &diag);
        live.writer = w;
        fill(o, &rng, w, number);
    } while (!shared->stop);
}

/* ---- stores ---- */

static int remove_one(const char *path, const struct stat *st, int flag,
                      struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void use_new_store(void)
{
    struct tamis_store_info info;
    struct tamis_edit *e;
    struct tamis_diag diag;
    trap_allow_child(false);
    struct tamis_store *s = open_store(path_to("new"));
    trap_allow_child(true);
    must(tamis_store_info(s, &info, &diag), "info of a new store", &diag);
    if (!info.complete || info.n_segments > 1)
        lost("a new store is not whole");
    must(tamis_edit_begin(s, &e, &diag), "edit_begin", &diag);
    int rc = tamis_edit_put_growing(e, "x", 1, NULL, NULL, &diag);
    if (rc != TAMIS_ERR_EXISTS)
        must(rc, "put", &diag);
    must(tamis_edit_commit(e, &diag), "edit_commit", &diag);
    trap_allow_child(false);
    tamis_store_close(s);
    trap_allow_child(true);
}

/* Whatever the one before left: a store is there, or can be created. */
void creator(const struct orders *o)
{
    struct tamis_domain domain = the_domain();
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    struct tamis_diag diag;
    nftw(path_to("old"), remove_one, 8, FTW_DEPTH | FTW_PHYS);
    trap_allow_child(true);
    if (o->child == CHILD_OF_THREAD)
        child_thread(o);
    do {
        shared->phase = PHASE_CREATE;
        int rc = tamis_store_create(path_to("new"), &opt, &diag);
        if (rc != TAMIS_ERR_EXISTS)
            must(rc, "creating a store", &diag);
        if (rc == 0 && shared->store_made)
            lost("a store that had been created is gone");
        shared->store_made = shared->ready = 1;
        shared->n_created++;
        use_new_store();
        shared->store_made = 0;
        if (rename(path_to("new"), path_to("old")) != 0)
            lost("rename: %s", strerror(errno));
        nftw(path_to("old"), remove_one, 8, FTW_DEPTH | FTW_PHYS);
    } while (!shared->stop);
}
