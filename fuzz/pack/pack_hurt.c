/* Stores with packs, and hostile changes to a pack's file, to its tombstones, and to
 * the records that name its columns. */
#include "fuzz/pack/pack.h"

#include "format/area.h"
#include "format/checksum.h"

static struct base bases[N_BASES];
static char store_path[300];
static struct tamis_domain domain;

struct tamis_key pack_key(const struct base *b, size_t segment, size_t i)
{
    static char text[24];
    int n = snprintf(text, sizeof text, "key-%05zu", b->at + segment * b->n_keys + i);
    return tamis_key_of(&domain, text, (size_t)n);
}

const char *pack_segment(size_t i)
{
    static char name[32];
    snprintf(name, sizeof name, "segment-%02zu", i);
    return name;
}

/* ---- good stores ---- */

static void put_all(struct tamis_store *s, const struct base *b)
{
    struct tamis_edit *e;
    struct tamis_builder *builder;
    MUST(tamis_edit_begin(s, NULL, &e, NULL) == 0);
    for (size_t i = 0; i < b->n; i++) {
        struct tamis_segment_options opt = {.size = sizeof opt,
                                            .rank = (uint32_t)i,
                                            .binding = "b",
                                            .binding_bytes = i % 2};
        /* Half of base 0's segments have another shape, hence another band. */
        MUST(tamis_edit_builder(e, pack_segment(i), strlen(pack_segment(i)),
                                b->at == 0 && i % 2 ? 1e-6 : 0.01, &opt, &builder,
                                NULL) == 0);
        for (uint32_t k = 0; k < b->n_keys; k++) {
            struct tamis_key key = pack_key(b, i, k);
            if (i % 4 < 2) /* with a range */
                MUST(tamis_builder_add_key(builder, key.bytes, key.n_bytes) == 0);
            else
                MUST(tamis_builder_add_hashes(builder, key.tag, &key.hash, 1) == 0);
        }
        MUST(tamis_edit_put(e, builder, NULL, NULL) == 0);
        tamis_builder_free(builder);
    }
    MUST(tamis_edit_commit(e, NULL) == 0);
}

int pack_segments(struct tamis_store *s, enum tamis_repack repack)
{
    struct tamis_snapshot *snap;
    struct tamis_edit *e;
    struct tamis_pack_options opt = {.size = sizeof opt, .repack = repack};
    MUST(tamis_snapshot_current(s, &snap, NULL) == 0);
    MUST(tamis_edit_begin(s, NULL, &e, NULL) == 0);
    int rc = tamis_edit_pack(e, snap, NULL, 0, &opt, NULL, NULL);
    tamis_snapshot_release(snap);
    if (rc)
        tamis_edit_abort(e);
    return rc ? rc : tamis_edit_commit(e, NULL);
}

static const struct saved_file *pack_of(struct base *b)
{
    char name[64];
    const struct saved_file *dead = saved_named(&b->store, ".dead");
    MUST(dead);
    snprintf(name, sizeof name, "%.40s.tamis", dead->name);
    return saved_named(&b->store, name);
}

static void note_columns(struct base *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        b->column_at[i] = (uint32_t)(second_entry(&b->good, i) - b->good.pack);
}

static void make_base(struct base *b, uint32_t n, uint32_t n_keys)
{
    struct tamis_store *s;
    struct tamis_open_options opt = {
        .size = sizeof opt, .create = TAMIS_CREATE_NEW, .domain = &domain};
    b->n = n;
    b->n_keys = n_keys;
    b->at = (uint32_t)(b - bases) * 10000;
    MUST(tamis_store_open(store_path, &opt, &s, NULL) == 0);
    put_all(s, b);
    MUST(pack_segments(s, TAMIS_REPACK_NONE) == 0);
    for (size_t i = 0; i < n; i++)
        record_of_packed(s, pack_segment(i), &b->records[i], &b->list);
    tamis_store_close(s);
    save_store(&b->store, store_path);
    tree_remove(store_path);
    const struct saved_file *pack = pack_of(b), *dead = saved_named(&b->store, ".dead");
    MUST(pack && pack->n <= sizeof((struct hurt *)0)->pack / 2 &&
         dead->n <= sizeof((struct hurt *)0)->dead / 2);
    b->good = second_reading(pack->bytes, pack->n, dead->bytes, dead->n);
    MUST(b->good.bands);
    note_columns(b);
}

