/* Commit record: encode, decode with every check of SPEC.md §8.2 and §8.3 in its
 * order, and the choice between two slots. */
#include "commit.h"
#include "checksum.h"
#include "integrity.h"
#include "list.h"
#include "pack.h"
#include "ribbon.h"

_Static_assert(sizeof(struct commit_disk) == COMMIT_HEAD_BYTES, "SPEC.md section 6");
_Static_assert(COMMIT_HEAD_BYTES + MAX_STAGES * STAGE_BYTES + 8 == SLOT_BYTES,
               "thirty stages fill a slot");
_Static_assert(COMMIT_HEAD_BYTES + MAX_BIRTH_STAGES * STAGE_BYTES + 8 == BIRTH_BYTES,
               "fourteen stages fill half a page");

#define F(member, type)    FIELD_OF(struct commit_disk, struct commit, member, type)
#define NONE(member, type) FIELD(struct commit_disk, member, type)
const struct field commit_fields[] = {
    NONE(magic, FIELD_BYTES),
    F(uuid, FIELD_UUID),
    F(sequence, FIELD_UINT),
    F(compat, FIELD_HEX),
    F(ro_compat, FIELD_HEX),
    F(incompat, FIELD_HEX),
    F(keys, FIELD_UINT),
    F(watermark, FIELD_UINT),
    F(committed_bytes, FIELD_UINT),
    F(generation, FIELD_UINT),
    F(slot, FIELD_UINT),
    F(state, FIELD_UINT),
    F(clean, FIELD_UINT),
    F(n_stages, FIELD_UINT),
    F(binding_bytes, FIELD_UINT),
    F(n_settled, FIELD_UINT),
    NONE(unused_a, FIELD_UNUSED),
    NONE(binding, FIELD_BYTES),
    NONE(unused_b, FIELD_UNUSED),
};
#undef F
#undef NONE
const size_t n_commit_fields = sizeof commit_fields / sizeof commit_fields[0];

void commit_encode(const struct commit *c, uint8_t slot, uint8_t *out)
{
    struct commit_disk d;
    memset(&d, 0, sizeof d);
    memset(out, 0, commit_slot_bytes(slot));
    memcpy(d.magic, MAGIC_COMMIT, sizeof d.magic);
    fields_store(commit_fields, n_commit_fields, c, &d);
    d.slot = slot;
    memcpy(d.binding, c->binding, c->binding_bytes);
    memcpy(out, &d, sizeof d);
    for (size_t i = 0; i < c->n_stages; i++)
        stage_encode(&c->stages[i], out + STAGES_OFFSET + i * STAGE_BYTES);
    checksum_set(out, commit_slot_bytes(slot), 0);
}

void commit_renumber(uint8_t record[SLOT_BYTES], uint8_t slot)
{
    record[offsetof(struct commit_disk, slot)] = slot;
    checksum_set(record, SLOT_BYTES, 0);
}

#define AT(code, member) VERDICT_AT(VERDICT_##code, struct commit_disk, member)

struct verdict commit_frame(const uint8_t *in, uint8_t slot, const struct identity *id,
                            uint64_t *sequence)
{
    struct commit_disk d;
    size_t n_bytes = commit_slot_bytes(slot);
    memcpy(&d, in, sizeof d);
    *sequence = 0;
    if (!magic_is(d.magic, MAGIC_COMMIT))
        return AT(MAGIC, magic);
    if (!checksum_good(in, n_bytes, 0))
        return (struct verdict){VERDICT_CHECKSUM, (uint32_t)n_bytes - 8, "checksum"};
    if (memcmp(d.uuid, id->uuid, UUID_BYTES) != 0)
        return AT(IDENTITY, uuid);
    if (d.slot != slot)
        return AT(IDENTITY, slot);
    *sequence = le64_get(d.sequence);
    return VERDICT_GOOD;
}

