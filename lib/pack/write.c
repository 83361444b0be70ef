/* The file of a pack: rows, table of bands, table of columns, and the header last. */
#include "lib/pack/inside.h"
#include "lib/filter/header.h"
#include "lib/page/stage_writer.h"
#include "lib/io/io.h"

/* ---- bytes that come one after the other, as pages of a stage ---- */

struct packed_output {
    struct stage_writer *writer;
    size_t in_page;
};

static int put_bytes(void *output, const uint8_t *bytes, size_t n)
{
    struct packed_output *o = output;
    int err = 0;
    for (size_t some; n && !err; bytes += some, n -= some) {
        some = PAGE_BYTES - o->in_page < n ? PAGE_BYTES - o->in_page : n;
        memcpy(stage_writer_room(o->writer) + o->in_page, bytes, some);
        o->in_page += some;
        if (o->in_page == PAGE_BYTES) {
            o->in_page = 0;
            err = stage_writer_put(o->writer);
        }
    }
    return err;
}

/* Zeros to the end of the last page. */
static int pad_page(struct packed_output *o)
{
    if (o->in_page == 0)
        return 0;
    memset(stage_writer_room(o->writer) + o->in_page, 0, PAGE_BYTES - o->in_page);
    o->in_page = 0;
    return stage_writer_put(o->writer);
}

/* ---- the stages ---- */

static int packed_write_rows(struct pack_job *job, struct packed_output *o)
{
    return slabs_make(job, put_bytes, o);
}

static int write_bands(struct pack_job *job, struct packed_output *o)
{
    uint8_t entry[BAND_BYTES];
    int err = 0;
    for (uint32_t i = 0; i < job->plan->n_bands && !err; i++) {
        band_encode(&job->plan->bands[i], entry);
        err = put_bytes(o, entry, sizeof entry);
    }
    if (!err)
        err = put_bytes(o, (const uint8_t *)job->index->places,
                        (size_t)job->plan->n_columns * PLACE_BYTES);
    return err;
}

static int write_columns(struct pack_job *job, struct packed_output *o)
{
    return pack_index_write(job->index, o->writer);
}

static int packed_write_stage(struct pack_job *job, int fd, struct stage_desc *s,
                              int (*fill)(struct pack_job *job,
                                          struct packed_output *o))
{
    struct packed_output o = {.in_page = 0};
    int err = stage_writer_new(fd, s, &o.writer);
    if (err)
        return err;
    err = fill(job, &o);
    if (!err)
        err = pad_page(&o);
    s->root = stage_writer_end(o.writer);
    return err;
}

/* ---- the header ---- */

static void packed_lay_out(const struct pack_job *job, const struct identity *id,
                           struct commit *c)
{
    struct stage_desc *rows = &c->stages[PACK_ROWS], *bands = &c->stages[PACK_BANDS],
                      *columns = &c->stages[PACK_COLUMNS];
    const struct pack_plan *p = job->plan;
    rows->layout = LAYOUT_ROWS;
    rows->length = p->rows_bytes;
    rows->n_bands = p->n_bands;
    rows->n_columns = p->n_columns;
    rows->capacity = rows->keys = c->keys;
    rows->target_error = id->target_error;
    bands->layout = columns->layout = LAYOUT_TABLE;
    bands->content = CONTENT_BANDS;
    columns->content = CONTENT_COLUMNS;
    bands->n_entries = p->n_bands;
    columns->n_entries = p->n_columns;
    bands->used_bytes = place_offset(p->n_bands, p->n_columns);
    columns->used_bytes = (uint64_t)job->index->n_pages * PAGE_BYTES;
    bands->target_error = columns->target_error = 1;
    align_up_u64(bands->used_bytes, PAGE_BYTES, &bands->length);
    columns->length = columns->used_bytes;
    uint64_t at = PAGE_BYTES;
    for (size_t i = 0; i < PACK_STAGES; i++)
        at = stage_place(&c->stages[i], at);
    c->committed_bytes = at;
}

static void packed_describe(const struct pack_job *job, struct identity *id,
                            struct commit *c)
{
    const struct pack_index *x = job->index;
    const struct tamis_identity who = {.store_uuid = job->store_uuid};
    header_begin(KIND_PACK, &job->domain, &who, job->uuid, id, c);
    c->n_stages = PACK_STAGES;
    c->keys = x->keys;
    id->target_error = x->target_error > ERROR_MAX ? ERROR_MAX : x->target_error;
    packed_lay_out(job, id, c);
}

int pack_file_bytes(struct pack_job *job, uint64_t *n_bytes)
{
    struct identity id;
    struct commit c;
    int err = pack_index_new(job);
    if (err)
        return err;
    packed_describe(job, &id, &c);
    *n_bytes = c.committed_bytes;
    return 0;
}

static int write_all(struct pack_job *job, int fd, uint64_t *table_digest,
                     uint64_t *file_bytes)
{
    struct identity id;
    struct commit c;
    packed_describe(job, &id, &c);
    int err = io_refuse_network(fd);
    if (!err)
        err = packed_write_stage(job, fd, &c.stages[PACK_ROWS], packed_write_rows);
    if (!err)
        err = packed_write_stage(job, fd, &c.stages[PACK_BANDS], write_bands);
    if (!err)
        err = packed_write_stage(job, fd, &c.stages[PACK_COLUMNS], write_columns);
    if (err)
        return err;
    *table_digest = commit_table_digest(&c);
    *file_bytes = c.committed_bytes;
    return header_write(fd, &id, &c);
}

int pack_write(struct pack_job *job, int dir, const char *name, uint64_t *table_digest,
               uint64_t *file_bytes, struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = io_create_temp(dir, name, temp, &fd);
    if (err) {
        pack_index_free(job);
        return diag_errno(diag, err, name, "cannot create");
    }
    err = pack_index_new(job);
    if (!err)
        err = write_all(job, fd, table_digest, file_bytes);
    pack_index_free(job);
    err = io_finish(err, dir, temp, name, fd, false);
    return err ? diag_made(diag, err, name, "cannot write") : 0;
}
