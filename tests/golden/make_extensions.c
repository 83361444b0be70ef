/* Writes the golden files and stores that have what SPEC.md 10.1 reserves, as far
 * as 1.0 sees it: bits, numbers and places are right, and so are all checksums. What
 * lies behind an unknown kind is noise. Beside each file that 1.0 reads, and
 * each store, stands its list of answers (answers.h). */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/checksum.h"
#include "tests/support/store_internals.h"
#include "tests/golden/write_answers.h"
#include "tests/golden/extensions.h"
#include "tests/golden/image.h"
#include "tests/golden/open_catalog.h"

enum { N_KEYS = 150 }; /* of a segment */

static void *noise(void *to, size_t n)
{
    fixed_random(to, n);
    return to;
}

/* ---- filters ---- */

/* Changes both slots, or the only one, and makes their checksums good again. */
static void poke_slots(struct image *m, size_t offset, const void *bytes, size_t n)
{
    uint8_t first = m->id.header_pages == 1 ? SLOT_BIRTH : SLOT_A;
    for (uint8_t slot = first; slot <= (first == SLOT_BIRTH ? SLOT_BIRTH : SLOT_B);
         slot++) {
        uint8_t *record = m->bytes + commit_slot_offset(slot);
        memcpy(record + offset, bytes, n);
        checksum_set(record, commit_slot_bytes(slot), 0);
    }
}

static void poke_stage(struct image *m, size_t stage, size_t offset, const void *bytes,
                       size_t n)
{
    poke_slots(m, STAGES_OFFSET + stage * STAGE_BYTES + offset, bytes, n);
}

/* An area of another layout: noise, with its digests. */
static void add_area(struct image *m, uint16_t layout, uint64_t n_pages)
{
    struct stage_desc *s = &m->c.stages[m->c.n_stages];
    image_stage(m, (struct geometry){n_pages * BLOCKS_PER_PAGE, 1, 1}, 0);
    noise(m->bytes + s->offset, s->length);
    s->layout = layout;
    s->geometry = (struct geometry){0};
    s->bits_set = 0;
    image_digest(m, s);
}

/* A file of a later kind: sealed, with two or three areas. */
static void later_kind(struct image *m, uint16_t kind, int three_pages)
{
    static const uint16_t layouts[][3] = {
        [KIND_PACK] = {LAYOUT_ROWS, LAYOUT_TABLE, LAYOUT_TABLE},
        [KIND_RIBBON] = {LAYOUT_RIBBON, LAYOUT_RIBBON, LAYOUT_SPLIT_BLOCKS},
        [KIND_MAP] = {LAYOUT_VALUES, LAYOUT_TABLE},
        [KIND_LIST] = {LAYOUT_HASHES},
    };
    uint8_t area[48];
    image_begin(m, three_pages);
    m->id.growth_rule = GROWTH_NONE;
    m->id.growth_factor = m->id.tightening_ratio = 0;
    m->id.first_capacity = 0;
    m->id.kind = kind;
    m->c.state = STATE_SEALED;
    for (size_t i = 0; i < 3 && layouts[kind][i]; i++)
        add_area(m, layouts[kind][i], 2);
    image_finish(m);
    for (size_t i = 0; i < m->c.n_stages; i++)
        poke_stage(m, i, AT_KIND, noise(area, sizeof area), sizeof area);
    noise(m->bytes + offsetof(struct identity_disk, kind_area), 512);
    checksum_set(m->bytes, IDENTITY_BYTES, 0);
}

/* Growth with shares and capacities of its own. */
static void series(struct image *m)
{
    image_begin(m, 1);
    m->id.ro_compat = IDENTITY_RO_SERIES;
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE, 1, 5}, N_KEYS / 2);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 2, 1, 7}, N_KEYS / 2);
}

static void series_finish(struct image *m)
{
    image_finish(m);
    noise(m->bytes + AT_SERIES, 512);
    checksum_set(m->bytes, IDENTITY_BYTES, 0);
}

/* Three stages, of which growth has left two behind: their digests are there, of one
 * page without, and of four pages with a page of its own. */
static void settled(struct image *m)
{
    image_begin(m, 1);
    m->c.compat = COMMIT_SETTLED_BIT;
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE, 1, 5}, N_KEYS / 3);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 2, 2, 4}, N_KEYS / 3);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 3, 2, 5}, N_KEYS / 3);
}

static void settled_finish(struct image *m)
{
    struct stage_desc s[2] = {m->c.stages[0], m->c.stages[1]};
    uint8_t n = 2, page[8], root[8];
    image_digest(m, &s[0]);
    image_digest(m, &s[1]);
    image_finish(m);
    poke_slots(m, AT_N_SETTLED, &n, 1);
    for (size_t i = 0; i < 2; i++) {
        put64(page, s[i].digests_offset / PAGE_BYTES);
        put64(root, s[i].root);
        poke_stage(m, i, AT_SETTLED_PAGE, page, 6);
        poke_stage(m, i, AT_SETTLED_ROOT, root, 8);
    }
}

