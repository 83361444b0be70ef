/* Putting a segment that is made from others, without their keys: a filter from their
 * filters, or from a list, and a list from their lists. The sources are a snapshot's:
 * they stay open whatever becomes of their segments. */
#include "lib/store/edit/inside.h"
#include "lib/derive/derive.h"

/* ---- lists as sources ---- */

/* A list's file says little to people: the words get the segment's name. */
static void say_whose(const struct tamis_snapshot *s, size_t index,
                      struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    struct tamis_diag words;
    if (!diag)
        return;
    diag_fail(&words, 0, NULL, "the list of segment '%s': %s",
              segment_text(text, s, index), diag->what);
    memcpy(diag->what, words.what, sizeof words.what);
}

/* Opens a list that a filter can be made of: it has to have whole hashes. */
static int open_whole_list(const struct tamis_edit *edit,
                           const struct tamis_snapshot *s, size_t index,
                           struct tamis_filter **list, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    int rc = tamis_snapshot_list(s, index, list, diag);
    if (rc == TAMIS_ERR_NO_SEGMENT)
        diag_in(diag, edit->catalog->path);
    else if (rc && rc != TAMIS_ERR_RANGE)
        say_whose(s, index, diag);
    uint32_t bits = rc ? 0 : filter_list(*list)->hash_bits;
    if (rc || bits == 64)
        return rc;
    tamis_filter_close(*list);
    *list = NULL;
    return diag_fail(diag, TAMIS_ERR_UNFIT, edit->catalog->path,
                     "the list of segment '%s' has %u bit%s of each hash: a filter "
                     "needs all 64",
                     segment_text(text, s, index), bits, bits == 1 ? "" : "s");
}

/* Names the segment if the file that failed is its list, because of a bad page. */
static void say_page(const struct tamis_snapshot *s, size_t index,
                     const struct tamis_filter *list, int rc, struct tamis_diag *diag)
{
    const char *its = strrchr(filter_path(list), '/');
    const char *failed = diag ? strrchr(diag->file, '/') : NULL;
    if (rc == TAMIS_ERR_DAMAGED && its && failed && strcmp(its, failed) == 0)
        say_whose(s, index, diag);
}

/* ---- a segment that is made of others ---- */

struct making {
    struct tamis_edit *edit;
    struct piece name;
    struct tamis_snapshot *snapshot;
    const size_t *segments; /* of it */
    size_t n;
    struct tamis_diag *diag;
    struct tamis_segment_options opt;
    struct tamis_filter **sources; /* filters, or lists */
    struct edit_put how;
    size_t old; /* the source that has the name; SIZE_MAX: none */
};

/* A segment that takes the name of one of its sources replaces it, and only as the
 * snapshot has it: the keys of a newer filter would be lost. Without `replace` that
 * source was dropped, and its list with it. */
static int find_replaced(struct making *m)
{
    char text[NAME_TEXT_BYTES];
    struct tamis_segment_info info;
    m->how.replaces = m->opt.replace;
    m->old = SIZE_MAX;
    for (size_t i = 0; i < m->n; i++)
        if (tamis_snapshot_segment(m->snapshot, m->segments[i], &info) == 0 &&
            info.state && info.name_bytes == m->name.n &&
            memcmp(info.name, m->name.at, m->name.n) == 0) {
            memcpy(m->how.old, info.uuid, UUID_BYTES);
            m->how.only = true;
            m->old = m->segments[i];
        }
    if (!m->how.only || m->how.replaces)
        return 0;
    return diag_fail(
        m->diag, TAMIS_ERR_RANGE, m->edit->catalog->path,
        "segment '%s' is a source, and was dropped: use `replace` in place "
        "of a drop, or begin anew with the store as it is now",
        name_text(text, m->name.at, m->name.n));
}

/* Checks the call, and opens the filters of the segments, or their lists. Call
 * making_end() whatever the result. */
static int making_begin(struct making *m, const struct tamis_segment_options *opt,
                        bool lists)
{
    const struct catalog *c = m->edit ? m->edit->catalog : NULL;
    struct tamis_snapshot *s = m->snapshot;
    int rc = edit_put_begin(m->edit, m->name.at, m->name.n, &m->opt, opt, m->diag);
    if (rc)
        return rc;
    if (!s || !m->segments || !m->n)
        return diag_fail(m->diag, TAMIS_ERR_RANGE, c->path, "no segments are given");
    if (s->dir != c->filters)
        return diag_fail(m->diag, TAMIS_ERR_MISMATCH, c->path,
                         "the snapshot is of another store");
    /* A binding would vouch for the result though none has for its sources (SPEC.md
     * section 13.10, "uncommitted edit"). */
    if (!s->complete)
        return diag_fail(m->diag, TAMIS_ERR_MISMATCH, c->path,
                         "the list was rebuilt: compare it with the engine's, confirm "
                         "it, then combine its filters");
    if ((rc = find_replaced(m)))
        return rc;
    m->sources = calloc(m->n, sizeof(struct tamis_filter *));
    if (!m->sources)
        return diag_errno(m->diag, ENOMEM, c->path, "combining segments");
    for (size_t i = 0; i < m->n && !rc; i++)
        rc = lists
                 ? open_whole_list(m->edit, s, m->segments[i], &m->sources[i], m->diag)
                 : segment_filter(s, m->segments[i], entry_filter, &m->sources[i],
                                  m->diag);
    return rc;
}

