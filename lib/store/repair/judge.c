/* Repair: what one file in filters/ is worth. Only bytes decide: a file that can't be
 * read just now (an I/O error, no permission, a newer format, a writer at work) is left
 * where it is, for none of that says that it is damaged. */
#include "lib/store/repair/inside.h"
#include "lib/filter/kind.h"
#include "lib/store/snapshot/snapshot.h"
#include "lib/writer/writer.h"

#include <stdarg.h>

__attribute__((format(printf, 3, 4))) static int
say(struct judgement *j, enum file_state state, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(j->what, sizeof j->what, format, args);
    va_end(args);
    j->state = state;
    return 0;
}

/* Not to be judged now, for a reason that says nothing about its bytes. */
static int unread(struct judgement *j, int code, const char *why, const char *what)
{
    j->code = code;
    return say(j, FILE_UNREAD, "%s: %.100s", why, what);
}

int repair_header(int dir, const char *name, struct header *h)
{
    memset(h, 0, sizeof *h);
    int fd, rc = io_open_beneath(dir, name, O_RDONLY, &fd);
    if (rc)
        return rc;
    rc = header_load(fd, true, 0, 0, name, h, NULL);
    close(fd);
    return rc;
}

int repair_identify(int dir, const char *name, struct identity *id)
{
    struct header h;
    int rc = repair_header(dir, name, &h);
    *id = h.identity;
    return rc > 0 ? rc : 0;
}

bool repair_is_ours(const struct repair *r, const struct identity *id)
{
    return (all_zero(id->store_uuid, UUID_BYTES) ||
            memcmp(id->store_uuid, r->meta.store_uuid, UUID_BYTES) == 0) &&
           meta_hashes(&r->meta, id);
}

/* ---- what the file says of itself ---- */

/* A writer mends its own file: a slot that is torn for a moment is not ours to judge. A
 * writer that has just closed the file has left it whole: we read it again. */
static int judge_header(int fd, const char *name, struct judgement *j)
{
    for (int tries = 0;; tries++) {
        struct tamis_diag diag = {0};
        bool busy;
        int rc = header_load(fd, true, 0, 0, name, &j->h, &diag);
        j->has_identity = !all_zero(j->h.identity.uuid, UUID_BYTES);
        if (!rc)
            return say(j, FILE_GOOD, "good");
        if (rc > 0 || rc == TAMIS_ERR_VERSION)
            return unread(j, rc, "left alone", diag.what);
        if (tries > 0)
            return say(j, FILE_BAD, "%.150s", diag.what);
        rc = io_is_locked(fd, LOCK_WRITER, &busy);
        if (rc)
            return unread(j, rc, "left alone", tamis_strerror(rc));
        if (busy)
            return unread(j, TAMIS_ERR_BUSY, "left to the writer that has it open",
                          diag.what);
    }
}

/* ---- what the catalog knows of it ---- */

static const char *not_the_one(const struct repair *r, const struct record *record,
                               const struct header *h)
{
    if (!meta_hashes(&r->meta, &h->identity))
        return "another hash or seed than the store's";
    if (record)
        return record_mismatch(record, h);
    return repair_is_ours(r, &h->identity) ? NULL : "the filter of another store";
}

/* ---- pages ---- */

/* The rules of a kind that has some, if the pages can be read and are good. */
static int judge_rules(int fd, const char *name, struct tamis_verify *v)
{
    struct tamis_filter *f;
    int rc = filter_open_fd(fd, name, NULL, NULL, &f, NULL);
    if (rc)
        return rc;
    rc = tamis_filter_verify(f, v, NULL);
    tamis_filter_close(f);
    return rc == TAMIS_ERR_DAMAGED ? 0 : rc;
}

/* A page of a sealed filter that fails is rot: the filter goes. A file of many filters
 * stays: a page is a small part of them. In one that grows, a page below its floors
 * counts as ones, and its writer condemns it for good before it uses it: the filter is
 * more use, to its writer too, where it is. */
