/* Orphans: files in filters/ that no record names, left by a process that died between
 * writing a file and committing its name, or between dropping a name and unlinking the
 * file (R13). */
#include "lib/store/edit/inside.h"
#include "format/record.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"
#include "lib/store/catalog/catalog.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct sweep {
    int dir;
    struct names live; /* UUIDs, as they lie in the catalog's pages */
    bool unsure;       /* a record can't be read: it may name any file */
};

static bool is_orphan(const struct sweep *s, const char *name)
{
    uint8_t uuid[UUID_BYTES];
    const char *rest;
    if (!filter_name_parse(name, uuid, &rest))
        return false; /* not a name of ours: not ours to remove */
    if (*rest)
        return filter_rest_temporary(rest);
    return !s->unsure && !names_get(&s->live, uuid, UUID_BYTES);
}

static int note_live(void *ctx, const void *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes)
{
    struct sweep *s = ctx;
    struct record r;
    struct verdict v = record_decode(value, value_bytes, name, name_bytes, &r);
    if (v.code != VERDICT_OK) {
        s->unsure = true;
        return 0;
    }
    if (r.state == RECORD_NO_FILTER)
        return 0;
    return names_set(&s->live, value + offsetof(struct record_disk, uuid), UUID_BYTES,
                     1);
}

static void unlink_orphans(const struct sweep *s)
{
    int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *e;
    bool any = false;
    while ((e = readdir(d)))
        if (is_orphan(s, e->d_name) && io_calls.unlinkat(s->dir, e->d_name, 0) == 0)
            any = true;
    closedir(d);
    if (any)
        io_sync_dir(s->dir);
}

/* In a write transaction: no name can take effect meanwhile, of an edit or of another
 * tool that repairs the catalog. It writes nothing. */
static int sweep_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct sweep *s = ctx;
    names_clear(&s->live);
    s->unsure = false;
    int rc = catalog_each(t, note_live, s, diag);
    if (!rc)
        unlink_orphans(s);
    names_clear(&s->live);
    return rc;
}

void sweep_orphans(struct catalog *c, int dir)
{
    struct sweep s = {.dir = dir};
    catalog_write(c, sweep_in, &s, NULL, NULL);
}