static void make_files(void)
{
    static const char *const names[] = {[KIND_PACK] = "pack.tamis",
                                        [KIND_RIBBON] = "ribbon.tamis",
                                        [KIND_MAP] = "map.tamis",
                                        [KIND_LIST] = "list.tamis"};
    struct image m;
    for (uint16_t kind = KIND_PACK; kind <= KIND_LIST; kind++) {
        later_kind(&m, kind, kind == KIND_RIBBON);
        write_file(at(names[kind]), m.bytes, m.n_bytes);
        free(m.bytes);
    }
    series(&m);
    series_finish(&m);
    write_file(at("series.tamis"), m.bytes, m.n_bytes);
    free(m.bytes);
    settled(&m);
    settled_finish(&m);
    write_file(at("settled.tamis"), m.bytes, m.n_bytes);
    /* As a backup of 1.0 copies it: record, bits and floors, and no other byte. */
    memset(m.bytes + m.n_bytes - PAGE_BYTES, 0, PAGE_BYTES);
    write_file(at("settled-copied.tamis"), m.bytes, m.n_bytes);
    free(m.bytes);
    write_answers("series.tamis", 0, N_KEYS);
    write_answers("settled.tamis", 0, N_KEYS);
}

/* ---- stores ---- */

static const char *in_store(const char *store, const uint8_t *uuid, const char *ending)
{
    static char path[4600];
    int n = snprintf(path, sizeof path, "%s/filters/", at(store));
    for (size_t i = 0; i < UUID_BYTES; i++)
        n += snprintf(path + n, sizeof path - (size_t)n, "%02x", uuid[i]);
    snprintf(path + n, sizeof path - (size_t)n, "%s", ending);
    return path;
}

static void put_sealed(struct tamis_edit *edit, const char *name, unsigned first)
{
    struct tamis_segment_options so = {.size = sizeof so,
                                       .binding = name,
                                       .binding_bytes = strlen(name),
                                       .rank = first};
    struct tamis_builder *b;
    struct tamis_diag diag;
    check(tamis_edit_builder(edit, name, strlen(name), 0, &so, &b, &diag), &diag);
    build_keys(b, first, N_KEYS);
    check(tamis_edit_put(edit, b, &diag), &diag);
    tamis_builder_free(b);
}

/* Segments of keys: sealed ones, of which each begins 50 keys after the last one. */
static void make_store(const char *store, const char *const *sealed, size_t n_sealed,
                       const char *const *growing, size_t n_growing)
{
    struct tamis_diag diag;
    struct tamis_edit *edit;
    struct tamis_store *s = new_store(store);
    check(tamis_edit_begin(s, NULL, &edit, &diag), &diag);
    for (size_t i = 0; i < n_sealed; i++)
        put_sealed(edit, sealed[i], (unsigned)i * 50);
    for (size_t i = 0; i < n_growing; i++)
        check(tamis_edit_put_growing(edit, growing[i], strlen(growing[i]),
                                     &(struct tamis_growth){.first_capacity = 100},
                                     NULL, &diag),
              &diag);
    check(tamis_edit_put_bare(edit, "bare", 4, NULL, &diag), &diag);
    check(tamis_edit_commit(edit, &diag), &diag);
    tamis_store_close(s);
}

static void fill_growing(const char *store, const char *name)
{
    struct tamis_diag diag;
    struct tamis_store *s;
    struct tamis_writer *w;
    check(tamis_store_open(at(store), NULL, &s, &diag), &diag);
    check(tamis_store_writer(s, name, strlen(name), NULL, &w, &diag), &diag);
    write_keys(w, 0, N_KEYS);
    check(tamis_writer_commit(w, N_KEYS, &diag), &diag);
    check(tamis_writer_close(w), &diag);
    tamis_store_close(s);
}

/* ---- a store with everything that its meta record has to say ---- */

static const char LATER[] = "store-later", GROWING[] = "store-growing";

static void file_of_kind(uint16_t kind, const uint8_t *uuid)
{
    struct image m;
    later_kind(&m, kind, 0);
    memcpy(m.bytes + offsetof(struct identity_disk, uuid), uuid, UUID_BYTES);
    checksum_set(m.bytes, IDENTITY_BYTES, 0);
    poke_slots(&m, offsetof(struct commit_disk, uuid), uuid, UUID_BYTES);
    write_file(in_store(LATER, uuid, ".tamis"), m.bytes, m.n_bytes);
    free(m.bytes);
}

/* "packed": its own file has gone. "kept": it is there. Both are columns of the pack.
 */
static void pack_two(struct open_catalog *c)
{
    static const char *const names[] = {"packed", "kept"};
    uint8_t pack[UUID_BYTES], digest[8], dead[4096];
    struct value r;
    noise(pack, sizeof pack);
    noise(digest, sizeof digest);
    for (uint32_t i = 0; i < 2; i++) {
        const uint8_t *uuid = get_record(c, names[i], &r);
        if (i == 0)
            unlink(in_store(LATER, uuid, ".tamis"));
        memcpy(r.bytes + AT_PLACE_UUID, pack, sizeof pack);
        memcpy(r.bytes + AT_PLACE_DIGEST, digest, sizeof digest);
        put32(r.bytes + AT_BAND, 3);
        put32(r.bytes + AT_COLUMN, 70 + i);
        set_record(c, names[i], &r, RECORD_RO_PACKED);
    }
    file_of_kind(KIND_PACK, pack);
    write_file(in_store(LATER, pack, ".dead"), noise(dead, sizeof dead), sizeof dead);
}

