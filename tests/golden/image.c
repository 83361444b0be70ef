/* See image.h. */
#include "tests/golden/image.h"

#include "format/hash.h"
#include "tests/golden/handmade.h"

size_t golden_key(char *out, const char *kind, unsigned i)
{
    return (size_t)sprintf(out, "%s-%u\xc3\xa9", kind, i); /* bytes above 0x7f too */
}

void image_begin(struct image *m, int growing)
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
    for (unsigned i = 0; i < UUID_BYTES; i++) {
        m->id.uuid[i] = m->c.uuid[i] = (uint8_t)(0xa0 + i);
        m->id.set_id[i] = (uint8_t)(0xc0 + i);
    }
    m->c.state = growing ? STATE_OPEN : STATE_SEALED;
    m->c.clean = 1;
    m->n_bytes = identity_header_bytes(&m->id);
    m->bytes = calloc(1, m->n_bytes);
}

uint64_t image_area(struct image *m, uint64_t n_bytes)
{
    uint64_t at = m->n_bytes, n = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    m->bytes = realloc(m->bytes, at + n);
    if (!m->bytes)
        abort();
    memset(m->bytes + at, 0, n);
    m->n_bytes += n;
    return at;
}

void image_digest(struct image *m, struct stage_desc *s)
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

void image_seal_floors(struct image *m, uint64_t at)
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
        image_seal_floors(m, s->floors_offset + at);
}

void image_stage(struct image *m, struct geometry g, unsigned n_keys)
{
    struct stage_desc *s = &m->c.stages[m->c.n_stages++];
    char key[64];
    s->geometry = g;
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->target_error = 0.01;
    geometry_stage_bytes(&g, &s->length);
    s->offset = image_area(m, s->length);
    s->capacity = s->keys = n_keys;
    for (unsigned i = 0; i < n_keys; i++, m->c.keys++) {
        size_t n = golden_key(key, "key", (unsigned)m->c.keys);
        geometry_add(m->bytes + s->offset, &g, hash_key(SEED, key, n));
    }
    for (uint64_t at = 0; at < s->length; at += SECTOR_BYTES)
        s->bits_set += sector_count(m->bytes + s->offset + at);
    if (m->c.state == STATE_SEALED)
        image_digest(m, s);
    else
        write_floors(m, s);
}

void image_settle(struct image *m)
{
    image_digest(m, &m->c.stages[m->c.n_settled++]);
}

void image_finish(struct image *m)
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
