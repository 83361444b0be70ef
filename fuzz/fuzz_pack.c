/* Packs: whole files (header, rows, table of bands, table of columns, digests), their
 * tombstones, the lists of their columns in the catalog, and the records that name
 * some, with hostile values in the fields and the checksums made again as the input
 * says.
 *
 * Digests and header right: every answer of the store is what a second reader says of
 * the same bytes. None made again, and no record changed: no key of a segment is
 * ABSENT, also after its column was packed again or written as a file. In between: the
 * library lives, ends, and says the same in each way to ask.
 *
 * Input: which store, what is made right, what is done then; and changes of 4 bytes:
 * what, where, and a number (2). */
#include "fuzz/pack/pack.h"
#include "lib/filter/pack.h"

enum { CONTROL = 3, CHANGE_BYTES = 4, MAX_CHANGES = 16, N_STRANGERS = 12, N_OWN = 3 };
#define STRANGER (SIZE_MAX - 1)
enum { MAX_NUMBERS = 128 + 8 * 64 };
enum { DO_FILE = 1, DO_FILTERS = 2, DO_UNPACK = 4, DO_REPACK = 8, DO_REPAIR = 16 };

static struct hurt hurt;
static struct second now;
static bool exact, rot; /* see above */

/* ---- what must a segment answer? ---- */

static bool agrees, complete, good_table; /* by the second reader */

/* Is `why` right for this number and key? */
static bool fits(struct tamis_snapshot *s, size_t number, const struct tamis_key *key,
                 enum tamis_reason why)
{
    struct tamis_segment_info info;
    struct tamis_pack_info pack;
    MUST(tamis_snapshot_pack_info(s, 0, &pack) == 0);
    bool listed = number >= pack.first, there = !listed;
    uint32_t column = (uint32_t)(number - pack.first);
    if (listed)
        there = agrees && list_has(&hurt.list, column);
    else if (tamis_snapshot_segment(s, number, &info) != 0)
        there = false;
    if (!there || !complete)
        return why == (there ? TAMIS_MISMATCH : TAMIS_UNKNOWN_SEGMENT);
    if (listed)
        return why == second_answer(&now, &hurt, column, -1, key);
    int i = 10 * (info.name[8] - '0') + info.name[9] - '0';
    column = hurt.records[i].place.column;
    return why == (record_packed(&hurt.records[i])
                       ? second_answer(&now, &hurt, column, i, key)
                       : TAMIS_FILE_LOST);
}

/* A name is unknown, but never not there, while its page cannot be read. */
static int find(struct tamis_snapshot *s, size_t i, struct tamis_target *t)
{
    const char *name = pack_segment(i);
    struct tamis_key key = {.tag = pack_domain()->tag, .hash = i};
    enum tamis_reason why;
    int rc = tamis_snapshot_find(s, name, strlen(name), NULL, 0, 0, t);
    MUST(!rot || rc != TAMIS_ERR_NO_SEGMENT);
    MUST(!rc || tamis_snapshot_probe(s, t, &key, &why) == TAMIS_MAYBE);
    if (!exact)
        return rc;
    if (hurt.named[i])
        MUST(rc == 0);
    else if (!agrees)
        MUST(rc == TAMIS_ERR_DAMAGED && why == TAMIS_UNREADABLE);
    else if (get_number(hurt.list.record + 28, 4) == 0) /* its names are no segments */
        MUST(rc == TAMIS_ERR_NO_SEGMENT);
    else if (!second_names(&now, &hurt))
        MUST(rc && rc != TAMIS_ERR_NO_SEGMENT && why == TAMIS_FILE_LOST);
    else if (good_table)
        MUST(rc == (list_has(&hurt.list, hurt.base->records[i].place.column)
                        ? 0
                        : TAMIS_ERR_NO_SEGMENT));
    return rc;
}

/* Its number, also if its name cannot be read. SIZE_MAX: it is in another pack. */
static size_t number_of_segment(struct tamis_snapshot *s, size_t i)
{
    struct tamis_target t;
    struct tamis_pack_info pack;
    if (find(s, i, &t) == 0)
        return t.ordinal - 1;
    if (tamis_snapshot_pack_info(s, 0, &pack) != 0 ||
        memcmp(pack.uuid, hurt.list.uuid, UUID_BYTES) != 0 || !pack.n_columns)
        return SIZE_MAX;
    size_t n = pack.first + hurt.base->records[i].place.column, next = n;
    return tamis_snapshot_next(s, &next) && next == n ? n : SIZE_MAX;
}

