/* Packs: whole files (header, rows, table of bands, table of columns, digests), their
 * tombstones and the records that name their columns, with hostile values in the fields
 * and the checksums made again as the input says.
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
enum { DO_FILE = 1, DO_FILTERS = 2, DO_UNPACK = 4, DO_REPACK = 8, DO_REPAIR = 16 };

static struct hurt hurt;
static struct second now;
static bool exact, rot; /* see above */

/* ---- what must a segment answer? ---- */

static bool same_column(const struct pack_place *a, const struct pack_place *b)
{
    return memcmp(a->uuid, b->uuid, UUID_BYTES) == 0 && a->digest == b->digest &&
           a->column == b->column;
}

static bool named_by_another(size_t i)
{
    for (size_t k = 0; k < hurt.base->n; k++)
        if (k != i && record_packed(&hurt.records[k]) &&
            same_column(&hurt.records[k].place, &hurt.records[i].place))
            return true;
    return false;
}

/* Is `why` right for this key of segment i, or for a stranger? */
static bool fits(size_t i, uint64_t hash, enum tamis_reason why)
{
    const struct record *r = &hurt.records[i];
    bool counts = record_packed(r) && second_counts(&now, pack_domain(), &r->place);
    if (counts && !named_by_another(i))
        return why ==
               (second_absent(&now, &r->place, hash) ? TAMIS_NO_REASON : TAMIS_HIT);
    return why == TAMIS_FILE_LOST;
}

/* ---- in every way ---- */

static void ask_keys(struct tamis_snapshot *s, const struct tamis_key *key,
                     const uint64_t *absent)
{
    uint64_t rows[3 * 2];
    struct tamis_key keys[3] = {*key, *key, *key};
    size_t n_words = (tamis_snapshot_n_segments(s) + 63) / 64;
    keys[1].hash ^= UINT64_MAX;
    tamis_snapshot_probe_keys(s, NULL, 0, keys, 3, rows);
    MUST(memcmp(rows, absent, n_words * sizeof *rows) == 0);
    MUST(memcmp(rows + 2 * n_words, absent, n_words * sizeof *rows) == 0);
}

static void ask(struct tamis_snapshot *s, const struct tamis_key *key, size_t owner)
{
    size_t n = tamis_snapshot_n_segments(s), n_found, k = 0;
    uint8_t reasons[MAX_COLUMNS];
    uint32_t found[MAX_COLUMNS];
    uint64_t absent[2];
    enum tamis_answer all = tamis_snapshot_probe_all(s, key, absent, reasons);
    MUST(n == hurt.base->n && n <= MAX_COLUMNS);
    MUST(tamis_snapshot_candidates(s, key, found, n, &n_found) == all);
    for (size_t i = 0; i < n; i++) {
        struct tamis_target t;
        enum tamis_reason why;
        MUST(tamis_snapshot_find(s, pack_segment(i), strlen(pack_segment(i)), NULL, 0,
                                 0, &t) == 0);
        MUST(t.slot == i + 1);
        bool is_absent = tamis_snapshot_probe(s, &t, key, &why) == TAMIS_ABSENT;
        MUST(is_absent == (why == TAMIS_NO_REASON));
        MUST(why == reasons[i] && is_absent == (absent[i / 64] >> i % 64 & 1));
        MUST(is_absent || (k < n_found && found[k++] == i));
        MUST(!exact || fits(i, key->hash, why));
        MUST(!rot || i != owner || !is_absent);
    }
    MUST(k == n_found);
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
    for (size_t i = 0; i < b->n; i++) {
        struct promised_keys keys = {key_of_model, &i, b->n_keys};
        for (size_t k = 0; k < N_OWN; k++) {
            struct tamis_key key = pack_key(b, i, k * (b->n_keys - 1) / (N_OWN - 1));
            ask(s, &key, i);
        }
        if (rot)
            expect_keys_of_segment(pack_segment(i), s, i, &keys, TAMIS_NO_REASON);
    }
    for (size_t k = 0; k < N_STRANGERS; k++) {
        struct tamis_key key = tamis_key_of_hash(pack_domain()->tag, draw(rng));
        ask(s, &key, SIZE_MAX);
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
    struct column col, found;
    for (uint32_t i = 0; exact && now.bands && i < n; i++) {
        int rc = pack_describe(f, i, i % 2, &col);
        const uint8_t *entry = second_entry(&now, i);
        MUST(rc ? rc == TAMIS_ERR_DAMAGED && (verified ? !good : !entry)
                : entry && memcmp(entry, &col, column_bytes(&col.disk)) == 0);
        struct piece name = column_name(&col);
        if (!rc)
            rc = pack_find(f, name.at, name.n, &found);
        MUST(!good || (rc == 0 && memcmp(&col, &found, sizeof col) == 0));
        if (good)
            rc = pack_find(f, name.at, name.n - 1, &found);
        MUST(!good || rc == TAMIS_ERR_NO_SEGMENT ||
             (rc == 0 && column_name(&found).n == name.n - 1));
    }
    for (size_t i = 0; i < hurt.base->n; i++) {
        const char *name = pack_segment(i);
        int rc = pack_find(f, name, strlen(name), &found);
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
    uint64_t tag = tamis_filter_domain(f).tag;
    for (size_t i = 0; i < N_STRANGERS + (size_t)N_OWN; i++) {
        uint64_t hash = i < N_OWN ? pack_key(hurt.base, i, 0).hash : draw(rng);
        struct tamis_key key = tamis_key_of_hash(tag, hash);
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
        int rc = tamis_snapshot_filter(s, i, &f, &diag);
        MUST((rc == 0) == (f != NULL) && (rc == 0 || diag.what[0]));
        if (rc)
            continue;
        MUST(tamis_filter_info(f, &info) == 0);
        if (rot)
            expect_keys(pack_segment(i), f, &keys, true);
    }
    tamis_snapshot_release(s);
}

static void unpack_some(struct tamis_store *store)
{
    for (uint32_t i = 0; i < hurt.base->n; i += 1 + hurt.base->n / 8) {
        struct tamis_snapshot *s;
        struct tamis_edit *e;
        MUST(tamis_snapshot_current(store, &s, NULL) == 0);
        MUST(tamis_edit_begin(store, NULL, &e, NULL) == 0);
        if (tamis_edit_unpack(e, s, &i, 1, NULL) == 0)
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
    if (todo & DO_UNPACK)
        unpack_some(*store);
    if (todo & DO_REPACK)
        MUST(pack_segments(*store, TAMIS_REPACK_ALL) <= 0);
    tamis_store_close(*store);
    if (todo & DO_REPAIR)
        MUST(tamis_store_repair(pack_store_path(), NULL, NULL, NULL) == 0);
    exact = false; /* other bytes answer now */
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
        memcpy(hurt.records, hurt.base->records, sizeof hurt.records);
    hurt_make_right(&hurt, right);
    const char *path = hurt_write(&hurt);
    now = second_reading(hurt.pack, hurt.n_pack, hurt.dead, hurt.n_dead);

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
        data[1] = draw_below(&rng, 4) ? ALL_RIGHT : (uint8_t)draw(&rng);
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
