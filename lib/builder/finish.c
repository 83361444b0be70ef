/* Hashes -> sealed filter, in a file of ours or inside a file of the engine's.
 *
 * The filter is sized exactly, filled in private memory, digested and written
 * sequentially: that way it lands in large folios of the page cache, and no half-built
 * bit is ever mapped by anyone. The header is written last. */
#include "lib/builder/layer.h"
#include "lib/plan/plan.h"

int builder_describe(const struct tamis_builder *b, struct identity *id,
                     struct commit *c)
{
    header_begin(b->kind, &b->domain, &b->who, NULL, id, c);
    id->target_error = b->error;
    c->keys = b->n_keys;
    c->watermark = b->watermark;
    c->n_stages = 1;
    return b->failed;
}

/* A filter that aims at more than its builder's error says so: its target is true. */
static int plan_size(const struct tamis_builder *b, struct geometry *g, double *target)
{
    *target = b->error;
    if (!b->size.edit || b->size.n_keys != b->n_keys)
        return plan_sealed_geometry(b->n_keys, b->error, b->error, g);
    *g = b->size.geometry;
    if (b->size.error > b->error)
        *target = b->size.error;
    return 0;
}

static int plan_built(const struct tamis_builder *b, const uint8_t uuid[UUID_BYTES],
                      struct built *out)
{
    struct commit *c = &out->commit;
    struct tamis_plan plan;
    memset(out, 0, sizeof *out);
    builder_describe(b, &out->identity, c);
    memcpy(out->identity.uuid, uuid, UUID_BYTES);
    memcpy(c->uuid, uuid, UUID_BYTES);
    if (b->kind == KIND_RIBBON) {
        /* Its stages are known when they are made: for now its least size. */
        int err = plan_of_ribbon(b->n_keys, b->error, &plan);
        out->file_bytes = plan.file_bytes;
        return err;
    }
    struct stage_desc *s = &c->stages[0];
    int err = plan_size(b, &s->geometry, &s->target_error);
    if (err)
        return err;
    s->layout = LAYOUT_SPLIT_BLOCKS;
    s->capacity = s->keys = b->n_keys;
    out->identity.target_error = s->target_error;
    geometry_stage_bytes(&s->geometry, &s->length); /* as planned: it fits */
    out->file_bytes = c->committed_bytes = stage_place(s, PAGE_BYTES);
    return 0;
}

/* Threads take memory: as many run as fit beside the filter and its hashes. They never
 * send hashes to the spool; hashes that go there anyhow make room for some threads. */
static void choose_threads(struct tamis_builder *b, const struct geometry *g,
                           uint64_t filter_bytes)
{
    uint64_t alone = fill_memory(g, 1);
    uint64_t room = spool_leaves(b, filter_bytes + alone) + alone;
    b->n_at_work = b->n_threads;
    while (b->n_at_work > 1 && fill_memory(g, b->n_at_work) > room)
        b->n_at_work--;
}

/* All of a Bloom filter but its header. */
static int write_bloom(struct tamis_builder *b, int fd, uint64_t at,
                       struct built *built)
{
    struct stage_desc *s = &built->commit.stages[0];
    uint64_t n_bytes = s->length + digests_bytes(s->length / PAGE_BYTES);
    choose_threads(b, &s->geometry, n_bytes);
    int err = spool_settle(b, n_bytes + fill_memory(&s->geometry, b->n_at_work));
    struct hash_list all = {b->hashes, b->n_hashes, b->n_hashes};
    return err ? err
               : bits_write(b, fd, at, s, b->n_spooled ? NULL : &all, &b->came_in,
                            b->n_at_work, NULL);
}

static int write_filter(struct tamis_builder *b, int fd, uint64_t at,
                        struct built *built)
{
    uint8_t header[PAGE_BYTES];
    if (built->file_bytes > SIZE_MAX / 2 || at > INT64_MAX - built->file_bytes)
        return EFBIG;
    int err = b->kind == KIND_RIBBON ? ribbon_write(b, fd, at, built)
                                     : write_bloom(b, fd, at, built);
    if (err)
        return err;
    identity_encode(&built->identity, header);
    commit_encode(&built->commit, SLOT_BIRTH, header + IDENTITY_BYTES);
    if (b->checks && !check_header(b, header, built->file_bytes))
        return TAMIS_ERR_DAMAGED;
    return io_write(fd, header, sizeof header, at);
}

