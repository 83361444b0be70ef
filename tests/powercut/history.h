/* The history of a run: the objects that it made, the calls that it began, and those
 * that the library acknowledged, each stamped with the length of the disk's log at that
 * moment. From it follows what a disk must have, and may have, after a cut at any
 * point.
 *
 * A begin is stamped before the call, an acknowledgement after it has returned: an
 * acknowledgement that is stamped n holds of every cut at n or later. */
#ifndef TAMIS_TESTS_POWERCUT_HISTORY_H
#define TAMIS_TESTS_POWERCUT_HISTORY_H

#include "tests/crash/disk/disk.h" /* random numbers */
#include "tests/model/model.h"
#include "tests/powercut/device.h"

enum object_kind {
    OBJECT_BUILT, /* segments of the store */
    OBJECT_ATTACHED,
    OBJECT_BARE,
    OBJECT_GROWING,
    OBJECT_FILE,     /* a filter in a file of its own, built */
    OBJECT_LONE,     /* the same, growing */
    OBJECT_ENGINE,   /* a filter inside a file of the engine, which syncs it */
    OBJECT_UNSYNCED, /* a plain file that nobody synced: a power cut must lose some */
};

/* The keys of an object are a log: main ones by position, and, of growing filters,
 * those of a second thread. */
struct object {
    enum object_kind kind;
    char name[8]; /* of the segment, which may recur, or of the file */
    uint32_t n_keys, n_helper_keys;
    bool sealed, dropped;
};

enum event_kind {
    EVENT_STORE,  /* the store's creation */
    EVENT_EDIT,   /* object: its number */
    EVENT_CREATE, /* of a file */
    EVENT_COMMIT,
    EVENT_SEAL,
};

struct event {
    uint64_t at;
    enum event_kind kind;
    bool done; /* else begun */
    uint32_t object;
    uint32_t watermark, n_helper; /* of a commit or a seal */
};

/* A change by an edit: the object comes, or it goes. */
struct change {
    uint32_t edit, object;
    bool drop;
};

enum { MAX_OBJECTS = 256, MAX_EVENTS = 4096, MAX_CHANGES = 1024 };
#define STORE_NAME "store"

struct history {
    uint64_t seed; /* of the keys */
    struct device *device;
    struct rng rng;
    uint32_t n_objects, n_events, n_changes, n_edits;
    struct object object[MAX_OBJECTS];
    struct event event[MAX_EVENTS];
    struct change change[MAX_CHANGES];
};

/* In memory that processes share. */
struct history *history_create(uint64_t seed);
void history_free(struct history *h);

/* The engine's life after the power cut: the same objects, and no events yet. */
struct history *history_continue(const struct history *before, uint64_t seed);

uint32_t history_object(struct history *h, enum object_kind kind, const char *name);
void history_event(struct history *h, struct event e);
/* The hash of an object's key; keys of the second thread are another sequence. */
uint64_t history_key(const struct history *h, uint32_t object, bool helper, uint64_t n);
/* Keys are hashed with this seed everywhere. */
enum { HISTORY_HASH_SEED = 7 };

/* ---- what must hold ---- */

struct expected {
    enum standing store;
    struct expected_object {
        enum standing standing;
        uint32_t edit;             /* while coming or going */
        uint32_t watermark, asked; /* acknowledged; the greatest asked for */
        uint32_t n_helper;         /* of the second thread's keys: acknowledged */
        enum standing seal;
    } object[MAX_OBJECTS];
    uint32_t n_acknowledged;
};

void history_expect(const struct history *h, uint64_t cut, struct expected *out);

#endif
