/* A catalog with records made by hand: written by LMDB under names of the input's, some
 * of them over good ones, their checksums right. The store must open, list, answer,
 * verify and let them be dropped; a good segment beside them loses no key, and what
 * is not a record says UNREADABLE.
 *
 * Input: items of a length of the name, a length of the value (2), name, value. Then
 * the pack record counts what the records name; one more if other bytes follow. The
 * template holds "good" (sealed), "open" (growing), and a pack. The pack's columns "p0"
 * and "p1" have records, the first items; "p2" is listed, and "p3" is dead. */
#include "fuzz/fuzz.h"
#include "format/checksum.h"

enum { N_KEYS = 200, N_PACKED = 4, N_NAMED = 2, N_LISTED = 1, MAX_ITEMS = 16 };

static struct saved_tree saved;
static char store_path[2 * STEPS_PATH_BYTES];
static uint8_t good_uuid[UUID_BYTES];
static const char *const packed[N_PACKED] = {"p0", "p1", "p2", "p3"};
static struct record packed_record[N_PACKED];
static struct item named[N_NAMED];
static struct pack_list good_list;

/* ---- the template ---- */

static void make_template(void)
{
    static struct promises promises;
    static struct player p = {.p = &promises};
    static uint8_t values[N_NAMED][RECORD_MAX_BYTES];
    struct tamis_snapshot *s;
    struct tamis_segment_info info;
    fuzz_calm_io();
    p.dir = fuzz_dir();
    path_in_store(&p, "", store_path);
    play_text(&p, "init; begin; put good 0 200; put p0 0 200; put p1 0 200; "
                  "put p2 0 200; put p3 0 200; grow open 50 0 0; end; "
                  "pack p0 p1 p2 p3; open");
    MUST(tamis_snapshot_current(p.store, &s, NULL) == 0);
    MUST(tamis_snapshot_segment(s, 0, &info) == 0 && info.name[0] == 'g');
    memcpy(good_uuid, info.uuid, sizeof good_uuid);
    tamis_snapshot_release(s);
    for (size_t i = 0; i < N_PACKED; i++)
        record_of_packed(p.store, packed[i], &packed_record[i], &good_list);
    player_end(&p);
    good_list.bits[0] &= (uint8_t) ~(1U << packed_record[3].place.column);
    for (size_t i = 0; i < N_NAMED; i++)
        named[i] =
            (struct item){(const uint8_t *)packed[i], values[i], 2,
                          record_encode(&packed_record[i], packed[i], 2, values[i])};
    save_store(&saved, store_path);
    tree_remove(store_path);
}

/* ---- the records ---- */

/* Those of the template first. *all: nothing is behind them. */
static size_t parse(const uint8_t *data, size_t n, struct item *items, bool *all)
{
    size_t at = 0, k = N_NAMED;
    memcpy(items, named, sizeof named);
    while (k < N_NAMED + MAX_ITEMS && n - at >= 3) {
        struct item *i = &items[k];
        i->name_bytes = data[at];
        i->value_bytes = data[at + 1] + 256u * data[at + 2];
        at += 3;
        if (i->name_bytes > n - at || i->value_bytes > n - at - i->name_bytes)
            break;
        i->name = data + at;
        i->value = data + at + i->name_bytes;
        at += i->name_bytes + i->value_bytes;
        k += i->name_bytes > 0;
    }
    *all = at == n;
    return k;
}

/* ---- the list of the pack (SPEC.md 17.4) ---- */

static struct pack_list list;
static bool pack_agrees, complete;

/* One more than there are may be one that is refused. */
static void make_list(const struct item *items, size_t n, bool right)
{
    list = good_list;
    list_make(&list, items, n);
    list.now.n_overridden += !right;
    listing_encode(&list.now, list.uuid, list.record);
    list_write(store_path, &list);
    pack_agrees = !list.twice && (right || list.n_refused) &&
                  list.now.n_listed + list.now.n_overridden <= N_PACKED;
    complete = pack_agrees && !list.stray;
}

/* ---- questions ---- */

static bool key_of_good(const void *ctx, uint64_t i, struct tamis_key *out)
{
    static uint8_t bytes[8];
    (void)ctx;
    *out = key_number((uint32_t)i, bytes);
    return true;
}

/* A list that may lack segments proves nothing by a name alone (SPEC.md 13.1). */
static void check_keys(const char *name, struct tamis_snapshot *s, size_t index,
                       bool whole)
{
    struct promised_keys keys = {key_of_good, NULL, N_KEYS};
    expect_keys_of_segment(name, s, index, &keys, whole ? TAMIS_HIT : TAMIS_MISMATCH);
}