static void making_end(struct making *m)
{
    for (size_t i = 0; m->sources && i < m->n; i++)
        tamis_filter_close(m->sources[i]);
    free(m->sources);
}

/* The range is from the least key of any source to the greatest. If a source's range is
 * unknown, so is the result's. */
static void range_over(const struct making *m, struct record *r)
{
    for (size_t i = 0; i < m->n; i++) {
        struct facts its;
        if (segment_facts(m->snapshot, m->segments[i], &its, NULL) != 0 ||
            !its.disk.has_range) {
            r->first_bytes = r->last_bytes = 0;
            return;
        }
        struct piece first = column_first(&its), last = column_last(&its);
        if (i == 0 ||
            name_compare(first, (struct piece){r->first, r->first_bytes}) < 0) {
            memcpy(r->first, first.at, first.n);
            r->first_bytes = (uint16_t)first.n;
        }
        if (i == 0 || name_compare(last, (struct piece){r->last, r->last_bytes}) > 0) {
            memcpy(r->last, last.at, last.n);
            r->last_bytes = (uint16_t)last.n;
        }
    }
    r->has_range = 1;
}

/* Nothing was put: `ours` says why. A diagnosis of a source keeps the path of the
 * source's file. */
static int not_made(const struct making *m, int rc, const char *file,
                    const struct tamis_diag *ours)
{
    if (m->diag)
        *m->diag = *ours;
    return strcmp(ours->file, file) == 0 ? edit_not_put(m->edit, rc, file, m->diag)
                                         : rc;
}

/* ---- from filters ---- */

/* A fold has the keys of its source, so if it takes the source's place it keeps the
 * list: not if the filter was moved since. */
static void keep_list(const struct tamis_snapshot *s, size_t index,
                      const struct tamis_derivation *what, struct edit_put *how,
                      struct record *r)
{
    if ((what->operation != TAMIS_FOLD && what->operation != TAMIS_SHRINK) ||
        !segment_list(s, index, r->list_uuid, &r->list_digest))
        return;
    how->keeps_list = true;
    how->as = s->entries[index];
}

static int put_derived(struct making *m, const struct tamis_derivation *what,
                       struct tamis_derive_report *report)
{
    struct tamis_edit *e = m->edit;
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    struct built made;
    struct tamis_diag ours;
    struct tamis_derive_options d = {.size = sizeof d,
                                     .identity = edit_identity(e, m->name, &m->opt),
                                     .watermark = m->opt.watermark};
    struct derive_to to = {.name = file, .dir = e->dir.fd, .uuid = uuid, .made = &made};
    edit_new_file(uuid, file);
    int rc = derive(m->sources, m->n, what, &d, &to, report, &ours);
    if (rc)
        return not_made(m, rc, file, &ours);
    struct record r = record_of_commit(&made.commit, made.identity.target_error,
                                       made.identity.created, m->opt.rank);
    range_over(m, &r);
    if (m->how.only)
        keep_list(m->snapshot, m->old, what, &m->how, &r);
    return edit_put_append(e, m->name.at, m->name.n, &r, &m->how, m->diag);
}

int tamis_edit_derive(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                      const struct tamis_derivation *what,
                      const struct tamis_segment_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct making m = {.edit = edit,
                       .name = {name, name_bytes},
                       .snapshot = snapshot,
                       .segments = segments,
                       .n = n,
                       .diag = diag};
    if (report)
        memset(report, 0, sizeof *report);
    int rc = making_begin(&m, opt, false);
    if (!rc)
        rc = put_derived(&m, what, report);
    making_end(&m);
    if (rc && rc != TAMIS_ERR_UNFIT && report)
        memset(report, 0, sizeof *report);
    return rc;
}

/* ---- a filter from the segment's own list ---- */

/* Call it with the list open. `like`: its record, and the range of its keys. */
static int put_from(struct tamis_edit *edit, struct piece name,
                    struct tamis_filter *list, const struct record *like,
                    const struct edit_put *how, double error,
                    const struct tamis_segment_options *opt, struct tamis_diag *diag)
{
    struct tamis_builder *b;
    int rc = tamis_edit_builder(edit, name.at, name.n, error, opt, &b, diag);
    if (rc)
        return rc;
    rc = builder_add_list(b, list, diag);
    if (!rc)
        rc = edit_put_built(edit, b, like, how, diag);
    tamis_builder_free(b);
    return rc;
}