static int plan_or_fail(struct tamis_builder *b, const uint8_t *uuid, const char *path,
                        struct built *built, struct tamis_diag *diag)
{
    b->spool_failed = b->spool_damaged = false; /* by an earlier finish */
    if (b->failed)
        return diag_errno(diag, b->failed, path, "an earlier add failed");
    int err = plan_built(b, uuid, built);
    memcpy(built->identity.set_id, builder_set_id(b), UUID_BYTES);
    return err ? diag_fail(diag, err, path, "%llu keys are too many for one filter",
                           (unsigned long long)b->n_keys)
               : 0;
}

/* Cancellation is held off: a thread that was cancelled while it writes would leave its
 * threads behind, at work on its stack; and memory, and a temporary file. */
int builder_finish_at(struct tamis_builder *b, const uint8_t uuid[UUID_BYTES], int dir,
                      const char *name, bool sync_dir, struct built *built,
                      struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd = -1, err = plan_or_fail(b, uuid, name, built, diag);
    if (err)
        return err;
    int before = io_hold_cancel();
    err = io_create_temp(dir, name, temp, &fd);
    if (err) {
        diag_errno(diag, err, name, "cannot create");
    } else {
        err = io_refuse_network(fd);
        if (!err)
            err = write_filter(b, fd, 0, built);
        err = io_finish(err, dir, temp, name, fd, sync_dir);
        if (err)
            err = builder_cannot(b, err, name, "cannot write", diag);
    }
    io_let_cancel(before);
    return err;
}

static int finish_path(struct tamis_builder *b, const char *path, bool is_list,
                       uint64_t *n_bytes, struct tamis_diag *diag)
{
    struct built built;
    struct list_written written;
    uint8_t uuid[UUID_BYTES];
    const char *base;
    int dir, before = io_hold_cancel();
    io_calls.random(uuid, sizeof uuid);
    int err = io_open_new(path, &dir, &base, diag);
    if (!err) {
        err = is_list ? builder_list_at(b, uuid, dir, base, true, &written, diag)
                      : builder_finish_at(b, uuid, dir, base, true, &built, diag);
        close(dir);
    }
    if (err)
        diag_in(diag, path);
    else
        *n_bytes = is_list ? written.file_bytes : built.file_bytes;
    io_let_cancel(before);
    return err;
}

static int finish_inside(struct tamis_builder *b, const struct tamis_finish_options *o,
                         uint64_t *n_bytes, struct tamis_diag *diag)
{
    struct built built;
    uint8_t uuid[UUID_BYTES];
    if (o->list || o->offset % PAGE_BYTES != 0 || o->offset > INT64_MAX)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         o->list ? "a list has a file of its own"
                                 : "a filter starts at a multiple of 4096");
    io_calls.random(uuid, sizeof uuid);
    int err = plan_or_fail(b, uuid, NULL, &built, diag);
    if (err)
        return err;
    int before = io_hold_cancel();
    err = write_filter(b, o->fd, o->offset, &built);
    io_let_cancel(before);
    if (err)
        return builder_cannot(b, err, NULL, "cannot write", diag);
    *n_bytes = built.file_bytes;
    return 0;
}

int tamis_builder_finish(struct tamis_builder *b, const char *path,
                         const struct tamis_finish_options *opt, uint64_t *n_bytes,
                         struct tamis_diag *diag)
{
    struct tamis_finish_options o;
    uint64_t none, *length = n_bytes ? n_bytes : &none;
    *length = 0;
    diag_clear(diag);
    if (options_copy(&o, sizeof o, opt) || (!path && !opt))
        return diag_fail(diag, TAMIS_ERR_RANGE, path, "options are not valid");
    int err = builder_rename(b, &o.identity, diag);
    return err    ? err
           : path ? finish_path(b, path, o.list != 0, length, diag)
                  : finish_inside(b, &o, length, diag);
}
