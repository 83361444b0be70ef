/* The header of an open file: read to a private copy, validated once, and from
 * then on only the copy is used. Also the fields one by one, for people. */
#include "lib/internal.h"

#include <inttypes.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

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
static int read_header(int fd, bool ours, uint64_t offset, uint64_t n_bytes,
                       const char *path, uint8_t *raw, size_t *got, struct header *h,
                       struct tamis_diag *diag)
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
        v = commit_choose(raw, &h->identity, h->available, &h->commit, &h->health);
    if (got == 0)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, path, "the file is empty here");
    if (v.code != VERDICT_OK)
        return diag_verdict(diag, v, path, offset);
    if (h->identity.header_pages == 3) {
        h->raw_sequence_a = raw_word(raw, offsetof(struct commit_disk, sequence));
        h->raw_checksum_a = raw_word(raw, SLOT_BYTES - sizeof(struct le64));
    }
    return 0;
}

int header_load(int fd, bool ours, uint64_t offset, uint64_t n_bytes, const char *path,
                struct header *h, struct tamis_diag *diag)
{
    uint8_t raw[2][HEADER_MAX_BYTES];
    int err = 0;
    for (int i = 0; i < HEADER_TRIES; i++) {
        size_t got;
        memset(h, 0, sizeof *h);
        err = read_header(fd, ours, offset, n_bytes, path, raw[i % 2], &got, h, diag);
        if (err)
            return err;
        err = header_decode(raw[i % 2], got, offset, path, h, diag);
        if (err == TAMIS_ERR_NOT_TAMIS || err == TAMIS_ERR_VERSION)
            return err;
        if (!err && settled(h))
            return 0;
        if (h->identity.header_pages != 3)
            return err; /* nobody rewrites this one */
        if (i > 0 && memcmp(raw[0], raw[1], HEADER_MAX_BYTES) == 0)
            return err; /* nobody is writing: a slot is rotten */
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    return err;
}

void header_stage_info(const struct stage_desc *s, struct tamis_stage_info *info)
{
    *info = (struct tamis_stage_info){
        .offset = s->offset,
        .bits_bytes = s->length,
        .n_blocks = s->geometry.n_blocks,
        .capacity = s->capacity,
        .keys = s->keys,
        .bits_set = s->bits_set,
        .lanes = s->geometry.lanes,
        .words = s->geometry.words,
        .target_error = s->target_error,
    };
    uint64_t by_bits = plan_keys_of_bits(&s->geometry, s->bits_set);
    info->expected_error =
        plan_geometry_error(&s->geometry, by_bits > s->keys ? by_bits : s->keys);
}

void header_info(const struct identity *id, const struct commit *c,
                 struct tamis_filter_info *info)
{
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
    for (size_t i = 0; i < c->n_stages; i++) {
        struct tamis_stage_info s;
        header_stage_info(&c->stages[i], &s);
        /* 1 - (1 - a)(1 - b), without losing what is small. */
        info->expected_error +=
            s.expected_error - info->expected_error * s.expected_error;
    }
    if (c->n_stages) {
        const struct stage_desc *last = &c->stages[c->n_stages - 1];
        /* Threads look at the fill now and then: a little over is not over. */
        info->over_target =
            info->growing_kind &&
            last->bits_set >
                plan_expected_bits(&last->geometry,
                                   last->capacity + last->capacity / 256 + 1);
    }
}

/* ---- the fields, one by one ---- */

struct printer {
    tamis_field_fn *fn;
    void *ctx;
    uint64_t filter_offset;
};

static void format_bytes(const uint8_t *p, size_t n, char *out, size_t room)
{
    size_t used = 0;
    while (n > 0 && p[n - 1] == 0)
        n--;
    for (size_t i = 0; i < n && used + 5 < room; i++) {
        bool plain = p[i] > 0x20 && p[i] < 0x7f && p[i] != '\\';
        used +=
            (size_t)snprintf(out + used, room - used, plain ? "%c" : "\\x%02x", p[i]);
    }
    out[used] = 0;
}

static void format_time(uint64_t us, char *out, size_t room)
{
    time_t t = (time_t)(us / 1000000);
    struct tm tm;
    if (!gmtime_r(&t, &tm) || !strftime(out, room, "%Y-%m-%dT%H:%M:%S", &tm))
        out[0] = 0;
    size_t n = strlen(out);
    snprintf(out + n, room - n, ".%06" PRIu64 "Z", us % 1000000);
}

static void print_number(const uint8_t *p, const struct field *f,
                         struct tamis_field *out, char *text, size_t room)
{
    uint8_t padded[8] = {0};
    struct le64 raw;
    memcpy(padded, p, f->n_bytes <= 8 ? f->n_bytes : 8);
    memcpy(&raw, padded, sizeof raw);
    out->number = le64_get(raw);
    out->kind = TAMIS_FIELD_NUMBER;
    if (f->type == FIELD_F64) {
        out->kind = TAMIS_FIELD_REAL;
        out->real = le64_get_f64(raw);
        snprintf(text, room, "%.9g", out->real);
    } else if (f->type == FIELD_HEX) {
        snprintf(text, room, "0x%016" PRIx64, out->number);
    } else if (f->type == FIELD_TIME) {
        out->kind = TAMIS_FIELD_TEXT;
        format_time(out->number, text, room);
    } else {
        snprintf(text, room, "%" PRIu64, out->number);
    }
}

static void print_record(const struct printer *to, const char *record, uint64_t at,
                         const uint8_t *raw, const struct field *fields, size_t n)
{
    char text[1100];
    for (size_t i = 0; i < n; i++) {
        const struct field *f = &fields[i];
        struct tamis_field out = {.record = record, .name = f->name, .text = text};
        out.offset = to->filter_offset + at + f->offset;
        out.n_bytes = f->n_bytes;
        out.kind = TAMIS_FIELD_TEXT;
        const uint8_t *p = raw + at + f->offset;
        switch ((enum field_type)f->type) {
        case FIELD_UINT:
        case FIELD_HEX:
        case FIELD_F64:
        case FIELD_TIME:
            print_number(p, f, &out, text, sizeof text);
            break;
        case FIELD_UUID:
            for (size_t k = 0; k < UUID_BYTES; k++)
                snprintf(text + 2 * k, 3, "%02x", p[k]);
            break;
        case FIELD_UNUSED:
            snprintf(text, sizeof text, "%s",
                     all_zero(p, f->n_bytes) ? "zero" : "NOT ZERO");
            break;
        case FIELD_BYTES:
            format_bytes(p, f->n_bytes, text, sizeof text);
            break;
        }
        to->fn(to->ctx, &out);
    }
}

static void print_slot(const struct printer *to, const uint8_t *raw, uint8_t slot)
{
    static const char *const names[] = {"A", "B", "birth"};
    static const struct field checksum = {"checksum", 0, 8, FIELD_HEX};
    char record[32];
    uint64_t at = commit_slot_offset(slot), end = at + commit_slot_bytes(slot);
    struct commit_disk d;
    memcpy(&d, raw + at, sizeof d);
    snprintf(record, sizeof record, "commit %s", names[slot]);
    print_record(to, record, at, raw, commit_fields, n_commit_fields);
    size_t n_stages = d.n_stages;
    for (size_t i = 0; i < n_stages; i++) {
        uint64_t stage_at = at + STAGES_OFFSET + i * STAGE_BYTES;
        if (stage_at + STAGE_BYTES > end - 8)
            break; /* a broken record may claim more than fit */
        snprintf(record, sizeof record, "stage %s.%zu", names[slot], i);
        print_record(to, record, stage_at, raw, stage_fields, n_stage_fields);
    }
    snprintf(record, sizeof record, "commit %s", names[slot]);
    print_record(to, record, end - 8, raw, &checksum, 1);
}

int tamis_file_fields(const char *path, uint64_t offset, tamis_field_fn *fn, void *ctx,
                      struct tamis_diag *diag)
{
    uint8_t raw[HEADER_MAX_BYTES];
    struct header h;
    size_t got;
    int fd;
    diag_clear(diag);
    int err = io_open(path, O_RDONLY, &fd);
    if (err)
        return diag_errno(diag, err, path, "cannot open");
    memset(&h, 0, sizeof h);
    err = read_header(fd, true, offset, 0, path, raw, &got, &h, diag);
    if (!err) {
        struct printer to = {fn, ctx, offset};
        struct identity_disk d;
        err = header_decode(raw, got, offset, path, &h, diag);
        memcpy(&d, raw, sizeof d);
        if (err != TAMIS_ERR_NOT_TAMIS) {
            print_record(&to, "identity", 0, raw, identity_fields, n_identity_fields);
            if (le32_get(d.header_pages) == 1) {
                print_slot(&to, raw, SLOT_BIRTH);
            } else {
                print_slot(&to, raw, SLOT_A);
                print_slot(&to, raw, SLOT_B);
            }
        }
    }
    close(fd);
    return err;
}
