/* Readers first, then writers, then readers again. */
#include "tests/powercut/check.h"
#include "lib/tamis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct history *h;
static struct expected expected;
static struct finding *finding;
static struct tamis_domain domain;

static _Noreturn __attribute__((format(printf, 2, 3))) void
wrong(const struct tamis_diag *diag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    finding->wrong = true;
    int os = diag ? diag->os_errno : 0;
    finding->file_system = os == EUCLEAN || os == EIO;
    int n = vsnprintf(finding->what, FINDING_BYTES, format, args);
    if (diag && n > 0 && n < FINDING_BYTES / 2)
        snprintf(finding->what + n, FINDING_BYTES - (size_t)n,
                 ": %s: %.150s (%.200s, %s)", tamis_strerror(diag->code), diag->what,
                 diag->file, strerror(os));
    va_end(args);
    _exit(0);
}

static void ours(int err, const char *name, const char *doing,
                 const struct tamis_diag *diag)
{
    if (err)
        wrong(diag, "%s: %s", name, doing);
}

/* ---- filters ---- */

/* The keys of an object: those of the main thread, those of the second one. */
struct keys_of {
    uint32_t id;
    bool helper;
};

static bool key_of_object(const void *ctx, uint64_t i, struct tamis_key *out)
{
    const struct keys_of *of = ctx;
    *out = tamis_key_of_hash(domain.tag, history_key(h, of->id, of->helper, i));
    return true;
}

static struct promised_filter promised_of(uint32_t id)
{
    static struct keys_of logs[MAX_OBJECTS][2];
    const struct expected_object *o = &expected.object[id];
    enum object_kind kind = h->object[id].kind;
    logs[id][0] = (struct keys_of){id, false};
    logs[id][1] = (struct keys_of){id, true};
    bool grows = kind == OBJECT_GROWING || kind == OBJECT_LONE;
    return (struct promised_filter){
        .keys = {key_of_object, &logs[id][0],
                 grows ? o->watermark : h->object[id].n_keys},
        .more = {key_of_object, &logs[id][1], grows ? o->n_helper : 0},
        .grows = grows,
        .watermark = o->watermark,
        .asked = o->asked,
        .seal = o->seal,
    };
}

static void expect_object(struct tamis_filter *f, uint32_t id)
{
    struct promised_filter p = promised_of(id);
    char who[32];
    snprintf(who, sizeof who, "object %u", id);
    expect_filter(who, f, &p);
}

_Noreturn void model_broken(const char *text)
{
    wrong(NULL, "%s", text);
}

/* ---- files of the engine ---- */

static void look_at_unsynced(uint32_t id)
{
    uint8_t bytes[4096];
    struct stat st;
    int fd = open(h->object[id].name, O_RDONLY | O_CLOEXEC);
    bool whole = fd >= 0 && fstat(fd, &st) == 0 && st.st_size == sizeof bytes &&
                 read(fd, bytes, sizeof bytes) == sizeof bytes;
    for (size_t i = 0; whole && i < sizeof bytes; i++)
        whole = bytes[i] == 'u';
    if (fd >= 0)
        close(fd);
    finding->n_unsynced++;
    finding->n_unsynced_lost += !whole;
}

