/* Segments that packs answer for: their listed bits, their files, their tombstones; one
 * column, and what is known of it. */
#include "lib/store/snapshot/snapshot.h"
#include "lib/pack/pack.h"

/* ---- the list, inside its transaction ---- */

/* Packs are in the order of their UUIDs, as in the catalog. */
static struct shared_view *view_of_record(const struct shared_files *p,
                                          const uint8_t *uuid, uint64_t digest)
{
    struct shared_view *v =
        p->n ? bsearch(uuid, p->views, p->n, sizeof *v, compare_pack_uuids) : NULL;
    return v && v->digest == digest ? v : NULL;
}

/* ---- bits that snapshots share ---- */

/* Most packs have no tombstones, and all of their columns are listed. */
static uint8_t no_tombstones[DEAD_MAX_BYTES]; /* nobody writes to it */
static const uint64_t all_living[ROW_MAX_WORDS] = {[0 ... ROW_MAX_WORDS - 1] =
                                                       UINT64_MAX};

static struct shared_bits *bits_new(uint8_t *listed, uint64_t chunks_sum,
                                    const uint64_t sums[MAX_CHUNKS])
{
    struct shared_bits *b = calloc(1, sizeof *b);
    if (b) {
        atomic_init(&b->refs, 1);
        b->listed = listed;
        b->chunks_sum = chunks_sum;
        memcpy(b->sums, sums, sizeof b->sums);
    }
    return b;
}

static void bits_release(struct shared_bits *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1)
        return;
    free(b->listed);
    free(b->dead == no_tombstones ? NULL : (void *)(uintptr_t)b->dead);
    free(b->living);
    free(b);
}

/* Bits that a snapshot has of a pack whose record, and the checksums of all of whose
 * chunks, are the same now: these bits are what the catalog says. */
static struct shared_bits *bits_still(const struct shared_files *before,
                                      const struct listed *p)
{
    const struct shared_view *v =
        p->failure ? NULL : view_of_record(before, p->uuid, p->now.table_digest);
    return v && v->dead && v->n_columns == p->now.n_columns &&
                   v->n_listed == p->now.n_listed &&
                   v->bits->chunks_sum == p->now.chunks_sum &&
                   memcmp(v->bits->sums, p->sums, sizeof p->sums) == 0
               ? v->bits
               : NULL;
}

/* Takes the bits over, if they are not shared; NULL: nobody could read them. */
static int view_take(struct tamis_snapshot *s, struct listed *p, struct shared_view *v)
{
    struct shared_bits *bits = v->bits;
    if (!bits && !(bits = bits_new(p->bits, p->now.chunks_sum, p->sums)))
        return ENOMEM;
    *v = (struct shared_view){.digest = p->now.table_digest,
                              .n_columns = p->now.n_columns,
                              .n_listed = p->now.n_listed,
                              .n_named = p->n_named,
                              .bits = bits,
                              .listed = bits->listed};
    memcpy(v->uuid, p->uuid, UUID_BYTES);
    p->bits = NULL;
    if (!p->agrees) { /* nobody knows which of its columns are segments */
        s->complete = false;
        v->failure = TAMIS_ERR_DAMAGED;
        v->n_columns = v->n_listed = 0;
    }
    return 0;
}

/* Counts the columns that the entries' records name. */
static int count_named(struct tamis_snapshot *s, struct listings *l)
{
    int rc = 0;
    for (size_t i = 0; i < s->n_loose && !rc; i++) {
        const struct entry *e = s->entries[i];
        unsigned n = 1;
        if (e->state && !e->elsewhere)
            continue;
        const struct part_disk *part =
            e->elsewhere ? record_part(entry_record(e), PART_COLUMN)
                         : record_parts(e->bytes + e->name_bytes, e->value_bytes,
                                        e->bytes, e->name_bytes, &n);
        rc = listings_count(l, entry_name(e), part, n);
    }
    if (rc)
        return diag_errno(l->txn->diag, rc, NULL, "taking a snapshot");
    rc = listings_agree(l);
    s->complete &= !l->strange && !l->astray;
    return rc;
}

