/* The lists of a snapshot's segments. They answer no probe, so none is kept open. */
#include "lib/store/snapshot/snapshot.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"

#include <fcntl.h>
#include <unistd.h>

static int open_list(const struct tamis_snapshot *s, const struct record_disk *r,
                     struct tamis_filter **out, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .domain = &s->domain,
        .uuid = r->list_uuid,
        .table_digest = le64_get(r->list_digest),
    };
    int fd;
    filter_file_name(r->list_uuid, name);
    filters_dir_path(s->dir, name, path);
    int rc = io_open_beneath(s->dir->fd, name, O_RDONLY, &fd);
    if (rc)
        return diag_open(diag, rc, path, "opening the list");
    rc = filter_open_fd(fd, path, &opt, NULL, out, diag);
    close(fd);
    if (rc || filter_list(*out))
        return rc;
    tamis_filter_close(*out);
    *out = NULL;
    return diag_fail(diag, TAMIS_ERR_MISMATCH, path, "a filter, not a list of hashes");
}

int tamis_snapshot_list(const struct tamis_snapshot *snapshot, size_t index,
                        struct tamis_filter **out, struct tamis_diag *diag)
{
    char text[NAME_TEXT_BYTES];
    diag_clear(diag);
    if (out)
        *out = NULL;
    if (!out || !snapshot || index >= snapshot->n || !snapshot->dir)
        return diag_fail(diag, TAMIS_ERR_RANGE, NULL, "no segment of that number");
    const struct entry *e = snapshot->entries[index];
    const struct record_disk *r = e->state ? entry_record(e) : NULL;
    if (r && !all_zero(r->list_uuid, UUID_BYTES))
        return open_list(snapshot, r, out, diag);
    return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, snapshot->dir->path,
                     "segment '%s' has no list of its hashes: build it with one",
                     name_text(text, e->bytes, e->name_bytes));
}