static void make_bases(void)
{
    fuzz_calm_io();
    snprintf(store_path, sizeof store_path, "%s/store", fuzz_dir());
    MUST(tamis_domain_init(&domain, 1, 17) == 0);
    make_base(&bases[0], 11, 60);
    make_base(&bases[1], 70, 9); /* columns of two pages */
}

struct base *pack_base(size_t i)
{
    if (!bases[0].n)
        make_bases();
    return &bases[i];
}

const char *pack_store_path(void)
{
    return store_path;
}

const struct tamis_domain *pack_domain(void)
{
    return &domain;
}

/* ---- changes ---- */

/* The records that there are. */
static size_t hurt_items(const struct hurt *h, struct item items[MAX_COLUMNS])
{
    static uint8_t values[MAX_COLUMNS][RECORD_MAX_BYTES];
    static char names[MAX_COLUMNS][32];
    size_t n = 0;
    for (size_t i = 0; i < h->base->n; i++) {
        if (!h->named[i])
            continue;
        memcpy(names[n], pack_segment(i), sizeof names[n]);
        items[n] =
            (struct item){(const uint8_t *)names[n], values[n], strlen(names[n]), 0};
        items[n].value_bytes =
            record_encode(&h->records[i], names[n], strlen(names[n]), values[n]);
        n++;
    }
    return n;
}

/* The list that fits bits and records. The chunk has room for n_columns. */
static struct pack_list list_wanted(const struct hurt *h, uint64_t digest,
                                    uint32_t n_columns)
{
    struct item items[MAX_COLUMNS];
    struct pack_list l = {.now = {.table_digest = digest, .n_columns = n_columns}};
    memcpy(l.uuid, h->list.uuid, UUID_BYTES);
    for (uint32_t i = 0; i < n_columns; i++)
        if (h->list.bits[i / 8] >> i % 8 & 1)
            l.bits[i / 8] |= (uint8_t)(1U << i % 8);
    list_make(&l, items, hurt_items(h, items));
    return l;
}

static uint32_t columns_of_list(const struct hurt *h)
{
    const struct listing_disk *d = (const void *)h->list.record;
    uint32_t n = le32_get(d->n_columns);
    return n <= 8 * (sizeof h->list.bits - 8) ? n : 0;
}

bool hurt_agrees(const struct hurt *h, bool *complete)
{
    const struct pack_list *l = &h->list;
    const struct listing_disk *d = (const void *)l->record;
    uint32_t n = columns_of_list(h);
    *complete = false;
    if (!n || l->n_record != sizeof l->record || l->n_bits != chunk_bytes(n, 0))
        return false;
    struct pack_list want = list_wanted(h, le64_get(d->table_digest), n);
    bool same = !want.twice && want.now.n_listed + want.now.n_overridden > 0 &&
                memcmp(want.record, l->record, sizeof l->record) == 0 &&
                memcmp(want.bits, l->bits, l->n_bits) == 0;
    *complete = same && !want.stray;
    return same;
}

void hurt_begin_list(struct hurt *h)
{
    struct base *b = h->base;
    memcpy(h->records, b->records, sizeof h->records);
    for (size_t i = 0; i < b->n; i++)
        h->named[i] = i % 3 == 0;
    h->list = b->list;
    h->list = list_wanted(h, b->list.now.table_digest, b->n);
}

void hurt_begin(struct hurt *h, struct base *b)
{
    h->base = b;
    h->n_pack = b->good.n_pack;
    h->n_dead = b->good.n_dead;
    memcpy(h->pack, b->good.pack, h->n_pack);
    memcpy(h->dead, b->good.dead, h->n_dead);
    hurt_begin_list(h);
}

static void change_field(struct hurt *h, uint64_t at, const struct field *fields,
                         size_t n, uint64_t *rng)
{
    const struct field *f = &fields[draw_below(rng, n)];
    if (at + f->offset + f->n_bytes <= h->n_pack)
        mutate_field(h->pack + at, f, rng);
}

static uint64_t stage_of(size_t i)
{
    return IDENTITY_BYTES + STAGES_OFFSET + i * STAGE_BYTES;
}

static void change_stage(struct hurt *h, size_t i, bool area, uint64_t *rng)
{
    if (!area)
        change_field(h, stage_of(i), stage_fields, n_stage_fields, rng);
    else if (i == PACK_ROWS)
        change_field(h, stage_of(i) + AREA_OFFSET, rows_area_fields, n_rows_area_fields,
                     rng);
    else
        change_field(h, stage_of(i) + AREA_OFFSET, table_area_fields,
                     n_table_area_fields, rng);
}

