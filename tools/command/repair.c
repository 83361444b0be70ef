/* tamis repair: mends a damaged store, or says what it would do. */
#include "../talk/endings.h"
#include "command.h"

struct repair {
    const char *store;
    json_t *list;      /* NULL: text */
    uint64_t n_damage; /* findings that are damage, mended or not */
    uint64_t n_packs;  /* packs among the noted findings */
    uint64_t n_strays; /* directories and the like that no record names */
    struct unread unread;
};

static void found(void *ctx, const struct tamis_repair_finding *f)
{
    struct repair *r = ctx;
    r->n_packs += f->damage && f->action == TAMIS_REPAIR_NOTED && f->name == NULL;
    r->n_strays += f->mend == TAMIS_MEND_REMOVING;
    r->n_damage += f->damage != 0;
    note_unread(&r->unread, f);
    print_finding(r->list, f);
}

/* A repair that failed reports what it did, and leaves out what it does not know. */
static void end_object(const struct tamis_repair_report *report, bool dry_run,
                       bool failed)
{
    json_t *rest = json_of(
        "failed", json_boolean(failed), "dry_run", json_boolean(dry_run), "finished",
        json_count(report->n_finished), "rebuilt", json_count(report->n_rebuilt),
        "quarantined", json_count(report->n_quarantined), "swept",
        json_count(report->n_swept), "catalog_rebuilt", json_boolean(report->rebuilt));
    if (!failed)
        json_add(rest, "segments", json_count(report->n_segments), "damaged",
                 json_count(report->n_damaged), "unread", json_count(report->n_unread),
                 "complete", json_boolean(report->complete));
    json_end(rest);
}

static void print_summary(const struct tamis_repair_report *report, bool left,
                          bool dry_run)
{
    uint64_t done = report->n_finished + report->n_rebuilt + report->n_quarantined +
                    report->n_swept;
    if (done == 0)
        printf("nothing %s: %s\n", left ? "that repair can mend" : "to do",
               COUNTED(report->n_segments, "segment"));
    else
        printf("%s: %llu finished, %llu rebuilt, %llu quarantined, %llu swept; %s\n",
               dry_run ? "would be" : "repaired", LLU(report->n_finished),
               LLU(report->n_rebuilt), LLU(report->n_quarantined), LLU(report->n_swept),
               COUNTED(report->n_segments, "segment"));
    if (!report->complete)
        printf(
            "the list of segments may be incomplete, or have a filter of an "
            "uncommitted edit:\n"
            "until 'tamis repair STORE --confirm', only 'probe --bind' says ABSENT.\n"
            "Confirm when every segment is listed, with its own filter.\n");
}

struct confirming {
    json_t *list; /* NULL: text */
    uint64_t n_aside, n_lost, n_mended;
};

static void found_confirming(void *ctx, const struct tamis_repair_finding *f)
{
    struct confirming *c = ctx;
    if (f->action != TAMIS_REPAIR_NOTED)
        c->n_mended++;
    else if (strncmp(f->file, "quarantine/", 11) == 0)
        c->n_aside++;
    else
        c->n_lost++;
    print_finding(c->list, f);
}

/* Says what is in the way, and what became of packs. Returns the status. */
static int judge_confirmed(const struct confirming *c, int err,
                           const struct tamis_diag *diag, const char *path,
                           bool was_complete, bool force)
{
    if (c->n_aside > 0 && !force &&
        (was_complete ? err == 0 : err == TAMIS_ERR_MISMATCH))
        return complain(EXIT_DAMAGE,
                        "%s: %s: %s in quarantine/ may be of segments that are not "
                        "listed: list those ('tamis build --bare'), remove files of "
                        "segments that are gone, or --force",
                        path, was_complete ? "confirmed already" : "not confirmed",
                        COUNTED(c->n_aside, "filter"));
    if (err != 0)
        return complain_error(err, diag, path,
                              err == ENOTDIR ? store_advice(err, path) : NULL);
    if (diag->what[0] != 0) /* lost packs went off the list */
        return complain(EXIT_DAMAGE, "%s: %s", path, diag->what);
    if (c->n_lost > 0)
        return complain(EXIT_DAMAGE,
                        "%s: the list has %s: put the files back, or take their "
                        "segments off the list by --force, and build them anew",
                        path, COUNTED(c->n_lost, "lost or damaged pack"));
    return c->n_mended == 0
               ? EXIT_DONE
               : complain(EXIT_DAMAGE, "%s: damage was found, and dealt with", path);
}

