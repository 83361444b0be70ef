/* The header of an open file: read to a private copy, validated once, and from then on
 * only the copy is used. info.c prints it for people. */
#include "lib/filter/filter.h"
#include "lib/filter/kind.h"
#include "format/hash.h"
#include "lib/io/io.h"

#include <time.h>

/* A commit overwrites one slot in microseconds; a reader that meets one half
 * written looks again this often (R6). */
enum { HEADER_TRIES = 8, LARGE_BYTES = 1 << 20 };

static uint64_t raw_word(const uint8_t *header, size_t at_in_slot_a)
{
    uint64_t raw;
    memcpy(&raw, header + commit_slot_offset(SLOT_A) + at_in_slot_a, sizeof raw);
    return raw;
}

static bool settled(const struct header *h)
{
    return h->identity.header_pages == 1 || (h->health.frame[0].code == VERDICT_OK &&
                                             h->health.frame[1].code == VERDICT_OK);
}

/* Where in the file the filter may be, and the header's bytes. */
int header_read(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                uint8_t *raw, size_t *got, struct header *h, struct tamis_diag *diag)
{
    uint64_t file_bytes;
    int err = io_size(fd, &file_bytes);
    if (err)
        return diag_errno(diag, err, path, "not a regular file");
    if (offset % PAGE_BYTES != 0)
        return diag_fail(diag, TAMIS_ERR_RANGE, path,
                         "a filter starts at a multiple of 4096");
    h->available = offset < file_bytes ? file_bytes - offset : 0;
    if (n_bytes && n_bytes < h->available)
        h->available = n_bytes;
    /* Reading ahead would fill memory with pages that nobody asked for. */
    if (ours && h->available >= LARGE_BYTES)
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    memset(raw, 0, HEADER_MAX_BYTES);
    err = io_read(fd, raw,
                  h->available < HEADER_MAX_BYTES ? (size_t)h->available
                                                  : HEADER_MAX_BYTES,
                  offset, got);
    return err ? diag_errno(diag, err, path, "reading the header") : 0;
}

int header_decode(const uint8_t *raw, size_t got, uint64_t offset, const char *path,
                  struct header *h, struct tamis_diag *diag)
{
    struct verdict v = identity_decode(raw, got, &h->identity);
    if (v.code == VERDICT_OK && got < identity_header_bytes(&h->identity))
        v = (struct verdict){VERDICT_SHORT, (uint32_t)got, "header"};
    if (v.code == VERDICT_OK)
        v = commit_choose_slot(raw, &h->identity, h->available, &h->commit, &h->health);
    if (got == 0)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path,
                         offset ? "the file ends before this offset"
                                : "the file is empty");
    if (v.code != VERDICT_OK)
        return diag_verdict(diag, v, path, offset);
    if (h->identity.header_pages == 3) {
        h->raw_sequence_a = raw_word(raw, offsetof(struct commit_disk, sequence));
        h->raw_checksum_a = raw_word(raw, SLOT_BYTES - sizeof(struct le64));
    }
    return 0;
}

int header_load_raw(int fd, bool ours, uint64_t offset, uint64_t n_bytes,
                    const char *path, uint8_t raw[HEADER_MAX_BYTES], struct header *h,
                    struct tamis_diag *diag)
{
    uint8_t before[HEADER_MAX_BYTES];
    int err = 0;
    for (int i = 0; i < HEADER_TRIES; i++) {
        size_t got;
        memset(h, 0, sizeof *h);
        if (i > 0)
            memcpy(before, raw, sizeof before);
        err = header_read(fd, ours, offset, n_bytes, path, raw, &got, h, diag);
        if (err)
            return err;
        err = header_decode(raw, got, offset, path, h, diag);
        if (err == TAMIS_ERR_NOT_TAMIS || err == TAMIS_ERR_VERSION)
            return err;
        if (!err && settled(h))
            return 0;
        if (h->identity.header_pages != 3)
            return err; /* nobody rewrites this one */
        if (i > 0 && memcmp(raw, before, sizeof before) == 0)
            return err; /* nobody is writing: a slot is rotten */
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    /* Torn to the last: not to be taken for a copy that stays as it is. */
    h->raw_checksum_a = ~h->raw_checksum_a;
    return err;
}

int header_load(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                struct header *h, struct tamis_diag *diag)
{
    uint8_t raw[HEADER_MAX_BYTES];
    return header_load_raw(fd, ours, offset, n_bytes, path, raw, h, diag);
}

bool commit_is_older(const struct commit *c, const struct bounds *known)
{
    return c->sequence < known->sequence || c->generation < known->generation ||
           c->watermark < known->watermark || c->n_stages < known->n_stages;
}

bool header_is_mirrored(const struct header *h)
{
    return h->health.frame[0].code == VERDICT_OK &&
           h->health.frame[1].code == VERDICT_OK &&
           h->health.sequence[0] == h->health.sequence[1];
}

bool header_sealed_for_good(const struct header *h)
{
    return h->commit.state == STATE_SEALED &&
           (h->identity.header_pages == 1 || header_is_mirrored(h));
}

int header_check_features(const struct header *h, const char *path,
                          struct tamis_diag *diag)
{
    if (!h->identity.ro_compat && !h->commit.ro_compat)
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, path,
                     "a feature of a newer tamis forbids this one to write");
}

