/* A header's fields one by one, for people: what `tamis file show` prints, of headers
 * that open and of those that don't. */
#include "lib/filter/filter.h"
#include "format/area.h"
#include "format/commit.h"
#include "lib/error.h"
#include "lib/io/io.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* A descriptor: the fields of all kinds, then those of its layout. */
static void print_stage(const struct printer *to, const char *record, uint64_t at,
                        const uint8_t *raw)
{
    struct stage_disk d;
    size_t n_common = 0;
    memcpy(&d, raw + at, sizeof d);
    while (n_common < n_stage_fields && stage_fields[n_common].offset < AREA_OFFSET)
        n_common++;
    print_record(to, record, at, raw, stage_fields, n_common);
    uint64_t area = at + AREA_OFFSET;
    switch (le16_get(d.layout)) {
    case LAYOUT_ROWS:
        print_record(to, record, area, raw, rows_area_fields, n_rows_area_fields);
        break;
    case LAYOUT_RIBBON:
        print_record(to, record, area, raw, ribbon_area_fields, n_ribbon_area_fields);
        break;
    case LAYOUT_HASHES:
        print_record(to, record, area, raw, hashes_area_fields, n_hashes_area_fields);
        break;
    case LAYOUT_TABLE:
        print_record(to, record, area, raw, table_area_fields, n_table_area_fields);
        break;
    default:
        print_record(to, record, at, raw, stage_fields + n_common,
                     n_stage_fields - n_common);
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
        print_stage(to, record, stage_at, raw);
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
        return diag_open(diag, err, path, "cannot open");
    memset(&h, 0, sizeof h);
    err = header_read(fd, true, offset, 0, path, raw, &got, &h, diag);
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
