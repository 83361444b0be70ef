/* An engine that comes back after a power cut finds out what it has. */
#include "tests/powercut/host.h"
#include "tests/powercut/session.h"
#include "tests/powercut/workload.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct expected expected; /* of the cut */

/* It is on the disk that the log begins with: it holds of every cut. */
static void found(struct history *h, struct event e)
{
    e.done = true;
    history_event(h, e);
    h->event[h->n_events - 1].at = 0;
}

static void found_object(struct history *h, uint32_t id)
{
    h->object[id].dropped = false;
    found(h, (struct event){.kind = EVENT_CREATE, .object = id});
}

static void found_growing(struct history *h, uint32_t id, struct tamis_filter *f)
{
    const struct expected_object *was = &expected.object[id];
    struct object *o = &h->object[id];
    struct tamis_filter_info info;
    must(tamis_filter_info(f, &info), "info", NULL);
    if (info.watermark < was->watermark)
        host_fail("a watermark that was lost, and not found to be");
    found_object(h, id);
    o->n_helper_keys = was->n_helper;
    o->sealed = info.sealed;
    struct event e = {.kind = EVENT_COMMIT,
                      .object = id,
                      .watermark = (uint32_t)info.watermark,
                      .n_helper = was->n_helper};
    found(h, e);
    h->event[h->n_events - 1].done = false; /* what may be asked for: as much */
    found(h, e);
    if (!info.sealed)
        return;
    e.kind = EVENT_SEAL;
    found(h, e);
    /* It may be in one slot only, unless it was acknowledged. */
    h->event[h->n_events - 1].done = was->seal == THERE;
}

static void look_into_store(struct history *h)
{
    struct tamis_store *store;
    struct tamis_snapshot *s;
    struct tamis_filter *f;
    struct tamis_diag diag;
    if (tamis_store_open(STORE_NAME, &store, NULL) != 0)
        return;
    found(h, (struct event){.kind = EVENT_STORE});
    must(tamis_snapshot_current(store, &s, &diag), "snapshot", &diag);
    for (size_t i = 0; i < tamis_snapshot_n_segments(s); i++) {
        struct tamis_segment_info info;
        uint32_t id;
        must(tamis_snapshot_segment(s, i, &info), "segment", NULL);
        memcpy(&id, info.binding, sizeof id);
        if (h->object[id].kind != OBJECT_GROWING) {
            found_object(h, id);
            continue;
        }
        must(tamis_snapshot_filter(s, i, &f, &diag), "filter", &diag);
        found_growing(h, id, f);
    }
    tamis_snapshot_release(s);
    tamis_store_close(store);
}

static void look_at_file(struct history *h, uint32_t id)
{
    struct object *o = &h->object[id];
    struct tamis_filter *f;
    struct tamis_diag diag;
    if (o->kind != OBJECT_LONE && expected.object[id].standing == THERE)
        found_object(h, id);
    if (o->kind != OBJECT_LONE || access(o->name, F_OK) != 0)
        return;
    must(tamis_filter_open(o->name, NULL, &f, &diag), "open", &diag);
    found_growing(h, id, f);
    tamis_filter_close(f);
}

void workload_resume(struct history *h, const struct history *before, uint64_t cut,
                     const char *dir)
{
    history_expect(before, cut, &expected);
    pid_t pid = host_fork();
    if (pid == 0) {
        if (chdir(dir) != 0)
            host_fail("chdir %s", dir);
        for (uint32_t id = 0; id < h->n_objects; id++)
            h->object[id].dropped = true;
        look_into_store(h);
        for (uint32_t id = 0; id < h->n_objects; id++)
            if (h->object[id].kind > OBJECT_GROWING &&
                h->object[id].kind != OBJECT_UNSYNCED)
                look_at_file(h, id);
        _exit(0);
    }
    int rc = host_wait(pid);
    if (rc != 0)
        host_fail("looking after a power cut ended with %d", rc);
}