static void check_good(struct tamis_store *store, bool confirmed)
{
    struct tamis_snapshot *s;
    struct tamis_target t;
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_snapshot_find(s, "good", 4, NULL, 0, 0, &t) == 0);
    MUST(tamis_snapshot_info(s).complete || !confirmed);
    check_keys("good", s, t.ordinal - 1, tamis_snapshot_info(s).complete);
    tamis_snapshot_release(s);
}

/* Segments that no item has replaced. A record may have a listed column's name. */
static void check_packed(struct tamis_snapshot *s, const struct item *items, size_t n)
{
    struct tamis_pack_info info;
    uint8_t bytes[8];
    struct tamis_key key = key_number(0, bytes);
    MUST(tamis_snapshot_pack_info(s, 0, &info) == 0);
    for (size_t i = 0; i < N_NAMED + N_LISTED; i++) {
        struct tamis_target t;
        enum tamis_reason why;
        uint32_t column = packed_record[i].place.column;
        bool mine = !items_have(items + N_NAMED, n - N_NAMED, packed[i], 2);
        int rc = tamis_snapshot_find(s, packed[i], 2, NULL, 0, 0, &t);
        if (i < N_NAMED && mine) {
            MUST(rc == 0);
            check_keys(packed[i], s, t.ordinal - 1, complete);
        } else if (i >= N_NAMED && list_has(&list, column) && pack_agrees) {
            check_keys(packed[i], s, info.first + column, complete);
            MUST(!mine || (rc == 0 && t.ordinal == info.first + column + 1));
        } else if (i >= N_NAMED && !pack_agrees && mine) {
            MUST(rc == TAMIS_ERR_DAMAGED);
            MUST(tamis_snapshot_probe(s, &t, &key, &why) == TAMIS_MAYBE);
            MUST(why == TAMIS_UNREADABLE);
        }
    }
}

static void check_segment(struct tamis_snapshot *s, size_t i)
{
    struct tamis_segment_info info;
    struct tamis_filter_info filter_info;
    struct tamis_filter *f;
    struct tamis_diag diag;
    struct tamis_verify report;
    struct tamis_target t = tamis_snapshot_target(s, i);
    MUST(tamis_snapshot_segment(s, i, &info) == 0);
    MUST(memchr(info.file, 0, sizeof info.file));
    uint8_t bytes[8];
    for (uint32_t k = 0; k < 20; k++) {
        enum tamis_reason why;
        struct tamis_key key = key_number(k * 31, bytes);
        bool absent = tamis_snapshot_probe(s, &t, &key, &why) == TAMIS_ABSENT;
        MUST(absent == (why == TAMIS_NO_REASON));
        MUST(info.state || why == TAMIS_UNREADABLE);
    }
    int rc = tamis_snapshot_filter(s, i, &f, &diag);
    MUST((rc == 0) == (f != NULL) && (rc == 0 || diag.what[0]));
    if (rc == 0) {
        MUST(tamis_filter_info(f, &filter_info, NULL) == 0);
        MUST(tamis_filter_verify(f, &report, NULL) == 0);
        tamis_filter_close(f);
    }
}

/* The same record, by the decoder alone. */
static void check_item(struct tamis_snapshot *s, const struct item *i)
{
    struct record r;
    struct tamis_target t;
    struct verdict v =
        record_decode(i->value, i->value_bytes, i->name, i->name_bytes, &r);
    int rc = tamis_snapshot_find(s, i->name, i->name_bytes, NULL, 0, 0, &t);
    MUST(rc == verdict_error(v.code));
}

/* A segment that may need a tombstone and cannot get it stays, and the edit says so. */
static int drop_all_but_good(struct tamis_store *store)
{
    struct tamis_edit *e;
    struct tamis_snapshot *s;
    struct tamis_diag diag = {.code = 0};
    const struct tamis_identity good = {.name = "good", .name_bytes = 4};
    MUST(tamis_edit_begin(store, NULL, &e, NULL) == 0);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_edit_reconcile(e, s, &good, 1, NULL, NULL) == 0);
    tamis_snapshot_release(s);
    int rc = tamis_edit_commit(e, &diag);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    bool all = tamis_snapshot_info(s).n_segments == 1;
    MUST(rc || all || diag.what[0]); /* a note may be of columns that nobody knows */
    tamis_snapshot_release(s);
    return rc || all ? rc : TAMIS_ERR_DAMAGED;
}

