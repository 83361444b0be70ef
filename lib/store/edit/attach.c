/* Attaching: a sealed filter file that was built elsewhere is copied into the store.
 * It is the copy that is checked, every page, before it gets a name: damage in the
 * source, or on the way, is refused and never laundered. */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/error.h"
#include "lib/filter/filter.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int mismatch(const struct attach *a, struct tamis_diag *diag, const char *what)
{
    return diag_fail(diag, TAMIS_ERR_MISMATCH, a->path, "%s", what);
}

static int check_header(const struct attach *a, const struct header *h,
                        struct tamis_diag *diag)
{
    const struct identity *id = &h->identity;
    const struct commit *c = &h->commit;
    const struct meta *m = &a->catalog->meta;
    if (!kind_is_single(id->kind))
        return diag_fail(
            diag, TAMIS_ERR_UNFIT, a->path,
            id->kind == KIND_LIST
                ? "a list of hashes: build the segment with --list, or "
                  "attach a Bloom filter"
                : "the filters of many segments: they can't be one segment's");
    if (c->state != STATE_SEALED)
        return diag_fail(diag, TAMIS_ERR_RANGE, a->path,
                         "still growing: seal it, then attach it");
    if (id->hash_id != m->hash_id || id->hash_seed != m->hash_seed)
        return mismatch(a, diag,
                        "built with another seed: build it with the store's domain");
    if (!all_zero(id->store_uuid, UUID_BYTES) &&
        memcmp(id->store_uuid, m->store_uuid, UUID_BYTES) != 0)
        return mismatch(a, diag,
                        "built for another store: build it for this one, or for none");
    if (id->name_bytes &&
        (id->name_bytes != a->name_bytes || memcmp(id->name, a->name, id->name_bytes)))
        return mismatch(a, diag,
                        "built for another segment: attach it under its own name, or "
                        "build it without one");
    if (a->binding_bytes && c->binding_bytes &&
        (a->binding_bytes != c->binding_bytes ||
         memcmp(a->binding, c->binding, a->binding_bytes) != 0))
        return mismatch(a, diag,
                        "its binding differs: attach it without one, or build it anew");
    return 0;
}

/* ---- copying ---- */

static int copy_file(const struct attach *a, int from, int to, uint64_t n_bytes,
                     struct tamis_diag *diag)
{
    bool unreadable;
    int rc = filter_file_copy(from, to, n_bytes, &unreadable);
    if (rc == TAMIS_ERR_DAMAGED)
        return diag_fail(diag, rc, a->path, "shorter than its header says");
    return rc ? diag_errno(diag, rc, a->path, "copying into the store") : 0;
}

/* Every page of the copy, and that it is what was read a moment ago. */
static int check_copy(const struct attach *a, int fd, struct header *h,
                      struct tamis_diag *diag)
{
    struct tamis_filter_options opt = {
        .size = sizeof opt,
        .domain = &a->catalog->domain,
        .uuid = h->identity.uuid,
        .table_digest = commit_table_digest(&h->commit),
    };
    struct tamis_filter *f;
    struct tamis_verify report;
    int rc = filter_open_fd(fd, a->path, &opt, NULL, &f, diag);
    if (rc)
        return rc;
    rc = tamis_filter_verify(f, &report, diag);
    tamis_filter_close(f);
    if (!rc)
        rc = header_load(fd, true, 0, 0, a->path, h, diag);
    return rc ? rc : check_header(a, h, diag);
}

static int publish(const struct attach *a, const char *temp, const char *name, int fd,
                   struct tamis_diag *diag)
{
    int rc = io_publish(a->dir, temp, name, fd, false);
    if (rc == EEXIST)
        return diag_fail(diag, TAMIS_ERR_EXISTS, a->path,
                         "this very filter is in the store already");
    return rc ? diag_errno(diag, rc, a->path, "storing the copy") : 0;
}

static int copy_checked(const struct attach *a, int from, const char *name,
                        struct header *h, struct tamis_diag *diag)
{
    char temp[IO_TEMP_NAME_BYTES];
    int to;
    int rc = io_create_temp(a->dir, name, temp, &to);
    if (rc)
        return diag_errno(diag, rc, a->catalog->filters->path, "creating a file");
    rc = copy_file(a, from, to, h->commit.committed_bytes, diag);
    if (!rc)
        rc = check_copy(a, to, h, diag);
    if (!rc)
        rc = publish(a, temp, name, to, diag);
    if (rc)
        io_discard(a->dir, temp, to);
    else
        close(to);
    return rc;
}

int attach_copy(const struct attach *a, struct header *h, struct tamis_diag *diag)
{
    char name[FILTER_NAME_BYTES];
    int from;
    int rc = io_open(a->path, O_RDONLY, &from);
    if (rc)
        return diag_open(diag, rc, a->path, "opening the filter to attach");
    rc = header_load(from, true, 0, 0, a->path, h, diag);
    if (!rc)
        rc = check_header(a, h, diag);
    if (!rc) {
        filter_file_name(h->identity.uuid, name);
        /* Known without copying, most of the time; publish() decides. */
        if (faccessat(a->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            rc = diag_fail(diag, TAMIS_ERR_EXISTS, a->path,
                           "this very filter is in the store already");
    }
    if (!rc)
        rc = copy_checked(a, from, name, h, diag);
    close(from);
    return rc;
}