/* ---- in every way ---- */

static void ask_keys(struct tamis_snapshot *s, const struct tamis_key *key,
                     const uint64_t *absent)
{
    uint64_t rows[3 * MAX_NUMBERS / 64];
    struct tamis_key keys[3] = {*key, *key, *key};
    size_t n_words = (tamis_snapshot_info(s).n_numbers + 63) / 64;
    keys[1].hash ^= UINT64_MAX;
    ASK(s, ALL, KEYS(keys, 3), .absent = rows);
    MUST(memcmp(rows, absent, n_words * sizeof *rows) == 0);
    MUST(memcmp(rows + 2 * n_words, absent, n_words * sizeof *rows) == 0);
}

static void ask(struct tamis_snapshot *s, const struct tamis_key *key, size_t owner)
{
    size_t n = tamis_snapshot_info(s).n_numbers, n_maybe = 0, n_found;
    uint8_t reasons[MAX_NUMBERS];
    uint64_t absent[MAX_NUMBERS / 64];
    uint32_t found[MAX_NUMBERS];
    MUST(n <= MAX_NUMBERS);
    size_t all = ASK(s, ALL, KEYS(key, 1), .absent = absent, .reasons = reasons);
    MUST(!rot || owner == STRANGER || !all);
    for (size_t i = 0; i < n; i++) {
        struct tamis_target t = tamis_snapshot_target(s, i);
        enum tamis_reason why;
        size_t next = i;
        bool there = tamis_snapshot_next(s, &next) && next == i;
        bool is_absent = tamis_snapshot_probe(s, &t, key, &why) == TAMIS_ABSENT;
        MUST(is_absent == (why == TAMIS_NO_REASON));
        MUST(why == reasons[i] && is_absent == (absent[i / 64] >> i % 64 & 1));
        MUST(there == (why != TAMIS_UNKNOWN_SEGMENT));
        MUST(!exact || fits(s, i, key, why));
        MUST(!rot || i != owner || !is_absent);
        n_maybe += there && !is_absent;
    }
    MUST(ASK(s, ALL, KEYS(key, 1), FOUND(found, n, &n_found)) == all);
    MUST(n_found == n_maybe);
    for (size_t k = 0; k < n_found; k++) { /* each once */
        MUST(reasons[found[k]] != TAMIS_NO_REASON);
        reasons[found[k]] = TAMIS_NO_REASON;
    }
    ask_keys(s, key, absent);
}

static bool key_of_model(const void *ctx, uint64_t i, struct tamis_key *out)
{
    *out = pack_key(hurt.base, *(const size_t *)ctx, i);
    return true;
}

/* Rot: by the model, all keys of all segments. */
static void ask_all(struct tamis_store *store, uint64_t *rng)
{
    const struct base *b = hurt.base;
    struct tamis_snapshot *s;
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    MUST(!rot || tamis_snapshot_info(s).n_segments == b->n);
    MUST(!exact || tamis_snapshot_info(s).complete == complete);
    for (size_t i = 0; i < b->n; i++) {
        struct promised_keys keys = {key_of_model, &i, b->n_keys};
        size_t number = number_of_segment(s, i);
        for (size_t k = 0; k < N_OWN; k++) {
            struct tamis_key key = pack_key(b, i, k * (b->n_keys - 1) / (N_OWN - 1));
            ask(s, &key, number);
        }
        if (rot && number != SIZE_MAX)
            expect_keys_of_segment(pack_segment(i), s, number, &keys, TAMIS_NO_REASON);
    }
    for (size_t k = 0; k < N_STRANGERS; k++) {
        struct tamis_key key = {.tag = pack_domain()->tag, .hash = draw(rng)};
        ask(s, &key, STRANGER);
    }
    tamis_snapshot_release(s);
}

/* ---- the file alone ---- */

static void field_seen(void *ctx, const struct tamis_field *field)
{
    ++*(size_t *)ctx;
    MUST(field->record && field->name && field->text && strlen(field->text) < 1100);
}

/* Exact: a column is described by the entry that the second reader finds, and a table
 * that breaks no rule (`good`) has each name, and fails for no other. `verified`: pages
 * are marked for what they say. Rot hides no name. */