/* Gives the columns their numbers. */
static int number_columns(struct tamis_snapshot *s)
{
    size_t at = s->n_loose;
    for (size_t i = 0; i < s->shared.n; i++) {
        struct shared_view *v = &s->shared.views[i];
        v->base = v->n_columns ? bit_words(at) * 64 : at;
        if (!v->n_columns)
            continue;
        s->n = at = v->base + v->n_columns;
        s->shared.n_listed += v->n_listed;
    }
    s->n_segments = s->n_loose + s->shared.n_listed;
    return s->n >> NUMBER_BITS ? TAMIS_ERR_TOO_LARGE : 0;
}

int shared_read(struct tamis_snapshot *s, const struct tamis_snapshot *previous,
                struct catalog_txn *t)
{
    struct shared_files *p = &s->shared;
    struct listings l;
    int rc = listings_load(&l, t);
    if (rc)
        return rc;
    open_packs_forget(t->catalog, &l);
    p->views = calloc(l.n + 1, sizeof *p->views);
    if (!p->views)
        rc = ENOMEM;
    for (size_t i = 0; previous && i < l.n && !rc; i++) {
        struct shared_bits *bits = bits_still(&previous->shared, &l.all[i]);
        p->views[i].bits = bits;
        if (bits) {
            atomic_fetch_add_explicit(&bits->refs, 1, memory_order_relaxed);
            l.all[i].bits = bits->listed; /* lent */
        }
    }
    if (!rc)
        rc = count_named(s, &l);
    for (; p->views && p->n < l.n; p->n++) {
        int err = view_take(s, &l.all[p->n], &p->views[p->n]);
        rc = rc ? rc : err;
    }
    listings_free(&l);
    if (!rc)
        rc = number_columns(s);
    if (rc == TAMIS_ERR_TOO_LARGE)
        return diag_fail(t->diag, rc, t->catalog->path,
                         "packs have more than %u columns together, dropped ones, too: "
                         "pack the store anew, or part it",
                         (1U << NUMBER_BITS) - 1);
    return rc == ENOMEM ? diag_errno(t->diag, rc, t->catalog->path, "taking a snapshot")
                        : rc;
}

/* ---- files ---- */

/* Did it fail to open, and would it open now? Leaves it as it is. */
static bool view_would_open(const struct tamis_snapshot *s, struct catalog *c,
                            const struct shared_view *v)
{
    struct open_pack *pack;
    uint8_t *dead = NULL;
    uint32_t n = v->n_columns;
    if (!v->failure || !n || open_pack_get(c, v->uuid, v->digest, n, false, &pack) != 0)
        return false;
    bool good = dead_load(s->dir->fd, v->uuid, v->digest, &dead, &n) == 0;
    free(dead);
    open_pack_release(pack);
    return good;
}

bool shared_would_open(struct tamis_snapshot *s, struct catalog *c)
{
    uint64_t now = s->shared.again ? look_clock() : 0;
    if (!s->shared.again || !look_is_due_at(s->shared.again, now))
        return false;
    s->shared.again = now + LOOK_VALID / 2;
    for (size_t i = 0; i < s->shared.n; i++)
        if (view_would_open(s, c, &s->shared.views[i]))
            return true;
    return false;
}

static uint64_t living_word(const struct shared_view *v, size_t i)
{
    bool any = i < bit_words(v->n_columns);
    return any ? columns_word(v->listed, i) & ~dead_word(v, i) : 0;
}

/* Bits [first, first + n) of a view's listed columns without a tombstone. */
static void cut_living(const struct shared_view *v, uint32_t first, uint32_t n,
                       uint64_t *living)
{
    size_t n_words = bit_words(n);
    uint32_t shift = first % 64;
    for (size_t i = 0, at = first / 64; i < n_words; i++, at++)
        living[i] =
            living_word(v, at) >> shift | (living_word(v, at + 1) << 1 << (63 - shift));
    living[n_words - 1] &= UINT64_MAX >> (63 - (n - 1) % 64);
}

