/* In each state of a store: the store opens; committed segments are listed and dropped
 * ones are not; an edit under way took effect as a whole or not at all; each listed
 * segment has its file, whole; an engine can go on, and an edit sweeps files that
 * nothing names; and all that again after a cut of that engine's calls. */
#include "tests/crash/workloads/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

/* ---- the catalog beside the disk ---- */

static void read_catalog(struct store_run *s)
{
    char path[2 * RUN_PATH_BYTES];
    struct stat st;
    snprintf(path, sizeof path, "%s/catalog.lmdb", s->path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    s->catalog_bytes = (size_t)st.st_size;
    s->catalog = realloc(s->catalog, s->catalog_bytes);
    if (!s->catalog ||
        pread(fd, s->catalog, s->catalog_bytes, 0) != (ssize_t)s->catalog_bytes)
        abort();
    close(fd);
}

void (*store_explore)(struct run *r);

void store_event(struct run *r)
{
    struct store_run *s = r->store;
    read_catalog(s);
    r->aside = XXH3_64bits(s->catalog, s->catalog_bytes) | 1;
    r->promised_aside = XXH3_64bits(s->segments, sizeof s->segments);
    store_explore(r);
}

/* ---- one state ---- */

void empty_dir(const char *path)
{
    char one[3 * RUN_PATH_BYTES];
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(one, sizeof one, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.')
            unlink(one);
    }
    if (d)
        closedir(d);
}

void put_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[3 * RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n)
        abort();
    close(fd);
}

static void materialise(const struct run *r, const struct disk_state *state)
{
    const struct store_run *s = r->store;
    char filters[RUN_PATH_BYTES + 32];
    snprintf(filters, sizeof filters, "%s/filters", s->image);
    mkdir(s->image, 0700);
    mkdir(filters, 0700);
    empty_dir(s->image);
    empty_dir(filters);
    put_file(s->image, "catalog.lmdb", s->catalog, s->catalog_bytes);
    for (size_t i = 0; i < state->disk->n_names; i++) {
        int file = disk_state_file(state, i);
        if (file < 0)
            continue;
        uint8_t *bytes = malloc(state->disk->files[file].capacity);
        if (!bytes)
            abort();
        uint64_t n = disk_image(state, (size_t)file, bytes);
        put_file(filters, state->disk->names[i].text, bytes, (size_t)n);
        free(bytes);
    }
}

/* Returns how many files the listed segments have. *took: the edit under way took
 * effect. */
static size_t expect_store(const struct run *r, struct tamis_snapshot *snapshot,
                           bool *took)
{
    static struct promised_segment promised[MAX_SEGMENTS];
    static struct log_part parts[MAX_SEGMENTS][2];
    const struct store_run *s = r->store;
    enum outcome outcome[MODEL_EDITS] = {EDIT_UNKNOWN};
    struct promised_filter growing = promised_by(r, false);
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        parts[i][0] = (struct log_part){r, g->from};
        parts[i][1] = (struct log_part){r, g->next_from};
        promised[i] = (struct promised_segment){
            .standing = g->standing,
            .rank = g->version,
            .bare = g->bare,
            .filter.keys = {key_of_part, &parts[i][0], g->n_keys},
            .next.keys = {key_of_part, &parts[i][1], g->next_n_keys},
        };
        if (g->growing) {
            growing.keys.n = r->promise.watermark;
            promised[i].filter = growing;
        }
        snprintf(promised[i].name, sizeof promised[i].name, "%s", g->name);
    }
    size_t n_files = expect_segments(snapshot, promised, s->n_segments, outcome);
    *took = outcome[0] == EDIT_DONE;
    return n_files;
}

/* ---- going on from a state ---- */