static void look_up(struct tamis_filter *f, bool checked, bool verified, bool good)
{
    uint32_t n = now.commit.stages[PACK_ROWS].n_columns;
    struct facts col, found;
    for (uint32_t i = 0; exact && now.bands && i < n; i++) {
        int rc = pack_describe(f, i, i % 2, &col);
        const uint8_t *entry = second_entry(&now, i);
        MUST(rc ? rc == TAMIS_ERR_DAMAGED && (verified ? !good : !entry)
                : entry && memcmp(entry, &col, column_bytes(&col.disk)) == 0);
        struct piece name = column_name(&col);
        if (!rc)
            rc = pack_find(f, name.at, name.n, false, &found);
        MUST(!good || (rc == 0 && memcmp(&col, &found, column_bytes(&col.disk)) == 0 &&
                       col.place == found.place && col.band == found.band &&
                       col.mapped == found.mapped));
        if (good)
            rc = pack_find(f, name.at, name.n - 1, false, &found);
        MUST(!good || rc == TAMIS_ERR_NO_SEGMENT ||
             (rc == 0 && column_name(&found).n == name.n - 1));
    }
    for (size_t i = 0; i < hurt.base->n; i++) {
        const char *name = pack_segment(i);
        int rc = pack_find(f, name, strlen(name), false, &found);
        MUST(rc == TAMIS_ERR_DAMAGED || !rot || !checked ||
             (rc == 0 && memcmp(found.strings, name, strlen(name)) == 0));
    }
}

static int open_file(const char *path, enum tamis_check mode, uint64_t *rng)
{
    struct tamis_filter_options opt = {.size = sizeof opt, .check = mode};
    struct tamis_verify report;
    struct tamis_filter *f;
    int rc = tamis_filter_open(path, &opt, &f, NULL);
    if (rc)
        return rc;
    struct tamis_filter_info info;
    MUST(tamis_filter_info(f, &info, NULL) == 0);
    uint64_t tag = info.domain.tag;
    for (size_t i = 0; i < N_STRANGERS + (size_t)N_OWN; i++) {
        uint64_t hash = i < N_OWN ? pack_key(hurt.base, i, 0).hash : draw(rng);
        struct tamis_key key = {.tag = tag, .hash = hash};
        enum tamis_reason why;
        bool is_absent = tamis_filter_probe(f, &key, &why) == TAMIS_ABSENT;
        MUST(is_absent == (why == TAMIS_NO_REASON));
        MUST(!rot || i >= N_OWN || !is_absent || mode == TAMIS_CHECK_NONE);
        if (exact && now.id.kind == KIND_PACK)
            MUST(is_absent == (now.bands && second_all_absent(&now, hash)));
    }
    bool pack = exact && now.id.kind == KIND_PACK, good = pack && second_verifies(&now);
    look_up(f, mode != TAMIS_CHECK_NONE, false, good);
    rc = tamis_filter_verify(f, &report, NULL);
    MUST((rc != 0) == (report.n_damaged || report.n_stale_slots));
    MUST(!pack || (rc == 0) == good);
    look_up(f, true, true, good);
    tamis_filter_close(f);
    return 0;
}

static void read_file(const char *path, enum tamis_check mode, uint64_t *rng)
{
    size_t n_fields = 0;
    int rc = open_file(path, mode, rng);
    if (mode != TAMIS_CHECK_FULL)
        MUST(open_file(path, TAMIS_CHECK_STRICT, rng) == rc);
    bool judged = mode == TAMIS_CHECK_FULL && now.opens && now.id.kind == KIND_PACK;
    MUST(!exact || (rc == 0) == (judged ? second_verifies(&now) : now.opens));
    rc = tamis_file_fields(path, 0, field_seen, &n_fields, NULL);
    MUST(rc == TAMIS_ERR_NOT_TAMIS || n_fields > 0);
}

/* ---- what a store does with it ---- */

/* A column copied into a file. */
static void read_columns(struct tamis_store *store)
{
    struct tamis_snapshot *s;
    MUST(tamis_snapshot_current(store, &s, NULL) == 0);
    for (size_t i = 0; i < hurt.base->n; i++) {
        struct promised_keys keys = {key_of_model, &i, hurt.base->n_keys};
        struct tamis_filter_info info;
        struct tamis_filter *f;
        struct tamis_diag diag;
        size_t number = number_of_segment(s, i);
        int rc = tamis_snapshot_filter(s, number, &f, &diag);
        MUST((rc == 0) == (f != NULL) && (rc == 0 || diag.what[0]));
        if (rc)
            continue;
        MUST(tamis_filter_info(f, &info, NULL) == 0);
        if (rot)
            expect_keys(pack_segment(i), f, &keys, true);
        tamis_filter_close(f);
    }
    tamis_snapshot_release(s);
}