static int judge_pages(int fd, const char *name, struct judgement *j)
{
    struct tamis_verify v;
    int rc = filter_scrub(fd, &j->h, &v);
    if (!rc && !v.n_damaged && kind_find(j->h.identity.kind)->judge)
        rc = judge_rules(fd, name, &v);
    if (rc)
        return unread(j, rc, "left alone", tamis_strerror(rc));
    j->rotten = v.n_damaged && j->h.commit.state == STATE_SEALED &&
                j->h.identity.kind != KIND_PACK;
    if (v.n_damaged)
        return say(j, j->rotten ? FILE_BAD : FILE_GOOD,
                   "%llu of %llu pages fail their check, the first at byte %llu",
                   (unsigned long long)v.n_damaged, (unsigned long long)v.n_pages,
                   (unsigned long long)v.first_damaged);
    j->what[0] = 0;
    return 0;
}

/* ---- what a dead writer left ---- */

static const char *unfinished(const struct record *record, const struct header *h)
{
    const struct commit *c = &h->commit;
    if (h->identity.header_pages != 3)
        return NULL;
    if (c->state == STATE_OPEN && !c->clean)
        return "its writer died: recovered";
    if (!header_is_mirrored(h))
        return "a commit slot is torn or behind: mirrored";
    if (!record || record->state != RECORD_GROWING)
        return NULL;
    if (c->state == STATE_SEALED)
        return "sealed, and the catalog did not know: followed";
    if (c->n_stages > record->min_stages || c->generation > record->generation)
        return "grown, and the catalog did not know: followed";
    return NULL;
}

static int settle_locked(int fd, const char *name, struct header *h,
                         struct tamis_diag *diag)
{
    int rc = io_lock(fd, LOCK_WRITER);
    if (rc)
        return rc < 0 ? rc : diag_errno(diag, rc, name, "cannot lock");
    rc = seal_settle(fd, name, h, diag);
    io_unlock(fd, LOCK_WRITER);
    return rc;
}

/* As any writer does when it opens the file: with the catalog, if there is one. A dry
 * run sees only whether the file may be opened. */
static int finish_file(struct repair *r, const struct repair_segment *segment,
                       const struct record *record, const char *name,
                       struct tamis_diag *diag)
{
    struct tamis_writer *w = NULL;
    struct io_guarded_fd g;
    struct header h;
    int rc;
    if (!r->opt.dry_run && r->store && record && record->state == RECORD_GROWING) {
        struct tamis_segment_writer_options opt = {.size = sizeof opt,
                                                   .timeout_ms = r->opt.timeout_ms};
        rc = tamis_store_writer(r->store, segment->name.at, segment->name.n, &opt, &w,
                                diag);
    } else {
        rc = io_open_guarded(r->filters.fd, name, O_RDWR, &g);
        if (rc)
            return diag_errno(diag, rc, name, "opening a filter to finish it");
        if (r->opt.dry_run) {
            io_unguard_fd(&g);
            return 0;
        }
        rc = header_load(g.fd, true, 0, 0, name, &h, diag);
        if (!rc && h.commit.state == STATE_OPEN) {
            rc = writer_open_fd(&g, name, NULL, &w, diag); /* takes it over */
        } else {
            rc = rc ? rc : settle_locked(g.fd, name, &h, diag);
            io_unguard_fd(&g);
        }
    }
    if (!rc && w && (rc = tamis_writer_close(w, NULL)) != 0)
        rc = rc > 0 ? diag_errno(diag, rc, name, "closing a filter that was recovered")
                    : diag_fail(diag, rc, name, "%s", tamis_strerror(rc));
    return rc;
}

/* Judges the header as it is now. Findings about the pages stay. */
static void judge_header_again(int fd, const char *name, struct judgement *j)
{
    char pages[sizeof j->what];
    memcpy(pages, j->what, sizeof pages);
    judge_header(fd, name, j);
    if (j->state == FILE_GOOD)
        memcpy(j->what, pages, sizeof pages);
}

