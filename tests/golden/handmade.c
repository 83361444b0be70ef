/* See handmade.h. Every file is laid out by the same small machinery: header, then each
 * stage's bits, then its floors or digests, in whole pages. */
#include "tests/golden/handmade.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/checksum.h"
#include "format/commit.h"
#include "format/hash.h"
#include "format/identity.h"
#include "format/integrity.h"

enum { KEYS_A_STAGE = 90, NO_RECORD = -1 };

size_t golden_key(char *out, const char *kind, unsigned i)
{
    return (size_t)sprintf(out, "%s-%u\xc3\xa9", kind, i); /* bytes above 0x7f too */
}

struct image {
    struct identity id;
    struct commit c;
    uint8_t *bytes;
    uint64_t n_bytes;
};

static void image_begin(struct image *m, int growing)
{
    *m = (struct image){.id = {.major = FORMAT_MAJOR,
                               .minor = FORMAT_MINOR,
                               .header_pages = growing ? 3 : 1,
                               .kind = KIND_BLOOM,
                               .hash_id = 1,
                               .hash_seed = SEED,
                               .target_error = 0.01,
                               .created = UINT64_C(1789000000123456),
                               .name_bytes = 6,
                               .name = "golden"},
                        .c = {.sequence = 9, .generation = 3, .watermark = 4711}};
    if (growing) {
        m->id.growth_rule = GROWTH_GEOMETRIC;
        m->id.growth_factor = 2;
        m->id.tightening_ratio = 0.85;
        m->id.first_capacity = 1000;
    }
    for (unsigned i = 0; i < UUID_BYTES; i++)
        m->id.uuid[i] = m->c.uuid[i] = (uint8_t)(0xa0 + i);
    m->c.state = growing ? STATE_OPEN : STATE_SEALED;
    m->c.clean = 1;
    m->n_bytes = identity_header_bytes(&m->id);
    m->bytes = calloc(1, m->n_bytes);
}

/* Room for n_bytes more, in zeroed pages; returns where they begin. */
static uint64_t image_area(struct image *m, uint64_t n_bytes)
{
    uint64_t at = m->n_bytes, n = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    m->bytes = realloc(m->bytes, at + n);
    if (!m->bytes)
        abort();
    memset(m->bytes + at, 0, n);
    m->n_bytes += n;
    return at;
}

static void write_digests(struct image *m, struct stage_desc *s)
{
    struct digest_tree t;
    uint64_t n_pages = s->length / PAGE_BYTES;
    if (n_pages == 1) {
        s->root = page_digest(m->bytes + s->offset);
        return;
    }
    digest_tree_of(n_pages, &t);
    s->digests_offset = image_area(m, t.n_bytes);
    for (uint64_t p = 0; p < n_pages; p++) {
        struct le64 d = le64_of(page_digest(m->bytes + s->offset + p * PAGE_BYTES));
        memcpy(m->bytes + s->digests_offset + p * DIGEST_BYTES, &d, sizeof d);
    }
    s->root = digest_tree_finish(&t, m->bytes + s->digests_offset);
}

static void seal_floor_sector(struct image *m, uint64_t at)
{
    floor_sector_seal((struct floor_sector_disk *)(void *)(m->bytes + at), m->id.uuid,
                      at);
}

static void write_floors(struct image *m, struct stage_desc *s)
{
    uint64_t n_pages = s->length / PAGE_BYTES, n = floors_bytes(n_pages);
    s->floors_offset = image_area(m, n);
    for (uint64_t p = 0; p < n_pages; p++)
        for (uint64_t t = 0; t < SECTORS_PER_PAGE; t++) {
            uint32_t count =
                sector_count(m->bytes + s->offset + p * PAGE_BYTES + t * SECTOR_BYTES);
            struct le16 f = le16_of((uint16_t)count);
            memcpy(m->bytes + s->floors_offset + floor_sector_of(p) +
                       (p % PAGES_PER_FLOOR_SECTOR * SECTORS_PER_PAGE + t) * 2,
                   &f, sizeof f);
        }
    for (uint64_t at = 0; at < n; at += SECTOR_BYTES)
        seal_floor_sector(m, s->floors_offset + at);
}

/* A stage with the next n_keys keys. */
static void image_stage(struct image *m, struct geometry g, unsigned n_keys)
{
    struct stage_desc *s = &m->c.stages[m->c.n_stages++];
    char key[64];
    s->geometry = g;
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->target_error = 0.01;
    s->length = g.lanes * g.n_blocks * BLOCK_BYTES;
    s->offset = image_area(m, s->length);
    s->capacity = s->keys = n_keys;
    for (unsigned i = 0; i < n_keys; i++, m->c.keys++) {
        size_t n = golden_key(key, "key", (unsigned)m->c.keys);
        geometry_add(m->bytes + s->offset, &g, hash_key(SEED, key, n));
    }
    for (uint64_t at = 0; at < s->length; at += SECTOR_BYTES)
        s->bits_set += sector_count(m->bytes + s->offset + at);
    if (m->c.state == STATE_SEALED)
        write_digests(m, s);
    else
        write_floors(m, s);
}

