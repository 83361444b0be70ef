/* For people: facts about an open filter, from its header as of now; why it answers as
 * it does; and the fields of a header one by one, which `tamis file show` prints, of
 * headers that open and of those that don't. */
#include "lib/filter/view.h"
#include "format/area.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

_Static_assert((int)TAMIS_MAX_STAGES == (int)MAX_STAGES, "SPEC.md section 6");

/* A sealed filter's from the mapping (its descriptor is gone), copied and decoded like
 * any other; a growing one's from the file. */
int filter_header(struct tamis_filter *f, struct header *h, struct tamis_diag *diag)
{
    struct view *v = filter_view(f);
    struct question r = {.fd = f->fd};
    memset(h, 0, sizeof *h);
    if (v->live_sequence || f->unmapped) {
        int err = question_begin(f, &r);
        if (err)
            return diag_errno(diag, err, f->path, "opening the filter");
        err = header_load(r.fd, false, f->offset, f->limit, f->path, h, diag);
        question_end(f, &r);
        return err;
    }
    uint8_t raw[HEADER_MAX_BYTES];
    h->available = v->map.n_bytes - (size_t)(v->map.base - (uint8_t *)v->map.address);
    size_t n = h->available < sizeof raw ? (size_t)h->available : sizeof raw;
    memcpy(raw, v->map.base, n);
    if (lost_page(&v->map, v->map.base) || lost_page(&v->map, v->map.base + n - 1))
        return diag_errno(diag, EIO, f->path, "reading the header");
    return header_decode(raw, n, f->offset, f->path, h, diag);
}

int tamis_filter_info(struct tamis_filter *f, struct tamis_filter_info *info,
                      struct tamis_diag *diag)
{
    struct header h;
    memset(info, 0, sizeof *info);
    diag_clear(diag);
    int err = filter_header(f, &h, diag);
    if (err)
        return err;
    header_info(&h.identity, &h.commit, info);
    const struct list_map *list = filter_list(f);
    info->n_hashes = list ? list->n_hashes : 0;
    info->hash_bits = list ? list->hash_bits : 0;
    return 0;
}

/* ---- why ---- */

/* Which lane's block of each stage decided the answer. Looks twice and is slow, for
 * people. */
enum tamis_answer filter_explain_from(struct tamis_filter *f, uint64_t min_watermark,
                                      const struct tamis_key *key,
                                      struct tamis_explanation *out)
{
    memset(out, 0, sizeof *out);
    out->answer = filter_probe_from(f, min_watermark, 0, key, &out->reason);
    if (out->reason != TAMIS_NO_REASON && out->reason != TAMIS_HIT &&
        out->reason != TAMIS_DAMAGED)
        return out->answer;
    struct view *v = atomic_load_explicit(&f->view, memory_order_acquire);
    out->by = TAMIS_BY_FILTER;
    if (!f->kind->explain)
        return out->answer;
    out->n_stages = v->n_stages;
    for (uint32_t i = 0; i < v->n_stages; i++) {
        struct stage *s = &v->stages[i];
        uint64_t begin = f->offset + (uint64_t)(s->bits - v->map.base);
        f->kind->explain(s, f->kernel, begin, key->hash, &out->stages[i]);
        /* Somebody has added the key in between, or a page has failed. */
        if (out->answer == TAMIS_ABSENT && out->stages[i].reason != TAMIS_NO_REASON) {
            out->answer = TAMIS_MAYBE;
            out->reason = out->stages[i].reason;
        }
    }
    return out->answer;
}

enum tamis_answer tamis_filter_explain(struct tamis_filter *filter,
                                       const struct tamis_key *key,
                                       struct tamis_explanation *out)
{
    return filter_explain_from(filter, 0, key, out);
}

/* ---- the fields of a header ---- */

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
    size_t n;
    const struct field *area = area_fields(le16_get(d.layout), &n);
    if (area)
        print_record(to, record, at + AREA_OFFSET, raw, area, n);
    else
        print_record(to, record, at, raw, stage_fields + n_common,
                     n_stage_fields - n_common);
}

static void print_slot(const struct printer *to, const uint8_t *raw, uint8_t slot)
{
    static const char *const names[] = {"A", "B", "birth"};
    static const struct field checksum = {
        .name = "checksum", .n_bytes = 8, .type = FIELD_HEX};
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
