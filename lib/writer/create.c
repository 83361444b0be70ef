/* Creating the file of a growing filter: a draft under a temporary name, with header
 * and first stage, which gets its name when all of it is durable (R13). */
#include "lib/writer/inside.h"
#include "lib/filter/filter.h"
#include "lib/plan/plan.h"

static int check_options(struct tamis_writer_options *o, struct tamis_diag *diag)
{
    if (growth_complete(&o->growth))
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL,
                         "growth outside P 1e-8..0.5, s 1.25..16, r 0.5..0.95, "
                         "n0 1..2^32");
    int err = identity_check(&o->identity, diag);
    return err ? err : domain_check(o->domain, diag);
}

static void new_record(const struct tamis_writer_options *o,
                       const uint8_t uuid[UUID_BYTES], struct identity *id,
                       struct commit *c)
{
    struct tamis_domain domain;
    tamis_domain_random(&domain);
    if (o->domain)
        domain = *o->domain;
    header_begin(KIND_BLOOM, &domain, &o->identity, uuid, id, c);
    id->header_pages = 3;
    id->growth_rule = GROWTH_GEOMETRIC;
    id->target_error = o->growth.error;
    id->growth_factor = o->growth.factor;
    id->tightening_ratio = o->growth.tightening;
    id->first_capacity = o->growth.first_capacity;
    io_calls.random(id->set_id, sizeof id->set_id);
    c->state = STATE_OPEN;
    c->n_stages = 1;
}

static int write_new(int fd, const struct identity *id,
                     const struct tamis_writer_options *o, struct commit *c)
{
    int err = stage_plan(&o->growth, 0, HEADER_MAX_BYTES, &c->stages[0]);
    if (err)
        return err;
    c->committed_bytes =
        c->stages[0].floors_offset + floors_bytes(c->stages[0].length / PAGE_BYTES);
    err = stage_allocate(fd, id, &c->stages[0]);
    return err ? err : header_write(fd, id, c);
}

/* A temporary file with everything in it but its name; nothing stays on failure. */
static int write_draft(int dir, const char *name,
                       const struct tamis_writer_options *opt,
                       const uint8_t uuid[UUID_BYTES], char temp[IO_TEMP_NAME_BYTES],
                       int *fd, struct commit *c, struct tamis_diag *diag)
{
    struct tamis_writer_options o;
    struct identity id;
    int err = options_copy(&o, sizeof o, opt);
    if (err)
        return diag_fail(diag, err, name, "options are not valid");
    err = check_options(&o, diag);
    if (err)
        return err;
    err = io_create_temp(dir, name, temp, fd);
    if (err)
        return diag_errno(diag, err, name, "cannot create");
    new_record(&o, uuid, &id, c);
    err = io_refuse_network(*fd);
    if (!err)
        err = write_new(*fd, &id, &o, c);
    if (!err)
        return 0;
    io_discard(dir, temp, *fd);
    return diag_made(diag, err, name, "cannot create");
}

int writer_format(int dir, const char *name, const struct tamis_writer_options *opt,
                  const uint8_t uuid[UUID_BYTES], struct commit *c,
                  struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, err = write_draft(dir, name, opt, uuid, temp, &fd, c, diag);
    if (err)
        return err;
    err = io_finish(0, dir, temp, name, fd, false);
    return err ? diag_made(diag, err, name, "cannot create") : 0;
}

/* The file gets its name last, with its writer in it: a creation that fails leaves
 * nothing, and no other writer has added to a file that it removes. */
static int create_in(int dir, const char *base, const char *path,
                     const struct tamis_writer_options *opt, struct tamis_writer **out,
                     struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    struct io_guarded_fd opened;
    struct commit c;
    int fd;
    io_calls.random(uuid, sizeof uuid);
    int err = write_draft(dir, base, opt, uuid, temp, &fd, &c, diag);
    if (err)
        return err;
    close(fd); /* a fork may have copied it: what will be locked is opened anew */
    err = io_open_guarded(dir, temp, O_RDWR, &opened);
    err = err ? diag_errno(diag, err, path, "cannot open")
              : writer_open_path(&opened, path, out, diag);
    if (!err) {
        err = io_publish(dir, temp, base, (*out)->guard.fd, true);
        if (!err)
            return 0;
        err = diag_made(diag, err, base, "cannot create");
    }
    io_calls.unlinkat(dir, temp, 0);
    if (*out)
        writer_free(*out);
    *out = NULL;
    return err;
}

/* A thread that was cancelled in here would leave a temporary file. */
int tamis_writer_create(const char *path, const struct tamis_writer_options *opt,
                        struct tamis_writer **out, struct tamis_diag *diag)
{
    struct tamis_writer_options o;
    const char *base;
    int dir, before = io_hold_cancel();
    *out = NULL;
    diag_clear(diag);
    options_copy(&o, sizeof o, opt); /* create_in() refuses what is not valid */
    int err = io_open_new(path, &dir, &base, diag);
    if (!err) {
        err = create_in(dir, base, path, opt, out, diag);
        close(dir);
    }
    if (err)
        diag_in(diag, path);
    else if (o.one_thread)
        writer_own(*out);
    io_let_cancel(before);
    return err;
}