static int from_list(struct tamis_edit *edit, struct entry *e, const struct record *r,
                     struct tamis_filter *list, double error,
                     struct tamis_segment_options *opt, struct tamis_diag *diag)
{
    struct edit_put how = {.keeps_list = true, .replaces = true, .only = true, .as = e};
    memcpy(how.old, r->uuid, UUID_BYTES);
    opt->size = sizeof *opt;
    opt->binding = r->binding;
    opt->binding_bytes = r->binding_bytes;
    opt->rank = r->rank;
    opt->watermark = r->watermark;
    opt->list_bits = 0;
    opt->replace = 1;
    return put_from(edit, entry_name(e), list, r, &how, error, opt, diag);
}

int edit_may_remake(const struct tamis_edit *e, const struct tamis_snapshot *s,
                    size_t index, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    const struct entry *of = loose_entry(s, index);
    if (!of || !le64_get(entry_record(of)->ro_compat))
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, e->catalog->path,
                     "segment '%s' has a feature of a newer version, which a new "
                     "filter would lack",
                     segment_text(text, s, index));
}

int tamis_edit_from_list(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                         size_t index, double error,
                         const struct tamis_segment_options *opt,
                         struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    struct tamis_filter *list;
    struct record r;
    int rc = edit_usable(edit, diag);
    if (!rc && options_copy(&ours, sizeof ours, opt))
        rc = diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                       "size of the option struct");
    if (!rc && (!snapshot || snapshot->dir != edit->catalog->filters))
        rc = diag_fail(diag, TAMIS_ERR_MISMATCH, edit->catalog->path,
                       "the snapshot is of another store");
    if (!rc)
        rc = open_whole_list(edit, snapshot, index, &list, diag);
    if (rc)
        return rc;
    /* A segment with a list has a record, which was good when the snapshot was made. */
    struct entry *e = snapshot->entries[index];
    entry_decode(e, &r);
    rc = edit_may_remake(edit, snapshot, index, diag);
    if (!ours.kind)
        ours.kind = r.kind;
    if (!rc)
        rc = from_list(edit, e, &r, list, error, &ours, diag);
    say_page(snapshot, index, list, rc, diag);
    tamis_filter_close(list);
    return rc;
}

/* ---- several lists to one, and its filter ---- */

static int put_merged(struct making *m, double error, struct tamis_merge_report *report)
{
    struct tamis_edit *e = m->edit;
    char file[FILTER_NAME_BYTES];
    struct tamis_filter *list;
    struct list_written written;
    struct tamis_diag ours;
    struct tamis_merge_options o = {.size = sizeof o,
                                    .identity = edit_identity(e, m->name, &m->opt),
                                    .watermark = m->opt.watermark};
    struct list_target to = {.dir = e->dir.fd, .name = file};
    struct record like = {.has_range = 0};
    edit_new_file(to.uuid, file);
    int rc = list_merge(m->sources, m->n, &o, &to, report, &written, &ours);
    if (rc)
        return not_made(m, rc, file, &ours);
    range_over(m, &like);
    memcpy(like.list_uuid, to.uuid, UUID_BYTES);
    like.list_digest = written.table_digest;
    m->opt.list_bits = 0;
    m->opt.size = sizeof m->opt;
    rc = filters_open_list(e->catalog->filters, &e->catalog->domain, to.uuid,
                           written.table_digest, &list, m->diag);
    if (!rc) {
        rc = put_from(e, m->name, list, &like, &m->how, error, &m->opt, m->diag);
        tamis_filter_close(list);
    }
    if (rc)
        filter_file_unlink(e->dir.fd, to.uuid);
    return rc;
}

int tamis_edit_merge(struct tamis_edit *edit, const void *name, size_t name_bytes,
                     struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                     double error, const struct tamis_segment_options *opt,
                     struct tamis_merge_report *report, struct tamis_diag *diag)
{
    struct making m = {.edit = edit,
                       .name = {name, name_bytes},
                       .snapshot = snapshot,
                       .segments = segments,
                       .n = n,
                       .diag = diag};
    struct tamis_merge_report none;
    report = report ? report : &none;
    memset(report, 0, sizeof *report);
    int rc = making_begin(&m, opt, true);
    if (!rc)
        rc = put_merged(&m, error, report);
    for (size_t i = 0; m.sources && i < n; i++)
        if (m.sources[i])
            say_page(snapshot, segments[i], m.sources[i], rc, diag);
    making_end(&m);
    if (rc)
        memset(report, 0, sizeof *report);
    return rc;
}
