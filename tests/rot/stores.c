/* The same in a store: files that rot, go, come back older or change places; records of
 * the catalog that rot; older catalogs; attaching what is damaged. Every damage is met
 * by a store that is opened afresh. */
#include "tests/rot/rot.h"
#include "tests/rot/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* ---- the store ---- */

static void catalog_path(const struct shop *s, char path[PATH_BYTES + 20])
{
    snprintf(path, PATH_BYTES + 20, "%s/catalog.lmdb", s->path);
}

static struct tamis_store *open_store(const struct shop *s)
{
    struct tamis_store *store = NULL;
    tamis_store_open(s->path, &store, NULL);
    return store;
}

/* ---- asking ---- */

static struct tamis_key key_of(const struct segment *g, struct tamis_domain *d,
                               size_t i)
{
    static char text[40];
    snprintf(text, sizeof text, "%s-%06zu", g->name, i);
    return tamis_key_of(d, text, strlen(text));
}

/* Asks for keys of one segment, with and without their bytes (key ranges). */
static void ask_segment(const struct shop *s, struct tamis_snapshot *now,
                        const struct segment *g, bool put_back, const char *what)
{
    struct tamis_target t;
    struct tamis_domain d = s->domain;
    bool seen = false;
    int rc = tamis_snapshot_find(now, g->name, strlen(g->name), NULL, 0, 0, &t);
    /* A catalog need not list every segment: an older one may lack some. */
    bool listed = rc != TAMIS_ERR_NO_SEGMENT;
    for (size_t n = 0; n < KEYS_ASKED; n++) {
        size_t i = n == 0 ? 0 : n == 1 ? g->n_keys - 1 : random_below(g->n_keys);
        struct tamis_key key = key_of(g, &d, i);
        uint64_t absent;
        if (n % 2)
            key.bytes = NULL;
        if (tamis_snapshot_probe(now, &t, &key, NULL) == TAMIS_MAYBE &&
            (!listed ||
             tamis_snapshot_probe_all(now, &key, &absent, NULL) == TAMIS_MAYBE))
            continue;
        if (put_back && !g->sealed)
            seen = true;
        else
            lost(s->kind, "segment %s, key %zu: %s", g->name, i, what);
    }
    if (seen)
        atomic_fetch_add(&tally->exceptions[PUT_BACK], 1);
}

/* Opens the store, asks all segments. put_back: an older copy of an open filter, no
 * older than its last growth, lies there; SPEC.md names what that may lose. */
static void ask_store(const struct shop *s, bool put_back, const char *what)
{
    struct tamis_store *store = open_store(s);
    struct tamis_snapshot *now = NULL;
    atomic_fetch_add(&tally->in_store, 1);
    if (store && tamis_snapshot_current(store, &now, NULL) == 0)
        for (size_t i = 0; i < s->n_segments; i++)
            ask_segment(s, now, &s->segments[i], put_back, what);
    tamis_snapshot_release(now);
    tamis_store_close(store);
}

/* ---- files ---- */

static void write_file(const char *path, const uint8_t *bytes, size_t n)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    CHECK(fd >= 0 && pwrite(fd, bytes, n, 0) == (ssize_t)n);
    close(fd);
}

static void rot_files(const struct shop *s, const struct effort *e)
{
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        struct kind k = {.name = g->name, .now = g->now, .other = s->segments[0].now};
        struct slot_health health;
        struct file f = {.kind = &k, .fd = open(g->path, O_RDWR | O_CLOEXEC)};
        char text[200];
        CHECK(identity_decode(g->now.bytes, g->now.n, &k.id).code == VERDICT_OK);
        CHECK(commit_choose_slot(g->now.bytes, &k.id, g->now.n, &k.commit, &health)
                  .code == VERDICT_OK);
        f.is.bytes = malloc(g->now.n + (1 << 20));
        f.is.n = g->now.n;
        memcpy(f.is.bytes, g->now.bytes, g->now.n);
        for (uint64_t n = 0; n < e->n_stores && !enough(); n++) {
            struct damage d = damage_random(&k, 0);
            /* Noise and foreign sectors may mask losses in open stages. */
            while (!g->sealed && (d.what == NOISE || d.what == COPY))
                d = damage_random(&k, 0);
            damage_do(&f, &d);
            damage_say(text, sizeof text, &d);
            ask_store(s, false, text);
            file_mend(&f);
        }
        close(f.fd);
        free(f.is.bytes);
    }
}

