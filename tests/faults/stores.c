/* Making stores, changing them, and looking whether they are what they must be. */
#include "tests/faults/stores.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct tamis_store *store;

static const struct tamis_growth small = {
    .error = 0.001, .factor = 2, .first_capacity = 40};

const char *store_path(const struct run *r)
{
    return in_dir(r, "store");
}

int open_store(struct run *r)
{
    int rc = TRY(r, tamis_store_open(store_path(r), &store, &r->diag));
    CHECK((rc == 0) == (store != NULL), "opening failed, and there is a store");
    return rc;
}

void close_store(void)
{
    IN_LIB_VOID(tamis_store_close(store));
    store = NULL;
}

/* The disk failed while LMDB wrote its meta page, or a panic was played; or LMDB lost
 * its mapping. */
static bool may_end_catalog(const struct run *r)
{
    const struct plan *p = r->plan;
    return p && (p->fault->effect == PANIC || p->fault->effect == DOUBT ||
                 p->call == CALL_lmdb_pwrite || p->call == CALL_space ||
                 p->call == CALL_lmdb_mmap || p->call == CALL_mdb_env_set_mapsize);
}

bool goes_on(struct run *r)
{
    struct tamis_store_info info;
    struct tamis_snapshot *snapshot;
    if (!store)
        return false;
    int rc = IN_LIB(tamis_store_info(store, &info, &r->diag));
    if (rc == 0 && !info.read_only)
        rc = IN_LIB(tamis_snapshot_current(store, &snapshot, &r->diag));
    if (rc == 0 && !info.read_only) {
        IN_LIB_VOID(tamis_snapshot_release(snapshot));
        return true;
    }
    CHECK(rc == 0 || may_end_catalog(r) || r->panicked, "the store fails on: %s",
          r->diag.what);
    close_store();
    return false;
}

const char *path_of_segment(struct run *r, const char *name)
{
    static char path[2 * PATH_BYTES];
    struct tamis_snapshot *snapshot;
    struct tamis_segment_info info;
    struct tamis_target t;
    CHECK(open_store(r) == 0, "preparing");
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    tamis_snapshot_find(snapshot, name, strlen(name), NULL, 0, 0, &t);
    MUST(r, tamis_snapshot_segment(snapshot, t.slot - 1, &info));
    snprintf(path, sizeof path, "%s/%s", store_path(r), info.file);
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    close_store();
    return path;
}

/* ---- keys ---- */

struct tamis_key key_of(const char *segment, uint64_t i, char text[64])
{
    struct tamis_domain domain = tamis_store_domain(store);
    int n = snprintf(text, 64, "%s/%06llu", segment, (unsigned long long)i);
    return tamis_key_of(&domain, text, (size_t)n);
}

int add_to(struct run *r, struct tamis_writer *w, const char *segment, uint64_t from,
           uint64_t to)
{
    char text[64];
    int rc = 0;
    for (uint64_t i = from; i < to && !rc; i++) {
        struct tamis_key key = key_of(segment, i, text);
        rc = TRY(r, tamis_writer_add_hashes(w, key.tag, &key.hash, 1));
    }
    return rc;
}

/* ---- edits ---- */

int put_into(struct run *r, struct tamis_edit *e, struct tamis_packer *p,
             const struct segment *s)
{
    struct tamis_builder *b;
    char text[64];
    int rc =
        TRY(r, tamis_edit_builder(e, s->name, strlen(s->name), 0, NULL, &b, &r->diag));
    if (rc)
        return rc;
    for (uint64_t i = 0; i < s->n && !rc; i++) {
        struct tamis_key key = key_of(s->name, i, text);
        rc = TRY(r, tamis_builder_add_key(b, key.bytes, key.n_bytes));
    }
    if (!rc && p)
        rc = TRY(r, tamis_packer_take(p, b, &r->diag));
    else if (!rc)
        rc = TRY(r, tamis_edit_put(e, b, &r->diag));
    IN_LIB_VOID(tamis_builder_free(b));
    return rc;
}

int put_built(struct run *r, struct tamis_edit *e, const struct segment *s)
{
    return put_into(r, e, NULL, s);
}

