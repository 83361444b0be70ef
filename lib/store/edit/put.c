/* The ways to put a segment into an edit: built, bare, growing, attached. Each writes
 * its file outside the edit's mutex, then appends one operation. */
#include "lib/store/edit/inside.h"
#include "lib/writer/writer.h"

struct tamis_identity edit_identity(const struct tamis_edit *e, struct piece name,
                                    const struct tamis_segment_options *opt)
{
    return (struct tamis_identity){.name = name.at,
                                   .name_bytes = name.n,
                                   .binding = opt->binding,
                                   .binding_bytes = opt->binding_bytes,
                                   .store_uuid = e->catalog->meta.store_uuid};
}

void edit_new_file(uint8_t uuid[UUID_BYTES], char file[FILTER_NAME_BYTES])
{
    uuid_random(uuid);
    filter_file_name(uuid, file);
}

/* ---- records ---- */

void edit_record_binding(struct record *r, struct piece binding)
{
    r->binding_bytes = (uint8_t)binding.n;
    memset(r->binding, 0, sizeof r->binding);
    if (binding.n)
        memcpy(r->binding, binding.at, binding.n);
}

struct record edit_bare_record(struct piece binding, uint32_t rank)
{
    struct record r = {
        .state = RECORD_NO_FILTER, .rank = rank, .created = io_calls.now()};
    edit_record_binding(&r, binding);
    return r;
}

void edit_record_range(struct record *r, const struct key_range *range)
{
    _Static_assert(sizeof range->first <= RANGE_MAX_BYTES &&
                       sizeof range->last <= RANGE_MAX_BYTES,
                   "a record has room for all that a builder keeps");
    if (!range->known)
        return;
    r->has_range = 1;
    r->first_bytes = (uint16_t)range->first_bytes;
    r->last_bytes = (uint16_t)range->last_bytes;
    memcpy(r->first, range->first, range->first_bytes);
    memcpy(r->last, range->last, range->last_bytes);
}

void edit_record_like(struct record *r, const struct record *like)
{
    r->has_range = like->has_range;
    r->first_bytes = like->first_bytes;
    r->last_bytes = like->last_bytes;
    memcpy(r->first, like->first, like->first_bytes);
    memcpy(r->last, like->last, like->last_bytes);
    memcpy(r->list_uuid, like->list_uuid, UUID_BYTES);
    r->list_digest = like->list_digest;
}

int edit_put_append(struct tamis_edit *e, const void *name, size_t name_bytes,
                    const struct record *r, const struct edit_put *how,
                    struct tamis_diag *diag)
{
    uint8_t value[RECORD_MAX_BYTES];
    bool has_file = r->state != RECORD_NO_FILTER;
    bool has_list = record_listed(r) && !how->keeps_list;
    size_t n = record_encode(r, name, name_bytes, value);
    struct edit_op *op = op_of_value(EDIT_PUT, name, name_bytes, value, n, 0);
    int rc;
    if (op) {
        memcpy(op->uuid, r->uuid, UUID_BYTES);
        memcpy(op->list_uuid, r->list_uuid, UUID_BYTES);
        op->listed = record_listed(r);
        op->has_file = has_file;
        op->has_list = has_list;
        op->how = *how;
        if (how->as)
            entry_hold(how->as);
        rc = edit_append(e, op, diag);
    } else {
        rc = diag_errno(diag, ENOMEM, e->catalog->path, "noting the segment");
    }
    if (rc && has_file)
        filter_file_unlink(e->dir.fd, r->uuid);
    if (rc && has_list)
        filter_file_unlink(e->dir.fd, r->list_uuid);
    return rc;
}

int edit_not_put(const struct tamis_edit *e, int rc, const char *file,
                 struct tamis_diag *diag)
{
    char path[STORE_PATH_BYTES];
    filters_dir_path(e->catalog->filters, file, path);
    diag_in(diag, path);
    return rc;
}

/* ---- built ---- */

