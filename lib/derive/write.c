/* A sealed filter whose pages come one after the other: its stages, then the header, in
 * a file that gets its name last. */
#include "lib/derive/inside.h"
#include "lib/page/stage_writer.h"

/* ---- stages ---- */

static int write_stage(struct derived *d, uint32_t stage, int fd)
{
    struct stage_desc *s = &d->commit.stages[stage];
    struct stage_writer *w;
    int err = stage_writer_new(fd, s, &w);
    if (err)
        return err;
    for (uint64_t page = 0; page < s->length / PAGE_BYTES && !err; page++) {
        uint8_t *out = stage_writer_room(w);
        recipe_page(&d->recipes[stage], page, out, &d->n_damaged);
        derived_count_page(d, stage, page, out);
        err = stage_writer_put(w);
    }
    s->root = stage_writer_end(w);
    return err;
}

/* Places of the stages behind a header that has room for them (SPEC.md §6). False: it
 * would be longer than a file may be. */
static bool derived_lay_out(struct derived *d)
{
    struct commit *c = &d->commit;
    d->identity.header_pages = c->n_stages > MAX_BIRTH_STAGES ? 3 : 1;
    uint64_t at = (uint64_t)d->identity.header_pages * PAGE_BYTES;
    for (uint32_t i = 0; i < c->n_stages; i++) {
        struct stage_desc *s = &c->stages[i];
        s->layout = LAYOUT_SPLIT_BLOCKS;
        if (!geometry_stage_bytes(&s->geometry, &s->length))
            return false;
        uint64_t digests = digests_bytes(s->length / PAGE_BYTES);
        if (at > INT64_MAX - s->length || at + s->length > INT64_MAX - digests)
            return false;
        at = stage_place(s, at);
    }
    c->committed_bytes = at;
    return true;
}

/* ---- the whole file ---- */

static int derived_write_all(struct derived *d, int fd)
{
    int err = io_refuse_network(fd);
    if (!err && !derived_lay_out(d))
        err = EFBIG;
    for (uint32_t i = 0; i < d->commit.n_stages && !err; i++)
        err = write_stage(d, i, fd);
    if (err)
        return err;
    derived_judge(d);
    if (d->most_error > 0 && derived_error(&d->commit) > d->most_error)
        return TAMIS_ERR_UNFIT;
    return header_write(fd, &d->identity, &d->commit);
}

/* ---- its file (R13) ---- */

static int write_in(struct derived *d, int dir, const char *name, bool sync_dir)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = io_create_temp(dir, name, temp, &fd);
    if (err)
        return err;
    return io_finish(derived_write_all(d, fd), dir, temp, name, fd, sync_dir);
}

int derived_write(struct derived *d, const struct derive_to *to)
{
    const char *name = to->name, *file = name ? name : to->path;
    int dir = to->dir, err = 0;
    if (!file)
        return diag_fail(d->diag, TAMIS_ERR_RANGE, NULL, "no path for the result");
    if (!name)
        err = io_open_new(file, &dir, &name, d->diag);
    if (err)
        return err;
    err = write_in(d, dir, name, !to->name);
    if (!to->name)
        close(dir);
    if (err == TAMIS_ERR_UNFIT)
        return diag_fail(d->diag, err, NULL,
                         "its error would be %.3g, for some of its blocks are fuller "
                         "than keys make them: build it anew from its keys",
                         derived_error(&d->commit));
    return err ? diag_made(d->diag, err, file, "cannot write") : 0;
}
