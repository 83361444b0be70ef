/* Steps with packs. They change no answer: the model is as it was before. */
#include "fuzz/ops.h"

#include <unistd.h>

/* ---- made, made anew, unpacked ---- */

/* The segments of the snapshot whose bit is set, by name. */
static size_t pick(struct tamis_snapshot *s, uint8_t mask, bool packed,
                   uint32_t picked[N_NAMES])
{
    size_t n = 0;
    struct tamis_target t;
    for (size_t i = 0; i < N_NAMES; i++)
        if (mask >> i & 1 &&
            tamis_snapshot_find(s, names[i], bytes_of(i), NULL, 0, 0, &t) == 0 &&
            (!packed || tamis_snapshot_pack(s, t.slot - 1, NULL, NULL) == 0))
            picked[n++] = t.slot - 1;
    return n;
}

static struct tamis_snapshot *current(void)
{
    struct tamis_snapshot *s;
    MUST(tamis_snapshot_current(w.store, &s, NULL) == 0);
    return s;
}

/* Of a snapshot as of now, or of the one that is held. */
static void pack_in(struct tamis_edit *e, uint8_t arg, bool dry_run)
{
    static const enum tamis_repack repacks[] = {TAMIS_REPACK_NONE, TAMIS_REPACK_ALL,
                                                TAMIS_REPACK_ALL, TAMIS_REPACK_AUTO};
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .keep = arg >> 4 & 1,
                                     .repack = repacks[arg >> 5 & 3],
                                     .dry_run = dry_run};
    struct tamis_pack_report report;
    uint32_t picked[N_NAMES];
    struct tamis_snapshot *s = current(), *of = arg >> 7 && w.snapshot ? w.snapshot : s;
    bool all = opt.repack == TAMIS_REPACK_AUTO;
    size_t n = pick(of, arg, false, picked);
    int rc = tamis_edit_pack(e, of, all ? NULL : picked, n, &opt, &report, NULL);
    tamis_snapshot_release(s);
    /* One that is held may be of a store that was closed since. */
    MUST(rc == 0 || (of != s && rc == TAMIS_ERR_MISMATCH));
    MUST(report.n_packed <= N_NAMES && report.n_repacked <= N_NAMES);
}

static void pack_now(uint8_t arg, bool dry_run)
{
    struct tamis_edit *e;
    MUST(tamis_edit_begin(w.store, &e, NULL) == 0);
    pack_in(e, arg, dry_run);
    MUST(tamis_edit_commit(e, NULL) == 0);
    check_now();
}

static void unpack(uint8_t arg)
{
    struct tamis_edit *e;
    uint32_t picked[N_NAMES];
    struct tamis_snapshot *s = current();
    MUST(tamis_edit_begin(w.store, &e, NULL) == 0);
    int rc = tamis_edit_unpack(e, s, picked, pick(s, arg, true, picked), NULL);
    tamis_snapshot_release(s);
    MUST(rc == 0 || (w.hurt && rc < 0));
    if (rc)
        tamis_edit_abort(e);
    else
        MUST(tamis_edit_commit(e, NULL) == 0);
    check_now();
}

/* By another edit than the one at work, which has nothing to do with this segment. */
static void replace_now(size_t i, uint8_t arg)
{
    struct tamis_edit *e;
    struct tamis_builder *b;
    uint64_t was = w.now[i].incarnation;
    if (w.now[i].kind != SEALED || (w.edit && w.edited[i].incarnation != was))
        return;
    struct segment m = {.kind = SEALED, .incarnation = ++w.incarnations};
    MUST(tamis_edit_begin(w.store, &e, NULL) == 0);
    MUST(tamis_edit_drop(e, names[i], bytes_of(i), NULL) == 0);
    MUST(tamis_edit_builder(e, names[i], bytes_of(i), 0, NULL, &b, NULL) == 0);
    for (size_t id = arg; id < arg + (size_t)60; id++) {
        struct tamis_key key = key_of_id(id);
        MUST(tamis_builder_add_key(b, key.bytes, key.n_bytes) == 0);
        m.has[id] = 1;
    }
    MUST(tamis_edit_put(e, b, NULL) == 0);
    tamis_builder_free(b);
    MUST(tamis_edit_commit(e, NULL) == 0);
    w.now[i] = w.edited[i] = m;
    check_now();
}

void step_pack(uint8_t what, uint8_t arg)
{
    switch (what % 8) {
    case 0:
    case 1: /* with whatever else the edit does */
        begin();
        pack_in(w.edit, arg, false);
        break;
    case 2:
        pack_now(arg, true);
        break;
    case 3:
        unpack(arg);
        break;
    case 4:
        replace_now(what / 16 % N_NAMES, arg);
        break;
    default:
        pack_now(arg, false);
        break;
    }
}

/* ---- files put back ---- */

static struct saved_store then, now;

