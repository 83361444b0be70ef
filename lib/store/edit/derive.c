/* Putting a segment that is made from others, without their keys: a filter from their
 * filters, or from a list, and a list from their lists. The sources are a snapshot's:
 * they stay open whatever becomes of their segments. */
#include "lib/store/edit/inside.h"
#include "lib/derive/derive.h"
#include "lib/list/list.h"

/* ---- sources ---- */

struct sources {
    struct tamis_snapshot *snapshot;
    const size_t *segments;
    size_t n;
};

/* May a segment be made from n segments of the snapshot? */
static int edit_check_sources(const struct tamis_edit *e,
                              const struct tamis_snapshot *s, const size_t *segments,
                              size_t n, struct tamis_diag *diag)
{
    if (!s || !segments || !n)
        return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                         "no segments are given");
    if (s->dir != e->catalog->filters)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, e->catalog->path,
                         "the snapshot is of another store");
    /* A binding would vouch for the result though none has for its sources (SPEC.md
     * section 13.10, "uncommitted edit"). */
    if (!s->complete)
        return diag_fail(diag, TAMIS_ERR_MISMATCH, e->catalog->path,
                         "the list was rebuilt: compare it with the engine's, confirm "
                         "it, then combine its filters");
    return 0;
}

/* ---- the key range ---- */

/* The range is from the least key of any source to the greatest. If a source's range is
 * unknown, so is the result's. */