static int make_living(const struct shared_view *v, struct shared_bits *bits)
{
    uint32_t n_words = 0;
    bits->all_live = v->n_listed == v->n_columns && bits->dead == no_tombstones;
    if (bits->all_live)
        return 0;
    for (uint32_t b = 0; b < v->open->n_bands; b++)
        n_words += pack_row_words(&v->open->bands[b]);
    uint64_t *living = bits->living = calloc(n_words + 1, sizeof *living);
    if (!living)
        return ENOMEM;
    for (uint32_t b = 0; b < v->open->n_bands; b++) {
        const struct band *band = &v->open->bands[b];
        cut_living(v, band->first_column, band->n_columns, living);
        living += pack_row_words(band);
    }
    bits->n_mute = v->n_listed - columns_count((uint8_t *)bits->living, 64 * n_words);
    return 0;
}

static int load_dead(const struct tamis_snapshot *s, const struct shared_view *v,
                     struct shared_bits *b)
{
    uint32_t n = v->n_columns;
    uint8_t *file;
    int rc = dead_load(s->dir->fd, v->uuid, v->digest, &file, &n);
    b->dead = file;
    if (!rc && memcmp(file + DEAD_HEAD_BYTES, no_tombstones, (n + 7) / 8) == 0) {
        memcpy(b->head, file, sizeof b->head);
        memcpy(&b->checksum, file + dead_bytes(n) - sizeof b->checksum,
               sizeof b->checksum);
        free(file);
        b->dead = no_tombstones;
    }
    return rc;
}

/* Are its tombstones what a snapshot has? */
static bool still_dead(const struct tamis_snapshot *s, const struct shared_view *v,
                       const struct shared_bits *b)
{
    uint32_t n = v->n_columns;
    bool none = b->dead == no_tombstones;
    const uint8_t *at = b->dead + dead_bytes(n) - sizeof b->checksum;
    return dead_is(s->dir->fd, v->uuid, none ? b->head : b->dead,
                   b->dead + DEAD_HEAD_BYTES, none ? (const uint8_t *)&b->checksum : at,
                   n);
}

/* Reads the tombstones: without good ones no column counts. As long as they are those
 * of the snapshot before, all that was made of them is good. */
static int view_bury(const struct tamis_snapshot *s, struct shared_view *v)
{
    uint32_t n = v->n_columns;
    struct shared_bits *bits = v->bits;
    if (bits->dead && !still_dead(s, v, bits)) {
        size_t n_bytes = columns_bytes(n) + 8;
        uint8_t *own = malloc(n_bytes);
        if (!own || !(bits = bits_new(own, bits->chunks_sum, bits->sums))) {
            free(own);
            return ENOMEM;
        }
        memcpy(own, v->bits->listed, n_bytes);
        bits_release(v->bits);
        v->bits = bits;
        v->listed = bits->listed;
    }
    int rc = bits->dead ? 0 : load_dead(s, v, bits);
    v->dead = bits->dead;
    if (!rc && !bits->living && !bits->all_live)
        rc = make_living(v, bits);
    return rc;
}

/* Adds the bands that have a living column. */
static void add_stripes(struct shared_files *p, const struct shared_view *v)
{
    const uint64_t *living = v->bits->all_live ? all_living : v->bits->living;
    for (uint32_t b = 0, i; b < v->open->n_bands; b++) {
        const struct band *band = &v->open->bands[b];
        uint32_t n_words = (uint32_t)bit_words(band->n_columns);
        for (i = 0; i < n_words && !living[i]; i++)
            ;
        if (i < n_words)
            p->stripes[p->n_stripes++] = (struct stripe){
                .rows = pack_band_rows(v->open->filter, band),
                .view = v,
                .living = living,
                .band = band,
                .n_words = n_words,
                .first = v->base + band->first_column,
            };
        living += v->bits->all_live ? 0 : pack_row_words(band);
    }
}

