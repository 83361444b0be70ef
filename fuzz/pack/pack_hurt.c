/* Stores with packs, and hostile changes to them. What is changed is a pack's file, its
 * tombstones, and the records that name its columns. */
#include "fuzz/pack/pack.h"

#include "format/area.h"
#include "format/checksum.h"

#include <unistd.h>

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
        /* Of base 0 half of the segments are of another shape, hence of another band.
         */
        MUST(tamis_edit_builder(e, pack_segment(i), strlen(pack_segment(i)),
                                b->at == 0 && i % 2 ? 1e-6 : 0.01, &opt, &builder,
                                NULL) == 0);
        for (uint32_t k = 0; k < b->n_keys; k++) {
            struct tamis_key key = pack_key(b, i, k);
            MUST(tamis_builder_add_hashes(builder, key.tag, &key.hash, 1) == 0);
        }
        MUST(tamis_edit_put(e, builder, NULL) == 0);
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
    struct tamis_store_options opt = {.size = sizeof opt, .domain = &domain};
    b->n = n;
    b->n_keys = n_keys;
    b->at = (uint32_t)(b - bases) * 10000;
    MUST(tamis_store_create(store_path, &opt, NULL) == 0);
    MUST(tamis_store_open(store_path, NULL, &s, NULL) == 0);
    put_all(s, b);
    MUST(pack_segments(s, TAMIS_REPACK_NONE) == 0);
    tamis_store_close(s);
    for (size_t i = 0; i < n; i++)
        read_record(store_path, pack_segment(i), &b->records[i]);
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

void hurt_begin(struct hurt *h, struct base *b)
{
    h->base = b;
    h->n_pack = b->good.n_pack;
    h->n_dead = b->good.n_dead;
    memcpy(h->pack, b->good.pack, h->n_pack);
    memcpy(h->dead, b->good.dead, h->n_dead);
    memcpy(h->records, b->records, sizeof h->records);
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
    switch (draw_below(rng, 4)) {
    case 0:
        change_field(h, page, index_fields, n_index_fields, rng);
        return;
    case 1:
        if (at < h->n_pack)
            h->pack[at] ^= (uint8_t)(1U << draw_below(rng, 8));
        return;
    case 2:
        at = bands->offset +
             place_offset(bands->n_entries, (uint32_t)(where % d->n_entries));
        if (at < h->n_pack)
            h->pack[at] ^= (uint8_t)(1U << draw_below(rng, 8));
        return;
    default:
        change_field(h, h->base->column_at[where % h->base->n], column_fields,
                     n_column_fields, rng);
        return;
    }
}

static void change_record(const struct base *b, struct record *r, uint64_t *rng)
{
    if (!record_packed(r))
        return;
    switch (draw_below(rng, 5)) {
    case 0:
        r->place.uuid[draw_below(rng, UUID_BYTES)] ^= 1;
        break;
    case 1:
        r->place.digest = draw_below(rng, 2) ? 0 : r->place.digest ^ 1;
        break;
    case 2: /* a column of another segment */
        r->place = b->records[draw_below(rng, b->n)].place;
        break;
    case 3:
        r->place.column = (uint32_t)draw_below(rng, b->n + 2);
        break;
    default: /* a loose segment, as an older catalog would have it */
        memset(&r->place, 0, sizeof r->place);
        break;
    }
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
    switch (what % 12) {
    case 0:
        change_field(h, 0, identity_fields, n_identity_fields, &rng);
        return;
    case 1:
        change_field(h, IDENTITY_BYTES, commit_fields, n_commit_fields, &rng);
        return;
    case 2:
        change_stage(h, where % PACK_STAGES, false, &rng);
        return;
    case 3:
        change_stage(h, where % PACK_STAGES, true, &rng);
        return;
    case 4:
        change_field(h, band, band_fields, n_band_fields, &rng);
        return;
    case 5:
        reshape_band(h, band, &rng);
        return;
    case 6:
        change_table(h, where, &rng);
        return;
    case 7:
        if (h->n_dead >= DEAD_HEAD_BYTES)
            mutate_record(h->dead, dead_fields, n_dead_fields, &rng);
        return;
    case 8: /* one is dropped */
        h->dead[DEAD_HEAD_BYTES + where % b->n / 8] |=
            (uint8_t)(1U << where % b->n % 8);
        return;
    case 9:
        change_record(b, &h->records[where % b->n], &rng);
        return;
    case 10:
        change_length(h, where, &rng);
        return;
    default:
        change_bytes(h, where, &rng);
        return;
    }
}

/* The checksums that the input wants, and records that name the pack as it is now. */
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
    static uint8_t values[MAX_COLUMNS][RECORD_MAX_BYTES];
    static char names[MAX_COLUMNS][32];
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
    for (size_t i = 0; i < b->n; i++) {
        memcpy(names[i], pack_segment(i), sizeof names[i]);
        items[i] =
            (struct item){(const uint8_t *)names[i], values[i], strlen(names[i]), 0};
        items[i].value_bytes =
            record_encode(&h->records[i], names[i], strlen(names[i]), values[i]);
    }
    write_records(store_path, items, b->n);
    return pack;
}
