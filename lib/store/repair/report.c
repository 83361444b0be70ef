/* Repair tells its findings. It keeps them until all locks are let go: a caller that
 * hears of one may use the store. Only findings that came true are told; a dry run
 * tells all. */
#include "lib/store/repair/inside.h"

#include <stdarg.h>

struct repair_finding {
    struct tamis_repair_finding told;
    enum repair_step step; /* after which it is true */
    char *memory;          /* of its name and texts */
};

/* ---- kept ---- */

static void keep(struct repair *r, struct repair_finding f,
                 const struct repair_segment *segment, const char *file,
                 const char *what)
{
    static const char *const names[] = {"noted", "finished", "rebuilt", "quarantined",
                                        "swept"};
    char path[300] = "";
    if (file && file[0] == '/')
        snprintf(path, sizeof path, "%s", file + 1);
    else if (file)
        snprintf(path, sizeof path, "filters/%.280s", file);
    void *more =
        room_for(r->findings, r->n_findings + 1, &r->max_findings, sizeof *r->findings);
    size_t n_name = segment ? segment->name.n : 0;
    size_t n_file = strlen(path) + 1, n_what = strlen(what) + 1;
    r->findings = more ? more : r->findings;
    f.memory = more ? malloc(n_name + n_file + n_what) : NULL;
    if (!f.memory) {
        r->untold = true;
        return;
    }
    f.told.name = n_name ? memcpy(f.memory, segment->name.at, n_name) : NULL;
    f.told.name_bytes = n_name;
    f.told.file = memcpy(f.memory + n_name, path, n_file);
    f.told.what = memcpy(f.memory + n_name + n_file, what, n_what);
    f.told.action_name = names[f.told.action];
    f.told.damage |= f.told.action == TAMIS_REPAIR_REBUILT;
    r->findings[r->n_findings++] = f;
}

void repair_tell(struct repair *r, unsigned how, const struct repair_segment *segment,
                 const char *file, const char *format, ...)
{
    enum tamis_repair_action action = how & (TELL_DONE - 1);
    struct repair_finding f = {.told.action = action, .step = STEP_DECIDED};
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!(how & TELL_DONE) && action == TAMIS_REPAIR_REBUILT)
        f.step = STEP_CHANGED;
    if (!(how & TELL_DONE) &&
        (action == TAMIS_REPAIR_QUARANTINED || action == TAMIS_REPAIR_SWEPT))
        f.step = STEP_DONE;
    f.told.damage = (action == TAMIS_REPAIR_QUARANTINED && !(how & TELL_PLAIN)) ||
                    (action == TAMIS_REPAIR_NOTED && segment && segment->name.n);
    keep(r, f, segment, file, what);
}

void repair_note(struct repair *r, int error, bool damage,
                 const struct repair_segment *segment, const char *file,
                 const char *what)
{
    keep(r,
         (struct repair_finding){.told.action = TAMIS_REPAIR_NOTED,
                                 .told.damage = damage,
                                 .told.error = error,
                                 .step = STEP_DECIDED},
         segment, file, what);
}

void repair_set_aside(struct repair *r, struct repair_file *f,
                      const struct repair_segment *segment, const char *what)
{
    repair_tell(r, TAMIS_REPAIR_QUARANTINED, segment, f->name, "%s", what);
    f->aside = true;
    f->named = false;
}

void repair_tell_stray(struct repair *r, const char *file)
{
    keep(r,
         (struct repair_finding){.told.action = TAMIS_REPAIR_NOTED,
                                 .told.mend = TAMIS_MEND_REMOVING,
                                 .step = STEP_DECIDED},
         NULL, file, "not a regular file: remove it by hand");
}

/* ---- told ---- */

void repair_forget(struct repair *r)
{
    for (size_t i = 0; i < r->n_findings; i++)
        free(r->findings[i].memory);
    free(r->findings);
    r->findings = NULL;
    r->n_findings = r->max_findings = 0;
}

int repair_stopped(const struct repair *r)
{
    return r->opt.stop && r->opt.stop(r->opt.ctx)
               ? diag_errno(r->diag, EINTR, r->path, "repairing")
               : 0;
}

void repair_report(struct repair *r)
{
    struct tamis_repair_report *report = r->report;
    for (size_t i = 0; i < r->n_findings; i++) {
        const struct repair_finding *f = &r->findings[i];
        const struct tamis_repair_finding *told = &f->told;
        /* A repair that failed may have moved some files, and not others. */
        bool moved = f->step == STEP_DONE && r->step == STEP_CHANGED &&
                     faccessat(r->store_fd, told->file, F_OK, AT_SYMLINK_NOFOLLOW) &&
                     errno == ENOENT;
        if (!r->opt.dry_run && f->step > r->step && !moved)
            continue;
        report->n_finished += told->action == TAMIS_REPAIR_FINISHED;
        report->n_rebuilt += told->action == TAMIS_REPAIR_REBUILT;
        report->n_quarantined += told->action == TAMIS_REPAIR_QUARANTINED;
        report->n_swept += told->action == TAMIS_REPAIR_SWEPT;
        report->n_damaged += told->action == TAMIS_REPAIR_NOTED && told->damage;
        report->n_unread += told->action == TAMIS_REPAIR_NOTED && told->error != 0;
        if (r->opt.found)
            r->opt.found(r->opt.ctx, told);
    }
    repair_forget(r);
}