int shared_open(struct tamis_snapshot *s, struct catalog *c, bool fresh)
{
    struct shared_files *p = &s->shared;
    size_t n_bands = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct shared_view *v = &p->views[i];
        int failed = v->failure;
        if (!failed)
            v->failure =
                open_pack_get(c, v->uuid, v->digest, v->n_columns, fresh, &v->open);
        if (!v->failure)
            v->failure = view_bury(s, v);
        if (v->failure)
            v->dead = NULL;
        if (v->failure && !failed) /* it may come back */
            p->again = look_clock() + LOOK_VALID / 2;
        p->n_mute += view_mute(v);
        n_bands += v->dead ? v->open->n_bands : 0;
    }
    if (!(p->stripes = calloc(n_bands + 1, sizeof *p->stripes + sizeof *p->firsts)))
        return ENOMEM;
    p->firsts = (uint32_t *)(p->stripes + n_bands + 1);
    for (size_t i = 0; i < p->n; i++)
        if (p->views[i].dead)
            add_stripes(p, &p->views[i]);
    for (size_t i = 0; i < p->n_stripes; i++)
        p->firsts[i] = (uint32_t)p->stripes[i].first;
    const struct stripe *one = p->stripes;
    p->whole = p->n_stripes == 1 && !p->n_mute && !s->n_loose && one->first == 0 &&
               one->n_words >= bit_words(s->n);
    return 0;
}

void shared_free(struct shared_files *p)
{
    for (size_t i = 0; i < p->n; i++) {
        open_pack_release(p->views[i].open);
        bits_release(p->views[i].bits);
    }
    free(p->views);
    free(p->stripes);
    *p = (struct shared_files){0};
}

/* ---- one column ---- */

/* How many packs begin at or below a number: the last of them may have it. */
static size_t shared_up_to(const struct shared_files *p, size_t index)
{
    size_t from = 0, to = p->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (p->views[middle].base <= index)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The pack whose listed column has the number. */
static const struct shared_view *view_of_number(const struct tamis_snapshot *s,
                                                size_t index)
{
    size_t n = shared_up_to(&s->shared, index);
    const struct shared_view *v = n ? &s->shared.views[n - 1] : NULL;
    return v && index - v->base < v->n_columns &&
                   columns_have(v->listed, (uint32_t)(index - v->base))
               ? v
               : NULL;
}

bool seat_taken(const struct tamis_snapshot *s, size_t index)
{
    return view_of_number(s, index) != NULL;
}

/* A pack is lost if it is missing or refused, or its tombstones are. */
static enum tamis_reason view_reason(const struct shared_view *v)
{
    if (v->n_columns && v->dead)
        return TAMIS_NO_REASON;
    if (!v->n_columns)
        return TAMIS_UNREADABLE;
    return v->failure > 0 ? reason_of_error(v->failure) : TAMIS_FILE_LOST;
}

/* A column that is listed and has a tombstone is lost, too. */
static struct seat seat_of(const struct shared_view *v, uint32_t column)
{
    struct seat seat = {.view = v, .column = column, .why = view_reason(v)};
    if (seat.why == TAMIS_NO_REASON && columns_have(v->dead + DEAD_HEAD_BYTES, column))
        seat.why = TAMIS_FILE_LOST;
    if (seat.why == TAMIS_NO_REASON)
        seat.band =
            &v->open->bands[band_of_column(v->open->bands, v->open->n_bands, column)];
    return seat;
}

/* Does the entry of a column agree with the record that names it? If it once did, it
 * always does: the record is the same, and a pack never changes. */
static enum tamis_reason check_named(struct entry *e, const struct seat *seat)
{
    struct facts col;
    if (atomic_load_explicit(&e->agrees, memory_order_relaxed))
        return TAMIS_NO_REASON;
    if (pack_describe(seat_filter(seat), seat->column, false, &col) != 0)
        return TAMIS_DAMAGED;
    if (memcmp(col.disk.uuid, entry_record(e)->uuid, UUID_BYTES) != 0 ||
        name_compare(entry_name(e), column_name(&col)) != 0)
        return TAMIS_MISMATCH;
    atomic_store_explicit(&e->agrees, true, memory_order_relaxed);
    return TAMIS_NO_REASON;
}

static struct seat seat_of_entry(const struct tamis_snapshot *s, struct entry *e)
{
    struct seat seat = {.why = TAMIS_UNREADABLE};
    if (!e->elsewhere)
        return seat;
    struct pack_place at = entry_place(e);
    const struct shared_view *v = view_of_record(&s->shared, at.uuid, at.digest);
    if (!v || (v->n_columns && at.column >= v->n_columns))
        return seat;
    seat = seat_of(v, at.column);
    if (seat.band)
        seat.why = check_named(e, &seat);
    if (seat.why != TAMIS_NO_REASON)
        seat.band = NULL;
    return seat;
}

struct seat segment_seat(const struct tamis_snapshot *s, size_t index)
{
    if (index < s->n_loose)
        return seat_of_entry(s, s->entries[index]);
    const struct shared_view *v = view_of_number(s, index);
    return v ? seat_of(v, (uint32_t)(index - v->base))
             : (struct seat){.why = TAMIS_UNKNOWN_SEGMENT};
}

static int seat_describe(const struct seat *seat, struct facts *out)
{
    return seat->view && seat->view->open
               ? pack_describe(seat_filter(seat), seat->column, false, out)
               : TAMIS_ERR_DAMAGED;
}

int seat_lost(const struct tamis_snapshot *s, const struct seat *seat,
              struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    const struct shared_view *v = seat->view;
    if (!v)
        return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, s->dir->path,
                         "no pack has a column of the segment");
    filter_file_name(v->uuid, name);
    filters_dir_path(s->dir, name, path);
    bool opened = v->open && v->failure != ENOMEM;
    const char *file = opened ? "the .dead file beside this pack" : "this pack";
    if (!v->n_columns || (v->dead && seat->why == TAMIS_DAMAGED))
        return diag_fail(diag, TAMIS_ERR_DAMAGED, path, "%s",
                         v->n_columns ? "its table of columns fails its check"
                                      : "the catalog does not agree on the columns of "
                                        "this pack");
    if (v->dead && seat->why == TAMIS_MISMATCH)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, path,
                         "the pack's table has another filter where the segment's "
                         "should be");
    if (v->dead)
        return diag_fail(diag, ENOENT, path,
                         "the segment was dropped from this pack: the catalog is older "
                         "than that");
    if (v->failure == ENOENT)
        return diag_fail(diag, ENOENT, path, "%s is missing", file);
    int rc = diag_open(diag, v->failure, path, file);
    if (diag && v->failure > 0)
        diag->os_errno = v->failure;
    return rc;
}