static void edit_range_over(const struct tamis_snapshot *s, const size_t *segments,
                            size_t n, struct record *r)
{
    for (size_t i = 0; i < n; i++) {
        struct record its;
        if (segment_record(s, segments[i], &its, NULL) != 0 || !its.has_range) {
            r->first_bytes = r->last_bytes = 0;
            return;
        }
        struct piece first = {its.first, its.first_bytes};
        struct piece last = {its.last, its.last_bytes};
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

/* ---- from filters ---- */

/* Nothing was put: `ours` says why. A diagnosis of a source keeps the path of the
 * source's file. */
static int not_made(const struct tamis_edit *e, int rc, const char *file,
                    const struct tamis_diag *ours, struct tamis_diag *diag)
{
    if (diag)
        *diag = *ours;
    return strcmp(ours->file, file) == 0 ? edit_not_put(e, rc, file, diag) : rc;
}

static int derive_file(struct tamis_edit *e, const void *name, size_t name_bytes,
                       struct tamis_filter *const *filters, size_t n,
                       const struct tamis_derivation *what,
                       const struct tamis_segment_options *opt, struct built *made,
                       struct tamis_derive_report *report, struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES];
    uint8_t uuid[UUID_BYTES];
    struct tamis_derive_options d = {
        .size = sizeof d,
        .identity.name = name,
        .identity.name_bytes = name_bytes,
        .identity.binding = opt->binding,
        .identity.binding_bytes = opt->binding_bytes,
        .identity.store_uuid = e->catalog->meta.store_uuid,
        .watermark = opt->watermark,
    };
    uuid_random(uuid);
    filter_file_name(uuid, file);
    struct derive_to to = {.name = file, .dir = e->dir.fd, .uuid = uuid, .made = made};
    struct tamis_diag ours;
    int rc = derive(filters, n, what, &d, &to, report, &ours);
    return rc ? not_made(e, rc, file, &ours, diag) : 0;
}

/* A segment that takes the name of one of its sources replaces it, and only as the
 * snapshot has it: the keys of a newer filter would be lost. Without `replace` that
 * source was dropped, and its list with it. *old: its number; SIZE_MAX: none. */
static int replaced_source(const struct tamis_edit *e, const struct sources *s,
                           const void *name, size_t name_bytes, struct edit_put *how,
                           size_t *old, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    struct tamis_segment_info info;
    *old = SIZE_MAX;
    for (size_t i = 0; i < s->n; i++)
        if (tamis_snapshot_segment(s->snapshot, s->segments[i], &info) == 0 &&
            info.state && info.name_bytes == name_bytes &&
            memcmp(info.name, name, name_bytes) == 0) {
            memcpy(how->old, info.uuid, UUID_BYTES);
            how->only = true;
            *old = s->segments[i];
        }
    if (!how->only || how->replaces)
        return 0;
    return diag_fail(diag, TAMIS_ERR_RANGE, e->catalog->path,
                     "segment '%s' is a source of its own: do not drop it first, but "
                     "use `replace`",
                     name_text(text, name, name_bytes));
}

/* A fold has the keys of its source, so if it takes the source's place it keeps the
 * list: not if the filter was moved since. */
static void keep_list(const struct tamis_snapshot *s, size_t index,
                      const struct tamis_derivation *what, struct edit_put *how,
                      struct record *r)
{
    if ((what->operation != TAMIS_FOLD && what->operation != TAMIS_SHRINK) ||
        !is_loose(s, index) || /* only a record has a list */
        !segment_list(s, index, r->list_uuid, &r->list_digest))
        return;
    how->keeps_list = true;
    how->as = s->entries[index];
}

static int put_derived(struct tamis_edit *e, const void *name, size_t name_bytes,
                       const struct sources *s, const struct tamis_derivation *what,
                       const struct tamis_segment_options *opt,
                       struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct tamis_filter **filters = calloc(s->n, sizeof(struct tamis_filter *));
    struct built *made = calloc(1, sizeof *made);
    struct edit_put how = {.replaces = opt->replace};
    size_t old;
    int rc = filters && made
                 ? replaced_source(e, s, name, name_bytes, &how, &old, diag)
                 : diag_errno(diag, ENOMEM, e->catalog->path, "combining filters");
    for (size_t i = 0; i < s->n && !rc; i++)
        rc = segment_filter(s->snapshot, s->segments[i], entry_filter, &filters[i],
                            diag);
    if (!rc)
        rc = derive_file(e, name, name_bytes, filters, s->n, what, opt, made, report,
                         diag);
    if (!rc) {
        struct record r = record_of_commit(&made->commit, made->identity.target_error,
                                           made->identity.created, opt->rank);
        edit_range_over(s->snapshot, s->segments, s->n, &r);
        if (how.only)
            keep_list(s->snapshot, old, what, &how, &r);
        rc = edit_put_append(e, name, name_bytes, &r, &how, diag);
    }
    for (size_t i = 0; filters && i < s->n; i++)
        tamis_filter_close(filters[i]);
    free(made);
    free(filters);
    return rc;
}

int tamis_edit_derive(struct tamis_edit *edit, const void *name, size_t name_bytes,
                      struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                      const struct tamis_derivation *what,
                      const struct tamis_segment_options *opt,
                      struct tamis_derive_report *report, struct tamis_diag *diag)
{
    struct sources s = {snapshot, segments, n};
    struct tamis_segment_options ours;
    if (report)
        memset(report, 0, sizeof *report);
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (!rc)
        rc = edit_check_sources(edit, snapshot, segments, n, diag);
    if (!rc)
        rc = put_derived(edit, name, name_bytes, &s, what, &ours, report, diag);
    if (rc && rc != TAMIS_ERR_UNFIT && report)
        memset(report, 0, sizeof *report);
    return rc;
}

/* ---- from lists ---- */

static struct tamis_segment_info about(const struct tamis_snapshot *s, size_t index)
{
    struct tamis_segment_info info;
    tamis_snapshot_segment(s, index, &info);
    return info;
}

/* A list's file says little to people: the words get the segment's name. */
static void say_whose(const struct tamis_snapshot *s, size_t index,
                      struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES], what[sizeof diag->what];
    struct tamis_segment_info e = about(s, index);
    if (!diag)
        return;
    memcpy(what, diag->what, sizeof what);
    snprintf(diag->what, sizeof diag->what,
             "the list of segment '%s': ", name_text(text, e.name, e.name_bytes));
    size_t n = strlen(diag->what), room = sizeof diag->what - 1 - n;
    memcpy(diag->what + n, what, room);
    diag->what[n + room] = 0;
}