/* "cold": its filter is of kind 3. */
static void ribbon_one(struct open_catalog *c)
{
    struct value r;
    file_of_kind(KIND_RIBBON, get_record(c, "cold", &r));
}

static void list_one(struct open_catalog *c)
{
    struct value r;
    get_record(c, "listed", &r);
    noise(r.bytes + AT_LIST_UUID, UUID_BYTES);
    noise(r.bytes + AT_LIST_DIGEST, 8);
    set_record(c, "listed", &r, RECORD_RO_LISTED);
    file_of_kind(KIND_LIST, r.bytes + AT_LIST_UUID);
}

/* "counted": state 1, and its keys are in an environment of their own. */
static void make_counted(struct open_catalog *c)
{
    struct value r;
    char path[4500];
    get_record(c, "bare", &r);
    noise(r.bytes + AT_PLACE_UUID, UUID_BYTES);
    set_record(c, "counted", &r, RECORD_RO_COUNTED);
    snprintf(path, sizeof path, "%s/counted", at(LATER));
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/counted/later.lmdb", at(LATER));
    write_file(path, "later", 5);
}

static void add_database(struct open_catalog *c, const char *name)
{
    MDB_dbi dbi;
    must(mdb_dbi_open(c->txn, name, MDB_CREATE, &dbi));
    for (uint8_t i = 0; i < 40; i++) {
        uint8_t bytes[60];
        MDB_val k = val(&i, 1), v = val(noise(bytes, sizeof bytes), sizeof bytes);
        must(mdb_put(c->txn, dbi, &k, &v, 0));
    }
}

static void map_some(struct open_catalog *c)
{
    uint8_t map[UUID_BYTES];
    add_database(c, "maps");
    add_database(c, "slots");
    file_of_kind(KIND_MAP, noise(map, sizeof map));
}

static void make_later(void)
{
    static const char *const sealed[] = {"loose", "packed", "kept", "cold", "listed"};
    static const char *const growing[] = {"growing"};
    struct open_catalog c;
    make_store(LATER, sealed, 5, growing, 1);
    fill_growing(LATER, "growing");
    catalog_begin(&c, LATER);
    pack_two(&c);
    ribbon_one(&c);
    list_one(&c);
    make_counted(&c);
    map_some(&c);
    set_meta_bits(&c, META_RO_PACKS | META_RO_RIBBONS | META_RO_MAPS | META_RO_LISTS |
                          META_RO_COUNTED);
    catalog_end(&c);
    write_store_answers(LATER, 900);
}

/* ---- a store of growing filters, whose own bits say enough ---- */

static void replace_file(struct open_catalog *c, const char *name,
                         void (*begin)(struct image *), void (*finish)(struct image *))
{
    struct value r, meta;
    struct image m;
    MDB_val k = val("store", 5), v;
    must(mdb_get(c->txn, c->meta, &k, &v));
    memcpy(meta.bytes, v.mv_data, v.mv_size);
    const uint8_t *uuid = get_record(c, name, &r);
    begin(&m);
    /* The floors that are made so far have the other UUID: made anew below. */
    memcpy(m.id.uuid, uuid, UUID_BYTES);
    memcpy(m.c.uuid, uuid, UUID_BYTES);
    memcpy(m.id.store_uuid, meta.bytes + offsetof(struct meta_disk, store_uuid),
           UUID_BYTES);
    memset(m.id.name, 0, sizeof m.id.name);
    m.id.name_bytes = (uint16_t)strlen(name);
    memcpy(m.id.name, name, strlen(name));
    for (size_t i = 0; i < m.c.n_stages; i++) {
        const struct stage_desc *s = &m.c.stages[i];
        uint64_t n = floors_bytes(s->length / PAGE_BYTES);
        for (uint64_t sector = 0; sector < n; sector += SECTOR_BYTES)
            image_seal_floors(&m, s->floors_offset + sector);
    }
    finish(&m);
    write_file(in_store(GROWING, uuid, ".tamis"), m.bytes, m.n_bytes);
    free(m.bytes);
}

static void make_growing(void)
{
    static const char *const sealed[] = {"loose"}, *const growing[] = {"series",
                                                                       "settled"};
    struct open_catalog c;
    make_store(GROWING, sealed, 1, growing, 2);
    catalog_begin(&c, GROWING);
    replace_file(&c, "series", series, series_finish);
    replace_file(&c, "settled", settled, settled_finish);
    catalog_end(&c);
    write_store_answers(GROWING, 900);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_extensions DIRECTORY\n");
        return 2;
    }
    make_in(argv[1]);
    make_files();
    make_later();
    make_growing();
    return 0;
}
