/* A catalog with records made by hand: written by LMDB under names of the input's, some
 * of them over good ones, their checksums right. The store must open, list, answer,
 * verify and let them be dropped; a good segment beside them loses no key, and what
 * is not a record says UNREADABLE.
 *
 * Input: items of a length of the name, a length of the value (2), name, value. The
 * template holds "good" (sealed) and "open" (growing). */
#include "fuzz/fuzz.h"
#include "format/checksum.h"

enum { N_KEYS = 200, MAX_ITEMS = 16, N_PACKED = 3 };

static struct saved_tree saved;
static char store_path[2 * STEPS_PATH_BYTES];
static uint8_t good_uuid[UUID_BYTES];
static const char *const packed[N_PACKED] = {"p0", "p1", "p2"};
static struct record packed_record[N_PACKED];

/* ---- the template ---- */

static void make_template(void)
{
    static struct promises promises;
    static struct player p = {.p = &promises};
    struct record r;
    fuzz_calm_io();
    p.dir = fuzz_dir();
    path_in_store(&p, "", store_path);
    play_text(&p, "init; begin; put good 0 200; put p0 0 200; put p1 0 200; "
                  "put p2 0 200; grow open 50 0 0; end; pack p0 p1 p2");
    player_end(&p);
    read_record(store_path, "good", &r);
    memcpy(good_uuid, r.uuid, sizeof good_uuid);
    for (size_t i = 0; i < N_PACKED; i++)
        read_record(store_path, packed[i], &packed_record[i]);
    save_store(&saved, store_path);
    tree_remove(store_path);
}

/* ---- the records ---- */

static size_t parse(const uint8_t *data, size_t n, struct item items[MAX_ITEMS])
{
    size_t at = 0, k = 0;
    while (k < MAX_ITEMS && n - at >= 3) {
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
    return k;
}

/* ---- questions ---- */

static bool is_named(const struct item *items, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (items[i].name_bytes == strlen(name) &&
            memcmp(items[i].name, name, strlen(name)) == 0)
            return true;
    return false;
}

static bool key_of_good(const void *ctx, uint64_t i, struct tamis_key *out)
{
    static uint8_t bytes[8];
    (void)ctx;
    *out = key_number((uint32_t)i, bytes);
    return true;
}

/* A list that may lack segments proves nothing by a name alone (SPEC.md 13.1). */
static void check_good(struct tamis_store *store, const char *name, bool complete,
                       bool lost)
{
    struct tamis_snapshot *s;
    struct tamis_target t;
    struct promised_keys keys = {key_of_good, NULL, N_KEYS};
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_snapshot_find(s, name, strlen(name), NULL, 0, 0, &t) == 0);
    expect_keys_of_segment(name, s, t.slot - 1, &keys,
                           !complete ? TAMIS_MISMATCH
                           : lost    ? TAMIS_FILE_LOST
                                     : TAMIS_HIT);
    tamis_snapshot_release(s);
}

/* Does an item name this column, too? An item that a later one replaces does not. */
static bool is_claimed(const struct item *items, size_t n, const struct pack_place *p)
{
    struct record r;
    for (size_t i = 0; i < n; i++) {
        bool last = true;
        for (size_t k = i + 1; k < n; k++)
            last &= items[k].name_bytes != items[i].name_bytes ||
                    memcmp(items[k].name, items[i].name, items[i].name_bytes) != 0;
        if (last &&
            record_decode(items[i].value, items[i].value_bytes, items[i].name,
                          items[i].name_bytes, &r)
                    .code == VERDICT_OK &&
            record_packed(&r) && memcmp(r.place.uuid, p->uuid, UUID_BYTES) == 0 &&
            r.place.digest == p->digest && r.place.column == p->column)
            return true;
    }
    return false;
}

static void check_packed(struct tamis_store *store, const struct item *items, size_t n)
{
    for (size_t i = 0; i < N_PACKED; i++)
        if (!is_named(items, n, packed[i]))
            check_good(store, packed[i], true,
                       is_claimed(items, n, &packed_record[i].place));
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
        MUST(tamis_filter_info(f, &filter_info) == 0);
        MUST(tamis_filter_verify(f, &report, NULL) == 0);
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

static void drop_all_but_good(struct tamis_store *store)
{
    struct tamis_edit *e;
    struct tamis_snapshot *s;
    const struct tamis_name good = {"good", 4};
    MUST(tamis_edit_begin(store, NULL, &e, NULL) == 0);
    MUST(tamis_edit_retain(e, &good, 1, NULL) == 0);
    MUST(tamis_edit_commit(e, NULL) == 0);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_snapshot_n_segments(s) == 1);
    tamis_snapshot_release(s);
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
            tamis_writer_close(writer);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct item items[MAX_ITEMS];
    struct tamis_store *store;
    struct tamis_snapshot *s;
    struct tamis_store_info info;
    if (!saved.n)
        make_template();
    fuzz_restart();
    size_t n_items = parse(data, n, items);
    tree_put_back(&saved, store_path);
    write_records(store_path, items, n_items);
    bool good = !is_named(items, n_items, "good");

    MUST(tamis_store_open(store_path, NULL, &store, NULL) == 0);
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(tamis_store_info(store, &info, NULL) == 0);
    MUST(info.n_segments == tamis_snapshot_n_segments(s));
    for (size_t i = 0; i < info.n_segments; i++)
        check_segment(s, i);
    if (n_items) /* the last one: nothing was written over it */
        check_item(s, &items[n_items - 1]);
    if (good)
        check_good(store, "good", true, false);
    check_packed(store, items, n_items);
    check_writers(store, items, n_items);
    tamis_snapshot_release(s);
    drop_all_but_good(store);
    if (good) {
        MUST(tamis_store_info(store, &info, NULL) == 0);
        check_good(store, "good", info.complete, false);
        MUST(tamis_store_confirm(store, NULL, NULL) == 0);
        check_good(store, "good", true, false);
    }
    tamis_store_close(store);
    tree_remove(store_path);
    return 0;
}

/* The record's first part, if it has any. */
static void claim_column(struct record_disk *d, uint64_t *rng)
{
    const struct pack_place *place = &packed_record[draw_below(rng, N_PACKED)].place;
    struct part_disk *p = (struct part_disk *)(void *)(d + 1);
    d->state = RECORD_SEALED;
    d->kind = KIND_BLOOM;
    memcpy(p->uuid, place->uuid, UUID_BYTES);
    p->table_digest = le64_of(place->digest);
    p->column = le32_of(place->column);
    p->kind = (uint8_t)(draw_below(rng, 4) ? PART_COLUMN : draw_below(rng, 6));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    static const uint8_t odd[] = "./\n\xff\x80\\gopen";
    struct item items[MAX_ITEMS];
    uint64_t rng = seed;
    size_t k = parse(data, n, items);
    if (!k || draw_below(&rng, 6) == 0)
        return LLVMFuzzerMutate(data, n, max);
    const struct item *i = &items[draw_below(&rng, k)];
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
