/* Operations: the input is a program for a store (edits, builders, writers, snapshots,
 * packs, reopening, files put back and damaged), run next to an exact model of what
 * each segment holds. No key that was added is ever ABSENT, each call returns what the
 * model says it must, and what is listed is what the model lists.
 *
 * Input: pairs of bytes, what to do and with what. */
#include "fuzz/ops.h"

enum { N_OTHERS = 64, MAX_STEPS = 48 };

struct world w;

static char long_name[256];
const char *const names[N_NAMES] = {"a", "../x", "with\ttab", long_name};

size_t bytes_of(size_t i)
{
    return strlen(names[i]);
}

struct tamis_key key_of_id(size_t id)
{
    static char text[16];
    int n = snprintf(text, sizeof text, "key-%zu", id);
    return tamis_key_of(&w.domain, text, (size_t)n);
}

/* ---- does the store say what the model says? ---- */

static enum tamis_answer ask(struct tamis_snapshot *s, const struct tamis_target *t,
                             size_t id, enum tamis_reason *why)
{
    struct tamis_key key = key_of_id(id);
    if (id % 2)
        key.bytes = NULL; /* by hash alone */
    return tamis_snapshot_probe(s, t, &key, why);
}

/* Every other one by hash alone. */
static bool key_of_model(const void *ctx, uint64_t id, struct tamis_key *out)
{
    const struct segment *m = ctx;
    *out = key_of_id(id);
    if (id % 2)
        out->bytes = NULL;
    return m->has[id];
}

void check_keys(struct tamis_snapshot *s, size_t i, const struct segment *m, bool any)
{
    struct tamis_target t;
    struct promised_keys keys = {key_of_model, m, N_IDS};
    int rc = tamis_snapshot_find(s, names[i], bytes_of(i), NULL, 0, 0, &t);
    MUST(rc == (m->kind == NONE ? TAMIS_ERR_NO_SEGMENT : 0));
    if (rc == 0)
        expect_keys_of_segment(names[i], s, t.slot - 1, &keys,
                               any               ? TAMIS_NO_REASON
                               : m->kind == BARE ? TAMIS_NO_FILTER
                                                 : TAMIS_HIT);
}

static void check_others(struct tamis_snapshot *s, size_t i, const struct segment *m)
{
    struct tamis_target t;
    enum tamis_reason why;
    size_t n_absent = 0;
    tamis_snapshot_find(s, names[i], bytes_of(i), NULL, 0, 0, &t);
    for (size_t id = N_IDS; id < N_IDS + N_OTHERS; id++) {
        n_absent += ask(s, &t, id, &why) == TAMIS_ABSENT;
        MUST(m->kind != NONE || why == TAMIS_UNKNOWN_SEGMENT);
        MUST(m->kind != BARE || why == TAMIS_NO_FILTER);
    }
    /* A filter that always says maybe would pass all of the above. */
    MUST(m->kind < GROWING ? !n_absent : w.hurt || n_absent > N_OTHERS / 2);
}

void check_now(void)
{
    struct tamis_snapshot *s;
    size_t n = 0;
    MUST(tamis_snapshot_current(w.store, &s, NULL) == 0);
    for (size_t i = 0; i < N_NAMES; i++) {
        check_keys(s, i, &w.now[i], w.hurt);
        check_others(s, i, &w.now[i]);
        n += w.now[i].kind != NONE;
    }
    MUST(tamis_snapshot_n_segments(s) == n);
    for (size_t id = 0; id < N_IDS; id += 37) {
        struct tamis_key key = key_of_id(id);
        bool somewhere = n == 0; /* an empty list proves nothing */
        for (size_t i = 0; i < N_NAMES; i++)
            somewhere = somewhere || w.now[i].has[id] || w.now[i].kind == BARE;
        if (somewhere)
            MUST(tamis_snapshot_probe_all(s, &key, NULL, NULL) == TAMIS_MAYBE);
    }
    tamis_snapshot_release(s);
}

/* An older snapshot may have lost files since; it has lost no keys. */
void check_held(void)
{
    for (size_t i = 0; w.snapshot && i < N_NAMES; i++)
        check_keys(w.snapshot, i, &w.held[i], true);
}

/* ---- steps ---- */