int segment_facts(const struct tamis_snapshot *s, size_t index, struct facts *out,
                  struct tamis_diag *diag)
{
    const struct entry *e = loose_entry(s, index);
    struct seat seat = segment_seat(s, index);
    struct facts entry;
    struct record r;
    bool packed = !e || e->elsewhere;
    if (seat.band &&
        pack_describe(seat_filter(&seat), seat.column, true, &entry) != 0) {
        seat.why = TAMIS_DAMAGED;
        seat.band = NULL;
    }
    if (packed && !seat.band)
        return seat_lost(s, &seat, diag);
    if (!e) {
        *out = entry;
        return 0;
    }
    struct verdict v = entry_decode(e, &r);
    if (v.code != VERDICT_OK)
        return diag_verdict(diag, v, s->dir->path, 0);
    column_of_record(&r, entry_name(e), out);
    if (packed) {
        out->disk.own_blocks = entry.disk.own_blocks;
        memcpy(out->disk.set_id, entry.disk.set_id, UUID_BYTES);
    }
    return 0;
}

enum tamis_reason column_hit(const struct shared_view *v, uint32_t column,
                             enum tamis_reason why, const struct tamis_key *key,
                             bool *by_range)
{
    struct facts col;
    if (why == TAMIS_NO_REASON || !key->bytes)
        return why;
    if (pack_describe(v->open->filter, column, false, &col) != 0)
        return TAMIS_DAMAGED;
    if (!col.disk.has_range ||
        !outside_keys(key, column_first(&col), column_last(&col)))
        return why;
    *by_range = true;
    return TAMIS_NO_REASON;
}

