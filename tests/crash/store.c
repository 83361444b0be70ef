/* The store half: edits of a store while filters/ is recorded, against the catalog as
 * it is at each call. LMDB commits are taken as atomic and durable (what it does on the
 * disk is not looked at here): the catalog of a state is the live one of that moment,
 * the files and names are what the disk model leaves of filters/.
 *
 * Of a state must hold: the store opens; what was committed is listed and what was
 * dropped is not; of an edit under way everything or nothing; each listed segment has
 * its file, whole; an edit can follow, and sweeps what nothing names. */
#include "tests/crash/workload.h"
#include "tests/crash/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

enum { MAX_SEGMENTS = 24 };
enum standing { NOT_THERE, COMING, THERE, GOING };

/* Segment "0", "1", ... of sealed filters; "g" is the growing one, whose promises are
 * those of the run. Keys of sealed ones come from the end of the run's list. */
struct segment {
    char name[4];
    bool growing, bare;
    enum standing standing;
    size_t from, n_keys;
};

struct store_run {
    char path[RUN_PATH_BYTES + 16], image[RUN_PATH_BYTES + 16];
    struct tamis_store *store;
    struct segment segments[MAX_SEGMENTS];
    size_t n_segments, next_key;
    bool last; /* the growing one may go now */
    uint8_t *catalog;
    size_t catalog_bytes;
};

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

static void (*explore_event)(struct run *r);

static void on_event(struct run *r)
{
    struct store_run *s = r->store;
    read_catalog(s);
    r->aside = XXH3_64bits(s->catalog, s->catalog_bytes) | 1;
    r->promised_aside = XXH3_64bits(s->segments, sizeof s->segments);
    explore_event(r);
}

/* ---- one state ---- */

static void empty_dir(const char *path)
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

static void put_file(const char *dir, const char *name, const void *bytes, size_t n)
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

static void expect_segment(const struct run *r, struct tamis_snapshot *snapshot,
                           const struct segment *g, size_t index)
{
    struct tamis_filter *f;
    struct tamis_diag diag;
    if (g->bare)
        return;
    if (tamis_snapshot_filter(snapshot, index, &f, &diag) != 0)
        run_fail(r, "segment %s has no filter: %s", g->name, diag.what);
    struct tamis_target target = tamis_snapshot_target(snapshot, index);
    size_t n = g->growing ? (size_t)r->promise.watermark : g->n_keys;
    uint64_t absent[1024 / 64];
    enum tamis_reason why;
    size_t n_absent = tamis_snapshot_probe_batch(
        snapshot, &target, r->promise.tag, r->promise.keys + g->from, n, absent, &why);
    if (n_absent || why != TAMIS_NO_REASON)
        run_fail(r, "segment %s: %zu of %zu keys are ABSENT (%s)", g->name, n_absent, n,
                 tamis_reason_name(why));
    struct tamis_verify report;
    if (g->growing)
        expect_promises(r, f, false);
    else if (tamis_filter_verify(f, &report, &diag) != 0)
        run_fail(r, "segment %s: %s", g->name, diag.what);
}

static bool find(const struct tamis_snapshot *snapshot, const char *name, size_t *index)
{
    struct tamis_target target;
    if (tamis_snapshot_find(snapshot, name, strlen(name), NULL, 0, 0, &target) ==
        TAMIS_ERR_NO_SEGMENT)
        return false;
    *index = target.slot - 1;
    return true;
}

static size_t expect_segments(const struct run *r, struct tamis_snapshot *snapshot)
{
    const struct store_run *s = r->store;
    size_t n_files = 0, index, n_new = 0, n_old = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        bool there = find(snapshot, g->name, &index);
        if (there && g->standing == NOT_THERE)
            run_fail(r, "segment %s is listed, its drop had been committed", g->name);
        if (!there && g->standing == THERE)
            run_fail(r, "segment %s is not listed", g->name);
        n_new += (g->standing == COMING && there) || (g->standing == GOING && !there);
        n_old += (g->standing == COMING && !there) || (g->standing == GOING && there);
        if (there)
            expect_segment(r, snapshot, g, index);
        n_files += there && !g->bare;
    }
    if (n_new && n_old)
        run_fail(r, "half of an edit took effect");
    return n_files;
}

