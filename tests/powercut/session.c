/* Files of the engine's own, and writers. */
#include "tests/powercut/session.h"
#include "tests/powercut/host.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t below(struct life *l, uint64_t n)
{
    return rng_below(&l->h->rng, n);
}

static void created(struct life *l, uint32_t id, bool done)
{
    history_event(l->h,
                  (struct event){.kind = EVENT_CREATE, .object = id, .done = done});
}

/* ---- files of its own ---- */

void life_fill(struct life *l, struct tamis_builder *b, uint32_t id)
{
    for (uint32_t i = 0; i < l->h->object[id].n_keys; i++) {
        uint64_t key = history_key(l->h, id, false, i);
        must(tamis_builder_add_hashes(b, l->domain.tag, &key, 1), "add", NULL);
    }
}

static struct tamis_builder *builder(struct life *l, uint32_t id)
{
    struct tamis_builder_options opt = {.size = sizeof opt, .domain = &l->domain};
    struct tamis_builder *b;
    struct tamis_diag diag;
    must(tamis_builder_create(&opt, &b, &diag), "builder_create", &diag);
    life_fill(l, b, id);
    return b;
}

void life_build_file(struct life *l, uint32_t id, const char *path)
{
    struct tamis_diag diag;
    struct tamis_builder *b = builder(l, id);
    unlink(path);
    must(tamis_builder_finish_file(b, path, &diag), "finish_file", &diag);
    tamis_builder_free(b);
}

static void sync_here(void)
{
    int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0)
        host_fail("syncing the engine's directory");
    close(fd);
}

/* The filter is the engine's file's second part; to sync is the engine's to do. */
static void engine_file(struct life *l, uint32_t id)
{
    uint8_t part[8192];
    uint64_t n;
    struct tamis_diag diag;
    struct tamis_builder *b = builder(l, id);
    const char *name = l->h->object[id].name;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    memset(part, 'e', sizeof part);
    if (fd < 0 || write(fd, part, sizeof part) != sizeof part)
        host_fail("writing the engine's file");
    must(tamis_builder_finish_fd(b, fd, sizeof part, &n, &diag), "finish_fd", &diag);
    if (fsync(fd) != 0)
        host_fail("syncing the engine's file");
    close(fd);
    sync_here();
    tamis_builder_free(b);
}

/* Written, and never synced by anyone but the disturber. */
void life_unsynced_file(struct life *l)
{
    uint32_t id = history_object(l->h, OBJECT_UNSYNCED, NULL);
    const char *name = l->h->object[id].name;
    uint8_t bytes[4096];
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    memset(bytes, 'u', sizeof bytes);
    created(l, id, false);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != sizeof bytes)
        host_fail("writing a file");
    close(fd);
    created(l, id, true);
}

void life_own_file(struct life *l)
{
    enum object_kind kind = below(l, 2) ? OBJECT_FILE : OBJECT_ENGINE;
    uint32_t id = history_object(l->h, kind, NULL);
    l->h->object[id].n_keys = 1 + (uint32_t)below(l, 2000);
    created(l, id, false);
    if (kind == OBJECT_FILE)
        life_build_file(l, id, l->h->object[id].name);
    else
        engine_file(l, id);
    created(l, id, true);
}

/* ---- a writer's session ---- */

uint32_t life_lone_create(struct life *l)
{
    uint32_t id = history_object(l->h, OBJECT_LONE, NULL);
    struct tamis_writer_options opt = {.size = sizeof opt, .domain = &l->domain};
    struct tamis_writer *w;
    struct tamis_diag diag;
    opt.growth.error = below(l, 2) ? 0.1 : 1e-5;
    opt.growth.factor = below(l, 2) ? 1.25 : 2;
    opt.growth.first_capacity = 1 + below(l, 100);
    created(l, id, false);
    must(tamis_writer_create(l->h->object[id].name, &opt, &w, &diag), "writer_create",
         &diag);
    created(l, id, true);
    must(tamis_writer_close(w), "close", NULL);
    return id;
}

