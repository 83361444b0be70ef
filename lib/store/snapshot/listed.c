/* The lists of a snapshot's segments. They answer no probe, so none is kept open. */
#include "lib/store/snapshot/snapshot.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int open_list(const struct tamis_snapshot *s, const struct part_disk *p,
                     struct tamis_filter **out, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES], path[STORE_PATH_BYTES];
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .domain = &s->domain,
        .uuid = p->uuid,
        .table_digest = le64_get(p->table_digest),
    };
    int fd;
    filter_file_name(p->uuid, name);
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

static const struct part_disk *list_of(const struct tamis_snapshot *s, size_t index)
{
    const struct entry *e = is_loose(s, index) ? s->entries[index] : NULL;
    return e && e->state ? record_part(entry_record(e), PART_LIST) : NULL;
}

bool segment_list(const struct tamis_snapshot *s, size_t index,
                  uint8_t uuid[UUID_BYTES], uint64_t *digest)
{
    const struct part_disk *list = list_of(s, index);
    if (!list)
        return false;
    memcpy(uuid, list->uuid, UUID_BYTES);
    *digest = le64_get(list->table_digest);
    return true;
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
    const struct part_disk *list = list_of(snapshot, index);
    if (list)
        return open_list(snapshot, list, out, diag);
    struct tamis_segment_info info;
    tamis_snapshot_segment(snapshot, index, &info);
    return diag_fail(diag, TAMIS_ERR_NO_SEGMENT, snapshot->dir->path,
                     "segment '%s' has no list of its hashes: build it with one",
                     name_text(text, info.name, info.name_bytes));
}
