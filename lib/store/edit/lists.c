/* Segments made from lists, without keys: a filter of a segment's own list, and the
 * list and the filter of several segments' lists. */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/list/merge.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a filter from the segment's own list ---- */

static struct tamis_segment_options
options_of(const struct record *r, const struct tamis_segment_options *theirs)
{
    struct tamis_segment_options opt = {.size = sizeof opt};
    options_copy(&opt, sizeof opt, theirs);
    opt.size = sizeof opt;
    opt.binding = r->binding;
    opt.binding_bytes = r->binding_bytes;
    opt.rank = r->rank;
    opt.watermark = r->watermark;
    opt.list_bits = 0;
    return opt;
}

static void range_of(const struct record *r, struct key_range *range)
{
    range->known = r->has_range;
    range->first_bytes = r->first_bytes;
    range->last_bytes = r->last_bytes;
    memcpy(range->first, r->first, r->first_bytes);
    memcpy(range->last, r->last, r->last_bytes);
}

/* With the list open, and the name free. */
static int put_from(struct tamis_edit *edit, const void *name, size_t name_bytes,
                    struct tamis_filter *list, const struct edit_list *there,
                    double error, const struct tamis_segment_options *opt,
                    struct tamis_diag *diag)
{
    struct tamis_builder *b;
    int rc = tamis_edit_builder(edit, name, name_bytes, error, opt, &b, diag);
    if (rc)
        return rc;
    rc = tamis_builder_add_list(b, list, diag);
    if (!rc)
        rc = edit_put_built(edit, b, there, diag);
    tamis_builder_free(b);
    return rc;
}

static int from_list(struct tamis_edit *edit, const struct entry *e,
                     struct tamis_filter *list, double error,
                     const struct tamis_segment_options *theirs,
                     struct tamis_diag *diag)
{
    struct record r;
    struct key_range *range = calloc(1, sizeof *range);
    if (!range)
        return diag_errno(diag, ENOMEM, edit->catalog->path, "making a filter");
    record_decode(e->bytes + e->name_bytes, e->value_bytes, e->bytes, e->name_bytes,
                  &r);
    struct tamis_segment_options opt = options_of(&r, theirs);
    struct edit_list there = {
        .digest = r.list_digest, .how = PUT_KEEPS_LIST, .range = range};
    memcpy(there.uuid, r.list_uuid, UUID_BYTES);
    range_of(&r, range);
    int rc = tamis_edit_drop_filter(edit, e->bytes, e->name_bytes, r.uuid, diag);
    if (!rc)
        rc = put_from(edit, e->bytes, e->name_bytes, list, &there, error, &opt, diag);
    free(range);
    return rc;
}

int edit_may_remake(const struct tamis_edit *e, const struct entry *segment,
                    struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    if (!(le64_get(entry_record(segment)->ro_compat) & ~RECORD_RO_COMPAT_KNOWN))
        return 0;
    return diag_fail(diag, TAMIS_ERR_VERSION, e->catalog->path,
                     "segment '%s' has a feature of a newer version, which a new "
                     "filter would lack",
                     name_text(text, segment->bytes, segment->name_bytes));
}

int tamis_edit_from_list(struct tamis_edit *edit, struct tamis_snapshot *snapshot,
                         size_t index, double error,
                         const struct tamis_segment_options *opt,
                         struct tamis_diag *diag)
{
    struct tamis_segment_options check;
    struct tamis_filter *list;
    int rc = edit_usable(edit, diag);
    if (!rc && options_copy(&check, sizeof check, opt))
        rc = diag_fail(diag, TAMIS_ERR_RANGE, edit->catalog->path,
                       "size of the option struct");
    if (!rc && (!snapshot || snapshot->dir != edit->catalog->filters))
        rc = diag_fail(diag, TAMIS_ERR_MISMATCH, edit->catalog->path,
                       "the snapshot is of another store");
    if (!rc)
        rc = tamis_snapshot_list(snapshot, index, &list, diag);
    if (rc)
        return rc;
    rc = edit_may_remake(edit, snapshot->entries[index], diag);
    if (!rc)
        rc = from_list(edit, snapshot->entries[index], list, error, opt, diag);
    tamis_filter_close(list);
    return rc;
}

/* ---- several lists to one, and its filter ---- */

static int open_lists(const struct tamis_snapshot *s, const size_t *segments, size_t n,
                      struct tamis_filter **lists, struct tamis_diag *diag)
{
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = tamis_snapshot_list(s, segments[i], &lists[i], diag);
    return rc;
}

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
    int rc = list_merge(lists, n, &m, &to, report, &written, diag);
    if (rc)
        return rc;
    memcpy(there->uuid, to.uuid, UUID_BYTES);
    there->digest = written.table_digest;
    there->how = PUT_NEW;
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
    struct key_range *range = calloc(1, sizeof *range);
    struct edit_list there = {.range = range};
    rc = lists && range
             ? open_lists(snapshot, segments, n, lists, diag)
             : diag_errno(diag, ENOMEM, edit->catalog->path, "merging lists");
    if (!rc) {
        range->known = edit_range_over(snapshot, segments, n, range);
        ours.list_bits = 0;
        ours.size = sizeof ours;
        rc = merge_to(edit, name, name_bytes, lists, n, error, &ours, &there, report,
                      diag);
    }
    for (size_t i = 0; i < n && lists; i++)
        tamis_filter_close(lists[i]);
    free(lists);
    free(range);
    if (rc)
        memset(report, 0, sizeof *report);
    return rc;
}