static void put_back_and_exchange(const struct shop *s)
{
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct segment *g = &s->segments[i];
        for (size_t n = 0; n < g->n_past; n++) {
            write_file(g->path, g->past[n].bytes, g->past[n].n);
            /* Closed since: the catalog knows. */
            ask_store(s, n >= g->n_noted, "an older copy put back");
        }
        CHECK(unlink(g->path) == 0);
        ask_store(s, false, "its file is gone");
        for (size_t k = 0; k < s->n_segments; k++) {
            const struct segment *other = &s->segments[k];
            write_file(g->path, other->now.bytes, other->now.n);
            write_file(other->path, g->now.bytes, g->now.n);
            ask_store(s, false, "two files exchanged");
            write_file(other->path, other->now.bytes, other->now.n);
        }
        write_file(g->path, g->now.bytes, g->now.n);
        ask_store(s, false, "nothing, any more");
    }
}

/* ---- the catalog ---- */

/* Records are found by their filter's uuid; LMDB's own pages are trusted (SPEC.md
 * section 13). Older versions of a record may lie about in free pages, too. */
static void rot_records(const struct shop *s, const struct effort *e)
{
    char path[PATH_BYTES + 20], text[100];
    catalog_path(s, path);
    struct image m = image_read(path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    uint64_t turn = 0, every = e->every;
    for (size_t i = 0; i < s->n_segments; i++) {
        const uint8_t *uuid = s->segments[i].now.bytes + 40;
        for (size_t at = 32; at + 400 < m.n; at++) {
            if (memcmp(m.bytes + at, uuid, UUID_BYTES) != 0)
                continue;
            /* The value alone, 248 bytes and the keys of its range. */
            size_t n = 248 + (size_t)(m.bytes[at - 28] + m.bytes[at - 26]);
            for (size_t bit = 0; bit < n * 8; bit++) {
                uint64_t where = at - 32 + bit / 8;
                uint8_t b = (uint8_t)(m.bytes[where] ^ 1 << bit % 8);
                if (turn++ % every)
                    continue;
                CHECK(pwrite(fd, &b, 1, (off_t)where) == 1);
                snprintf(text, sizeof text, "record, bit %zu", bit);
                ask_store(s, false, text);
                CHECK(pwrite(fd, &m.bytes[where], 1, (off_t)where) == 1);
            }
        }
    }
    close(fd);
    free(m.bytes);
}

static void older_catalogs(const struct shop *s)
{
    char path[PATH_BYTES + 20];
    catalog_path(s, path);
    struct image m = image_read(path);
    for (size_t i = 0; i < s->n_catalogs; i++) {
        write_file(path, s->catalogs[i].bytes, s->catalogs[i].n);
        ask_store(s, false, "an older catalog put back");
    }
    write_file(path, m.bytes, m.n);
    free(m.bytes);
}

/* ---- attach ---- */

static void attach_one(const struct shop *s, struct tamis_store *store,
                       const struct kind *k, const char *path, const char *what)
{
    struct tamis_edit *edit;
    struct tamis_snapshot *now;
    struct tamis_target t;
    struct tamis_filter *filter;
    struct tamis_verify report;
    atomic_fetch_add(&tally->attached, 1);
    CHECK(tamis_edit_begin(store, &edit, NULL) == 0);
    if (tamis_edit_attach(edit, "attached", 8, path, NULL, NULL) != 0) {
        atomic_fetch_add(&tally->attach_refused, 1);
        tamis_edit_abort(edit);
        return;
    }
    CHECK(tamis_edit_commit(edit, NULL) == 0);
    CHECK(tamis_snapshot_current(store, &now, NULL) == 0);
    CHECK(tamis_snapshot_find(now, "attached", 8, NULL, 0, 0, &t) == 0);
    for (size_t i = 0; i < k->n_acked; i++) {
        struct tamis_key key = tamis_key_of_hash(s->domain.tag, k->keys[i]);
        if (tamis_snapshot_probe(now, &t, &key, NULL) == TAMIS_ABSENT)
            lost(s->kind, "%s attached, key %zu: %s", k->name, i, what);
    }
    CHECK(tamis_snapshot_filter(now, t.slot - 1, &filter, NULL) == 0);
    tamis_filter_verify(filter, &report, NULL);
    if (report.n_damaged)
        lost(s->kind, "%s attached with damaged pages: %s", k->name, what);
    tamis_snapshot_release(now);
    CHECK(tamis_edit_begin(store, &edit, NULL) == 0);
    CHECK(tamis_edit_drop(edit, "attached", 8, NULL) == 0);
    CHECK(tamis_edit_commit(edit, NULL) == 0);
}

/* Two copies of pages may have made it that, whole: nobody can tell it is not the one
 * that was meant ("exchanged", SPEC.md 7.3). */
static bool is_another(const struct kind *k, const char *path)
{
    struct image m = image_read(path);
    bool same = m.n == k->other.n && memcmp(m.bytes, k->other.bytes, m.n) == 0;
    free(m.bytes);
    return same;
}

static void attach_damaged(const struct shop *s, struct tamis_store *store,
                           const struct kind *k, const struct effort *e)
{
    struct file f;
    char text[200];
    file_open(&f, k);
    attach_one(s, store, k, f.path, "whole");
    for (uint64_t n = 0; n < e->n_stores && !enough(); n++) {
        struct damage d[2] = {damage_random(k, 0)};
        d[1] = damage_random(k, d[0].at);
        damage_do(&f, &d[0]);
        if (n % 2)
            damage_do(&f, &d[1]);
        damage_say(text, sizeof text, &d[0]);
        if (!is_another(k, f.path))
            attach_one(s, store, k, f.path, text);
        file_mend(&f);
    }
    file_close(&f);
}

/* ---- packs ---- */

/* Packs the sealed segments of one stage; their own files go. */
static void pack_all(const struct shop *s)
{
    struct tamis_store *store = open_store(s);
    struct tamis_snapshot *now;
    struct tamis_edit *edit;
    struct tamis_pack_report report;
    CHECK(store && tamis_snapshot_current(store, &now, NULL) == 0);
    CHECK(tamis_edit_begin(store, &edit, NULL) == 0);
    CHECK(tamis_edit_pack(edit, now, NULL, 0, NULL, &report, NULL) == 0);
    tamis_snapshot_release(now);
    CHECK(tamis_edit_commit(edit, NULL) == 0 && report.n_packed >= 2);
    tamis_store_close(store);
}

/* The pack, or its tombstones. */
static void find_pack(const struct shop *s, const char *ending, char path[PATH_BYTES])
{
    char dir[PATH_BYTES + 20];
    snprintf(dir, sizeof dir, "%s/filters", s->path);
    DIR *d = opendir(dir);
    size_t n = 0;
    CHECK(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".dead"))
            n = (size_t)snprintf(path, PATH_BYTES, "%.300s/%.32s%s", dir, e->d_name,
                                 ending);
    closedir(d);
    CHECK(n);
}

