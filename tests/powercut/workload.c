/* An engine that uses the library: it makes a store, puts, attaches, replaces and
 * drops segments, writes to growing ones from two threads, seals them, keeps filters in
 * files of its own; now and then it dies, and comes back. */
#include "tests/powercut/workload.h"
#include "tests/powercut/host.h"
#include "tests/powercut/session.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void must(int err, const char *doing, const struct tamis_diag *diag)
{
    if (!err)
        return;
    fprintf(stderr, "powercut: the workload: %s: %s: %s\n", doing, tamis_strerror(err),
            diag ? diag->what : "");
    _exit(3);
}

static uint64_t below(struct life *l, uint64_t n)
{
    return rng_below(&l->h->rng, n);
}

/* ---- edits ---- */

static uint32_t come(struct life *l, uint32_t edit, enum object_kind kind,
                     const char *name)
{
    struct history *h = l->h;
    uint32_t id = history_object(h, kind, name);
    h->change[h->n_changes++] = (struct change){.edit = edit, .object = id};
    if (kind != OBJECT_GROWING)
        h->object[id].n_keys = 1 + (uint32_t)below(l, 200);
    return id;
}

/* The binding tells which object a segment is, for names recur. */
static void put(struct life *l, struct tamis_edit *e, uint32_t id)
{
    struct object *o = &l->h->object[id];
    struct tamis_segment_options opt = {
        .size = sizeof opt, .binding = &id, .binding_bytes = sizeof id};
    static const double errors[] = {0.3, 0.05, 1e-6};
    struct tamis_growth growth = {.error = errors[below(l, 3)],
                                  .factor = below(l, 2) ? 1.25 : 2,
                                  .first_capacity = 1 + below(l, 30)};
    struct tamis_builder *b;
    struct tamis_diag diag;
    size_t n = strlen(o->name);
    if (o->kind == OBJECT_BARE) {
        must(tamis_edit_put_bare(e, o->name, n, &opt, &diag), "put_bare", &diag);
    } else if (o->kind == OBJECT_GROWING) {
        must(tamis_edit_put_growing(e, o->name, n, &growth, &opt, &diag), "put_growing",
             &diag);
    } else if (o->kind == OBJECT_ATTACHED) {
        life_build_file(l, id, "elsewhere");
        must(tamis_edit_attach(e, o->name, n, "elsewhere", &opt, &diag), "attach",
             &diag);
        unlink("elsewhere");
    } else {
        must(tamis_edit_builder(e, o->name, n, 0, &opt, &b, &diag), "builder", &diag);
        life_fill(l, b, id);
        must(tamis_edit_put(e, b, &diag), "put", &diag);
        tamis_builder_free(b);
    }
}

static bool is_listed(const struct object *o)
{
    return o->kind <= OBJECT_GROWING && !o->dropped;
}

/* A filter that a writer may have open is not dropped. */
static bool may_go(const struct object *o, bool closed)
{
    return is_listed(o) && (o->kind != OBJECT_GROWING || o->sealed || closed);
}

/* Drops it, and, every other time, puts another of the same name. */
static void replace(struct life *l, struct tamis_edit *e, uint32_t edit, uint32_t id)
{
    struct history *h = l->h;
    struct object *o = &h->object[id];
    struct tamis_diag diag;
    h->change[h->n_changes++] = (struct change){edit, id, true};
    must(tamis_edit_drop(e, o->name, strlen(o->name), &diag), "drop", &diag);
    o->dropped = true;
    if (below(l, 2))
        put(l, e, come(l, edit, OBJECT_BUILT, o->name));
}

/* As an engine that comes back does: it names what it has, the rest goes. */
static void retain(struct life *l, struct tamis_edit *e, uint32_t edit, bool closed)
{
    struct history *h = l->h;
    struct tamis_name keep[MAX_OBJECTS];
    struct tamis_diag diag;
    size_t n = 0;
    for (uint32_t i = 0; i < h->n_objects; i++) {
        struct object *o = &h->object[i];
        if (!is_listed(o))
            continue;
        if (may_go(o, closed) && below(l, 3) == 0) {
            h->change[h->n_changes++] = (struct change){edit, i, true};
            o->dropped = true;
        } else {
            keep[n++] = (struct tamis_name){o->name, strlen(o->name)};
        }
    }
    must(tamis_edit_retain(e, keep, n, &diag), "retain", &diag);
}

static void edit(struct life *l, bool growing)
{
    static const enum object_kind kinds[] = {OBJECT_BUILT, OBJECT_BUILT,
                                             OBJECT_ATTACHED, OBJECT_BARE};
    struct history *h = l->h;
    struct tamis_edit *e;
    struct tamis_diag diag;
    uint32_t number = h->n_edits++, n_before = h->n_objects;
    if (growing)
        life_close_all(l);
    must(tamis_edit_begin(l->store, &e, &diag), "edit_begin", &diag);
    if (below(l, 3) == 0)
        retain(l, e, number, growing);
    for (uint32_t i = 0; i < n_before; i++)
        if (may_go(&h->object[i], growing) && below(l, 3) == 0)
            replace(l, e, number, i);
    for (uint64_t n = 1 + below(l, 3); n > 0; n--)
        put(l, e, come(l, number, kinds[below(l, 4)], NULL));
    if (growing)
        put(l, e, come(l, number, OBJECT_GROWING, NULL));
    history_event(h, (struct event){.kind = EVENT_EDIT, .object = number});
    must(tamis_edit_commit(e, &diag), "edit_commit", &diag);
    history_event(h,
                  (struct event){.kind = EVENT_EDIT, .object = number, .done = true});
}