static struct verdict check_head(const struct commit_disk *d, const struct commit *c,
                                 uint8_t slot, const struct identity *id,
                                 uint64_t available_bytes)
{
    if (c->incompat)
        return AT(FLAGS, incompat);
    if (c->sequence == 0)
        return AT(RANGE, sequence);
    if (c->generation == 0)
        return AT(RANGE, generation);
    if (c->state != STATE_OPEN && c->state != STATE_SEALED)
        return AT(RANGE, state);
    /* At birth, and without a rule to grow by, there is nothing but a sealed filter. */
    if ((slot == SLOT_BIRTH || id->growth_rule == GROWTH_NONE) &&
        c->state != STATE_SEALED)
        return AT(RANGE, state);
    if (c->clean > 1 || (c->state == STATE_SEALED && !c->clean))
        return AT(RANGE, clean);
    if (c->n_stages < 1 ||
        c->n_stages > (slot == SLOT_BIRTH ? MAX_BIRTH_STAGES : MAX_STAGES))
        return AT(RANGE, n_stages);
    if (c->binding_bytes > BINDING_MAX_BYTES)
        return AT(RANGE, binding_bytes);
    if (!all_zero(d->binding + c->binding_bytes, BINDING_MAX_BYTES - c->binding_bytes))
        return AT(UNUSED, binding);
    if (c->n_settled && (c->state != STATE_OPEN || c->n_settled >= c->n_stages))
        return AT(RANGE, n_settled);
    if (commit_unused_is_ours(c) && !all_zero(d->unused_a, sizeof d->unused_a))
        return AT(UNUSED, unused_a);
    if (commit_unused_is_ours(c) && !all_zero(d->unused_b, sizeof d->unused_b))
        return AT(UNUSED, unused_b);
    if (c->committed_bytes % PAGE_BYTES != 0)
        return AT(RANGE, committed_bytes);
    if (c->committed_bytes > available_bytes)
        return AT(SHORT, committed_bytes);
    if (id->kind == KIND_PACK && c->n_stages != PACK_STAGES)
        return AT(RANGE, n_stages);
    if (id->kind == KIND_RIBBON && c->n_stages < RIBBON_MIN_STAGES)
        return AT(RANGE, n_stages);
    if (id->kind == KIND_LIST && c->n_stages != LIST_STAGES)
        return AT(RANGE, n_stages);
    return VERDICT_GOOD;
}

/* Areas of the file: the header and up to three per stage. */
struct area {
    uint64_t begin, end;
    uint32_t descriptor; /* offset in the record of the stage that claims it */
    const char *field;
};

/* An end that would wrap becomes one that no file reaches. */
static void area_put(struct area *a, uint64_t begin, uint64_t n_bytes, size_t stage,
                     const char *field)
{
    a->begin = begin;
    a->descriptor = (uint32_t)(STAGES_OFFSET + stage * STAGE_BYTES);
    a->field = field;
    if (!add_u64(begin, n_bytes, &a->end))
        a->end = UINT64_MAX;
}

static struct verdict check_areas(const struct commit *c, const struct identity *id)
{
    struct area areas[1 + 3 * MAX_STAGES];
    size_t n = 0;

    area_put(&areas[n++], 0, identity_header_bytes(id), 0, "header");
    for (size_t i = 0; i < c->n_stages; i++) {
        const struct stage_desc *s = &c->stages[i];
        uint64_t n_pages = s->length / PAGE_BYTES;
        area_put(&areas[n++], s->offset, s->length, i, "stage.offset");
        if (s->floors_offset)
            area_put(&areas[n++], s->floors_offset, floors_bytes(n_pages), i,
                     "stage.floors_offset");
        if (s->digests_offset)
            area_put(&areas[n++], s->digests_offset, digests_bytes(n_pages), i,
                     "stage.digests_offset");
    }
    for (size_t i = 0; i < n; i++) {
        if (areas[i].end > c->committed_bytes)
            return (struct verdict){VERDICT_SHORT, areas[i].descriptor, areas[i].field};
        for (size_t k = 0; k < i; k++)
            if (areas[i].begin < areas[k].end && areas[k].begin < areas[i].end)
                return (struct verdict){VERDICT_OVERLAP, areas[i].descriptor,
                                        areas[i].field};
    }
    return VERDICT_GOOD;
}