static void hurt_bytes(uint8_t *bytes, size_t *n, char text[100])
{
    size_t at = random_below(*n), most = *n - at, some = 1 + random_below(9000);
    uint64_t how = random_below(5);
    some = some < most ? some : most;
    snprintf(text, 100, "a pack's file, hurt %d at %zu, %zu bytes", (int)how, at, some);
    if (how == 0)
        bytes[at] ^= (uint8_t)(1 << random_below(8));
    else if (how == 1)
        memset(bytes + at, 0, some);
    else if (how == 2)
        memset(bytes + at, 0xff, some);
    else if (how == 3)
        *n = at;
    else
        memmove(bytes + at, bytes + random_below(*n - some + 1), some);
}

static void rot_packs(const struct shop *s, const struct effort *e)
{
    static const char *const endings[] = {".tamis", ".dead"};
    pack_all(s);
    ask_store(s, false, "nothing, packed");
    for (size_t i = 0; i < 2; i++) {
        char path[PATH_BYTES], text[100];
        find_pack(s, endings[i], path);
        struct image m = image_read(path);
        uint8_t *bytes = malloc(m.n);
        CHECK(bytes);
        for (uint64_t k = 0; k < 4 * e->n_stores && !enough(); k++) {
            size_t n = m.n;
            memcpy(bytes, m.bytes, m.n);
            hurt_bytes(bytes, &n, text);
            write_file(path, bytes, n);
            ask_store(s, false, text);
        }
        CHECK(unlink(path) == 0);
        ask_store(s, false, "a pack's file is gone");
        write_file(path, m.bytes, m.n);
        free(bytes);
        free(m.bytes);
    }
    older_catalogs(s);
}

void stores_run(const char *dir, const struct effort *e)
{
    static const struct kind name = {.name = "in a store"};
    static const size_t attached[] = {1, 3, 4, 16, 18};
    struct shop s;
    shop_make(&s, dir, &name);
    ask_store(&s, false, "nothing");
    put_back_and_exchange(&s);
    older_catalogs(&s);
    rot_records(&s, e);
    rot_files(&s, e);
    rot_packs(&s, e);
    struct tamis_store *store = open_store(&s);
    CHECK(store);
    for (size_t i = 0; i < sizeof attached / sizeof attached[0]; i++) {
        struct kind k;
        kind_make(&k, attached[i], dir);
        CHECK(k.commit.state == STATE_SEALED);
        attach_damaged(&s, store, &k, e);
    }
    tamis_store_close(store);
}