enum tamis_reason seat_ask(const struct tamis_snapshot *s, size_t index,
                           const struct seat *seat, uint64_t min_watermark,
                           const struct tamis_key *key, bool *by_range)
{
    struct facts col;
    bool listed = !is_loose(s, index);
    /* A record's watermark was compared before its seat was looked for. */
    if (listed && min_watermark) {
        if (seat_describe(seat, &col) != 0)
            return TAMIS_DAMAGED;
        if (le64_get(col.disk.watermark) < min_watermark)
            return TAMIS_BEHIND;
    }
    if (!listed && outside_range(s->entries[index], key)) {
        *by_range = true;
        return TAMIS_NO_REASON;
    }
    enum tamis_reason why =
        pack_probe_column(seat_filter(seat), seat->band, seat_column(seat), key->hash);
    return listed ? column_hit(seat->view, seat->column, why, key, by_range) : why;
}

uint32_t segment_rank(const struct tamis_snapshot *s, size_t index)
{
    struct facts col;
    if (index < s->n_loose)
        return s->entries[index]->rank;
    const struct shared_view *v = view_of_number(s, index);
    if (!v || !v->open)
        return UINT32_MAX;
    uint32_t column = (uint32_t)(index - v->base);
    _Atomic uint32_t *known = &v->open->ranks[column];
    uint32_t rank = ~atomic_load_explicit(known, memory_order_relaxed);
    if (rank == UINT32_MAX &&
        pack_describe(v->open->filter, column, false, &col) == 0) {
        rank = le32_get(col.disk.rank);
        atomic_store_explicit(known, ~rank, memory_order_relaxed);
    }
    return rank;
}

/* ---- names and facts ---- */

/* Its strings are the pack's own bytes, which stay where they are. */
void seat_info(const struct seat *seat, struct tamis_segment_info *info)
{
    struct facts col;
    const struct column_disk *d = &col.disk;
    if (seat_describe(seat, &col) != 0)
        return;
    const uint8_t *at = col.mapped + sizeof *d;
    info->state = TAMIS_SEGMENT_SEALED;
    info->name = at;
    info->name_bytes = d->name_bytes;
    info->binding = at += d->name_bytes;
    info->binding_bytes = d->binding_bytes;
    at += d->binding_bytes;
    if (d->has_range) {
        info->first_key = at;
        info->first_key_bytes = le16_get(d->first_bytes);
        info->last_key = at + info->first_key_bytes;
        info->last_key_bytes = le16_get(d->last_bytes);
    }
    memcpy(info->uuid, d->uuid, UUID_BYTES);
    info->rank = le32_get(d->rank);
    info->keys = le64_get(d->keys);
    info->watermark = le64_get(d->watermark);
    info->generation = le64_get(d->generation);
    info->created = le64_get(d->created);
    info->error = le64_get_f64(d->target_error);
}

bool shared_next(const struct tamis_snapshot *s, size_t *index)
{
    const struct shared_files *p = &s->shared;
    size_t n = shared_up_to(p, *index);
    for (size_t k = n ? n - 1 : 0; k < p->n; k++) {
        const struct shared_view *v = &p->views[k];
        size_t at = *index > v->base ? *index - v->base : 0;
        for (; at < v->n_columns; at = (at / 64 + 1) * 64) {
            uint64_t left = columns_word(v->listed, at / 64) >> at % 64;
            if (left) {
                *index = v->base + at + (size_t)__builtin_ctzll(left);
                return true;
            }
        }
    }
    return false;
}

bool shared_same(const struct tamis_snapshot *from, size_t index,
                 const struct tamis_snapshot *to, size_t *number)
{
    const struct shared_view *v = view_of_number(from, index);
    const struct shared_view *w =
        v ? view_of_record(&to->shared, v->uuid, v->digest) : NULL;
    uint32_t column = v ? (uint32_t)(index - v->base) : 0;
    if (!w || column >= w->n_columns || !columns_have(w->listed, column))
        return false;
    *number = w->base + column;
    return true;
}

/* In one pack: its index says which column, and the list whether that counts. */
static int ordinal_in(const struct shared_view *v, const void *name, size_t name_bytes,
                      uint32_t *ordinal, enum tamis_reason *why)
{
    struct facts col;
    if (v->n_columns && !v->n_listed)
        return TAMIS_ERR_NO_SEGMENT;
    *why = v->open ? TAMIS_DAMAGED : view_reason(v);
    if (!v->open)
        return v->failure;
    int rc = pack_find(v->open->filter, name, name_bytes, false, &col);
    uint32_t column = rc ? 0 : le32_get(col.disk.column);
    if (!rc && !columns_have(v->listed, column))
        rc = TAMIS_ERR_NO_SEGMENT;
    if (!rc)
        *ordinal = (uint32_t)(v->base + column) + 1;
    return rc;
}