/* Opens a list that a filter can be made of: it has to have whole hashes. */
static int open_list(const struct tamis_edit *edit, const struct tamis_snapshot *s,
                     size_t index, struct tamis_filter **list, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    int rc = tamis_snapshot_list(s, index, list, diag);
    if (rc == TAMIS_ERR_NO_SEGMENT)
        diag_in(diag, edit->catalog->path);
    else if (rc && rc != TAMIS_ERR_RANGE)
        say_whose(s, index, diag);
    if (rc)
        return rc;
    uint32_t bits = filter_list(*list)->hash_bits;
    if (bits == 64)
        return 0;
    tamis_filter_close(*list);
    *list = NULL;
    struct tamis_segment_info e = about(s, index);
    return diag_fail(diag, TAMIS_ERR_UNFIT, edit->catalog->path,
                     "the list of segment '%s' has %u bit%s of each hash: a filter "
                     "needs all 64",
                     name_text(text, e.name, e.name_bytes), bits, bits == 1 ? "" : "s");
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

/* ---- a filter from the segment's own list ---- */

/* Call it with the list open. */
static int put_from(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_filter *list, const struct edit_list *there,
                    double error, const struct tamis_segment_options *opt,
                    struct tamis_diag *diag)
{
    struct tamis_builder *b;
    int rc = tamis_edit_builder(edit, name, name_bytes, error, opt, &b, diag);
    if (rc)
        return rc;
    rc = builder_add_list(b, list, diag);
    if (!rc)
        rc = edit_put_built(edit, b, there, diag);
    tamis_builder_free(b);
    return rc;
}

static int from_list(struct tamis_edit *edit, struct tamis_snapshot *s, size_t index,
                     const struct record *r, struct tamis_filter *list, double error,
                     struct tamis_segment_options *opt, struct tamis_diag *diag)
{
    struct entry *e = s->entries[index];
    struct edit_list there = {
        .digest = r->list_digest,
        .how = {.keeps_list = true, .replaces = true, .only = true, .as = e},
        .range = r};
    memcpy(there.uuid, r->list_uuid, UUID_BYTES);
    memcpy(there.how.old, r->uuid, UUID_BYTES);
    opt->size = sizeof *opt;
    opt->binding = r->binding;
    opt->binding_bytes = r->binding_bytes;
    opt->rank = r->rank;
    opt->watermark = r->watermark;
    opt->list_bits = 0;
    opt->replace = 1;
    return put_from(edit, e->bytes, e->name_bytes, list, &there, error, opt, diag);
}

int edit_may_remake(const struct tamis_edit *e, const struct tamis_snapshot *s,
                    size_t index, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    const struct entry *of = is_loose(s, index) ? s->entries[index] : NULL;
    if (!of || !le64_get(entry_record(of)->ro_compat))
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, e->catalog->path,
                     "segment '%s' has a feature of a newer version, which a new "
                     "filter would lack",
                     name_text(text, of->bytes, of->name_bytes));
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
        rc = open_list(edit, snapshot, index, &list, diag);
    if (rc)
        return rc;
    /* A segment with a list has a record, which was good when the snapshot was made. */
    const struct entry *e = snapshot->entries[index];
    rc = verdict_error(entry_decode(e, &r).code);
    if (!rc)
        rc = edit_may_remake(edit, snapshot, index, diag);
    if (!rc && !ours.kind)
        ours.kind = r.kind;
    if (!rc)
        rc = from_list(edit, snapshot, index, &r, list, error, &ours, diag);
    say_page(snapshot, index, list, rc, diag);
    tamis_filter_close(list);
    return rc;
}