/* No segment comes or goes: their promises are the same from any file. */
static void pack(struct life *l)
{
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .keep = below(l, 3) == 0,
                                     .repack = (enum tamis_repack)below(l, 3)};
    struct tamis_snapshot *snapshot;
    struct tamis_edit *e;
    struct tamis_diag diag;
    uint32_t packed[MAX_OBJECTS];
    size_t n = 0;
    must(tamis_snapshot_current(l->store, &snapshot, &diag), "snapshot", &diag);
    for (uint32_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        if (tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0)
            packed[n++] = i;
    must(tamis_edit_begin(l->store, &e, &diag), "edit_begin", &diag);
    if (n && below(l, 3) == 0)
        must(tamis_edit_unpack(e, snapshot, packed, n, &diag), "unpack", &diag);
    else
        must(tamis_edit_pack(e, snapshot, NULL, 0, &opt, NULL, &diag), "pack", &diag);
    tamis_snapshot_release(snapshot);
    must(tamis_edit_commit(e, &diag), "edit_commit", &diag);
}

/* ---- one process of the engine ---- */

static void open_store(struct life *l)
{
    struct tamis_diag diag;
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &l->domain};
    int err = tamis_store_open(STORE_NAME, &l->store, &diag);
    if (err == TAMIS_ERR_NO_STORE) {
        history_event(l->h, (struct event){.kind = EVENT_STORE});
        must(tamis_store_create(STORE_NAME, &opt, &diag), "store_create", &diag);
        history_event(l->h, (struct event){.kind = EVENT_STORE, .done = true});
        err = tamis_store_open(STORE_NAME, &l->store, &diag);
    }
    must(err, "store_open", &diag);
}

static bool a_growing_one(struct life *l, enum object_kind kind, uint32_t *id)
{
    for (*id = l->h->n_objects; (*id)-- > 0;)
        if (l->h->object[*id].kind == kind && !l->h->object[*id].dropped &&
            !l->h->object[*id].sealed)
            return true;
    return false;
}

static void step(struct life *l)
{
    uint32_t id;
    switch (below(l, 10)) {
    case 8:
    case 9:
        pack(l);
        break;
    case 0:
        edit(l, false);
        break;
    case 1:
        edit(l, true);
        break;
    case 2:
        life_own_file(l);
        break;
    case 3:
    case 4:
        if (!a_growing_one(l, OBJECT_LONE, &id))
            id = life_lone_create(l);
        life_session(l, id);
        break;
    default:
        if (a_growing_one(l, OBJECT_GROWING, &id))
            life_session(l, id);
        else
            edit(l, true);
        break;
    }
}

static void live(struct history *h, const char *dir)
{
    struct life l = {.h = h};
    if (chdir(dir) != 0)
        host_fail("chdir %s", dir);
    tamis_domain_init(&l.domain, 1, HISTORY_HASH_SEED);
    life_unsynced_file(&l);
    open_store(&l);
    for (uint64_t n = 2 + below(&l, 4); n > 0; n--)
        step(&l);
    if (below(&l, 3) == 0)
        _exit(0);
    life_close_all(&l);
    tamis_store_close(l.store);
    _exit(0);
}

/* ---- another, that makes the kernel write ---- */

static void write_back_one(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        close(fd);
    }
}

/* Starts the write-back of what is dirty in the directory, without any flush. */
static void write_back(const char *dir)
{
    char path[3 * HOST_PATH_BYTES];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        write_back_one(path);
    }
    if (d)
        closedir(d);
}

/* Makes the journal commit what others have done so far, without their data. */
static void sync_another(const char *dir)
{
    char path[2 * HOST_PATH_BYTES];
    snprintf(path, sizeof path, "%s/another", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0)
        host_fail("syncing another file");
    close(fd);
}

/* Some runs are disturbed all the time, others hardly ever. */
static void disturb(struct rng rng, const char *dir)
{
    char store[HOST_PATH_BYTES + 16], filters[HOST_PATH_BYTES + 32];
    int fd = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    uint64_t pause = UINT64_C(200000) << rng_below(&rng, 7);
    snprintf(store, sizeof store, "%s/" STORE_NAME, dir);
    snprintf(filters, sizeof filters, "%s/filters", store);
    for (;;) {
        /* Not to wait for anything: to come at another moment each time. */
        struct timespec t = {.tv_nsec = (long)rng_below(&rng, pause)};
        nanosleep(&t, NULL);
        switch (rng_below(&rng, 8)) {
        case 0:
            syncfs(fd);
            break;
        case 1:
        case 2:
            sync_another(dir);
            break;
        case 3:
            write_back(dir);
            write_back(store);
            break;
        default:
            write_back(filters);
            break;
        }
    }
}

void workload_run(struct history *h, const char *dir)
{
    struct rng rng = {rng_next(&h->rng)};
    pid_t disturber = host_fork();
    if (disturber == 0)
        disturb(rng, dir);
    for (uint64_t n = 3 + rng_below(&h->rng, 3); n > 0; n--) {
        pid_t pid = host_fork();
        if (pid == 0)
            live(h, dir);
        int rc = host_wait(pid);
        if (rc != 0)
            host_fail("the workload ended with %d", rc);
    }
    kill(disturber, SIGKILL);
    host_wait(disturber);
}