int put_listed(struct run *r, struct tamis_edit *e, const struct segment *list)
{
    int rc = 0;
    for (const struct segment *s = list; s->name && !rc; s++) {
        size_t n = strlen(s->name);
        if (s->state == TAMIS_SEGMENT_BARE)
            rc = TRY(r, tamis_edit_put_bare(e, s->name, n, NULL, &r->diag));
        else if (s->state == TAMIS_SEGMENT_GROWING)
            rc = TRY(r, tamis_edit_put_growing(e, s->name, n, NULL, NULL, &r->diag));
        else
            rc = put_built(r, e, s);
    }
    return rc;
}

int drop(struct run *r, struct tamis_edit *e, const char *name)
{
    return TRY(r, tamis_edit_drop(e, name, strlen(name), &r->diag));
}

int do_edit(struct run *r, edit_fn *fn)
{
    struct tamis_edit *e;
    int rc = TRY(r, tamis_edit_begin(store, &e, &r->diag));
    if (rc)
        return rc;
    rc = fn(r, e);
    if (rc)
        IN_LIB_VOID(tamis_edit_abort(e));
    else
        rc = TRY(r, tamis_edit_commit(e, &r->diag));
    return rc;
}

static const struct segment *making;

static int put_all(struct run *r, struct tamis_edit *e)
{
    return put_listed(r, e, making);
}

static void fill_growing(struct run *r, const struct segment *s)
{
    struct tamis_writer *w;
    MUST(r, tamis_store_writer(store, s->name, strlen(s->name), &w, &r->diag));
    CHECK(add_to(r, w, s->name, 0, s->n) == 0, "preparing %s", s->name);
    MUST(r, tamis_writer_commit(w, s->n, &r->diag));
    MUST(r, tamis_writer_close(w));
}

void make_store(struct run *r, const struct segment *list)
{
    struct tamis_store_options opt = {.size = sizeof opt, .growth = small};
    MUST(r, tamis_store_create(store_path(r), &opt, &r->diag));
    CHECK(open_store(r) == 0, "preparing");
    making = list;
    CHECK(do_edit(r, put_all) == 0, "preparing");
    for (const struct segment *s = list; s->name; s++)
        if (s->state == TAMIS_SEGMENT_GROWING && s->n)
            fill_growing(r, s);
    close_store();
}

/* ---- what must hold ---- */

static bool key_of_segment(const void *ctx, uint64_t i, struct tamis_key *out)
{
    static char text[64];
    *out = key_of(ctx, i, text);
    return true;
}

/* The pages of a segment's pack; false if the segment has a file of its own. */
static bool expect_pack(struct tamis_snapshot *snapshot, size_t index)
{
    struct promised_filter p = {.any_damage = damage_expected};
    struct tamis_filter *pack;
    if (tamis_snapshot_pack(snapshot, index, &pack, NULL) != 0)
        return false;
    IN_LIB_VOID(expect_filter("a pack", pack, &p));
    return true;
}

/* False if it is not listed. */
static bool expect_segment(struct run *r, struct tamis_snapshot *snapshot,
                           const struct segment *s)
{
    size_t index;
    struct tamis_filter *f;
    struct promised_segment g = {.bare = s->state == TAMIS_SEGMENT_BARE};
    struct promised_filter p = {.keys = {key_of_segment, s->name, s->n},
                                .rotten_slot = true, /* a fault may leave one behind */
                                .any_damage = damage_expected};
    snprintf(g.name, sizeof g.name, "%s", s->name);
    if (!model_find(snapshot, &g, &index))
        return false;
    IN_LIB_VOID(expect_keys_of_segment(s->name, snapshot, index, &p.keys,
                                       damage_expected ? TAMIS_NO_REASON
                                       : g.bare        ? TAMIS_NO_FILTER
                                                       : TAMIS_HIT));
    if (g.bare || expect_pack(snapshot, index))
        return true;
    MUST(r, tamis_snapshot_filter(snapshot, index, &f, &r->diag));
    IN_LIB_VOID(expect_filter(s->name, f, &p));
    return true;
}

/* Pages of segments that the list does not have are checked, too. */
static void expect_good_pages(struct run *r, struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_segment_info info;
    struct tamis_filter *f;
    struct promised_filter p = {.rotten_slot = true, .any_damage = damage_expected};
    MUST(r, tamis_snapshot_segment(snapshot, i, &info));
    if (info.state == TAMIS_SEGMENT_BARE || expect_pack(snapshot, i))
        return;
    MUST(r, tamis_snapshot_filter(snapshot, i, &f, &r->diag));
    IN_LIB_VOID(expect_filter("a listed filter", f, &p));
}