static void image_finish(struct image *m)
{
    m->c.committed_bytes = m->n_bytes;
    identity_encode(&m->id, m->bytes);
    if (m->id.header_pages == 1) {
        commit_encode(&m->c, SLOT_BIRTH, m->bytes + IDENTITY_BYTES);
        return;
    }
    commit_encode(&m->c, SLOT_A, m->bytes + commit_slot_offset(SLOT_A));
    commit_encode(&m->c, SLOT_B, m->bytes + commit_slot_offset(SLOT_B));
}

/* ---- the files ---- */

/* Every number of lanes and of words, stages of one page and of several. */
static void geometries(struct image *m)
{
    image_begin(m, 0);
    for (uint32_t i = 0; i < MAX_BIRTH_STAGES; i++)
        image_stage(m,
                    (struct geometry){BLOCKS_PER_PAGE * (1 + i % 3), 1 + i % MAX_LANES,
                                      1 + (i * 5 + 2) % MAX_WORDS},
                    KEYS_A_STAGE);
    image_finish(m);
}

/* More stages than slot birth takes, never open: a union of others, say. */
static void many_stages(struct image *m)
{
    image_begin(m, 1);
    m->id.growth_rule = GROWTH_NONE;
    m->id.growth_factor = m->id.tightening_ratio = 0;
    m->id.first_capacity = 0;
    m->c.state = STATE_SEALED;
    for (uint32_t i = 0; i < MAX_STAGES; i++)
        image_stage(m, (struct geometry){BLOCKS_PER_PAGE, 1 + i % 2, 5}, 30);
    image_finish(m);
}

/* Pages enough that digests of digests are needed (SPEC.md 7.2). */
static void digest_levels(struct image *m)
{
    image_begin(m, 0);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * (DIGESTS_PER_PAGE + 9), 1, 6},
                KEYS_A_STAGE);
    image_finish(m);
}

/* Written by a later minor version: compat and ro_compat bits, and something in the
 * fields that are zero today (SPEC.md 5.2). A reader reads it. */
static void later_minor(struct image *m)
{
    image_begin(m, 1);
    m->id.minor = 7;
    m->id.compat = UINT64_C(1) << 5;
    m->id.ro_compat = UINT64_C(1) << 63;
    m->c.compat = 1;
    m->c.ro_compat = UINT64_C(1) << 40;
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 2, 2, 5}, KEYS_A_STAGE);
    image_finish(m);
    for (uint8_t slot = SLOT_A; slot <= SLOT_B; slot++) {
        uint8_t *record = m->bytes + commit_slot_offset(slot);
        memcpy(record + offsetof(struct commit_disk, unused_b), "later", 5);
        checksum_set(record, SLOT_BYTES, 0);
    }
    memcpy(m->bytes + offsetof(struct identity_disk, kind_area), "later", 5);
    memcpy(m->bytes + offsetof(struct identity_disk, unused), "later", 5);
    checksum_set(m->bytes, IDENTITY_BYTES, 0);
}

/* What a power cut and a loss may leave: slot A torn, slot B whole, one sector of bits
 * gone with its floor condemned (R8), another gone with its floor as it was. */
static void torn(struct image *m)
{
    image_begin(m, 1);
    m->c.clean = 0;
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 40, 1, 6}, 1500);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 2, 2, 5}, KEYS_A_STAGE);
    image_finish(m);
    const struct stage_desc *s = &m->c.stages[0];
    memset(m->bytes + commit_slot_offset(SLOT_A) + SECTOR_BYTES, 0xff, SECTOR_BYTES);
    memset(m->bytes + s->offset + 3 * SECTOR_BYTES, 0, SECTOR_BYTES);
    memset(m->bytes + s->offset + 35 * PAGE_BYTES, 0, SECTOR_BYTES);
    memset(m->bytes + s->floors_offset + 3 * 2, 0xff, 2);
    seal_floor_sector(m, s->floors_offset);
}

const char *handmade_file(unsigned n, uint8_t **bytes, size_t *n_bytes,
                          unsigned *n_keys)
{
    static const struct {
        const char *name;
        void (*make)(struct image *m);
    } files[N_HANDMADE] = {{"geometries.tamis", geometries},
                           {"many-stages.tamis", many_stages},
                           {"digest-levels.tamis", digest_levels},
                           {"later-minor.tamis", later_minor},
                           {"torn.tamis", torn}};
    struct image m;
    files[n].make(&m);
    *bytes = m.bytes;
    *n_bytes = (size_t)m.n_bytes;
    *n_keys = (unsigned)m.c.keys;
    return files[n].name;
}