int tamis_edit_builder(struct tamis_edit *edit, const void *name, size_t name_bytes,
                       double error, const struct tamis_segment_options *opt,
                       struct tamis_builder **out, struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    if (!out)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "nowhere to put the builder");
    *out = NULL;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    const struct catalog *c = edit->catalog;
    struct tamis_builder_options b = {
        .size = sizeof b,
        .domain = &c->domain,
        .error = error != 0 ? error : c->meta.target_error,
        .identity = edit_identity(edit, (struct piece){name, name_bytes}, &ours),
        .watermark = ours.watermark,
        .memory_limit = ours.memory_limit,
        .n_threads = ours.n_threads,
        .check = ours.check,
        .kind = ours.kind,
        .list_bits = ours.list_bits,
    };
    rc = tamis_builder_create(&b, out, diag);
    if (!rc)
        builder_set_edit(*out, ours.rank, error == 0, ours.replace);
    return rc;
}

int edit_check_built(const struct tamis_edit *e, const struct tamis_builder *b,
                     struct identity *id, struct commit *c, struct tamis_diag *diag)
{
    const struct catalog *to = e->catalog;
    int rc = builder_describe(b, id, c);
    if (builder_facts(b).domain.tag != to->domain.tag)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, to->path,
                         "built with another seed or hash than the store's domain");
    if (!all_zero(id->store_uuid, UUID_BYTES) &&
        memcmp(id->store_uuid, to->meta.store_uuid, UUID_BYTES) != 0)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, to->path,
                         "the builder was made for another store");
    return rc ? diag_errno(diag, rc, to->path, "an earlier add failed") : 0;
}

/* The list of the builder's hashes, if it is to have one. */
static int put_list(struct tamis_edit *edit, struct tamis_builder *builder,
                    struct record *r, struct tamis_diag *diag)
{
    struct list_written list;
    char file[FILTER_NAME_BYTES];
    if (!builder_facts(builder).list_bits)
        return 0;
    edit_new_file(r->list_uuid, file);
    int rc =
        builder_list_at(builder, r->list_uuid, edit->dir.fd, file, false, &list, diag);
    if (rc)
        return edit_not_put(edit, rc, file, diag);
    r->list_digest = list.table_digest;
    return 0;
}

static int put_built(struct tamis_edit *edit, struct tamis_builder *builder,
                     const struct record *like, const struct edit_put *how,
                     struct tamis_diag *diag)
{
    struct builder_facts f = {.name = NULL};
    if (builder)
        f = builder_facts(builder);
    struct tamis_segment_options ours, o = {.size = sizeof o, .replace = f.replaces};
    struct built built;
    int rc = edit_put_begin(edit, f.name, f.name_bytes, &ours, &o, diag);
    if (!rc)
        rc = edit_check_built(edit, builder, &built.identity, &built.commit, diag);
    if (rc)
        return rc;
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    edit_new_file(uuid, file);
    balance_choose(edit, builder);
    rc = builder_finish_at(builder, uuid, edit->dir.fd, file, false, &built, diag);
    if (rc)
        return edit_not_put(edit, rc, file, diag);
    struct record r = record_of_commit(&built.commit, built.identity.target_error,
                                       built.identity.created, f.rank);
    r.file_bytes = built.file_bytes;
    if (like) {
        edit_record_like(&r, like);
    } else {
        edit_record_range(&r, f.range);
        rc = put_list(edit, builder, &r, diag);
    }
    if (rc) {
        filter_file_unlink(edit->dir.fd, uuid);
        return rc;
    }
    struct edit_put plain = {.replaces = f.replaces};
    return edit_put_append(edit, f.name, f.name_bytes, &r, how ? how : &plain, diag);
}

int edit_put_built(struct tamis_edit *edit, struct tamis_builder *builder,
                   const struct record *like, const struct edit_put *how,
                   struct tamis_diag *diag)
{
    int rc = put_built(edit, builder, like, how, diag);
    balance_settle(edit, builder, rc == 0);
    return rc;
}