bool lists(struct run *r, const struct segment *list)
{
    struct tamis_snapshot *snapshot;
    size_t n = 0;
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    bool same = true;
    for (const struct segment *s = list; s->name && same; s++, n++)
        same = expect_segment(r, snapshot, s);
    same = same && tamis_snapshot_n_segments(snapshot) == n;
    for (size_t i = 0; i < tamis_snapshot_n_segments(snapshot); i++)
        expect_good_pages(r, snapshot, i);
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    return same;
}

void expect_list(struct run *r, const struct segment *list)
{
    CHECK(lists(r, list), "the segments are others than they must be");
}

void expect_nothing_absent(struct run *r, struct tamis_snapshot *snapshot,
                           const struct segment *list)
{
    (void)r;
    for (const struct segment *s = list; s->name; s++) {
        struct tamis_target t;
        char text[64];
        tamis_snapshot_find(snapshot, s->name, strlen(s->name), NULL, 0, 0, &t);
        for (uint64_t i = 0; i < s->n; i++) {
            struct tamis_key key = key_of(s->name, i, text);
            CHECK(IN_LIB(tamis_snapshot_probe(snapshot, &t, &key, NULL)) ==
                          TAMIS_MAYBE &&
                      IN_LIB(tamis_snapshot_probe_list(snapshot, &t, 1, &key, NULL,
                                                       NULL)) == TAMIS_MAYBE &&
                      IN_LIB(tamis_snapshot_probe_all(snapshot, &key, NULL, NULL)) ==
                          TAMIS_MAYBE,
                  "lost: key %llu of segment %s is ABSENT", (unsigned long long)i,
                  s->name);
        }
    }
}

/* Names of a pack and its tombstones, once each. */
static size_t name_file(const char *name, char files[][64], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(files[i], name) == 0)
            return n;
    snprintf(files[n], 64, "%s", name);
    return n + 1;
}

static size_t name_pack(const struct tamis_pack_place *place, char files[][64],
                        size_t n)
{
    char name[64];
    for (size_t i = 0; i < 16; i++)
        snprintf(name + 2 * i, 3, "%02x", place->uuid[i]);
    memcpy(name + 32, ".tamis", 7);
    n = name_file(name, files, n);
    memcpy(name + 32, ".dead", 6);
    return name_file(name, files, n);
}

void expect_swept(struct run *r)
{
    enum { MAX_FILES = 64 };
    struct tamis_edit *e;
    struct tamis_snapshot *snapshot;
    const char *names[MAX_FILES + 1] = {NULL};
    static char files[MAX_FILES][64];
    struct tamis_segment_info info;
    struct tamis_pack_place place;
    size_t n = 0;
    MUST(r, tamis_edit_begin(store, &e, &r->diag));
    IN_LIB_VOID(tamis_edit_abort(e));
    MUST(r, tamis_snapshot_current(store, &snapshot, &r->diag));
    for (size_t i = 0; tamis_snapshot_segment(snapshot, i, &info) == 0; i++) {
        if (tamis_snapshot_pack(snapshot, i, NULL, &place) == 0)
            n = name_pack(&place, files, n);
        if (info.file[0]) /* a pack, perhaps */
            n = name_file(info.file + sizeof "filters", files, n);
    }
    for (size_t i = 0; i < n; i++)
        names[i] = files[i];
    expect_names(in_dir(r, "store/filters"), names);
    IN_LIB_VOID(tamis_snapshot_release(snapshot));
    expect_names(
        store_path(r),
        (const char *const[]){"catalog.lmdb", "catalog.lmdb-lock", "filters", NULL});
}

void touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    CHECK(fd >= 0, "preparing %s", path);
    close(fd);
}

void spoil_catalog(const struct run *r, const void *what, size_t n, size_t behind)
{
    static uint8_t bytes[1 << 20];
    const char *path = in_dir(r, "store/catalog.lmdb");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = pread(fd, bytes, sizeof bytes, 0);
    close(fd);
    const uint8_t *at = bytes, *end = bytes + got;
    CHECK(got > 0 && memmem(at, (size_t)(end - at), what, n), "not in the catalog");
    while ((at = memmem(at, (size_t)(end - at), what, n)) != NULL) {
        poke(path, at - bytes + (off_t)behind, "damage", 6);
        at += n;
    }
}
