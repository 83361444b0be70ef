/* Creating a store: the recorded directory is the store's own. LMDB's file is taken as
 * durable by the time that it gets its name, for LMDB has synced its commit; the names
 * are what the disk model leaves of them, filters/ among them.
 *
 * In each state the store opens, whole and empty; or, as long as its creation
 * had not returned, there is none yet, and it can be created there; then it opens. */
#include "tests/crash/workloads/store.h"
#include "tests/crash/workloads/workload.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void (*explorer)(struct run *r);

/* ---- what is there ---- */

/* A name that no call of io.c has made: mkdir and LMDB have. */
static void note_name(struct run *r, const char *name)
{
    char path[2 * RUN_PATH_BYTES];
    struct stat st;
    if (disk_live_name(&r->disk, DISK_ROOT, name) >= 0)
        return;
    snprintf(path, sizeof path, "%.250s/%s", r->dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        abort();
    size_t n = S_ISREG(st.st_mode) ? (size_t)st.st_size : 0;
    uint8_t *bytes = malloc(n + 1);
    if (!bytes || pread(fd, bytes, n, 0) != (S_ISREG(st.st_mode) ? (ssize_t)n : -1))
        abort();
    if (S_ISDIR(st.st_mode)) { /* what stands for it is a file of no bytes */
        close(fd);
        fd = memfd_create("directory", MFD_CLOEXEC);
    }
    size_t file = disk_add_file(&r->disk, st.st_ino, bytes, n);
    r->fd[file] = fd;
    disk_set_name(&r->disk, DISK_ROOT, name, (int)file, false);
    free(bytes);
}

static void note_names(struct run *r)
{
    DIR *d = opendir(r->dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && !strstr(e->d_name, "-lock"))
            note_name(r, e->d_name);
    if (d)
        closedir(d);
}

static void create_event(struct run *r)
{
    note_names(r);
    explorer(r);
}

/* ---- the states ---- */

static void materialise(const char *image, const struct disk_state *state)
{
    char filters[2 * RUN_PATH_BYTES];
    snprintf(filters, sizeof filters, "%.250s/filters", image);
    mkdir(image, 0700);
    empty_dir(filters);
    rmdir(filters);
    empty_dir(image);
    for (size_t i = 0; i < state->disk->n_names; i++) {
        const char *name = state->disk->names[i].text;
        int file = disk_state_file(state, i);
        if (file >= 0 && strcmp(name, "filters") == 0) {
            mkdir(filters, 0700);
        } else if (file >= 0) {
            uint8_t *bytes = malloc(state->disk->files[file].capacity);
            if (!bytes)
                abort();
            uint64_t n = disk_image(state, (size_t)file, bytes);
            put_file(image, name, bytes, (size_t)n);
            free(bytes);
        }
    }
}

static void expect_store(const struct run *r, const char *path)
{
    struct tamis_store *store;
    struct tamis_store_info info;
    struct tamis_edit *e;
    struct tamis_diag diag;
    ours(r, tamis_store_open(path, &store, &diag), "store_open", &diag);
    ours(r, tamis_store_info(store, &info, &diag), "store_info", &diag);
    if (!info.complete || info.n_segments)
        run_fail(r, "a new store is not complete, or not empty");
    ours(r, tamis_edit_begin(store, &e, &diag), "edit_begin", &diag);
    put_built(r, e, "x", 0, 0, 3);
    ours(r, tamis_edit_commit(e, &diag), "edit_commit", &diag);
    tamis_store_close(store);
}

static void create(struct run *r, const char *path)
{
    struct tamis_domain domain;
    struct tamis_diag diag;
    tamis_domain_init(&domain, 1, 7);
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    r->promise.tag = domain.tag;
    ours(r, tamis_store_create(path, &opt, &diag), "store_create", &diag);
    r->promise.created = true;
}

static void check_created(struct run *r, const struct disk_state *s, uint64_t hash,
                          bool deep);

/* Creates it over what the cut has left; that is cut again. */
static void create_again(struct run *r, const char *image, uint64_t hash)
{
    static struct run *runs[MAX_LEVEL];
    struct run **sub = &runs[r->level + 1];
    if (!*sub)
        *sub = calloc(1, sizeof **sub);
    if (!*sub)
        abort();
    struct run *next = *sub;
    record_begin(next, r->workload, image, hash);
    next->promise = r->promise;
    next->level = r->level + 1;
    next->round = r->round;
    next->event = 0;
    next->parent = r;
    next->now = NULL;
    next->on_event = create_event;
    next->check = check_created;
    if (next->level + 1 < MAX_LEVEL) {
        note_names(next);
        disk_sync_names(&next->disk, DISK_ROOT);
        recording = next;
    }
    create(next, image);
    if (recording)
        record_event(next);
    recording = NULL;
    record_end(next);
}

static void check_created(struct run *r, const struct disk_state *s, uint64_t hash,
                          bool deep)
{
    struct tamis_store *store;
    struct tamis_diag diag;
    char image[RUN_PATH_BYTES];
    (void)deep;
    r->now = s;
    snprintf(image, sizeof image, "%.200s-%u", r->dir, r->level);
    materialise(image, s);
    int err = tamis_store_open(image, &store, &diag);
    if (err == 0)
        tamis_store_close(store);
    else if (r->promise.created)
        run_fail(r, "a store that was created does not open: %s", diag.what);
    else
        create_again(r, image, hash);
    expect_store(r, image);
    r->now = NULL;
}

/* ---- the workload ---- */

void run_create_store(struct run *r)
{
    char path[RUN_PATH_BYTES];
    if (r->round % 4) /* few states, and slow ones */
        return;
    snprintf(path, sizeof path, "%.200s/s", r->dir);
    if (mkdir(path, 0700) != 0)
        abort();
    recording = NULL;
    record_begin(r, r->workload, path, rng_next(&r->rng));
    explorer = r->on_event;
    r->on_event = create_event;
    r->check = check_created;
    recording = r;
    create(r, path);
    record_event(r);
}