/* A band as long as before, that is good and says something else. */
static void reshape_band(struct hurt *h, uint64_t at, uint64_t *rng)
{
    struct band_disk d;
    if (at + sizeof d > h->n_pack)
        return;
    memcpy(&d, h->pack + at, sizeof d);
    uint64_t all = d.lanes * le64_get(d.n_blocks);
    uint8_t lanes = (uint8_t)(1 + draw_below(rng, MAX_LANES));
    if (all % lanes == 0) {
        d.lanes = lanes;
        d.n_blocks = le64_of(all / lanes);
    }
    d.words = (uint8_t)(1 + draw_below(rng, MAX_WORDS));
    memcpy(h->pack + at, &d, sizeof d);
}

/* An entry, the head of a page of entries or names, an end of an item, or a place. */
static void change_table(struct hurt *h, size_t where, uint64_t *rng)
{
    const struct stage_desc *d = &h->base->good.commit.stages[PACK_COLUMNS];
    const struct stage_desc *bands = &h->base->good.commit.stages[PACK_BANDS];
    uint64_t page = d->offset + where % (d->length / PAGE_BYTES) * PAGE_BYTES;
    uint64_t at = page + PAGE_BYTES - 2 * (1 + draw_below(rng, 40));
    uint64_t place = bands->offset +
                     place_offset(bands->n_entries, (uint32_t)(where % d->n_entries));
    uint64_t what = draw_below(rng, 4);
    at = what == 2 ? place : at;
    if (what == 0)
        change_field(h, page, index_fields, n_index_fields, rng);
    else if (what == 3)
        change_field(h, h->base->column_at[where % h->base->n], column_fields,
                     n_column_fields, rng);
    else if (at < h->n_pack)
        h->pack[at] ^= (uint8_t)(1U << draw_below(rng, 8));
}

/* One that is listed gets a record. */
static void change_record(struct hurt *h, size_t i, uint64_t *rng)
{
    const struct base *b = h->base;
    const struct record *other = &b->records[draw_below(rng, b->n)];
    struct record *r = &h->records[i];
    if (!record_packed(r))
        return;
    uint64_t what = draw_below(rng, 8);
    h->named[i] = what != 0;
    if (what == 0 && draw_below(rng, 2)) /* listed again, or no segment's */
        h->list.bits[r->place.column / 8] |= (uint8_t)(1U << r->place.column % 8);
    else if (what == 1)
        r->place.uuid[draw_below(rng, UUID_BYTES)] ^= 1;
    else if (what == 2)
        r->place.digest = draw_below(rng, 2) ? 0 : r->place.digest ^ 1;
    else if (what == 3)
        r->place = other->place;
    else if (what == 4)
        r->place.column = (uint32_t)draw_below(rng, b->n + 2);
    else if (what == 5) /* a loose segment, as an older catalog would have it */
        memset(&r->place, 0, sizeof r->place);
    else if (what == 6)
        r->uuid[draw_below(rng, UUID_BYTES)] ^= 1;
    else if (what == 7)
        *r = *other;
}

/* A field of the pack record, a bit of the chunk, or how long they are. */
static void change_list(struct hurt *h, size_t where, uint64_t *rng)
{
    struct pack_list *l = &h->list;
    size_t bit = where % (8 * l->n_bits);
    if (where % 4 == 0)
        mutate_record(l->record, listing_fields, n_listing_fields, rng);
    else if (where % 64 == 1)
        l->n_record = 1 + draw_below(rng, LISTING_BYTES - 1);
    else if (where % 64 == 2)
        l->n_bits = 8 + draw_below(rng, sizeof l->bits - 8);
    else
        l->bits[bit / 8] ^= (uint8_t)(1U << bit % 8);
}

static void change_length(struct hurt *h, size_t where, uint64_t *rng)
{
    if (draw_below(rng, 2))
        h->n_pack = draw_below(rng, h->n_pack + 1);
    else if (h->n_pack + PAGE_BYTES * (where % 4) <= sizeof h->pack)
        h->n_pack += PAGE_BYTES * (where % 4);
    if (draw_below(rng, 4) == 0)
        h->n_dead = draw_below(rng, 2) ? 0 : draw_below(rng, sizeof h->dead);
}