/* Says why the file must be finished, if no writer is at work. A writer that has closed
 * it since has told the catalog before it let its lock go. */
static const char *left_unfinished(const struct repair *r,
                                   const struct repair_segment *segment,
                                   const struct record *record, const char *name,
                                   int fd, struct judgement *j)
{
    struct wanted now;
    bool busy;
    if (!unfinished(record, &j->h))
        return NULL;
    int rc = io_is_locked(fd, LOCK_WRITER, &busy);
    if (!rc && !busy && r->store && record && record->state == RECORD_GROWING) {
        now = (struct wanted){.name = {segment->name.at, segment->name.n}};
        rc = catalog_read(r->store->catalog, store_find_record, &now, NULL);
        record = &now.record;
    }
    if (rc)
        unread(j, rc, "left alone", tamis_strerror(rc));
    if (rc || busy)
        return NULL;
    judge_header_again(fd, name, j);
    return j->state == FILE_GOOD ? unfinished(record, &j->h) : NULL;
}

/* A filter that can't be finished is left: its writer comes again, and its answers hold
 * meanwhile. Only a new catalog must not list a filter that may not be durable. */
static int finish(struct repair *r, const struct repair_segment *segment,
                  const struct record *record, const char *name, int fd,
                  struct judgement *j)
{
    struct tamis_diag why = {0};
    const char *what = left_unfinished(r, segment, record, name, fd, j);
    if (!what)
        return 0;
    if (j->h.identity.ro_compat || j->h.commit.ro_compat ||
        (record && record->ro_compat))
        return unread(j, TAMIS_ERR_VERSION, "left unfinished",
                      "a feature of a newer tamis forbids this one to write");
    int rc = finish_file(r, segment, record, name, &why);
    if (rc == TAMIS_ERR_BUSY && !left_unfinished(r, segment, record, name, fd, j))
        return 0; /* a writer was faster */
    if (rc && rc != TAMIS_ERR_SEALED && r->store)
        return unread(j, rc, "left unfinished", why.what);
    if (rc && rc != TAMIS_ERR_SEALED) {
        if (r->diag)
            *r->diag = why;
        return rc;
    }
    j->finished = !r->opt.dry_run; /* sealed: followed now */
    repair_tell(r, TAMIS_REPAIR_FINISHED, segment, name, "%s", what);
    if (j->finished)
        judge_header_again(fd, name, j);
    return 0;
}

/* ---- all of it ---- */

static int judge_open(struct repair *r, const struct repair_segment *segment,
                      const struct record *record, const char *name, int fd,
                      struct judgement *j)
{
    char expected[FILTER_NAME_BYTES];
    judge_header(fd, name, j);
    if (j->state != FILE_GOOD)
        return 0;
    filter_file_name(j->h.identity.uuid, expected);
    const char *what = strcmp(expected, name) != 0 ? "the file of another filter"
                                                   : not_the_one(r, record, &j->h);
    if (what)
        return say(j, FILE_BAD, "%s", what);
    judge_pages(fd, name, j);
    if (j->state != FILE_GOOD)
        return 0;
    return finish(r, segment, record, name, fd, j);
}

int repair_judge(struct repair *r, const struct repair_segment *segment,
                 const struct record *record, const char *name, struct judgement *j)
{
    int fd;
    memset(j, 0, sizeof *j);
    int rc = io_open_beneath(r->filters.fd, name, O_RDONLY, &fd);
    if (rc == ENOENT)
        return say(j, FILE_MISSING, "the filter's file is missing");
    if (io_not_regular(rc))
        return j->code = rc, say(j, FILE_STRANGE, "left alone: not a regular file");
    if (io_is_short(rc))
        return diag_errno(r->diag, rc, r->path, "opening a filter");
    if (rc)
        return unread(j, rc, "left alone", tamis_strerror(rc));
    rc = judge_open(r, segment, record, name, fd, j);
    close(fd);
    return rc;
}
