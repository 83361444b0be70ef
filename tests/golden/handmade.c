/* See handmade.h: the files themselves, laid out by image.c. */
#include "tests/golden/handmade.h"

#include "format/checksum.h"
#include "tests/golden/image.h"

enum { KEYS_A_STAGE = 90 };

/* Every number of lanes and of words, stages of one page and of several, lanes that
 * begin at a page and others. */
static void geometries(struct image *m)
{
    image_begin(m, 0);
    for (uint32_t i = 0; i < MAX_BIRTH_STAGES; i++)
        image_stage(m,
                    (struct geometry){BLOCKS_PER_PAGE * (1 + i % 3) - i % 5,
                                      1 + i % MAX_LANES, 1 + (i * 5 + 2) % MAX_WORDS},
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

/* A file after a power cut and a loss: slot A torn, slot B whole, one sector of bits
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
    image_seal_floors(m, s->floors_offset);
}

/* Bits of settled stages that were replaced by as many others: floors do not see it. */
static void settled_rotten(struct image *m)
{
    image_begin(m, 1);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 5, 1, 6}, 900);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE, 1, 6}, KEYS_A_STAGE);
    image_stage(m, (struct geometry){BLOCKS_PER_PAGE * 2, 2, 5}, KEYS_A_STAGE);
    image_settle(m);
    image_settle(m);
    image_finish(m);
    for (size_t i = 0; i < 2; i++) {
        uint8_t *sector = m->bytes + m->c.stages[i].offset + 3 * SECTOR_BYTES;
        for (size_t at = 0; at < SECTOR_BYTES; at++)
            sector[at] = (uint8_t)(sector[at] << 3 | sector[at] >> 5);
    }
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
                           {"torn.tamis", torn},
                           {"settled-rotten.tamis", settled_rotten}};
    struct image m;
    files[n].make(&m);
    *bytes = m.bytes;
    *n_bytes = (size_t)m.n_bytes;
    *n_keys = (unsigned)m.c.keys;
    return files[n].name;
}