static void unpack_some(struct tamis_store *store)
{
    for (size_t i = 0; i < hurt.base->n; i += 1 + hurt.base->n / 8) {
        struct tamis_snapshot *s;
        struct tamis_edit *e;
        MUST(tamis_snapshot_current(store, &s, NULL) == 0);
        MUST(tamis_edit_begin(store, NULL, &e, NULL) == 0);
        uint32_t number = (uint32_t)number_of_segment(s, i);
        if (tamis_edit_unpack(e, s, &number, 1, NULL) == 0)
            MUST(tamis_edit_commit(e, NULL) == 0);
        else
            tamis_edit_abort(e);
        tamis_snapshot_release(s);
    }
}

static void work(struct tamis_store **store, uint8_t todo, uint64_t *rng)
{
    if (todo & DO_FILTERS)
        read_columns(*store);
    exact = false; /* other bytes answer from now on */
    if (todo & DO_UNPACK)
        unpack_some(*store);
    if (todo & DO_REPACK)
        MUST(pack_segments(*store, TAMIS_REPACK_ALL) <= 0);
    tamis_store_close(*store);
    if (todo & DO_REPAIR)
        MUST(tamis_store_repair(pack_store_path(), NULL, NULL, NULL) == 0);
    MUST(tamis_store_open(pack_store_path(), NULL, store, NULL) == 0);
    ask_all(*store, rng);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < CONTROL)
        return 0;
    hurt_begin(&hurt, pack_base(data[0] % N_BASES));
    fuzz_restart();
    uint8_t right = data[1] & ALL_RIGHT, todo = data[2];
    uint64_t rng = n;
    rot = right == 0;
    exact = right & RIGHT_DIGESTS && right & RIGHT_HEADER;
    size_t at = CONTROL;
    for (size_t i = 0; i < MAX_CHANGES && at + CHANGE_BYTES <= n; i++) {
        hurt_change(&hurt, data[at], data[at + 1], data[at + 2] + 256u * data[at + 3]);
        at += CHANGE_BYTES;
    }
    if (rot) /* records have no checksums of ours: they are hurt by the other target */
        hurt_begin_list(&hurt);
    hurt_make_right(&hurt, right);
    const char *path = hurt_write(&hurt);
    now = second_reading(hurt.pack, hurt.n_pack, hurt.dead, hurt.n_dead);
    agrees = hurt_agrees(&hurt, &complete);
    good_table = exact && now.bands && second_levels(&now);

    struct tamis_store *store;
    MUST(tamis_store_open(pack_store_path(), NULL, &store, NULL) == 0);
    ask_all(store, &rng);
    if (todo & DO_FILE)
        read_file(path, todo / 32 % 4, &rng);
    work(&store, todo, &rng);
    tamis_store_close(store);
    tree_remove(pack_store_path());
    return 0;
}

/* A change more, or another value in one. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    if (n < CONTROL || n + CHANGE_BYTES > max || draw_below(&rng, 3) == 0)
        return LLVMFuzzerMutate(data, n, max);
    if (draw_below(&rng, 2))
        data[1] = (uint8_t)(draw_below(&rng, 4) == 0 ? draw(&rng)
                            : draw_below(&rng, 4)    ? ALL_RIGHT
                                                     : ALL_RIGHT - RIGHT_RECORDS);
    if (draw_below(&rng, 3) == 0)
        data[2] = (uint8_t)draw(&rng);
    size_t n_changes = (n - CONTROL) / CHANGE_BYTES;
    n = CONTROL + n_changes * CHANGE_BYTES;
    if (n_changes == 0 || draw_below(&rng, 2))
        n_changes++, n += CHANGE_BYTES;
    uint8_t *change = data + CONTROL + draw_below(&rng, n_changes) * CHANGE_BYTES;
    if (n_changes * CHANGE_BYTES + CONTROL == n)
        change = draw_below(&rng, 2) ? change : data + n - CHANGE_BYTES;
    for (size_t i = 0; i < CHANGE_BYTES; i++)
        change[i] = (uint8_t)draw(&rng);
    return n;
}