static int confirm(const struct options *o)
{
    struct confirming found = {0};
    struct tamis_confirm_options opt = {.size = sizeof(opt),
                                        .force = given(o, OPT_FORCE),
                                        .found = found_confirming,
                                        .ctx = &found};
    const char *path = o->args[0];
    struct tamis_diag diag = {0};
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    int err, status = store_open(path, &store);
    if (status != EXIT_DONE)
        return status;
    if (given(o, OPT_JSON))
        found.list = json_stream(memory_or_exit(json_object()), "findings");
    tamis_snapshot_current(store, &snapshot, NULL);
    bool was_complete = tamis_snapshot_info(snapshot).complete;
    bool empty = tamis_snapshot_info(snapshot).n_segments == 0;
    tamis_snapshot_release(snapshot);
    err = tamis_store_confirm(store, &opt, &diag);
    if (err == 0)
        work_is_done();
    if (found.list != NULL)
        json_end(json_of("confirmed", json_boolean(err == 0 && diag.what[0] == 0)));
    else if (diag.what[0] == 0 && was_complete && err == 0 && found.n_lost == 0 &&
             (found.n_aside == 0 || opt.force))
        printf("the list is complete already%s%s\n", empty ? ", and empty" : "",
               found.n_mended > 0 ? "" : ": nothing to confirm");
    status = judge_confirmed(&found, err, &diag, path, was_complete, opt.force);
    tamis_store_close(store);
    return status;
}

static int is_to_end(void *ctx)
{
    (void)ctx;
    return endings_came;
}

static const char *advice(int err, const char *what, const char *path, bool uuid_given)
{
    switch (err) {
    case TAMIS_ERR_BUSY: /* some of the library's words say what to do */
        return strchr(what, ':') ? "" : NULL;
    case TAMIS_ERR_MISMATCH:
        return uuid_given ? "name this store's with --uuid, or leave it out"
                          : "--uuid says which";
    case TAMIS_ERR_NO_STORE:
        return "restore catalog.lmdb from a backup, or begin with 'tamis init' in a "
               "new directory";
    case ENOTDIR:
    case TAMIS_ERR_NOT_TAMIS:
    case TAMIS_ERR_VERSION:
        return store_advice(err, path);
    default:
        return NULL;
    }
}

/* A signal only asks the repair to end, with EINTR. Any other error has another cause,
 * and is told although a signal came. */
static int failed(int err, const struct tamis_diag *diag, const struct options *o,
                  const struct endings *endings)
{
    const char *path = o->args[0];
    int status;
    complain_despite_signals();
    if ((err == EINTR || err == TAMIS_ERR_BUSY) && endings_came)
        status =
            complain(EXIT_IO, "%s: the repair was interrupted: run it again", path);
    else
        status = complain_error(err, diag, path,
                                advice(err, diag->what, path, given(o, OPT_UUID)));
    endings_let(endings, true);
    return status;
}

