/* Brings a store up to date with a database's tables, in one edit. If another process
 * has changed a segment that the edit puts, updates or keeps, all begins anew. */
#include "../talk/screen.h"
#include "bridge.h"

/* Reports a failed call of the edit. */
static int edit_failed(struct bridge_run *r, int err, const struct tamis_diag *diag)
{
    r->overtaken = err == TAMIS_ERR_MISMATCH || err == TAMIS_ERR_EXISTS ||
                   err == TAMIS_ERR_NO_SEGMENT;
    return r->overtaken ? EXIT_BUSY : complain_store(err, diag, r->b->store);
}

/* Says the note of a call that succeeded. */
static void say_note(const struct tamis_diag *diag)
{
    if (diag->what[0] != '\0')
        say_line("%s: %s", PATH(diag->file), diag->what);
}

/* ---- may this store become this database's? ---- */

static int admit(struct bridge_run *r)
{
    char words[MIRROR_WORDS_BYTES];
    if (r->b->force || !tamis_mirror_refuses(r->before, r->tag, words))
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%s: %s: make a store for each database, or drop these by --force; "
                    "nothing was changed",
                    r->b->store, words);
}

/* The same for a segment that is in the way of the table of its name. */
static int admit_replacing(const struct bridge_run *r,
                           const struct tamis_segment_info *info)
{
    enum mirror_owner owner = tamis_mirror_owner(r->tag, info);
    if (r->b->force || (owner != MIRROR_OTHER && owner != MIRROR_UNREADABLE))
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%s: segment %.*s %s: %s, or replace it by --force; nothing was "
                    "changed",
                    r->b->store, (int)info->name_bytes, (const char *)info->name,
                    owner == MIRROR_OTHER ? "is of no database"
                                          : "has a record that cannot be read",
                    owner == MIRROR_OTHER ? "drop it" : "run 'tamis repair STORE'");
}

/* ---- one table ---- */

/* The segment that the store has under the table's name. */
struct segment {
    bool known, bound; /* there is one; it has the table's binding */
    bool same;         /* its filter was built from exactly these bytes */
    size_t index;
    struct tamis_segment_info info;
};

static struct segment find(const struct bridge_run *r, const struct bridge_table *t)
{
    struct segment s;
    s.index = tamis_mirror_find(r->before, t->name, strlen(t->name), &s.info);
    s.known = s.index != SIZE_MAX;
    s.bound = s.known && s.info.binding_bytes == strlen(t->binding) &&
              memcmp(s.info.binding, t->binding, s.info.binding_bytes) == 0;
    s.same = s.known && s.info.state == TAMIS_SEGMENT_SEALED &&
             s.info.rank == t->rank && tamis_mirror_same_file(&s.info, t->binding);
    return s;
}

static void changed(struct bridge_run *r, const struct bridge_table *t,
                    const struct segment *s, enum bridge_action action)
{
    bridge_changed(&r->report, action, t->name, strlen(t->name),
                   s->known ? &s->info : NULL);
}

/* Builds the table's filter. If its keys cannot be had, t->why says so. */
static int build(struct bridge_run *r, struct bridge_table *t,
                 const struct tamis_segment_options *opt)
{
    struct tamis_builder *builder = NULL;
    struct tamis_diag diag = {0};
    int status = EXIT_DONE, err = tamis_edit_builder(r->edit, t->name, strlen(t->name),
                                                     r->b->error, opt, &builder, &diag);
    if (err == 0)
        status = r->engine->keys(r, t, builder);
    if (err == 0 && status == EXIT_DONE && t->why == NULL)
        err = tamis_edit_put(r->edit, builder, NULL, &diag);
    tamis_builder_free(builder);
    return err ? edit_failed(r, err, &diag) : status;
}

/* Lists the table without a filter, unless it is listed so already. */
static int put_bare(struct bridge_run *r, const struct bridge_table *t,
                    const struct segment *s, const struct tamis_segment_options *opt)
{
    struct tamis_diag diag = {0};
    int err = 0;
    say_line("%s: %s: listed without a filter", t->path, t->why);
    r->status = t->status > r->status ? t->status : r->status;
    r->report.bare++;
    if (opt == NULL)
        return EXIT_DONE;
    changed(r, t, s, s->known ? BRIDGE_REPLACED : BRIDGE_BARE);
    if (r->edit != NULL)
        err = tamis_edit_put_bare(r->edit, t->name, strlen(t->name), opt, &diag);
    return err ? edit_failed(r, err, &diag) : EXIT_DONE;
}

static int put(struct bridge_run *r, struct bridge_table *t, const struct segment *s)
{
    struct tamis_segment_options opt = {.size = sizeof(opt),
                                        .binding = t->binding,
                                        .binding_bytes = strlen(t->binding),
                                        .rank = t->rank};
    struct tamis_diag diag = {0};
    struct tamis_drop_if same = tamis_mirror_same(&s->info);
    int err = 0, status = EXIT_DONE;
    if (r->edit != NULL && s->same)
        err = tamis_edit_update(r->edit, t->name, strlen(t->name), &opt, &same, &diag);
    else if (r->edit != NULL && s->known)
        err = tamis_edit_drop(r->edit, t->name, strlen(t->name), &same, &diag);
    if (err != 0)
        return edit_failed(r, err, &diag);
    if (s->same) {
        r->report.kept++;
        changed(r, t, s, BRIDGE_REBOUND);
        return EXIT_DONE;
    }
    if (t->why == NULL && r->edit != NULL)
        status = build(r, t, &opt);
    if (status == EXIT_DONE && t->why != NULL)
        return put_bare(r, t, s, &opt);
    r->report.built++;
    changed(r, t, s,
            s->known && !s->bound && !s->same ? BRIDGE_REPLACED : BRIDGE_BUILT);
    return status;
}