static struct verdict check_stages(const uint8_t *in, uint8_t slot,
                                   const struct identity *id, struct commit *c)
{
    size_t end = STAGES_OFFSET + (size_t)c->n_stages * STAGE_BYTES;
    for (size_t i = 0; i < c->n_stages; i++) {
        struct stage_disk d;
        size_t at = STAGES_OFFSET + i * STAGE_BYTES;
        memcpy(&d, in + at, sizeof d);
        struct verdict v = stage_decode(&d, i, slot, id, c);
        if (v.code != VERDICT_OK) {
            v.offset += (uint32_t)at;
            return v;
        }
    }
    if (!all_zero(in + end, commit_slot_bytes(slot) - 8 - end))
        return (struct verdict){VERDICT_UNUSED, (uint32_t)end, "stages"};
    /* As read: bytes of features that we may ignore are part of it. */
    c->table_digest =
        XXH3_64bits(in + STAGES_OFFSET, (size_t)c->n_stages * STAGE_BYTES);
    return check_areas(c, id);
}

struct verdict commit_decode(const uint8_t *in, uint8_t slot, const struct identity *id,
                             uint64_t available_bytes, struct commit *c)
{
    struct commit_disk d;
    memset(c, 0, sizeof *c);
    memcpy(&d, in, sizeof d);
    fields_load(commit_fields, n_commit_fields, &d, c);
    memcpy(c->binding, d.binding, sizeof c->binding);
    struct verdict v = check_head(&d, c, slot, id, available_bytes);
    if (v.code == VERDICT_OK)
        v = check_stages(in, slot, id, c);
    if (v.code != VERDICT_OK)
        memset(c, 0, sizeof *c);
    return v;
}

/* Makes an offset within a slot one within the header. */
static struct verdict at_slot(struct verdict v, uint8_t slot)
{
    v.offset += (uint32_t)commit_slot_offset(slot);
    return v;
}

struct verdict commit_choose_slot(const uint8_t *header, const struct identity *id,
                                  uint64_t available_bytes, struct commit *c,
                                  struct slot_health *health)
{
    uint8_t slots[2] = {SLOT_A, SLOT_B}, best = SLOT_A;
    size_t n = 2;
    memset(health, 0, sizeof *health);
    memset(c, 0, sizeof *c);
    if (id->header_pages == 1)
        slots[0] = SLOT_BIRTH, n = 1;
    else if (!identity_has_features(id) &&
             !all_zero(header + IDENTITY_BYTES, PAGE_BYTES - IDENTITY_BYTES))
        return (struct verdict){VERDICT_UNUSED, IDENTITY_BYTES, "page 0"};

    for (size_t i = 0; i < n; i++) {
        const uint8_t *in = header + commit_slot_offset(slots[i]);
        health->frame[i] =
            at_slot(commit_frame(in, slots[i], id, &health->sequence[i]), slots[i]);
    }
    bool good_a = health->frame[0].code == VERDICT_OK;
    bool good_b = n == 2 && health->frame[1].code == VERDICT_OK;
    if (!good_a && !good_b)
        return health->frame[0];
    if (good_b && (!good_a || health->sequence[1] > health->sequence[0]))
        best = SLOT_B;
    best = n == 1 ? SLOT_BIRTH : best;
    return at_slot(
        commit_decode(header + commit_slot_offset(best), best, id, available_bytes, c),
        best);
}

uint64_t commit_table_digest(const struct commit *c)
{
    uint8_t table[MAX_STAGES * STAGE_BYTES];
    if (c->table_digest)
        return c->table_digest;
    for (size_t i = 0; i < c->n_stages; i++)
        stage_encode(&c->stages[i], table + i * STAGE_BYTES);
    return XXH3_64bits(table, (size_t)c->n_stages * STAGE_BYTES);
}