int shared_ordinal(const struct tamis_snapshot *s, const void *name, size_t name_bytes,
                   uint32_t *ordinal, enum tamis_reason *why)
{
    const struct shared_files *p = &s->shared;
    int failed = TAMIS_ERR_NO_SEGMENT;
    bool found = false;
    for (size_t i = 0; i < p->n && !(found && s->complete); i++) {
        enum tamis_reason its;
        int rc = ordinal_in(&p->views[i], name, name_bytes, ordinal, &its);
        if (!rc && found) { /* listed twice: nobody knows which column is its own */
            rc = TAMIS_ERR_DAMAGED;
            its = TAMIS_DAMAGED;
        }
        found |= !rc;
        if (rc && rc != TAMIS_ERR_NO_SEGMENT) {
            failed = rc;
            *why = its;
        }
    }
    return found && (s->complete || failed == TAMIS_ERR_NO_SEGMENT) ? 0 : failed;
}

/* ---- public calls about packs ---- */

int tamis_snapshot_pack(struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **out, struct tamis_pack_place *place,
                        struct tamis_verify *pages)
{
    struct tamis_filter *no_pack;
    struct tamis_pack_place no_place;
    out = out ? out : &no_pack;
    place = place ? place : &no_place;
    *out = NULL;
    memset(place, 0, sizeof *place);
    if (pages)
        memset(pages, 0, sizeof *pages);
    if (!snapshot || index >= snapshot->n)
        return TAMIS_ERR_RANGE;
    struct seat seat = segment_seat(snapshot, index);
    const struct entry *e = loose_entry(snapshot, index);
    if (e && !e->elsewhere)
        return TAMIS_ERR_NO_SEGMENT;
    if (e || seat.view)
        memcpy(place->uuid, e ? entry_place(e).uuid : seat.view->uuid, UUID_BYTES);
    if (!seat.band)
        return seat_lost(snapshot, &seat, NULL);
    const struct band *band = seat.band;
    *out = seat_filter(&seat);
    if (pages)
        pack_band_pages(*out, band, pages);
    place->n_blocks = band->geometry.n_blocks;
    place->lanes = band->geometry.lanes;
    place->words = band->geometry.words;
    place->band = (uint32_t)(band - seat.view->open->bands);
    place->column = seat_column(&seat);
    place->n_columns = band->n_columns;
    place->row_bytes = band->row_bytes;
    place->n_columns_of_pack = seat.view->n_columns;
    place->n_bands_of_pack = seat.view->open->n_bands;
    return 0;
}

int tamis_snapshot_pack_info(struct tamis_snapshot *snapshot, size_t number,
                             struct tamis_pack_info *out)
{
    memset(out, 0, sizeof *out);
    if (!snapshot || number >= snapshot->shared.n)
        return TAMIS_ERR_RANGE;
    const struct shared_view *v = &snapshot->shared.views[number];
    memcpy(out->uuid, v->uuid, UUID_BYTES);
    out->pack = v->dead ? v->open->filter : NULL;
    out->error = v->failure;
    out->first = v->base;
    out->n_columns = v->n_columns;
    out->n_bands = v->open ? v->open->n_bands : 0;
    out->n_listed = v->n_listed;
    out->n_overridden = v->n_named;
    return 0;
}

/* ---- columns as filters in memory ---- */

int shared_copy(const struct tamis_snapshot *s, size_t index, struct tamis_filter **out,
                struct tamis_diag *diag)
{
    struct seat seat = segment_seat(s, index);
    struct facts col;
    int rc = segment_facts(s, index, &col, diag);
    if (rc || !seat.band) /* a page may be readable again: the seat is from before */
        return rc ? rc : seat_lost(s, &seat, diag);
    return pack_unpack_memory(seat_filter(&seat), seat.band, seat_column(&seat), &col,
                              &s->domain, out, diag);
}
