/* Orphans: files in filters/ that no record names, left by a process that died between
 * writing a file and committing its name, or between dropping a name and unlinking the
 * file (R13); and columns of packs that no record names, left likewise (R18). */
#include "lib/store/edit/inside.h"
#include "format/pack.h"
#include "format/record.h"
#include "lib/io/io.h"
#include "lib/store/base/base.h"
#include "lib/store/catalog/catalog.h"

#include <errno.h>
#include <stdlib.h>

struct sweep {
    int dir;
    struct names live;  /* UUIDs of filters and packs, as they lie in the catalog */
    struct names packs; /* of packs: index + 1 of the next */
    struct used *used;
    size_t n_packs;
    bool unsure;   /* a record can't be read: it may name any file */
    bool any_gone; /* of the orphans */
    bool done;     /* nothing failed */
};

/* The columns of a pack that records name. */
struct used {
    struct pack_place place;
    uint8_t *columns; /* a bit each */
};

static bool is_orphan(const struct sweep *s, const char *name)
{
    uint8_t uuid[UUID_BYTES];
    const char *rest;
    if (!filter_name_parse(name, uuid, &rest) && !dead_name_parse(name, uuid, &rest))
        return false; /* not a name of ours: not ours to remove */
    if (*rest)
        return filter_rest_temporary(rest);
    return !s->unsure && !names_get(&s->live, uuid, UUID_BYTES);
}

/* ---- what records name ---- */

static int note_column(struct sweep *s, const struct part_disk *part)
{
    const struct pack_place place = part_place(part);
    uint32_t at = names_get(&s->packs, part->uuid, UUID_BYTES);
    if (place.column >= PACK_MAX_COLUMNS) /* the record is refused */
        return names_set(&s->live, part->uuid, UUID_BYTES, 1);
    if (!at) {
        struct used *more = realloc(s->used, (s->n_packs + 1) * sizeof *more);
        if (!more)
            return ENOMEM;
        s->used = more;
        s->used[s->n_packs] =
            (struct used){place, calloc(1, (size_t)PACK_MAX_COLUMNS / 8)};
        at = (uint32_t)++s->n_packs;
        if (!s->used[at - 1].columns ||
            names_set(&s->packs, part->uuid, UUID_BYTES, at))
            return ENOMEM;
    }
    s->used[at - 1].columns[place.column / 8] |= (uint8_t)(1U << place.column % 8);
    return names_set(&s->live, part->uuid, UUID_BYTES, 1);
}

/* A part of a kind that this version lacks keeps its file, too. */
static int note_live(void *ctx, const void *name, size_t name_bytes,
                     const uint8_t *value, size_t value_bytes)
{
    struct sweep *s = ctx;
    unsigned n;
    int rc = 0;
    const struct part_disk *p = record_parts(value, value_bytes, name, name_bytes, &n);
    s->unsure |= p == NULL;
    for (unsigned i = 0; i < n && !rc; i++)
        rc = p[i].kind == PART_COLUMN ? note_column(s, &p[i])
                                      : names_set(&s->live, p[i].uuid, UUID_BYTES, 1);
    return rc;
}

static void sweep_forget(struct sweep *s)
{
    for (size_t i = 0; i < s->n_packs; i++)
        free(s->used[i].columns);
    free(s->used);
    names_clear(&s->live);
    names_clear(&s->packs);
    s->used = NULL;
    s->n_packs = 0;
    s->unsure = false;
}

/* ---- what they do not name ---- */

/* Columns without a record and without a tombstone. */
static bool bury_unused(const struct sweep *s)
{
    struct buffer columns = {0};
    bool done = true;
    for (size_t i = 0; i < s->n_packs; i++) {
        const struct used *u = &s->used[i];
        uint8_t *file;
        uint32_t n;
        if (dead_load(s->dir, u->place.uuid, u->place.digest, &file, &n) != 0)
            continue;
        for (uint32_t c = 0; c < n; c++) {
            struct pack_place place = u->place;
            place.column = c;
            if (!(u->columns[c / 8] >> c % 8 & 1) &&
                !(file[DEAD_HEAD_BYTES + c / 8] >> c % 8 & 1) &&
                bury_later(&columns, &place) != 0) {
                done = false;
                break;
            }
        }
        free(file);
    }
    done &= bury_in(s->dir, &columns);
    free(columns.bytes);
    return done;
}

/* Calls fn for each orphan until it returns false, which is the result. */
typedef bool orphan_fn(struct sweep *s, const char *name);

static bool each_orphan(struct sweep *s, orphan_fn *fn)
{
    DIR *d = dir_list(s->dir, ".");
    if (!d)
        return false;
    const struct dirent *e;
    bool all = true;
    while (all && (e = readdir(d)))
        all = !is_orphan(s, e->d_name) || fn(s, e->d_name);
    closedir(d);
    return all;
}

/* Files of the first draft are not ours to remove, nor anything beside them. */
static bool is_no_draft(struct sweep *s, const char *name)
{
    return !filter_file_is_draft(s->dir, name);
}

static bool unlink_orphan(struct sweep *s, const char *name)
{
    bool gone = io_calls.unlinkat(s->dir, name, 0) == 0;
    s->any_gone |= gone;
    s->done &= gone || errno == ENOENT || errno == EISDIR; /* no file of ours */
    return true;
}

static void unlink_orphans(struct sweep *s)
{
    s->any_gone = false;
    s->done &= each_orphan(s, unlink_orphan);
    if (s->any_gone)
        s->done &= io_sync_dir(s->dir) == 0;
}

/* In a write transaction: no name can take effect meanwhile, of an edit or of another
 * tool that repairs the catalog. It writes nothing. */
static int sweep_in(struct catalog_txn *t, void *ctx, struct tamis_diag *diag)
{
    struct sweep *s = ctx;
    sweep_forget(s);
    int rc = catalog_each(t, note_live, s, diag);
    s->done = !rc && each_orphan(s, is_no_draft);
    if (s->done) {
        s->done = s->unsure || bury_unused(s);
        unlink_orphans(s);
    }
    sweep_forget(s);
    return rc;
}

bool sweep_orphans(struct catalog *c, int dir)
{
    struct sweep s = {.dir = dir};
    struct io_wait not_at_all = {.timeout_ms = -1}; /* it is not urgent */
    return catalog_write(c, &not_at_all, sweep_in, &s, NULL, NULL) == 0 && s.done;
}