static int update(struct bridge_run *r, struct bridge_table *t)
{
    struct segment s = find(r, t);
    int status = EXIT_DONE;
    if (s.known)
        r->is_live[s.index] = s.bound ? 2 : 1;
    if (s.same && s.bound) {
        r->report.kept++;
        return EXIT_DONE;
    }
    if (s.known)
        status = admit_replacing(r, &s.info);
    if (status != EXIT_DONE)
        return status;
    return s.bound && t->why != NULL ? put_bare(r, t, &s, NULL) : put(r, t, &s);
}

/* ---- the edit ---- */

/* Segments of other databases stay, unless --force is given. */
static int drop_others(struct bridge_run *r)
{
    struct tamis_diag diag = {0};
    struct tamis_reconcile_options ours = {
        .size = sizeof(ours), .scope = r->tag, .scope_bytes = strlen(r->tag)};
    struct tamis_identity *live =
        memory_or_exit(calloc(r->report.tables + 1, sizeof *live));
    size_t n = 0;
    int err = 0;
    for (size_t i = 0; tamis_snapshot_next(r->before, &i); i++) {
        struct tamis_segment_info info = {.state = 0};
        tamis_snapshot_segment(r->before, i, &info);
        if (r->is_live[i])
            live[n++] = (struct tamis_identity){
                info.name, info.name_bytes, r->is_live[i] == 2 ? info.binding : NULL,
                info.binding_bytes, NULL};
        else if (info.name == NULL || /* it may be any segment */
                 (!r->b->force && tamis_mirror_owner(r->tag, &info) != MIRROR_THIS))
            r->report.left++;
        else
            bridge_changed(&r->report, BRIDGE_DROPPED, info.name, info.name_bytes,
                           &info);
    }
    if (r->edit)
        err = tamis_edit_reconcile(r->edit, r->before, live, n,
                                   r->b->force ? NULL : &ours, &diag);
    free(live);
    return err ? edit_failed(r, err, &diag) : EXIT_DONE;
}

static int begin(struct bridge_run *r)
{
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_current(r->store, &r->before, &diag);
    int status = err ? EXIT_DONE : r->engine->list(r); /* newer than the snapshot */
    if (err == 0 && status == EXIT_DONE && !r->b->dry_run)
        err = tamis_edit_begin(r->store, NULL, &r->edit, &diag);
    if (err != 0 || status != EXIT_DONE)
        return err ? complain_store(err, &diag, r->b->store) : status;
    say_note(&diag);
    r->is_live =
        memory_or_exit(calloc(tamis_snapshot_info(r->before).n_numbers + 1, 1));
    return admit(r);
}

static int commit(struct bridge_run *r)
{
    struct tamis_diag diag = {0};
    if (r->edit == NULL)
        return EXIT_DONE;
    int err = tamis_edit_commit(r->edit, &diag);
    if (err != TAMIS_ERR_BUSY) /* else it is to be aborted */
        r->edit = NULL;
    if (err == 0)
        say_note(&diag);
    if (err == 0 && r->engine->confirms && r->report.left == 0)
        err = tamis_mirror_confirm(r->store, &diag);
    return err ? edit_failed(r, err, &diag) : EXIT_DONE;
}

static int attempt(struct bridge_run *r)
{
    int status = begin(r);
    for (size_t i = 0; i < r->report.tables && status == EXIT_DONE; i++) {
        struct bridge_table t = {.name = NULL};
        status = r->engine->open(r, i, &t);
        if (status == EXIT_DONE)
            status = update(r, &t);
        r->engine->close(r);
    }
    if (status == EXIT_DONE)
        status = drop_others(r);
    if (status == EXIT_DONE)
        status = commit(r);
    tamis_edit_abort(r->edit);
    tamis_snapshot_release(r->before);
    free(r->is_live);
    if (status != EXIT_DONE)
        return status;
    progress_end();
    bridge_print(&r->report);
    return r->status;
}

int bridge_fill(const struct bridge *b, struct tamis_store *store,
                const struct bridge_engine *engine, void *database)
{
    enum { ATTEMPTS = 8 };
    uint64_t gone = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        struct bridge_run r = {.b = b,
                               .store = store,
                               .engine = engine,
                               .database = database,
                               .gone = gone,
                               .report = {.bridge = b}};
        r.report.tag = r.tag;
        int status = attempt(&r);
        free(r.report.changes);
        if (!r.overtaken && !r.again)
            return status;
        gone = r.again ? r.gone : 0;
    }
    if (gone == 0)
        return complain(EXIT_BUSY,
                        "%s: another process changes these segments: try again when it "
                        "is done; nothing was changed",
                        b->store);
    return complain(EXIT_BUSY,
                    "%s: the database is being written, and table %06llu was deleted "
                    "while it was read: try again when it is less busy",
                    b->directories[0], LLU(gone));
}
