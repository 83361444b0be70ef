/* Stores to repair and to copy: made, and damaged. What must hold of them afterwards is
 * in inventory_check.c. */
#include "tests/crash/workloads/inventory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct inventory inventory;

/* ---- making it ---- */

static struct item *new_item(struct run *r, enum worth worth)
{
    struct inventory *v = &inventory;
    struct item *it = &v->item[v->n_items];
    if (v->n_items == MAX_ITEMS)
        abort();
    *it = (struct item){.worth = worth, .from = 20000 + v->n_items * 1200};
    snprintf(it->name, sizeof it->name, "%zu", v->n_items++);
    it->n_keys = rng_below(&r->rng, 3) ? 1 + (size_t)rng_below(&r->rng, 6)
                                       : 800 + (size_t)rng_below(&r->rng, 390);
    return it;
}

static struct tamis_edit *begin(struct run *r, struct tamis_store *store)
{
    struct tamis_edit *e;
    struct tamis_diag diag;
    ours(r, tamis_edit_begin(store, &e, &diag), "edit_begin", &diag);
    return e;
}

static void commit(struct run *r, struct tamis_edit *e)
{
    struct tamis_diag diag;
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
}

static void find_files(struct run *r, struct tamis_store *store)
{
    struct tamis_snapshot *snapshot;
    struct tamis_segment_info info;
    struct tamis_diag diag;
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++) {
        tamis_snapshot_segment(snapshot, i, &info);
        for (size_t k = 0; k < inventory.n_items; k++) {
            struct item *it = &inventory.item[k];
            if (strlen(it->name) == info.name_bytes &&
                memcmp(it->name, info.name, info.name_bytes) == 0)
                snprintf(it->file, sizeof it->file, "%s", info.file);
        }
    }
    tamis_snapshot_release(snapshot);
}

/* An older filter of the segment is left behind, as by a drop whose unlink was lost. */
static void put_twice(struct run *r, struct tamis_store *store, const char *path)
{
    struct item *it = new_item(r, TWICE);
    struct tamis_diag diag;
    char from[2 * RUN_PATH_BYTES], aside[2 * RUN_PATH_BYTES];
    struct tamis_edit *e = begin(r, store);
    put_built(r, e, it->name, 0, it->from + 1195, 2); /* of none of its keys */
    commit(r, e);
    find_files(r, store);
    snprintf(from, sizeof from, "%.200s/%s", path, it->file);
    snprintf(aside, sizeof aside, "%.200s/aside", path);
    e = begin(r, store);
    if (link(from, aside) != 0)
        abort();
    ours(r, tamis_edit_drop(e, it->name, strlen(it->name), &diag), "drop", &diag);
    put_built(r, e, it->name, 1, it->from, it->n_keys);
    commit(r, e);
    if (rename(aside, from) != 0)
        abort();
    struct kept *k = &inventory.kept[inventory.n_kept++];
    snprintf(k->name, sizeof k->name, "%s", strrchr(from, '/') + 1);
    k->sweepable = true;
}

static void put_growing(struct run *r, struct tamis_store *store)
{
    struct item *it = new_item(r, GOOD);
    struct tamis_growth growth = {.error = 0.1, .factor = 1.25, .first_capacity = 3};
    struct tamis_diag diag;
    snprintf(it->name, sizeof it->name, "g");
    it->growing = true;
    it->from = it->n_keys = 0;
    struct tamis_edit *e = begin(r, store);
    ours(r, tamis_edit_put_growing(e, "g", 1, &growth, NULL, &diag), "put_growing",
         &diag);
    commit(r, e);
    ours(r, tamis_store_writer(store, "g", 1, &r->w, &diag), "store_writer", &diag);
    for (size_t n = (size_t)rng_below(&r->rng, 6); n > 0; n--)
        session_add(r, r->promise.n_keys);
    session_commit(r);
}

static void keep(const struct item *it)
{
    struct kept *k = &inventory.kept[inventory.n_kept++];
    snprintf(k->name, sizeof k->name, "%s", strrchr(it->file, '/') + 1);
    k->item = it;
}