static size_t count_files(const char *dir)
{
    size_t n = 0;
    char path[2 * RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%s/filters", dir);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static void ours(const struct run *r, int err, const char *doing,
                 const struct tamis_diag *diag)
{
    if (err)
        run_fail(r, "%s: %s", doing, diag->what);
}

static void put_built(const struct run *r, struct tamis_edit *e,
                      const struct segment *g)
{
    struct tamis_builder *b;
    struct tamis_diag diag;
    int err = tamis_edit_builder(e, g->name, strlen(g->name), 0, NULL, &b, &diag);
    ours(r, err, "edit_builder", &diag);
    tamis_builder_add_hashes(b, r->promise.tag, r->promise.keys + g->from, g->n_keys);
    err = tamis_edit_put(e, b, &diag);
    ours(r, err, "edit_put", &diag);
    tamis_builder_free(b);
}

/* An engine that comes back: writes to the growing segment, and edits. */
static void go_on(struct run *r, struct tamis_store *store, size_t n_files)
{
    struct segment more = {.name = "new", .from = 8000, .n_keys = 3};
    struct tamis_edit *e;
    struct tamis_writer *w;
    struct tamis_diag diag;
    int err = tamis_store_writer(store, "g", 1, &w, &diag);
    if (err != TAMIS_ERR_NO_SEGMENT && err != TAMIS_ERR_SEALED) {
        ours(r, err, "store_writer", &diag);
        uint64_t watermark = tamis_writer_watermark(w);
        if (watermark < r->promise.watermark || watermark > r->promise.asked)
            run_fail(r, "the writer reports watermark %llu",
                     (unsigned long long)watermark);
        err = tamis_writer_add_hashes(w, r->promise.tag, r->promise.keys + watermark,
                                      r->promise.n_keys - (size_t)watermark);
        ours(r, err, "add", &diag);
        r->promise.asked = r->promise.n_keys;
        ours(r, tamis_writer_commit(w, r->promise.n_keys, &diag), "commit", &diag);
        r->promise.watermark = r->promise.n_keys;
        ours(r, tamis_writer_close(w), "close", &diag);
    }
    ours(r, tamis_edit_begin(store, &e, &diag), "edit_begin", &diag);
    put_built(r, e, &more);
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
    if (count_files(r->store->image) != n_files + 1)
        run_fail(r, "%zu files for %zu segments", count_files(r->store->image),
                 n_files + 1);
}

static void check_store(struct run *r, const struct disk_state *state, uint64_t hash,
                        bool deep)
{
    struct tamis_store *store;
    struct tamis_snapshot *snapshot;
    struct tamis_diag diag;
    struct promise before = r->promise;
    (void)hash, (void)deep;
    r->now = state;
    materialise(r, state);
    ours(r, tamis_store_open(r->store->image, &store, &diag), "store_open", &diag);
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    size_t n_files = expect_segments(r, snapshot);
    tamis_snapshot_release(snapshot);
    go_on(r, store, n_files);
    ours(r, tamis_snapshot_current(store, &snapshot, &diag), "snapshot", &diag);
    expect_segments(r, snapshot);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    r->promise = before;
    r->now = NULL;
}

/* ---- the workload ---- */

static struct segment *new_segment(struct run *r)
{
    struct store_run *s = r->store;
    if (s->n_segments == MAX_SEGMENTS)
        abort();
    struct segment *g = &s->segments[s->n_segments];
    snprintf(g->name, sizeof g->name, "%zu", s->n_segments);
    g->n_keys = 1 + (size_t)rng_below(&r->rng, 6);
    s->next_key -= g->n_keys;
    g->from = s->next_key;
    g->standing = COMING;
    s->n_segments++;
    return g;
}

static void attach(struct run *r, struct tamis_edit *e, const struct segment *g)
{
    struct tamis_builder_options opt = {.size = sizeof opt};
    struct tamis_domain domain = tamis_store_domain(r->store->store);
    struct tamis_builder *b;
    struct tamis_diag diag;
    char path[2 * RUN_PATH_BYTES];
    snprintf(path, sizeof path, "%s/elsewhere", r->store->path);
    unlink(path);
    opt.domain = &domain;
    ours(r, tamis_builder_create(&opt, &b, &diag), "builder", &diag);
    tamis_builder_add_hashes(b, domain.tag, r->promise.keys + g->from, g->n_keys);
    ours(r, tamis_builder_finish_file(b, path, &diag), "finish", &diag);
    tamis_builder_free(b);
    ours(r, tamis_edit_attach(e, g->name, strlen(g->name), path, NULL, &diag), "attach",
         &diag);
}

static void put_growing(struct run *r, struct tamis_edit *e)
{
    struct tamis_diag diag;
    struct segment *g = new_segment(r);
    snprintf(g->name, sizeof g->name, "g");
    g->growing = true;
    g->from = 0;
    struct tamis_growth growth = {.error = 0.1, .factor = 1.25, .first_capacity = 3};
    ours(r, tamis_edit_put_growing(e, "g", 1, &growth, NULL, &diag), "put_growing",
         &diag);
}

static void drop_some(struct run *r, struct tamis_edit *e)
{
    struct store_run *s = r->store;
    struct tamis_diag diag;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing != THERE || rng_below(&r->rng, 3) || (g->growing && !s->last))
            continue;
        ours(r, tamis_edit_drop(e, g->name, strlen(g->name), &diag), "drop", &diag);
        g->standing = GOING;
    }
}

