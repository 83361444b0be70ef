/* Readers first, then writers, then readers again. */
#include "tests/powercut/check.h"
#include "lib/tamis.h"

#include <dirent.h>
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

static void expect_keys(struct tamis_filter *f, uint32_t id, bool helper, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct tamis_key key =
            tamis_key_of_hash(domain.tag, history_key(h, id, helper, i));
        enum tamis_reason why;
        enum tamis_answer answer = tamis_filter_probe(f, &key, &why);
        finding->n_keys++;
        if (answer == TAMIS_ABSENT || why != TAMIS_HIT)
            wrong(NULL, "object %u: %s key %u of %u is %s (%s)", id,
                  helper ? "the second thread's" : "the main thread's", i, n,
                  answer == TAMIS_ABSENT ? "ABSENT" : "MAYBE", tamis_reason_name(why));
    }
}

/* A seal that nobody was told of may have reached one slot only. */
static void expect_whole(struct tamis_filter *f, uint32_t id, bool acknowledged)
{
    struct tamis_verify report;
    struct tamis_diag diag;
    if (tamis_filter_verify(f, &report, &diag) == 0)
        return;
    if (acknowledged || report.n_damaged > 0 || report.n_stale_slots != 1)
        wrong(&diag, "object %u does not verify: %llu damaged pages, %u stale slots",
              id, (unsigned long long)report.n_damaged, report.n_stale_slots);
}

static void expect_growing(struct tamis_filter *f, uint32_t id)
{
    const struct expected_object *o = &expected.object[id];
    struct tamis_filter_info info;
    ours(tamis_filter_info(f, &info), h->object[id].name, "info", NULL);
    if (info.watermark < o->watermark || info.watermark > o->asked)
        wrong(NULL, "object %u: watermark %llu, acknowledged %u, asked for %u", id,
              (unsigned long long)info.watermark, o->watermark, o->asked);
    if (o->seal == THERE && !info.sealed)
        wrong(NULL, "object %u is not sealed", id);
    if (info.sealed && o->seal == NOT_THERE)
        wrong(NULL, "object %u is sealed", id);
    if (info.sealed)
        expect_whole(f, id, o->seal == THERE);
    expect_keys(f, id, false, (uint32_t)info.watermark);
    expect_keys(f, id, true, o->n_helper);
}

static void expect_filter(struct tamis_filter *f, uint32_t id)
{
    enum object_kind kind = h->object[id].kind;
    if (kind == OBJECT_GROWING || kind == OBJECT_LONE) {
        expect_growing(f, id);
    } else {
        expect_whole(f, id, true);
        expect_keys(f, id, false, h->object[id].n_keys);
    }
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
    expect_filter(f, id);
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

/* Which segment of the snapshot is which object: by its binding. */
static void list_segments(const struct tamis_snapshot *s, bool listed[MAX_OBJECTS],
                          size_t index[MAX_OBJECTS])
{
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
        index[id] = i;
    }
}

/* All of an edit took effect, or nothing; half: by its number, 1: none, 2: all. */
static void expect_standing(uint32_t id, bool listed, uint8_t half[MAX_CHANGES])
{
    const struct expected_object *o = &expected.object[id];
    if (o->standing == THERE && !listed)
        wrong(NULL, "object %u is not listed", id);
    if (o->standing == NOT_THERE && listed)
        wrong(NULL, "object %u is listed", id);
    if (o->standing == COMING || o->standing == GOING) {
        uint8_t now = listed == (o->standing == COMING) ? 2 : 1;
        if (half[o->edit] && half[o->edit] != now)
            wrong(NULL, "half of edit %u took effect", o->edit);
        half[o->edit] = now;
    }
}

static size_t expect_segments(struct tamis_store *store)
{
    bool listed[MAX_OBJECTS] = {false};
    size_t index[MAX_OBJECTS], n_files = 0;
    uint8_t half[MAX_CHANGES] = {0};
    struct tamis_snapshot *s;
    struct tamis_filter *f;
    struct tamis_diag diag;
    ours(tamis_snapshot_current(store, &s, &diag), STORE_NAME, "snapshot", &diag);
    list_segments(s, listed, index);
    for (uint32_t id = 0; id < h->n_objects; id++) {
        enum object_kind kind = h->object[id].kind;
        if (kind > OBJECT_GROWING)
            continue;
        expect_standing(id, listed[id], half);
        if (!listed[id] || kind == OBJECT_BARE)
            continue;
        n_files++;
        if (tamis_snapshot_filter(s, index[id], &f, &diag) != 0)
            wrong(&diag, "object %u: a segment without its filter", id);
        expect_filter(f, id);
    }
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
    if (watermark < o->watermark || watermark > o->asked)
        wrong(NULL, "object %u: the writer says %llu, acknowledged %u, asked for %u",
              id, (unsigned long long)watermark, o->watermark, o->asked);
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

static size_t count_files(void)
{
    size_t n = 0;
    DIR *d = opendir(STORE_NAME "/filters");
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
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
    if (count_files() != n_files + 1)
        wrong(NULL, "%zu files for %zu segments", count_files(), n_files + 1);
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
    if (!open_store(&store, go_on))
        _exit(0);
    size_t n_files = expect_segments(store);
    if (go_on) {
        replay_all(store);
        edit(store, n_files);
        expect_segments(store);
        expect_files();
        out->went_on = true;
    }
    tamis_store_close(store);
    _exit(0);
}
