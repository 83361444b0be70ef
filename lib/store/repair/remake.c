/* Repair: filters made anew from their segments' lists, before anything else is
 * decided. A list that is good and whole says what its filter must have, so it finds a
 * filter that is wrong, and replaces one that is lost or damaged. It puts each filter
 * in an edit of its own. With filters/ locked exclusively no other edit goes on, so
 * that its snapshot, and the files that this names, stay as they are judged. */
#include "lib/store/repair/inside.h"
#include "lib/store/snapshot/snapshot.h"

enum { AT_ONCE = 4096 }; /* hashes */

struct remake {
    struct repair *repair;
    uint64_t hashes[AT_ONCE], absent[AT_ONCE / 64];
    struct tamis_diag why;
    char what[320];
};

/* ---- is a filter what its list says? ---- */

static bool is_gone(int rc)
{
    return rc == ENOENT || rc == TAMIS_ERR_NOT_TAMIS || rc == TAMIS_ERR_DAMAGED ||
           rc == TAMIS_ERR_MISMATCH;
}

/* How many hashes of the list the filter lacks. */
static int count_lacking(struct remake *m, struct tamis_filter *list,
                         struct tamis_filter *filter, uint64_t *n_hashes, uint64_t *n)
{
    struct tamis_domain domain = tamis_snapshot_info(m->repair->snapshot).domain;
    struct tamis_list_cursor *cursor;
    enum tamis_reason why;
    size_t got = 0;
    int rc = tamis_list_cursor_create(list, &cursor, &m->why);
    if (rc)
        return rc;
    *n_hashes = *n = 0;
    do {
        rc = tamis_list_cursor_next(cursor, m->hashes, AT_ONCE, &got, &m->why);
        if (got)
            *n += tamis_filter_probe_batch(filter, domain.tag, m->hashes, got,
                                           m->absent, &why);
        *n_hashes += got;
    } while (!rc && got);
    tamis_list_cursor_free(cursor);
    return rc;
}

/* Sets m->what if the filter has to be made anew. An error: it cannot be judged. */
static int judge(struct remake *m, size_t index, struct tamis_filter *list)
{
    struct tamis_filter *filter;
    struct tamis_verify pages;
    uint64_t n_hashes, n;
    m->what[0] = 0;
    int rc = tamis_snapshot_filter(m->repair->snapshot, index, &filter, &m->why);
    if (!rc)
        rc = tamis_filter_verify(filter, &pages, &m->why);
    if (is_gone(rc)) {
        tamis_filter_close(filter);
        snprintf(m->what, sizeof m->what, "%.120s: made anew from its list",
                 m->why.what[0] ? m->why.what : tamis_strerror(rc));
        /* The list must be good to the end, also where nothing is made. */
        return tamis_filter_verify(list, &pages, &m->why);
    }
    if (!rc)
        rc = count_lacking(m, list, filter, &n_hashes, &n);
    tamis_filter_close(filter);
    if (!rc && n)
        snprintf(m->what, sizeof m->what,
                 "wrong: lacks %llu of the %llu hashes of its list: made anew from it",
                 (unsigned long long)n, (unsigned long long)n_hashes);
    return rc;
}

/* ---- one segment ---- */

static int remake_tell(struct remake *m, const struct tamis_segment_info *info)
{
    const struct repair_segment who = {.name = {info->name, info->name_bytes}};
    const char *file = strrchr(info->file, '/');
    repair_tell(m->repair, TAMIS_REPAIR_REBUILT | TELL_DONE, &who,
                file ? file + 1 : NULL, "%s", m->what);
    int rc = names_set(&m->repair->remade, info->name, info->name_bytes, 1);
    return rc ? diag_errno(m->repair->diag, rc, m->repair->path,
                           "making filters from lists")
              : 0;
}

static int put_anew(struct remake *m, size_t index, double error)
{
    struct tamis_edit *edit;
    const struct tamis_edit_options wait = {.size = sizeof wait,
                                            .timeout_ms = m->repair->opt.timeout_ms};
    int rc = tamis_edit_begin(m->repair->store, &wait, &edit, m->repair->diag);
    if (rc)
        return rc;
    rc = tamis_edit_from_list(edit, m->repair->snapshot, index, error, NULL,
                              m->repair->diag);
    bool made = !rc;
    if (made)
        rc = tamis_edit_commit(edit, m->repair->diag);
    if (!made || rc == TAMIS_ERR_BUSY)
        tamis_edit_abort(edit);
    return rc;
}

/* Has it a list of whole hashes that can be read? */
static struct tamis_filter *whole_list(struct remake *m, size_t index)
{
    struct tamis_filter *list;
    if (tamis_snapshot_list(m->repair->snapshot, index, &list, &m->why) != 0)
        return NULL;
    if (filter_list(list)->hash_bits == 64)
        return list;
    tamis_filter_close(list);
    return NULL;
}

static int remake_one(struct remake *m, size_t index)
{
    struct tamis_segment_info info;
    if (tamis_snapshot_segment(m->repair->snapshot, index, &info) != 0 ||
        info.state != TAMIS_SEGMENT_SEALED)
        return 0;
    struct tamis_filter *list = whole_list(m, index);
    if (!list)
        return 0;
    int rc = judge(m, index, list);
    tamis_filter_close(list);
    if (rc || !m->what[0])
        return 0; /* a bad list is for repair */
    if (!m->repair->opt.dry_run)
        rc = put_anew(m, index, info.error);
    return rc ? rc : remake_tell(m, &info);
}

int repair_remake(struct repair *r)
{
    struct remake *m = calloc(1, sizeof *m);
    if (!m)
        return diag_errno(r->diag, ENOMEM, r->path, "making filters from lists");
    m->repair = r;
    /* A new snapshot: files that an older one missed may have come back since. */
    int rc = snapshot_load(r->store->catalog, NULL, &r->snapshot, r->diag);
    size_t n = rc ? 0 : r->snapshot->n_loose; /* others have no list */
    for (size_t i = 0; i < n && !rc; i++) {
        rc = repair_stopped(r);
        if (!rc)
            rc = remake_one(m, i);
    }
    free(m);
    return rc;
}