/* ---- several lists to one, and its filter ---- */

/* The merged list, which this edit has just written. */
static int open_merged(const struct tamis_edit *edit, const char *file,
                       struct tamis_filter **list, struct tamis_diag *diag)
{
    char path[STORE_PATH_BYTES];
    int fd;
    filters_dir_path(edit->catalog->filters, file, path);
    int rc = io_open_beneath(edit->dir.fd, file, O_RDONLY, &fd);
    if (rc)
        return diag_open(diag, rc, path, "opening the merged list");
    rc = filter_open_fd(fd, path, NULL, NULL, list, diag);
    close(fd);
    return rc;
}

static int merge_to(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_filter *const *lists, size_t n, double error,
                    const struct tamis_segment_options *opt, struct edit_list *there,
                    struct tamis_merge_report *report, struct tamis_diag *diag)
{
    char file[FILTER_NAME_BYTES];
    struct tamis_filter *list;
    struct list_written written;
    struct tamis_merge_options m = {
        .size = sizeof m,
        .identity = {.name = name,
                     .name_bytes = name_bytes,
                     .binding = opt->binding,
                     .binding_bytes = opt->binding_bytes,
                     .store_uuid = edit->catalog->meta.store_uuid},
        .watermark = opt->watermark,
    };
    struct list_target to = {.dir = edit->dir.fd, .name = file};
    uuid_random(to.uuid);
    filter_file_name(to.uuid, file);
    struct tamis_diag ours;
    int rc = list_merge(lists, n, &m, &to, report, &written, &ours);
    if (rc)
        return not_made(edit, rc, file, &ours, diag);
    memcpy(there->uuid, to.uuid, UUID_BYTES);
    there->digest = written.table_digest;
    rc = open_merged(edit, file, &list, diag);
    if (!rc) {
        rc = put_from(edit, name, name_bytes, list, there, error, opt, diag);
        tamis_filter_close(list);
    }
    if (rc)
        filter_file_unlink(edit->dir.fd, to.uuid);
    return rc;
}

int tamis_edit_merge(struct tamis_edit *edit, const void *name, size_t name_bytes,
                     struct tamis_snapshot *snapshot, const size_t *segments, size_t n,
                     double error, const struct tamis_segment_options *opt,
                     struct tamis_merge_report *report, struct tamis_diag *diag)
{
    struct tamis_segment_options ours;
    struct tamis_merge_report none;
    report = report ? report : &none;
    memset(report, 0, sizeof *report);
    int rc = edit_put_begin(edit, name, name_bytes, &ours, opt, diag);
    if (!rc)
        rc = edit_check_sources(edit, snapshot, segments, n, diag);
    if (rc)
        return rc;
    struct tamis_filter **lists = calloc(n, sizeof(struct tamis_filter *));
    struct record range = {.has_range = 0};
    struct sources s = {snapshot, segments, n};
    struct edit_list there = {.range = &range, .how.replaces = ours.replace};
    size_t old;
    rc = lists ? replaced_source(edit, &s, name, name_bytes, &there.how, &old, diag)
               : diag_errno(diag, ENOMEM, edit->catalog->path, "merging lists");
    for (size_t i = 0; i < n && !rc; i++)
        rc = open_list(edit, snapshot, segments[i], &lists[i], diag);
    if (!rc) {
        edit_range_over(snapshot, segments, n, &range);
        ours.list_bits = 0;
        ours.size = sizeof ours;
        rc = merge_to(edit, name, name_bytes, lists, n, error, &ours, &there, report,
                      diag);
    }
    for (size_t i = 0; i < n && lists; i++) {
        if (lists[i])
            say_page(snapshot, segments[i], lists[i], rc, diag);
        tamis_filter_close(lists[i]);
    }
    free(lists);
    if (rc)
        memset(report, 0, sizeof *report);
    return rc;
}