static void close_for_files(void)
{
    check_held();
    tamis_snapshot_release(w.snapshot);
    w.snapshot = NULL;
    close_all();
    w.store = NULL;
}

static void reopen(void)
{
    MUST(tamis_store_open(w.path, &w.store, NULL) == 0);
}

static void put_back_catalog(struct saved_store *from)
{
    char lock[400];
    snprintf(lock, sizeof lock, "%s/catalog.lmdb-lock", w.path);
    put_back_file(saved_named(from, "catalog.lmdb"), w.path);
    unlink(lock);
}

static void keep_copy(void)
{
    close_for_files();
    save_store(&then, w.path);
    memcpy(w.then, w.now, sizeof w.then);
    reopen();
}

/* An older list over the files of today: no segment that it has lacks a key of then or
 * of now. What it does not have it cannot speak of. */
static void ask_old_catalog(void)
{
    struct tamis_snapshot *s = current();
    struct tamis_target t;
    for (size_t i = 0; i < N_NAMES; i++) {
        struct segment both = w.now[i];
        if (tamis_snapshot_find(s, names[i], bytes_of(i), NULL, 0, 0, &t) != 0)
            continue;
        for (size_t id = 0; id < N_IDS; id++)
            both.has[id] |= w.then[i].has[id];
        both.kind = w.then[i].kind;
        check_keys(s, i, &both, true);
    }
    tamis_snapshot_release(s);
}

static void old_catalog(void)
{
    if (!then.n)
        return;
    close_for_files();
    save_store(&now, w.path);
    put_back_catalog(&then);
    reopen();
    ask_old_catalog();
    tamis_store_close(w.store);
    put_back_catalog(&now);
    reopen();
    check_now();
}

/* Packs and tombstones that have gone come back under their names, or old tombstones
 * over the newer ones. But not for long: with an old catalog they would be the store of
 * then, whole (SPEC.md 7.3, catalog put back). */
static void old_packs(bool tombstones, bool sweep)
{
    struct tamis_edit *e;
    char path[700];
    close_for_files();
    save_store(&now, w.path);
    for (size_t i = 0; i < then.n; i++) {
        const struct saved_file *f = &then.files[i];
        bool is_there = saved_named(&now, f->name) != NULL;
        if (tombstones ? is_there && strstr(f->name, ".dead") : !is_there)
            put_back_file(f, w.path);
    }
    reopen();
    check_now();
    if (tombstones && sweep) { /* as after a writer that died before it set them */
        MUST(tamis_edit_begin(w.store, &e, NULL) == 0);
        tamis_edit_abort(e);
        return;
    }
    tamis_store_close(w.store);
    for (size_t i = 0; i < then.n; i++) {
        snprintf(path, sizeof path, "%s/%s", w.path, then.files[i].name);
        if (!saved_named(&now, then.files[i].name))
            unlink(path);
    }
    put_back_store(&now, w.path);
    reopen();
}

/* ---- damage ---- */

/* Bits of an open stage may be replaced unseen (SPEC.md 7.3): its file is left. */
static bool grows(const char *name)
{
    struct tamis_snapshot *s = current();
    struct tamis_segment_info info;
    bool found = false;
    for (size_t i = 0; i < tamis_snapshot_n_segments(s); i++) {
        MUST(tamis_snapshot_segment(s, i, &info) == 0);
        found |= info.state == TAMIS_SEGMENT_GROWING && strcmp(info.file, name) == 0;
    }
    tamis_snapshot_release(s);
    return found;
}

static void damage(uint8_t what, uint8_t arg)
{
    uint64_t rng = arg;
    close_for_files();
    save_store(&now, w.path);
    reopen();
    for (size_t i = 1; i < now.n; i++) {
        struct saved_file *f = &now.files[1 + (arg + i) % (now.n - 1)];
        if (grows(f->name) || !f->n)
            continue;
        size_t at = rng_below(&rng, f->n), n = what & 8 ? 1 : PAGE_BYTES;
        if (n > 1)
            at -= at % PAGE_BYTES;
        for (size_t k = at; k < f->n && k < at + n; k++)
            f->bytes[k] = n > 1 ? 0 : (uint8_t)(f->bytes[k] ^ (1 + arg % 255));
        tamis_store_close(w.store);
        put_back_file(f, w.path);
        w.hurt = true;
        reopen();
        break;
    }
    check_now();
}

void step_files(uint8_t what, uint8_t arg)
{
    switch (what % 8) {
    case 0:
    case 1:
        keep_copy();
        break;
    case 2:
    case 3:
    case 4:
        old_catalog();
        break;
    case 5:
    case 6:
        old_packs(what % 8 == 6, what & 8);
        break;
    default:
        damage(what, arg);
        break;
    }
}

void packs_end(void)
{
    forget_store(&then);
    forget_store(&now);
}