/* The files of the image are the disk of the next run, durable. */
static void adopt_files(struct run *next, const struct disk_state *state)
{
    char path[2 * RUN_PATH_BYTES];
    struct stat st;
    for (size_t i = 0; i < state->disk->n_names; i++) {
        int file = disk_state_file(state, i);
        if (file < 0)
            continue;
        const char *name = state->disk->names[i].text;
        snprintf(path, sizeof path, "%.250s/%s", next->dir, name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        uint8_t *bytes = malloc(state->disk->files[file].capacity);
        if (fd < 0 || fstat(fd, &st) != 0 || !bytes)
            abort();
        uint64_t n = disk_image(state, (size_t)file, bytes);
        size_t ours_now = disk_add_file(&next->disk, st.st_ino, bytes, (size_t)n);
        next->fd[ours_now] = fd;
        disk_set_name(&next->disk, DISK_ROOT, name, (int)ours_now, true);
        free(bytes);
    }
}

/* The state's engine draws what it does from the state: the same again. */
static struct run *next_run(struct run *r, uint64_t hash)
{
    static struct run *runs[MAX_LEVEL];
    static struct store_run stores[MAX_LEVEL];
    unsigned level = r->level + 1;
    char filters[RUN_PATH_BYTES + 32];
    if (!runs[level])
        runs[level] = calloc(1, sizeof *runs[level]);
    struct run *next = runs[level];
    struct store_run *s = &stores[level];
    if (!next)
        abort();
    uint8_t *catalog = s->catalog;
    *s = *r->store;
    s->catalog = catalog;
    snprintf(s->path, sizeof s->path, "%s", r->store->image);
    snprintf(s->image, sizeof s->image, "%.200s%u", r->store->image, level);
    snprintf(filters, sizeof filters, "%.200s/filters", s->path);
    record_begin(next, r->workload, filters, hash);
    next->promise = r->promise;
    next->level = level;
    next->round = r->round;
    next->event = 0;
    next->parent = r;
    next->now = NULL;
    next->on_event = store_event;
    next->check = store_check;
    next->store = s;
    next->w = NULL;
    return next;
}

static void count_damage(void *ctx, const struct tamis_repair_finding *f)
{
    *(uint64_t *)ctx += f->damage != 0;
}

/* A repair comes first: it has remains to sweep and writers to finish, and finds
 * nothing that is damaged, for a power cut damages nothing. */
static void repair_first(struct run *r, struct tamis_store *store, size_t n_files)
{
    struct tamis_repair_report report;
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag;
    bool took;
    uint64_t n_damage = 0;
    struct tamis_repair_options opt = {
        .size = sizeof opt, .found = count_damage, .ctx = &n_damage};
    ours(r, tamis_store_repair(r->store->image, &opt, &report, &diag), "repair", &diag);
    if (n_damage || report.n_rebuilt || report.n_damaged || report.n_unread)
        run_fail(r,
                 "repair: %llu filters quarantined, %llu records rebuilt, %llu "
                 "damaged",
                 (unsigned long long)report.n_quarantined,
                 (unsigned long long)report.n_rebuilt,
                 (unsigned long long)report.n_damaged);
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    if (expect_store(r, snapshot, &took) != n_files ||
        count_filter_files(r->store->image) != n_files)
        run_fail(r, "after a repair %zu files for %zu segments",
                 count_filter_files(r->store->image), n_files);
    tamis_snapshot_release(snapshot);
}

void store_check(struct run *r, const struct disk_state *state, uint64_t hash,
                 bool deep)
{
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag;
    bool took;
    r->now = state;
    materialise(r, state);
    ours(r, tamis_store_open(r->store->image, &store, &diag), "store_open", &diag);
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    size_t n_files = expect_store(r, snapshot, &took);
    tamis_snapshot_release(snapshot);
    if (!deep && hash / 512 % 8 == 0)
        repair_first(r, store, n_files);
    struct run *next = next_run(r, hash);
    settle(next, took);
    if (deep) {
        adopt_files(next, state);
        recording = next;
    }
    engine_writes(next, store);
    engine_edits(next, store);
    recording = NULL;
    if (count_filter_files(r->store->image) != n_files + 1)
        run_fail(r, "%zu files for %zu segments", count_filter_files(r->store->image),
                 n_files + 1);
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    expect_store(next, snapshot, &took);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    record_end(next);
    r->now = NULL;
}
