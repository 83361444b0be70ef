/* The checks of a store that is repaired or copied: no key is lost, no filter goes
 * away, and what was good stays as good. */
#include "tests/crash/workloads/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- segments and keys ---- */

/* A good filter is used; where two claim to be it, only a catalog knows which it is. */
static bool has_filter(const struct item *it)
{
    return it->worth == GOOD || (it->worth == TWICE && !inventory.lost);
}

static void expect_item(const struct run *r, struct tamis_snapshot *snapshot,
                        const struct item *it, bool repaired)
{
    struct tamis_target target;
    struct tamis_segment_info info;
    struct tamis_filter *f;
    struct tamis_diag diag;
    struct log_part part = {r, it->from};
    struct promised_filter p = promised_by(r, false);
    p.grows = it->growing;
    p.keys = (struct promised_keys){
        key_of_part, &part, it->growing ? (size_t)r->promise.watermark : it->n_keys};
    p.any_damage = !has_filter(it);
    int err =
        tamis_snapshot_find(snapshot, it->name, strlen(it->name), NULL, 0, 0, &target);
    bool unknowable = it->worth == BARE || it->worth == GONE;
    if (err && !(inventory.lost && unknowable))
        run_fail(r, "segment %s is not listed", it->name);
    for (size_t i = 0; err && i < p.keys.n; i += i < 4 ? 1 : 50) {
        struct tamis_key key;
        key_of_part(&part, i, &key);
        if (tamis_snapshot_probe_all(snapshot, &key, NULL, NULL) == TAMIS_ABSENT)
            run_fail(r, "key %zu of segment %s is ABSENT everywhere", i, it->name);
    }
    if (err)
        return;
    size_t index = target.slot - 1;
    expect_keys_of_segment(it->name, snapshot, index, &p.keys, TAMIS_NO_REASON);
    /* The filter itself: a list that is not confirmed answers nothing of it. */
    err = tamis_snapshot_filter(snapshot, index, &f, &diag);
    if (err && has_filter(it))
        run_fail(r, "segment %s has lost its good filter: %s", it->name, diag.what);
    if (!err && has_filter(it))
        expect_filter(it->name, f, &p);
    else if (!err)
        expect_keys(it->name, f, &p.keys, true);
    tamis_snapshot_segment(snapshot, index, &info);
    if (repaired && it->worth == ROTTEN && info.state != TAMIS_SEGMENT_BARE)
        run_fail(r, "segment %s still has its rotten filter", it->name);
}

bool expect_inventory(const struct run *r, const char *path, bool repaired)
{
    struct tamis_store *store;
    struct tamis_store_info info;
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag;
    int err = tamis_store_open(path, &store, &diag);
    if (err && inventory.lost && !repaired)
        return false;
    ours(r, err, "store_open", &diag);
    ours(r, tamis_store_info(store, &info, &diag), "store_info", &diag);
    if ((bool)info.complete == inventory.lost)
        run_fail(r, "the catalog calls itself %s",
                 info.complete ? "complete" : "incomplete");
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    for (size_t i = 0; i < inventory.n_items; i++)
        expect_item(r, snapshot, &inventory.item[i], repaired);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return true;
}

/* ---- files ---- */

static bool is_same(const struct run *r, const struct kept *k, const char *path)
{
    struct stat st;
    struct tamis_filter *f;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (k->item && k->item->growing) {
        close(fd);
        struct tamis_diag diag;
        ours(r, tamis_filter_open(path, NULL, &f, &diag), "filter_open", &diag);
        expect_promises(r, f, false);
        tamis_filter_close(f);
        return true;
    }
    uint8_t *bytes = malloc(k->n_bytes + 1);
    bool same = bytes && fstat(fd, &st) == 0 && (size_t)st.st_size == k->n_bytes &&
                pread(fd, bytes, k->n_bytes, 0) == (ssize_t)k->n_bytes &&
                memcmp(bytes, k->bytes, k->n_bytes) == 0;
    free(bytes);
    close(fd);
    return same;
}

/* Under its name, or the next if that was taken. */
static bool is_aside(const struct run *r, const struct kept *k, const char *path)
{
    char file[2 * RUN_PATH_BYTES + 80];
    snprintf(file, sizeof file, "%.250s/quarantine/%s", path, k->name);
    bool there = is_same(r, k, file);
    snprintf(file, sizeof file, "%.250s/quarantine/%s.1", path, k->name);
    bool again = is_same(r, k, file);
    if (there && again)
        run_fail(r, "%s was set aside twice", k->name);
    return there || again;
}

void expect_kept(const struct run *r, const char *path)
{
    char file[2 * RUN_PATH_BYTES + 80];
    for (size_t i = 0; i < inventory.n_kept; i++) {
        const struct kept *k = &inventory.kept[i];
        if (k->sweepable && !inventory.lost)
            continue;
        snprintf(file, sizeof file, "%.250s/filters/%s", path, k->name);
        bool there = is_same(r, k, file);
        if (!there && k->item && has_filter(k->item))
            run_fail(r, "the good filter %s is not in its place", k->name);
        if (!there && !is_aside(r, k, path))
            run_fail(r, "filter %s is lost", k->name);
    }
    const struct kept *k = &inventory.catalog;
    snprintf(file, sizeof file, "%.250s/catalog.lmdb", path);
    if (k->bytes && !is_same(r, k, file) && !is_aside(r, k, path))
        run_fail(r, "what was left of the catalog is lost");
}

/* ---- going on from a state ---- */

struct run *inventory_next(struct run *r, const char *path, uint64_t hash, bool record)
{
    static struct run *runs[MAX_LEVEL];
    static struct store_run stores[MAX_LEVEL];
    unsigned level = r->level + 1;
    if (!runs[level])
        runs[level] = calloc(1, sizeof *runs[level]);
    struct run *next = runs[level];
    if (!next)
        abort();
    record_begin(next, r->workload, path, hash);
    next->promise = r->promise;
    next->promised_aside = r->promised_aside;
    next->level = level;
    next->round = r->round;
    next->event = 0;
    next->parent = r;
    next->now = NULL;
    next->w = NULL;
    next->on_event = r->on_event;
    next->check = r->check;
    next->store = &stores[level];
    next->tree = true;
    if (record) {
        tree_note(next, true);
        recording = next;
    }
    return next;
}

void inventory_end(struct run *next)
{
    if (recording)
        record_event(next);
    recording = NULL;
    record_end(next);
}