static void check_writers(struct tamis_store *store, const struct item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct tamis_writer *writer;
        struct tamis_diag diag;
        int rc = tamis_store_writer(store, items[i].name, items[i].name_bytes, NULL,
                                    &writer, &diag);
        MUST((rc == 0) == (writer != NULL) && (rc == 0 || diag.what[0]));
        if (rc == 0) {
            MUST(tamis_writer_add_key(writer, "k", 1) == 0);
            tamis_writer_close(writer, NULL);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct item items[N_NAMED + MAX_ITEMS];
    struct tamis_store *store;
    struct tamis_snapshot *s;
    struct tamis_store_info info;
    bool all;
    if (!saved.n)
        make_template();
    fuzz_restart();
    size_t n_items = parse(data, n, items, &all);
    tree_put_back(&saved, store_path);
    write_records(store_path, "segments", items, n_items);
    make_list(items, n_items, all);
    bool good = !items_have(items, n_items, "good", 4);

    MUST(tamis_store_open(store_path, NULL, &store, NULL) == 0);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_store_info(store, &info, NULL) == 0);
    MUST(info.n_segments == tamis_snapshot_info(s).n_segments || !pack_agrees);
    MUST(tamis_snapshot_info(s).complete == complete);
    for (size_t i = 0; tamis_snapshot_next(s, &i); i++)
        check_segment(s, i);
    check_item(s, &items[n_items - 1]); /* nothing was written over the last one */
    if (good)
        check_good(store, complete);
    check_packed(s, items, n_items);
    check_writers(store, items + N_NAMED, n_items - N_NAMED);
    tamis_snapshot_release(s);
    int rc = drop_all_but_good(store);
    MUST(rc == 0 || (!complete && rc == TAMIS_ERR_DAMAGED));
    if (rc || !pack_agrees) { /* repair lists columns by their tombstones */
        tamis_store_close(store);
        MUST(tamis_store_repair(store_path, NULL, NULL, NULL) == 0);
        MUST(tamis_store_open(store_path, NULL, &store, NULL) == 0);
        rc = drop_all_but_good(store);
        MUST(rc == 0 || list.twice || list.stray);
    }
    if (good && !rc) {
        check_good(store, false);
        struct tamis_confirm_options opt = {.size = sizeof opt, .force = !pack_agrees};
        MUST(tamis_store_confirm(store, &opt, NULL) == 0);
        check_good(store, true);
    }
    tamis_store_close(store);
    tree_remove(store_path);
    return 0;
}

/* The record's first part, if it has any. */
static void claim_column(struct record_disk *d, uint64_t *rng)
{
    const struct record *r = &packed_record[draw_below(rng, N_PACKED)];
    const struct pack_place *place = &r->place;
    struct part_disk *p = (struct part_disk *)(void *)(d + 1);
    d->state = RECORD_SEALED;
    d->kind = KIND_BLOOM;
    memcpy(d->uuid, r->uuid, UUID_BYTES);
    memcpy(p->uuid, place->uuid, UUID_BYTES);
    p->table_digest = le64_of(place->digest);
    p->column = le32_of(place->column);
    p->kind = (uint8_t)(draw_below(rng, 4) ? PART_COLUMN : draw_below(rng, 6));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    static const uint8_t odd[] = "./\n\xff\x80\\gopen";
    struct item items[N_NAMED + MAX_ITEMS];
    bool all;
    uint64_t rng = seed;
    size_t k = parse(data, n, items, &all) - N_NAMED;
    if (k && all && n < max && draw_below(&rng, 12) == 0)
        return data[n] = 0, n + 1;
    if (!k || draw_below(&rng, 6) == 0)
        return LLVMFuzzerMutate(data, n, max);
    const struct item *i = &items[N_NAMED + draw_below(&rng, k)];
    uint8_t *name = data + (i->name - data), *value = data + (i->value - data);
    if (i->value_bytes < RECORD_HEAD_BYTES + 8 || draw_below(&rng, 8) == 0)
        name[draw_below(&rng, i->name_bytes)] = odd[draw_below(&rng, sizeof odd)];
    else if (draw_below(&rng, 8) == 0)
        memcpy(value + offsetof(struct record_disk, uuid), good_uuid, UUID_BYTES);
    else if (i->value_bytes >= RECORD_HEAD_BYTES + PART_BYTES + 8 &&
             draw_below(&rng, 6) == 0)
        claim_column((struct record_disk *)(void *)value, &rng);
    else
        mutate_record(value, record_fields, n_record_fields, &rng);
    if (i->value_bytes >= 8 && draw_below(&rng, 16))
        checksum_set(value, i->value_bytes, XXH3_64bits(name, i->name_bytes));
    return n;
}