int tamis_edit_size(struct tamis_edit *edit, struct tamis_builder *builder,
                    struct tamis_diag *diag)
{
    int rc = edit_usable(edit, diag);
    if (!rc && !builder)
        rc = diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path, "no builder");
    if (!rc)
        balance_choose(edit, builder);
    return rc;
}

int tamis_edit_put(struct tamis_edit *edit, struct tamis_builder *builder,
                   const struct tamis_identity *as, struct tamis_diag *diag)
{
    int rc = edit_usable(edit, diag);
    if (!rc && builder)
        rc = builder_rename(builder, as, diag);
    return rc ? rc : edit_put_built(edit, builder, NULL, NULL, diag);
}

/* ---- bare and growing ---- */

int tamis_edit_put_bare(struct tamis_edit *edit, const void *name, size_t name_bytes,
                        const struct tamis_segment_options *opt,
                        struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    struct record r =
        edit_bare_record((struct piece){ours.binding, ours.binding_bytes}, ours.rank);
    struct edit_put how = {.replaces = ours.replace};
    return edit_put_append(edit, name, name_bytes, &r, &how, diag);
}

/* Fills in the store's defaults. */
static struct tamis_growth growth_of(const struct meta *m, const struct tamis_growth *g)
{
    struct tamis_growth all = g ? *g : (struct tamis_growth){.error = 0};
    all.error = all.error != 0 ? all.error : m->target_error;
    all.factor = all.factor != 0 ? all.factor : m->growth_factor;
    all.tightening = all.tightening != 0 ? all.tightening : m->tightening_ratio;
    all.first_capacity = all.first_capacity ? all.first_capacity : m->first_capacity;
    return all;
}

int tamis_edit_put_growing(struct tamis_edit *edit, const void *name, size_t name_bytes,
                           const struct tamis_growth *growth,
                           const struct tamis_segment_options *opt,
                           struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    const struct catalog *c = edit->catalog;
    struct tamis_writer_options w = {
        .size = sizeof w,
        .growth = growth_of(&c->meta, growth),
        .domain = &c->domain,
        .identity = edit_identity(edit, (struct piece){name, name_bytes}, &ours),
    };
    struct commit first;
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    edit_new_file(uuid, file);
    rc = writer_format(edit->dir.fd, file, &w, uuid, &first, diag);
    if (rc)
        return edit_not_put(edit, rc, file, diag);
    struct record r =
        record_of_commit(&first, w.growth.error, io_calls.now(), ours.rank);
    struct edit_put how = {.replaces = ours.replace};
    return edit_put_append(edit, name, name_bytes, &r, &how, diag);
}

/* ---- attached ---- */

/* A filter file that is copied into the edit's directory. The copy is checked before it
 * gets a name: damage in the source, or on the way, is refused and never laundered. */
struct attach {
    const struct tamis_edit *edit;
    struct tamis_diag *diag;
    const char *path;
    const void *name;
    size_t name_bytes;
    const struct tamis_segment_options *opt;
};

static int check_header(const struct attach *a, const struct header *h)
{
    const struct identity *id = &h->identity;
    const struct commit *c = &h->commit;
    const struct meta *m = &a->edit->catalog->meta;
    const struct piece its = {id->name, id->name_bytes},
                       bound = {c->binding, c->binding_bytes},
                       wanted = {a->opt->binding, a->opt->binding_bytes};
    if (!kind_is_single(id->kind))
        return diag_fail(
            a->diag, TAMIS_ERR_UNFIT, a->path,
            id->kind == KIND_LIST
                ? "a list of hashes: build the segment with --list, or "
                  "attach a Bloom filter"
                : "the filters of many segments: they can't be one segment's");
    if (c->state != STATE_SEALED)
        return diag_fail(a->diag, TAMIS_ERR_RANGE, a->path,
                         "still growing: seal it, then attach it");
    const char *what = NULL;
    if (!meta_hashes(m, id))
        what = "built with another seed: build it with the store's domain";
    else if (!all_zero(id->store_uuid, UUID_BYTES) &&
             memcmp(id->store_uuid, m->store_uuid, UUID_BYTES) != 0)
        what = "built for another store: build it for this one, or for none";
    else if (its.n && name_compare(its, (struct piece){a->name, a->name_bytes}) != 0)
        what = "built for another segment: attach it under its own name, or build it "
               "without one";
    else if (wanted.n && bound.n && name_compare(wanted, bound) != 0)
        what = "its binding differs: attach it without one, or build it anew";
    return what ? diag_fail(a->diag, TAMIS_ERR_MISMATCH, a->path, "%s", what) : 0;
}