/* The second thread. */
struct helper {
    struct life *life;
    struct tamis_writer *w;
    uint32_t object, most;
    _Atomic uint32_t n_done; /* its first so many keys are added */
    atomic_bool stop;
};

static void *help(void *arg)
{
    struct helper *t = arg;
    for (uint32_t i = t->n_done; i < t->most && !atomic_load(&t->stop); i++) {
        uint64_t key = history_key(t->life->h, t->object, true, i);
        must(tamis_writer_add_hashes(t->w, t->life->domain.tag, &key, 1), "add", NULL);
        atomic_store(&t->n_done, i + 1);
        sched_yield();
    }
    return NULL;
}

static void add(struct life *l, struct tamis_writer *w, uint32_t id, uint32_t from,
                uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        uint64_t key = history_key(l->h, id, false, i);
        must(tamis_writer_add_hashes(w, l->domain.tag, &key, 1), "add", NULL);
    }
}

static void commit(struct life *l, struct tamis_writer *w, uint32_t id,
                   const struct helper *t, bool seal)
{
    struct object *o = &l->h->object[id];
    struct tamis_diag diag;
    struct event e = {.kind = seal ? EVENT_SEAL : EVENT_COMMIT,
                      .object = id,
                      .watermark = o->n_keys,
                      .n_helper = atomic_load(&t->n_done)};
    history_event(l->h, e);
    if (seal)
        must(tamis_writer_seal(w, o->n_keys, NULL, &diag), "seal", &diag);
    else
        must(tamis_writer_commit(w, o->n_keys, &diag), "commit", &diag);
    e.done = true;
    history_event(l->h, e);
    o->n_helper_keys = e.n_helper;
    o->sealed |= seal;
}

static struct tamis_writer *open_writer(struct life *l, uint32_t id)
{
    static struct expected now;
    struct object *o = &l->h->object[id];
    struct tamis_writer *w;
    struct tamis_diag diag;
    life_close_all(l);
    if (o->kind == OBJECT_LONE)
        must(tamis_writer_open(o->name, &w, &diag), "writer_open", &diag);
    else
        must(tamis_store_writer(l->store, o->name, strlen(o->name), &w, &diag),
             "store_writer", &diag);
    history_expect(l->h, UINT64_MAX, &now);
    if (tamis_writer_watermark(w) < now.object[id].watermark)
        host_fail("a live writer has forgotten its watermark");
    return w;
}

static uint32_t some(struct life *l)
{
    return 1 + (uint32_t)below(l, below(l, 3) ? 10 : 120);
}

void life_session(struct life *l, uint32_t id)
{
    struct object *o = &l->h->object[id];
    struct tamis_writer *w = open_writer(l, id);
    struct helper t = {.life = l, .w = w, .object = id};
    pthread_t thread;
    t.n_done = o->n_helper_keys;
    t.most = o->n_helper_keys + some(l);
    add(l, w, id, (uint32_t)tamis_writer_watermark(w), o->n_keys);
    bool helped = below(l, 2);
    if (helped && pthread_create(&thread, NULL, help, &t) != 0)
        host_fail("no thread");
    for (uint64_t n = 1 + below(l, 4); n > 0; n--) {
        uint32_t more = some(l);
        add(l, w, id, o->n_keys, o->n_keys + more);
        o->n_keys += more;
        commit(l, w, id, &t, false);
    }
    atomic_store(&t.stop, true);
    if (helped)
        pthread_join(thread, NULL);
    uint32_t more = (uint32_t)below(l, 20); /* not acknowledged, unless by a seal */
    add(l, w, id, o->n_keys, o->n_keys + more);
    o->n_keys += more;
    if (below(l, 6) == 0)
        commit(l, w, id, &t, true);
    l->open[l->n_open++] = w;
    if (below(l, 2))
        life_close_all(l);
}

void life_close_all(struct life *l)
{
    while (l->n_open)
        must(tamis_writer_close(l->open[--l->n_open]), "close", NULL);
}