void inventory_make(struct run *r, const char *path)
{
    struct inventory *v = &inventory;
    struct store_run *s = r->store;
    struct tamis_domain domain;
    struct tamis_diag diag;
    for (size_t i = 0; i < v->n_kept; i++)
        free(v->kept[i].bytes);
    free(v->catalog.bytes);
    memset(v, 0, sizeof *v);
    tamis_domain_init(&domain, 1, 7);
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    r->promise.tag = domain.tag;
    ours(r, tamis_store_create(path, &opt, &diag), "store_create", &diag);
    ours(r, tamis_store_open(path, &s->store, &diag), "store_open", &diag);
    struct tamis_edit *e = begin(r, s->store);
    for (size_t n = 2 + (size_t)rng_below(&r->rng, 3); n > 0; n--) {
        struct item *it = new_item(r, GOOD);
        put_built(r, e, it->name, 0, it->from, it->n_keys);
    }
    struct item *bare = new_item(r, BARE);
    ours(r, tamis_edit_put_bare(e, bare->name, strlen(bare->name), NULL, &diag), "put",
         &diag);
    commit(r, e);
    put_growing(r, s->store);
    for (size_t n = 1 + (size_t)rng_below(&r->rng, 2); n > 0; n--)
        put_twice(r, s->store, path);
    find_files(r, s->store);
    for (size_t i = 0; i < v->n_items; i++)
        if (v->item[i].worth != BARE)
            keep(&v->item[i]);
}

/* ---- damaging it ---- */

static void rot(struct run *r, const char *path, const struct item *it)
{
    char file[2 * RUN_PATH_BYTES];
    uint8_t byte;
    off_t at = PAGE_BYTES + (off_t)rng_below(&r->rng, PAGE_BYTES);
    snprintf(file, sizeof file, "%.200s/%s", path, it->file);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pread(fd, &byte, 1, at) != 1)
        abort();
    byte ^= (uint8_t)(1U << rng_below(&r->rng, 8));
    if (pwrite(fd, &byte, 1, at) != 1)
        abort();
    close(fd);
}

static void lose_catalog_file(struct run *r, const char *path)
{
    char file[2 * RUN_PATH_BYTES];
    uint8_t garbage[2 * PAGE_BYTES];
    snprintf(file, sizeof file, "%.200s/catalog.lmdb-lock", path);
    unlink(file);
    snprintf(file, sizeof file, "%.200s/catalog.lmdb", path);
    uint64_t how = rng_below(&r->rng, 4);
    if (how == 0) {
        unlink(file);
        return;
    }
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = how == 1 ? 0 : (uint8_t)rng_next(&r->rng);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, garbage, sizeof garbage, 0) != (ssize_t)sizeof garbage)
        abort();
    if (how == 3 && ftruncate(fd, sizeof garbage) != 0)
        abort();
    close(fd);
}

static void take(struct kept *k, const char *path, const char *dir)
{
    char file[2 * RUN_PATH_BYTES];
    struct stat st;
    snprintf(file, sizeof file, "%.200s/%s%s", path, dir, k->name);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    k->n_bytes = (size_t)st.st_size;
    k->bytes = malloc(k->n_bytes + 1);
    if (!k->bytes || pread(fd, k->bytes, k->n_bytes, 0) != (ssize_t)k->n_bytes)
        abort();
    close(fd);
}

static void remove_kept(const char *path, const struct item *it)
{
    char file[2 * RUN_PATH_BYTES];
    struct inventory *v = &inventory;
    snprintf(file, sizeof file, "%.200s/%s", path, it->file);
    unlink(file);
    for (size_t i = 0; i < v->n_kept; i++)
        if (v->kept[i].item == it) {
            v->kept[i] = v->kept[--v->n_kept];
            break;
        }
}

/* Puts a file where an earlier repair has set one aside under the same name. */
static void put_aside_before(const char *path, const char *name)
{
    char file[2 * RUN_PATH_BYTES];
    snprintf(file, sizeof file, "%.200s/quarantine", path);
    mkdir(file, 0700);
    put_file(file, name, "another", 7);
}

void inventory_damage(struct run *r, const char *path, bool lose_catalog)
{
    struct inventory *v = &inventory;
    char file[2 * RUN_PATH_BYTES];
    if (rng_below(&r->rng, 4)) {
        rot(r, path, &v->item[0]);
        v->item[0].worth = ROTTEN;
    }
    if (rng_below(&r->rng, 3) == 0) {
        remove_kept(path, &v->item[1]);
        v->item[1].worth = GONE;
    }
    if (rng_below(&r->rng, 2)) {
        snprintf(file, sizeof file, "%.200s/%.63s.00c0ffee.tmp", path, v->item[0].file);
        int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, "unfinished", 10) != 10)
            abort();
        close(fd);
    }
    if (rng_below(&r->rng, 3) == 0) {
        put_aside_before(path, strrchr(v->item[0].file, '/') + 1);
        put_aside_before(path, "catalog.lmdb");
    }
    v->lost = lose_catalog;
    if (lose_catalog)
        lose_catalog_file(r, path);
    for (size_t i = 0; i < v->n_kept; i++)
        take(&v->kept[i], path, "filters/");
    snprintf(v->catalog.name, sizeof v->catalog.name, "catalog.lmdb");
    snprintf(file, sizeof file, "%.200s/catalog.lmdb", path);
    if (lose_catalog && access(file, F_OK) == 0)
        take(&v->catalog, path, "");
}