/* Built files and new growing ones appear whole under their names, or not (R13). */
static void expect_file(uint32_t id)
{
    const struct object *o = &h->object[id];
    bool promised = expected.object[id].standing == THERE;
    struct tamis_filter *f;
    struct tamis_diag diag;
    if (access(o->name, F_OK) != 0 && !promised)
        return;
    if (o->kind == OBJECT_ENGINE) {
        if (!promised)
            return; /* the engine's own affair */
        int fd = open(o->name, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            wrong(NULL, "object %u: the engine's file is lost", id);
        ours(tamis_filter_open_fd(fd, 8192, 0, NULL, &f, &diag), o->name, "open_fd",
             &diag);
        close(fd);
    } else {
        ours(tamis_filter_open(o->name, NULL, &f, &diag), o->name, "open", &diag);
    }
    expect_object(f, id);
    tamis_filter_close(f);
}

static void expect_files(void)
{
    for (uint32_t id = 0; id < h->n_objects; id++) {
        const struct object *o = &h->object[id];
        if (o->kind <= OBJECT_GROWING || expected.object[id].standing == NOT_THERE)
            continue;
        if (o->kind != OBJECT_UNSYNCED)
            expect_file(id);
        else if (expected.object[id].standing == THERE)
            look_at_unsynced(id);
    }
}

/* ---- the store ---- */

/* Each listed segment is an object, by its binding, and each object is listed once. */
static void expect_objects_only(const struct tamis_snapshot *s)
{
    bool listed[MAX_OBJECTS] = {false};
    for (size_t i = 0; i < tamis_snapshot_n_segments(s); i++) {
        struct tamis_segment_info info;
        uint32_t id = MAX_OBJECTS;
        ours(tamis_snapshot_segment(s, i, &info), "snapshot", "segment", NULL);
        if (info.state == 0)
            wrong(NULL, "segment %zu: its record is unreadable", i);
        if (info.binding_bytes == sizeof id)
            memcpy(&id, info.binding, sizeof id);
        if (info.name_bytes == 3 && memcmp(info.name, "new", 3) == 0)
            continue; /* put by going on */
        if (id >= h->n_objects || listed[id])
            wrong(NULL, "segment %zu is no object, or one that is listed twice", i);
        listed[id] = true;
    }
}

static size_t expect_store(struct tamis_store *store)
{
    static struct promised_segment promised[MAX_OBJECTS];
    static uint32_t ids[MAX_OBJECTS];
    struct tamis_snapshot *s;
    struct tamis_diag diag;
    size_t n = 0;
    ours(tamis_snapshot_current(store, &s, &diag), STORE_NAME, "snapshot", &diag);
    expect_objects_only(s);
    for (uint32_t id = 0; id < h->n_objects; id++) {
        const struct expected_object *o = &expected.object[id];
        if (h->object[id].kind > OBJECT_GROWING)
            continue;
        ids[n] = id;
        promised[n] = (struct promised_segment){
            .binding = &ids[n],
            .binding_bytes = sizeof ids[n],
            .standing = o->standing,
            .edit = o->edit,
            .bare = h->object[id].kind == OBJECT_BARE,
            .filter = promised_of(id),
        };
        snprintf(promised[n].name, sizeof promised[n].name, "%s (object %u)",
                 h->object[id].name, id);
        n++;
    }
    size_t n_files = expect_segments(s, promised, n, NULL);
    tamis_snapshot_release(s);
    return n_files;
}

/* ---- going on ---- */

/* After the replay all keys that were ever added are in; and they are acknowledged. */
static void replay(struct tamis_writer *w, uint32_t id)
{
    struct expected_object *o = &expected.object[id];
    struct tamis_diag diag;
    uint64_t watermark = tamis_writer_watermark(w), key;
    uint32_t n = h->object[id].n_keys;
    struct promised_filter p = promised_of(id);
    expect_watermark(h->object[id].name, watermark, &p);
    for (uint64_t i = watermark; i < n; i++) {
        key = history_key(h, id, false, i);
        ours(tamis_writer_add_hashes(w, domain.tag, &key, 1), h->object[id].name, "add",
             NULL);
    }
    ours(tamis_writer_commit(w, n, &diag), h->object[id].name, "commit", &diag);
    ours(tamis_writer_close(w), h->object[id].name, "close", NULL);
    o->watermark = o->asked = n;
}

static void replay_all(struct tamis_store *store)
{
    for (uint32_t id = 0; id < h->n_objects; id++) {
        const struct object *o = &h->object[id];
        bool there = expected.object[id].standing == THERE;
        struct tamis_writer *w;
        struct tamis_diag diag;
        int err = TAMIS_ERR_SEALED;
        if (o->kind == OBJECT_LONE && there)
            err = tamis_writer_open(o->name, &w, &diag);
        else if (o->kind == OBJECT_GROWING && there)
            err = tamis_store_writer(store, o->name, strlen(o->name), &w, &diag);
        else
            continue;
        if (err == 0)
            replay(w, id);
        else if (err != TAMIS_ERR_SEALED || expected.object[id].seal == NOT_THERE)
            wrong(&diag, "object %u: does not open for writing", id);
    }
}

/* The edit sweeps what nothing names. */
static void edit(struct tamis_store *store, size_t n_files)
{
    struct tamis_edit *e;
    struct tamis_builder *b;
    struct tamis_diag diag;
    uint64_t key = 1;
    ours(tamis_edit_begin(store, &e, &diag), STORE_NAME, "edit_begin", &diag);
    ours(tamis_edit_builder(e, "new", 3, 0, NULL, &b, &diag), STORE_NAME, "builder",
         &diag);
    ours(tamis_builder_add_hashes(b, domain.tag, &key, 1), STORE_NAME, "add", NULL);
    ours(tamis_edit_put(e, b, &diag), STORE_NAME, "put", &diag);
    tamis_builder_free(b);
    ours(tamis_edit_commit(e, &diag), STORE_NAME, "edit_commit", &diag);
    size_t n_now = count_filter_files(STORE_NAME);
    if (n_now != n_files + 1)
        wrong(NULL, "%zu files for %zu segments", n_now, n_files + 1);
}

/* An engine whose store was not made yet makes it again. */
static bool open_store(struct tamis_store **store, bool go_on)
{
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    struct tamis_diag diag;
    int err = tamis_store_open(STORE_NAME, store, &diag);
    if (!err)
        return true;
    if (expected.store == THERE)
        wrong(&diag, "the store does not open");
    if (!go_on)
        return false;
    ours(tamis_store_create(STORE_NAME, &opt, &diag), STORE_NAME,
         "creating it once more", &diag);
    ours(tamis_store_open(STORE_NAME, store, &diag), STORE_NAME, "opening it", &diag);
    return true;
}

void check_run(const struct history *history, uint64_t cut, const char *dir, bool go_on,
               struct finding *out)
{
    struct tamis_store *store;
    h = history;
    finding = out;
    alarm(120);
    history_expect(h, cut, &expected);
    if (chdir(dir) != 0)
        wrong(NULL, "chdir: %s", strerror(errno));
    tamis_domain_init(&domain, 1, HISTORY_HASH_SEED);
    expect_files();
    out->n_keys = (unsigned)model_counts.n_asked;
    if (!open_store(&store, go_on))
        _exit(0);
    size_t n_files = expect_store(store);
    if (go_on) {
        replay_all(store);
        edit(store, n_files);
        expect_store(store);
        expect_files();
        out->went_on = true;
    }
    tamis_store_close(store);
    out->n_keys = (unsigned)model_counts.n_asked;
    _exit(0);
}
