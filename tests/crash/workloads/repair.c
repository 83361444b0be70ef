/* Repair of a store that is damaged: a page of a sealed filter has rotted, a file is
 * missing, a writer died, files lie about that nothing names, the catalog is lost. All
 * of the store is recorded: its own directory, filters/, quarantine/, and the catalogs.
 *
 * In each state no key is lost; filters are where they were, or in quarantine/;
 * a store that opens is as good as before, and lists what it should; another repair
 * completes (and is cut again), and after it one more finds nothing to do; an engine
 * can go on, and its edit sweeps nothing that is wanted. */
#include "tests/crash/workloads/inventory.h"
#include "tests/crash/workloads/workload.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tamis_repair_report repair(struct run *r, const char *path)
{
    struct tamis_repair_report report;
    struct tamis_diag diag;
    ours(r, tamis_store_repair(path, NULL, &report, &diag), "repair", &diag);
    return report;
}

/* Tells, and changes nothing. */
static void repair_dry(struct run *r, const char *path)
{
    struct tamis_repair_options opt = {.size = sizeof opt, .dry_run = 1};
    struct tamis_diag diag;
    uint64_t before = tree_hash(path);
    ours(r, tamis_store_repair(path, &opt, NULL, &diag), "dry run", &diag);
    if (tree_hash(path) != before)
        run_fail(r, "a dry run changed something");
}

/* An edit, which sweeps; a writer, which replays. */
static void go_on(struct run *r, const char *path, const char *when)
{
    char name[32];
    struct tamis_store *store;
    struct tamis_edit *e;
    struct tamis_writer *w;
    struct tamis_diag diag;
    ours(r, tamis_store_open(path, &store, &diag), "store_open", &diag);
    ours(r, tamis_edit_begin(store, &e, &diag), "edit_begin", &diag);
    snprintf(name, sizeof name, "%s %u", when, r->level);
    ours(r, tamis_edit_put_bare(e, name, strlen(name), NULL, &diag), "put", &diag);
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
    ours(r, tamis_store_writer(store, "g", 1, &w, &diag), "store_writer", &diag);
    uint64_t watermark = tamis_writer_watermark(w);
    if (watermark < r->promise.watermark || watermark > r->promise.asked)
        run_fail(r, "the writer reports watermark %llu", (unsigned long long)watermark);
    if (tamis_writer_close(w) != 0)
        run_fail(r, "the writer does not close");
    tamis_store_close(store);
    expect_kept(r, path);
    expect_inventory(r, path, false);
}

static void check_repaired(struct run *r, const struct disk_state *s, uint64_t hash,
                           bool deep)
{
    char image[RUN_PATH_BYTES];
    r->now = s;
    snprintf(image, sizeof image, "%.200s-%u", r->dir, r->level);
    tree_put(s, image);
    expect_kept(r, image);
    bool opens = expect_inventory(r, image, false);
    if (opens && hash / 512 % 4 == 0) /* nobody knows that a repair was cut */
        go_on(r, image, "before");
    bool record = deep || (r->level == 0 && hash / 65536 % 8 == 0);
    if (hash / 512 % 4 == 1)
        repair_dry(r, image);
    struct run *next = inventory_next(r, image, hash, record);
    repair(next, image);
    inventory_end(next);
    expect_kept(r, image);
    expect_inventory(r, image, true);
    struct tamis_repair_report again = repair(r, image);
    if (again.n_finished || again.n_rebuilt || again.n_quarantined || again.n_swept)
        run_fail(r, "after a repair there is something to repair");
    expect_inventory(r, image, true);
    go_on(r, image, "after");
    r->now = NULL;
}

void run_repair(struct run *r)
{
    static struct store_run s;
    char path[RUN_PATH_BYTES];
    if (r->round % 3) /* its states are slow ones */
        return;
    memset(&s, 0, sizeof s);
    r->store = &s;
    snprintf(path, sizeof path, "%.200s/s", r->dir);
    recording = NULL;
    inventory_make(r, path);
    for (size_t n = (size_t)rng_below(&r->rng, 6); n > 0; n--)
        session_add(r, r->promise.n_keys);
    if (rng_below(&r->rng, 3))
        session_kill(r);
    else
        session_close(r);
    tamis_store_close(s.store);
    inventory_damage(r, path, r->round / 3 % 2 == 0);
    record_begin(r, r->workload, path, rng_next(&r->rng));
    r->check = check_repaired;
    r->tree = true;
    tree_note(r, true);
    recording = r;
    record_event(r);
    repair(r, path);
    r->promised_aside = 1;
    record_event(r);
}