void begin(void)
{
    if (w.edit)
        return;
    MUST(tamis_edit_begin(w.store, &w.edit, NULL) == 0);
    memcpy(w.edited, w.now, sizeof w.edited);
    for (size_t i = 0; i < N_NAMES; i++)
        w.edited[i].put_here = false;
}

static void note_put(size_t i, enum kind kind)
{
    w.edited[i] = (struct segment){
        .kind = kind, .put_here = true, .incarnation = ++w.incarnations};
}

static void put(size_t i, uint8_t arg)
{
    struct tamis_builder *b;
    begin();
    MUST(tamis_edit_builder(w.edit, names[i], bytes_of(i), 0, NULL, &b, NULL) ==
         (w.edited[i].kind == NONE ? 0 : TAMIS_ERR_EXISTS));
    if (w.edited[i].kind != NONE)
        return;
    size_t n = arg % 100, first = (size_t)arg * 2 % (N_IDS - 100);
    note_put(i, SEALED);
    for (size_t id = first; id < first + n; id++) {
        struct tamis_key key = key_of_id(id);
        if (arg & 128)
            MUST(tamis_builder_add_hashes(b, key.tag, &key.hash, 1) == 0);
        else
            MUST(tamis_builder_add_key(b, key.bytes, key.n_bytes) == 0);
        w.edited[i].has[id] = 1;
    }
    MUST(tamis_edit_put(w.edit, b, NULL) == 0);
    tamis_builder_free(b);
}

static void put_other(size_t i, enum kind kind)
{
    begin();
    int rc =
        kind == BARE
            ? tamis_edit_put_bare(w.edit, names[i], bytes_of(i), NULL, NULL)
            : tamis_edit_put_growing(w.edit, names[i], bytes_of(i), NULL, NULL, NULL);
    MUST(rc == (w.edited[i].kind == NONE ? 0 : TAMIS_ERR_EXISTS));
    if (rc == 0)
        note_put(i, kind);
}

static void drop(size_t i)
{
    begin();
    MUST(tamis_edit_drop(w.edit, names[i], bytes_of(i), NULL) ==
         (w.edited[i].kind == NONE ? TAMIS_ERR_NO_SEGMENT : 0));
    w.edited[i] = (struct segment){0};
}

static void retain(uint8_t mask)
{
    struct tamis_name keep[N_NAMES + 1];
    size_t n = 0;
    begin();
    for (size_t i = 0; i < N_NAMES; i++) {
        if (mask >> i & 1)
            keep[n++] = (struct tamis_name){names[i], bytes_of(i)};
        else if (!w.edited[i].put_here)
            w.edited[i] = (struct segment){0};
    }
    keep[n++] = (struct tamis_name){"unknown", 7};
    MUST(tamis_edit_retain(w.edit, keep, n, NULL) == 0);
}

static void commit(void)
{
    if (!w.edit)
        return;
    int want = 0;
    for (size_t i = 0; i < N_NAMES; i++)
        if (w.writer[i] && w.edited[i].incarnation != w.now[i].incarnation)
            want = TAMIS_ERR_BUSY;
    MUST(tamis_edit_commit(w.edit, NULL) == want);
    w.edit = NULL;
    for (size_t i = 0; want == 0 && i < N_NAMES; i++)
        if (w.edited[i].incarnation != w.now[i].incarnation)
            w.now[i] = w.edited[i]; /* others went on meanwhile */
    check_now();
}

static void abort_edit(void)
{
    tamis_edit_abort(w.edit);
    w.edit = NULL;
}

static void open_writer(size_t i)
{
    struct tamis_writer *writer;
    int want = w.now[i].kind == SEALED    ? TAMIS_ERR_SEALED
               : w.now[i].kind != GROWING ? TAMIS_ERR_NO_SEGMENT
               : w.writer[i]              ? TAMIS_ERR_BUSY
                                          : 0;
    MUST(tamis_store_writer(w.store, names[i], bytes_of(i), &writer, NULL) == want);
    if (want)
        return;
    w.writer[i] = writer;
    MUST(tamis_writer_watermark(writer) == w.now[i].watermark);
}