static int in_store_already(const struct attach *a)
{
    return diag_fail(a->diag, TAMIS_ERR_EXISTS, a->path,
                     "this very filter is in the store already");
}

static int copy_file(const struct attach *a, int from, int to, uint64_t n_bytes)
{
    bool unreadable;
    int rc = filter_file_copy(from, to, n_bytes, &unreadable);
    if (rc == TAMIS_ERR_DAMAGED)
        return diag_fail(a->diag, rc, a->path, "shorter than its header says");
    return rc ? diag_errno(a->diag, rc, a->path, "copying into the store") : 0;
}

/* Checks every page of the copy, and that the copy is what was read a moment ago. */
static int check_copy(const struct attach *a, int fd, struct header *h)
{
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .domain = &a->edit->catalog->domain,
        .uuid = h->identity.uuid,
        .table_digest = commit_table_digest(&h->commit),
    };
    struct tamis_filter *f;
    struct tamis_verify report;
    int rc = filter_open_fd(fd, a->path, &opt, NULL, &f, a->diag);
    if (rc)
        return rc;
    rc = tamis_filter_verify(f, &report, a->diag);
    tamis_filter_close(f);
    if (!rc)
        rc = header_load(fd, true, 0, 0, a->path, h, a->diag);
    return rc ? rc : check_header(a, h);
}

static int copy_checked(const struct attach *a, int from, const char *name,
                        struct header *h)
{
    char temp[IO_TEMP_NAME_BYTES];
    int to;
    int rc = io_create_temp(a->edit->dir.fd, name, temp, &to);
    if (rc)
        return diag_errno(a->diag, rc, a->edit->catalog->filters->path,
                          "creating a file");
    rc = copy_file(a, from, to, h->commit.committed_bytes);
    if (!rc)
        rc = check_copy(a, to, h);
    int ended = io_finish(rc, a->edit->dir.fd, temp, name, to, false);
    if (rc || !ended)
        return rc;
    return ended == EEXIST ? in_store_already(a)
                           : diag_errno(a->diag, ended, a->path, "storing the copy");
}

/* Puts the copy under the name of its UUID; h is its header. */
static int attach_copy(const struct attach *a, struct header *h)
{
    char name[FILTER_NAME_BYTES];
    int from;
    int rc = io_open(a->path, O_RDONLY, &from);
    if (rc)
        return diag_open(a->diag, rc, a->path, "opening the filter to attach");
    rc = header_load(from, true, 0, 0, a->path, h, a->diag);
    if (!rc)
        rc = check_header(a, h);
    if (!rc) {
        filter_file_name(h->identity.uuid, name);
        /* Known without copying, most of the time; the rename decides. */
        if (faccessat(a->edit->dir.fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            rc = in_store_already(a);
    }
    if (!rc)
        rc = copy_checked(a, from, name, h);
    close(from);
    return rc;
}

int tamis_edit_attach(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      const char *path, const struct tamis_segment_options *opt,
                      struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (rc)
        return rc;
    if (!path)
        return diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path, "no file");
    struct attach a = {edit, diag, path, name, name_bytes, &ours};
    struct header h;
    rc = attach_copy(&a, &h);
    if (rc)
        return rc;
    struct record r = record_of_commit(&h.commit, h.identity.target_error,
                                       h.identity.created, ours.rank);
    if (ours.binding_bytes)
        edit_record_binding(&r, (struct piece){ours.binding, ours.binding_bytes});
    struct edit_put how = {.attached = true, .replaces = ours.replace};
    return edit_put_append(edit, name, name_bytes, &r, &how, diag);
}
