/* The content that a disk must have after a cut at some point. */
#include "tests/powercut/history.h"
#include "tests/powercut/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct history *history_create(uint64_t seed)
{
    struct history *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h == MAP_FAILED)
        host_fail("no memory");
    h->seed = seed;
    h->rng.state = mix64(seed, 1);
    return h;
}

struct history *history_continue(const struct history *before, uint64_t seed)
{
    struct history *h = history_create(seed);
    h->seed = before->seed;
    h->n_edits = before->n_edits;
    h->n_objects = before->n_objects;
    memcpy(h->object, before->object, sizeof h->object);
    return h;
}

void history_free(struct history *h)
{
    munmap(h, sizeof *h);
}

uint32_t history_object(struct history *h, enum object_kind kind, const char *name)
{
    if (h->n_objects == MAX_OBJECTS)
        host_fail("too many objects");
    struct object *o = &h->object[h->n_objects];
    o->kind = kind;
    if (name)
        snprintf(o->name, sizeof o->name, "%s", name);
    else
        snprintf(o->name, sizeof o->name, "%u", h->n_objects);
    return h->n_objects++;
}

void history_event(struct history *h, struct event e)
{
    if (h->n_events == MAX_EVENTS)
        host_fail("too many events");
    e.at = atomic_load(&h->device->n_entries);
    h->event[h->n_events++] = e;
}

uint64_t history_key(const struct history *h, uint32_t object, bool helper, uint64_t n)
{
    return mix64(mix64(h->seed, object + 1), n << 1 | helper);
}

/* ---- events, one after the other ---- */

static void take_edit(const struct history *h, const struct event *e,
                      struct expected *out)
{
    for (uint32_t i = 0; i < h->n_changes; i++) {
        const struct change *c = &h->change[i];
        struct expected_object *o = &out->object[c->object];
        if (c->edit != e->object)
            continue;
        o->edit = c->edit;
        if (e->done)
            o->standing = c->drop ? NOT_THERE : THERE;
        else
            o->standing = c->drop ? GOING : COMING;
    }
}

static void take_commit(const struct event *e, struct expected_object *o)
{
    if (e->done) {
        o->watermark = e->watermark;
        o->n_helper = e->n_helper;
    } else if (o->asked < e->watermark) {
        o->asked = e->watermark;
    }
    if (e->kind == EVENT_SEAL)
        o->seal = e->done ? THERE : COMING;
}

void history_expect(const struct history *h, uint64_t cut, struct expected *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < h->n_events && h->event[i].at <= cut; i++) {
        const struct event *e = &h->event[i];
        out->n_acknowledged += e->done;
        switch (e->kind) {
        case EVENT_STORE:
            out->store = e->done ? THERE : COMING;
            break;
        case EVENT_EDIT:
            take_edit(h, e, out);
            break;
        case EVENT_CREATE:
            out->object[e->object].standing = e->done ? THERE : COMING;
            break;
        case EVENT_COMMIT:
        case EVENT_SEAL:
            take_commit(e, &out->object[e->object]);
            break;
        }
    }
}
