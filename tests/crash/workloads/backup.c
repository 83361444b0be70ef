/* Backup of a store whose growing filter is being written. What is recorded is the
 * directory in which both are.
 *
 * In each state the store is as it was; the copy is not there, or it is whole:
 * it opens, lists every segment and has every key that had been acknowledged before;
 * once the call has returned it is there. Where it is not, another backup makes it. */
#include "tests/crash/workloads/inventory.h"
#include "tests/crash/workloads/workload.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DONE = 1 }; /* in promised_aside: the backup has returned */

static void backup(struct run *r, struct tamis_store *store, const char *dir)
{
    char path[RUN_PATH_BYTES];
    struct tamis_diag diag;
    snprintf(path, sizeof path, "%.200s/t", dir);
    ours(r, tamis_store_backup(store, path, NULL, NULL, NULL, &diag), "backup", &diag);
    r->promised_aside = DONE;
}

static void backup_again(struct run *r, const char *image, uint64_t hash, bool record)
{
    char from[RUN_PATH_BYTES];
    struct tamis_store *store;
    struct tamis_diag diag;
    snprintf(from, sizeof from, "%.200s/s", image);
    struct run *next = inventory_next(r, image, hash, record);
    ours(next, tamis_store_open(from, &store, &diag), "store_open", &diag);
    backup(next, store, image);
    inventory_end(next);
    tamis_store_close(store);
}

static void check_backup(struct run *r, const struct disk_state *s, uint64_t hash,
                         bool deep)
{
    char image[RUN_PATH_BYTES], from[RUN_PATH_BYTES], to[RUN_PATH_BYTES];
    r->now = s;
    snprintf(image, sizeof image, "%.190s-%u", r->dir, r->level);
    snprintf(from, sizeof from, "%.200s/s", image);
    snprintf(to, sizeof to, "%.200s/t", image);
    tree_put(s, image);
    expect_kept(r, from);
    expect_inventory(r, from, false);
    bool there = access(to, F_OK) == 0;
    if (!there && r->promised_aside == DONE)
        run_fail(r, "the backup is not there");
    if (!there && (deep || hash / 65536 % 16 == 0)) {
        backup_again(r, image, hash, deep || (r->level == 0 && hash / 65536 % 64 == 0));
        there = true;
    }
    if (there) {
        expect_kept(r, to);
        expect_inventory(r, to, false);
    }
    r->now = NULL;
}

void run_backup(struct run *r)
{
    static struct store_run s;
    char path[RUN_PATH_BYTES], from[RUN_PATH_BYTES];
    if (r->round % 4 != 3)
        return;
    memset(&s, 0, sizeof s);
    r->store = &s;
    snprintf(path, sizeof path, "%.180s/b", r->dir);
    snprintf(from, sizeof from, "%.200s/s", path);
    recording = NULL;
    if (mkdir(path, 0700) != 0)
        abort();
    inventory_make(r, from);
    inventory_damage(r, from, false);
    record_begin(r, r->workload, path, rng_next(&r->rng));
    r->check = check_backup;
    r->tree = true;
    tree_note(r, true);
    recording = r;
    for (size_t n = (size_t)rng_below(&r->rng, 3); n > 0; n--)
        session_add(r, r->promise.n_keys);
    if (rng_below(&r->rng, 2))
        session_commit(r);
    session_add(r, r->promise.n_keys);
    backup(r, s.store, path);
    record_event(r);
    recording = NULL;
    session_close(r);
    tamis_store_close(s.store);
}