/* As after an engine's recovery: what is not among the names goes. */
static void retain_some(struct run *r, struct tamis_edit *e)
{
    struct store_run *s = r->store;
    struct tamis_name keep[MAX_SEGMENTS];
    struct tamis_diag diag;
    size_t n = 0;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing == THERE && (!g->growing || s->last) &&
            rng_below(&r->rng, 3) == 0)
            g->standing = GOING;
        else
            keep[n++] = (struct tamis_name){g->name, strlen(g->name)};
    }
    ours(r, tamis_edit_retain(e, keep, n, &diag), "retain", &diag);
}

/* The edit returned: what it did is promised; or, aborted, what was before. */
static void settle(struct run *r, bool committed)
{
    struct store_run *s = r->store;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct segment *g = &s->segments[i];
        if (g->standing == COMING)
            g->standing = committed ? THERE : NOT_THERE;
        else if (g->standing == GOING)
            g->standing = committed ? NOT_THERE : THERE;
    }
    record_event(r);
}

static void edit(struct run *r, bool growing)
{
    struct tamis_edit *e;
    struct tamis_diag diag;
    ours(r, tamis_edit_begin(r->store->store, &e, &diag), "edit_begin", &diag);
    for (size_t n = (size_t)rng_below(&r->rng, 3); n > 0; n--) {
        struct segment *g = new_segment(r);
        uint64_t how = rng_below(&r->rng, 4);
        if (how == 0) {
            g->bare = true;
            ours(r, tamis_edit_put_bare(e, g->name, strlen(g->name), NULL, &diag),
                 "put", &diag);
        } else if (how == 1) {
            attach(r, e, g);
        } else {
            put_built(r, e, g);
        }
    }
    if (growing)
        put_growing(r, e);
    if (rng_below(&r->rng, 3))
        drop_some(r, e);
    else
        retain_some(r, e);
    if (!growing && rng_below(&r->rng, 6) == 0) {
        tamis_edit_abort(e);
        settle(r, false);
        return;
    }
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
    settle(r, true);
}

static void write_growing(struct run *r, bool seal)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    ours(r, tamis_store_writer(r->store->store, "g", 1, &w, &diag), "store_writer",
         &diag);
    r->w = w;
    for (size_t n = 1 + (size_t)rng_below(&r->rng, 6); n > 0; n--)
        session_add(r, r->promise.n_keys);
    if (seal)
        session_seal(r);
    else
        session_commit(r);
    if (rng_below(&r->rng, 2))
        session_close(r);
    else
        session_kill(r);
}

static void open_store(struct run *r)
{
    struct store_run *s = r->store;
    struct tamis_domain domain;
    struct tamis_diag diag;
    char filters[sizeof s->path + 16];
    tamis_domain_init(&domain, 1, 7);
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    r->promise.tag = domain.tag;
    recording = NULL;
    ours(r, tamis_store_create(s->path, &opt, &diag), "store_create", &diag);
    ours(r, tamis_store_open(s->path, &s->store, &diag), "store_open", &diag);
    snprintf(filters, sizeof filters, "%.200s/filters", s->path);
    record_begin(r, r->workload, filters, rng_next(&r->rng));
    recording = r;
}

void run_store(struct run *r)
{
    static struct store_run s;
    free(s.catalog);
    memset(&s, 0, sizeof s);
    r->store = &s;
    s.next_key = MAX_KEYS;
    snprintf(s.path, sizeof s.path, "%s/s", r->dir);
    snprintf(s.image, sizeof s.image, "%s/i", r->dir);
    explore_event = r->on_event;
    open_store(r);
    r->on_event = on_event;
    r->check = check_store;
    edit(r, false);
    edit(r, true);
    write_growing(r, false);
    edit(r, false);
    write_growing(r, rng_below(&r->rng, 2) == 0);
    s.last = true;
    edit(r, false);
    recording = NULL;
    tamis_store_close(s.store);
}