static void stage_info(const struct identity *id, const struct stage_desc *s,
                       struct tamis_stage_info *info)
{
    const struct filter_kind *kind = kind_find(id->kind);
    uint64_t n_bytes = s->length;
    if (s->layout == LAYOUT_SPLIT_BLOCKS)
        geometry_bytes(&s->geometry, &n_bytes); /* the last page need not be full */
    *info = (struct tamis_stage_info){
        .offset = s->offset,
        .bits_bytes = n_bytes,
        .n_blocks = s->geometry.n_blocks,
        .capacity = s->capacity,
        .keys = s->keys,
        .bits_set = s->bits_set,
        .lanes = s->geometry.lanes,
        .words = s->geometry.words,
        .target_error = s->target_error,
        .expected_error = kind->error_now ? kind->error_now(id, s) : s->target_error,
    };
}

void header_info(const struct identity *id, const struct commit *c,
                 struct tamis_filter_info *info)
{
    const struct filter_kind *kind = kind_find(id->kind);
    memset(info, 0, sizeof *info);
    memcpy(info->uuid, id->uuid, UUID_BYTES);
    memcpy(info->store_uuid, id->store_uuid, UUID_BYTES);
    info->domain = (struct tamis_domain){id->hash_id, id->hash_seed,
                                         hash_domain_tag(id->hash_id, id->hash_seed)};
    memcpy(info->name, id->name, id->name_bytes);
    info->name_bytes = id->name_bytes;
    memcpy(info->binding, c->binding, c->binding_bytes);
    info->binding_bytes = c->binding_bytes;
    info->sealed = c->state == STATE_SEALED;
    info->growing_kind = id->header_pages == 3;
    info->clean = c->clean;
    info->keys = c->keys;
    info->watermark = c->watermark;
    info->sequence = c->sequence;
    info->generation = c->generation;
    info->created = id->created;
    info->file_bytes = c->committed_bytes;
    info->table_digest = info->sealed ? commit_table_digest(c) : 0;
    info->growth = (struct tamis_growth){id->target_error, id->growth_factor,
                                         id->tightening_ratio, id->first_capacity};
    info->n_stages = c->n_stages;
    info->n_settled = c->n_settled;
    for (size_t i = 0; i < c->n_stages; i++) {
        struct tamis_stage_info *s = &info->stages[i];
        stage_info(id, &c->stages[i], s);
        /* 1 - (1 - a)(1 - b), without losing what is small. */
        info->expected_error +=
            s->expected_error - info->expected_error * s->expected_error;
    }
    if (c->n_stages)
        info->over_target = info->growing_kind && kind->over_target &&
                            kind->over_target(&c->stages[c->n_stages - 1]);
}

void header_begin(uint16_t kind, const struct tamis_domain *domain,
                  const struct tamis_identity *who, const uint8_t *uuid,
                  struct identity *id, struct commit *c)
{
    *id = (struct identity){
        .major = FORMAT_MAJOR,
        .minor = FORMAT_MINOR,
        .header_pages = 1,
        .kind = kind,
        .hash_id = (uint16_t)domain->hash_id,
        .hash_seed = domain->seed,
        .created = io_calls.now(),
    };
    memset(c, 0, sizeof *c);
    c->sequence = c->generation = 1;
    c->state = STATE_SEALED;
    c->clean = 1;
    if (who)
        identity_write(who, id, c);
    if (uuid) {
        memcpy(id->uuid, uuid, UUID_BYTES);
        memcpy(c->uuid, uuid, UUID_BYTES);
    }
}

int header_write(int fd, const struct identity *id, const struct commit *c)
{
    uint8_t header[HEADER_MAX_BYTES] = {0};
    identity_encode(id, header);
    if (id->header_pages == 1) {
        commit_encode(c, SLOT_BIRTH, header + commit_slot_offset(SLOT_BIRTH));
    } else {
        commit_encode(c, SLOT_A, header + commit_slot_offset(SLOT_A));
        commit_encode(c, SLOT_B, header + commit_slot_offset(SLOT_B));
    }
    return io_write(fd, header, (size_t)identity_header_bytes(id), 0);
}

/* ---- the identity as callers give it ---- */

int identity_check(const struct tamis_identity *of, struct tamis_diag *diag)
{
    if (of->name ? !segment_name_valid(of->name, of->name_bytes) : of->name_bytes > 0)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "a segment name has 1 to 255 bytes, none of them NUL");
    if (of->binding_bytes > (of->binding ? BINDING_MAX_BYTES : 0))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "a binding has at most 64 bytes");
    return 0;
}

void identity_write(const struct tamis_identity *of, struct identity *id,
                    struct commit *c)
{
    if (of->name) {
        id->name_bytes = (uint16_t)of->name_bytes;
        memcpy(id->name, of->name, of->name_bytes);
    }
    if (of->binding) {
        c->binding_bytes = (uint8_t)of->binding_bytes;
        memcpy(c->binding, of->binding, of->binding_bytes);
    }
    if (of->store_uuid)
        memcpy(id->store_uuid, of->store_uuid, UUID_BYTES);
}

const char *identity_differs(const struct tamis_identity *of, const struct identity *id,
                             const struct commit *c)
{
    if (of->store_uuid && memcmp(of->store_uuid, id->store_uuid, UUID_BYTES) != 0)
        return "belongs to another store";
    if (of->name && (of->name_bytes != id->name_bytes ||
                     memcmp(of->name, id->name, id->name_bytes) != 0))
        return "is the filter of another segment";
    if (of->binding && (of->binding_bytes != c->binding_bytes ||
                        memcmp(of->binding, c->binding, c->binding_bytes) != 0))
        return "its binding differs from the one expected";
    return NULL;
}

/* ---- the kinds that this library answers for ---- */

static const struct filter_kind *const kinds[] = {&kind_bloom, &kind_pack, &kind_ribbon,
                                                  &kind_list};

const struct filter_kind *kind_find(uint16_t number)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i]->number == number)
            return kinds[i];
    return NULL;
}