static int say_what_is_left(const struct repair *r,
                            const struct tamis_repair_report *report, bool dry_run)
{
    const char *s = r->n_strays == 1 ? "" : "s";
    if (report->n_damaged > 0) /* perhaps only some segments of a pack */
        return complain(EXIT_DAMAGE, "%s: %s%s%s left as noted, damaged or missing: %s",
                        r->store, COUNTED(report->n_damaged - r->n_packs, "file"),
                        r->n_packs > 0 ? " and " : "",
                        r->n_packs > 0 ? COUNTED(r->n_packs, "pack") : "",
                        r->n_packs > 0 ? "'tamis verify' says what works for each"
                                       : "build these segments anew from the keys");
    if (r->n_damage > 0)
        return complain(EXIT_DAMAGE, "%s: damage %s", r->store,
                        dry_run ? "was found" : "was found, and dealt with");
    if (r->unread.n > 0)
        return complain_unread(&r->unread, r->store);
    if (r->n_strays == 0)
        return EXIT_DONE;
    return complain(
        EXIT_DAMAGE,
        "%s: %llu name%s in filters/ %s no regular file%s: remove %s by hand", r->store,
        LLU(r->n_strays), s, *s ? "are" : "is", s, *s ? "them" : "it");
}

static int run(int argc, char **argv)
{
    struct tamis_repair_report report;
    struct tamis_diag diag = {0};
    struct repair r = {0};
    struct endings endings;
    struct options o;
    parse_options(argc, argv, 1, 1, &o);
    if (given(&o, OPT_CONFIRM)) {
        if ((o.given & (WITH(OPT_DRY_RUN) | WITH(OPT_UUID))) != 0)
            usage_error(
                "--confirm does nothing else: repair first, look, then confirm");
        return confirm(&o);
    }
    if (given(&o, OPT_FORCE))
        usage_error("--force is for --confirm");
    r.store = o.args[0];
    if (given(&o, OPT_JSON))
        r.list = json_stream(memory_or_exit(json_object()), "findings");
    struct tamis_repair_options opt = {
        .size = sizeof(opt),
        .dry_run = given(&o, OPT_DRY_RUN),
        .found = found,
        .ctx = &r,
        .store_uuid = given(&o, OPT_UUID) ? o.uuid : NULL,
        .stop = is_to_end,
        .waiting = wait_ends,
    };
    endings_note(&endings);
    int err = tamis_store_repair(o.args[0], &opt, &report, &diag);
    if (err == 0)
        endings_let(&endings, false);
    if (err == 0 && !opt.dry_run)
        work_is_done();
    if (r.list != NULL)
        end_object(&report, opt.dry_run, err != 0);
    else if (err == 0)
        print_summary(&report, report.n_damaged + report.n_unread + r.n_strays > 0,
                      opt.dry_run);
    if (err != 0)
        return failed(err, &diag, &o, &endings);
    return output_works() ? say_what_is_left(&r, &report, opt.dry_run) : EXIT_IO;
}

const struct command cmd_repair = {
    .name = "repair",
    .arguments = "STORE [--dry-run] [--uuid HEX] | STORE --confirm [--force]",
    .summary = "mend a store, or rebuild its catalog",
    .about =
        "Finishes the work of dead writers, removes unfinished files, and moves bad "
        "filters to STORE/quarantine. Segments stay listed. A catalog rebuilt from "
        "files may lack segments: until --confirm only 'probe --bind' says ABSENT. "
        "It prints:\n"
        "\n"
        "  noted         left as it is, say a directory or link named like a filter\n"
        "  finished      a filter that a writer left open, or sealed\n"
        "  rebuilt       the catalog, a record, tombstones, or a filter from its list\n"
        "  quarantined   a damaged filter, list or pack, or one of no segment\n"
        "  swept         a file that was never finished, or is no filter\n",
    .options = {OPTION(DRY_RUN), OPTION(UUID),
                OPTION(CONFIRM,
                       "the list has every segment of the engine, with its own filter: "
                       "compare 'tamis ls' with the engine's list, bindings too"),
                OPTION(FORCE,
                       "in spite of quarantine; packs go that are lost or nameless"),
                OPTION(JSON)},
    .notes = "Exits 3 for damage, mended or not, a directory or link named like a "
             "filter, or a list not confirmed; 4 for a failed read; 6 if the store is "
             "busy.\n",
    .examples = "tamis repair store --dry-run\n",
    .run = run,
};