/* Bytes without regard to fields: anywhere, or a page put in another's place. */
static void change_bytes(struct hurt *h, size_t where, uint64_t *rng)
{
    size_t at = (size_t)draw_below(rng, h->n_pack + 1), pages = h->n_pack / PAGE_BYTES;
    if (where % 8 == 0 && pages > 1)
        memmove(h->pack + PAGE_BYTES * (1 + at % (pages - 1)),
                h->pack + PAGE_BYTES * draw_below(rng, pages), PAGE_BYTES);
    else if (where % 8 == 1)
        memset(h->pack + at, 0, h->n_pack - at < 4096 ? h->n_pack - at : 4096);
    else if (where % 8 == 2 && h->n_dead)
        h->dead[draw_below(rng, h->n_dead)] ^= (uint8_t)draw(rng);
    else if (at < h->n_pack)
        h->pack[at] = (uint8_t)draw(rng);
}

void hurt_change(struct hurt *h, uint8_t what, size_t where, uint64_t seed)
{
    const struct base *b = h->base;
    const struct commit *c = &b->good.commit;
    uint64_t rng = seed, n_bands = c->stages[PACK_ROWS].n_bands;
    uint64_t band = c->stages[PACK_BANDS].offset + where % n_bands * BAND_BYTES;
    what %= 13;
    if (what == 0)
        change_field(h, 0, identity_fields, n_identity_fields, &rng);
    else if (what == 1)
        change_field(h, IDENTITY_BYTES, commit_fields, n_commit_fields, &rng);
    else if (what == 2 || what == 3)
        change_stage(h, where % PACK_STAGES, what == 3, &rng);
    else if (what == 4)
        change_field(h, band, band_fields, n_band_fields, &rng);
    else if (what == 5)
        reshape_band(h, band, &rng);
    else if (what == 6)
        change_table(h, where, &rng);
    else if (what == 7 && h->n_dead >= DEAD_HEAD_BYTES)
        mutate_record(h->dead, dead_fields, n_dead_fields, &rng);
    else if (what == 8) /* one is dropped */
        h->dead[DEAD_HEAD_BYTES + where % b->n / 8] |=
            (uint8_t)(1U << where % b->n % 8);
    else if (what == 9)
        change_record(h, where % b->n, &rng);
    else if (what == 10)
        change_length(h, where, &rng);
    else if (what == 11)
        change_bytes(h, where, &rng);
    else if (what == 12)
        change_list(h, where, &rng);
}

/* The checksums that the input wants, and records that name the pack as it is now: then
 * its pack record counts what there is. */
void hurt_make_right(struct hurt *h, uint8_t right)
{
    struct slot_health health;
    struct identity id;
    struct commit c;
    if (right & RIGHT_DIGESTS)
        reseal_digests(h->pack, h->n_pack);
    if (right & RIGHT_HEADER && h->n_pack >= PAGE_BYTES)
        reseal_header(h->pack, h->n_pack);
    uint64_t digest = h->base->good.commit.table_digest, now = digest;
    if (identity_decode(h->pack, h->n_pack, &id).code == VERDICT_OK &&
        commit_choose_slot(h->pack, &id, h->n_pack, &c, &health).code == VERDICT_OK)
        now = c.table_digest;
    for (size_t i = 0; right & RIGHT_RECORDS && i < h->base->n; i++)
        if (h->records[i].place.digest == digest)
            h->records[i].place.digest = now;
    struct pack_list *l = &h->list;
    uint32_t n = columns_of_list(h);
    uint8_t key[CHUNK_KEY_BYTES];
    chunk_key(l->uuid, 0, key);
    if (right & RIGHT_RECORDS && n)
        *l = list_wanted(h, now, n);
    checksum_set(l->record, LISTING_BYTES, XXH3_64bits(key, UUID_BYTES));
    checksum_set(l->bits, l->n_bits, XXH3_64bits(key, sizeof key));
    struct dead_disk d;
    if (right & RIGHT_DEAD && h->n_dead >= sizeof d + 8) {
        memcpy(&d, h->dead, sizeof d);
        if (le64_get(d.table_digest) == digest)
            d.table_digest = le64_of(now);
        memcpy(h->dead, &d, sizeof d);
        checksum_set(h->dead, h->n_dead, 0);
    }
}

const char *hurt_write(const struct hurt *h)
{
    static char pack[700];
    struct item items[MAX_COLUMNS];
    char path[700];
    struct base *b = h->base;
    tree_put_back(&b->store, store_path);
    snprintf(pack, sizeof pack, "%s/%s", store_path, pack_of(b)->name);
    file_put(pack, h->pack, h->n_pack);
    snprintf(path, sizeof path, "%s/%s", store_path,
             saved_named(&b->store, ".dead")->name);
    file_put(path, h->dead, h->n_dead);
    if (!h->n_dead)
        unlink(path);
    write_records(store_path, "segments", items, hurt_items(h, items));
    list_write(store_path, &h->list);
    return pack;
}