static void add(size_t i, uint8_t arg)
{
    if (!w.writer[i])
        return;
    size_t first = (size_t)arg * 2 % (N_IDS - 64);
    for (size_t id = first; id < first + 64; id++) {
        struct tamis_key key = key_of_id(id);
        MUST(tamis_writer_add_key(w.writer[i], key.bytes, key.n_bytes) == 0);
        w.now[i].has[id] = 1;
    }
}

static void commit_writer(size_t i, uint8_t arg, bool seal)
{
    if (!w.writer[i])
        return;
    int want = arg < w.now[i].watermark ? TAMIS_ERR_RANGE : 0;
    uint64_t n_damaged = 0;
    int rc = seal ? tamis_writer_seal(w.writer[i], arg, &n_damaged, NULL)
                  : tamis_writer_commit(w.writer[i], arg, NULL);
    MUST(rc == want && n_damaged == 0);
    if (rc)
        return;
    w.now[i].watermark = arg;
    if (!seal)
        return;
    w.now[i].kind = SEALED;
    MUST(tamis_writer_add_key(w.writer[i], "late", 4) == TAMIS_ERR_SEALED);
    MUST(tamis_writer_close(w.writer[i]) == 0);
    w.writer[i] = NULL;
}

static void close_writer(size_t i)
{
    if (w.writer[i])
        MUST(tamis_writer_close(w.writer[i]) == 0);
    w.writer[i] = NULL;
}

static void hold(void)
{
    check_held();
    tamis_snapshot_release(w.snapshot);
    MUST(tamis_snapshot_current(w.store, &w.snapshot, NULL) == 0);
    memcpy(w.held, w.now, sizeof w.held);
}

void close_all(void)
{
    abort_edit();
    for (size_t i = 0; i < N_NAMES; i++)
        close_writer(i);
    tamis_store_close(w.store);
}

static void step(uint8_t what, uint8_t arg)
{
    if (what / 64 == 1) {
        step_pack(what, arg);
        return;
    }
    if (what / 64 == 2) {
        step_files(what, arg);
        return;
    }
    size_t i = what / 16 % N_NAMES;
    switch (what % 16) {
    case 0:
    case 1:
        put(i, arg);
        break;
    case 2:
        put_other(i, BARE);
        break;
    case 3:
    case 4:
        put_other(i, GROWING);
        break;
    case 5:
        drop(i);
        break;
    case 6:
        retain(arg);
        break;
    case 7:
        commit();
        break;
    case 8:
        abort_edit();
        break;
    case 9:
        open_writer(i);
        break;
    case 10:
        add(i, arg);
        break;
    case 11:
        commit_writer(i, arg, false);
        break;
    case 12:
        commit_writer(i, arg, true);
        break;
    case 13:
        close_writer(i);
        break;
    case 14:
        hold();
        break;
    default:
        close_all();
        MUST(tamis_store_open(w.path, &w.store, NULL) == 0);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &w.domain};
    memset(&w, 0, sizeof w);
    fuzz_calm_io();
    memset(long_name, 'n', sizeof long_name - 1);
    opt.growth = (struct tamis_growth){.error = 1e-4, .first_capacity = 20};
    MUST(tamis_domain_init(&w.domain, 1, 5) == 0);
    snprintf(w.path, sizeof w.path, "%s/store", fuzz_dir());
    MUST(tamis_store_create(w.path, &opt, NULL) == 0);
    MUST(tamis_store_open(w.path, &w.store, NULL) == 0);
    for (size_t i = 0; i + 1 < n && i < 2 * MAX_STEPS; i += 2)
        step(data[i], data[i + 1]);
    check_held();
    check_now();
    close_all();
    MUST(tamis_store_open(w.path, &w.store, NULL) == 0);
    check_now();
    check_held();
    tamis_snapshot_release(w.snapshot);
    tamis_store_close(w.store);
    fuzz_remove(w.path);
    packs_end();
    return 0;
}

/* Half of the time a step that does something, put somewhere. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    n &= ~(size_t)1;
    if (rng_below(&rng, 2) || n + 2 > max)
        return LLVMFuzzerMutate(data, n, max);
    size_t at = rng_below(&rng, n / 2 + 1) * 2;
    memmove(data + at + 2, data + at, n - at);
    data[at] = (uint8_t)rng_below(&rng, 192);
    data[at + 1] = (uint8_t)rng_u64(&rng);
    return n + 2;
}
