/* tamis backup: a copy of a store, while it is used. tamis init: an empty store. */
#include "../talk/endings.h"
#include "command.h"

struct backup {
    json_t *list; /* NULL: text */
    struct unread unread;
};

static void found(void *ctx, const struct tamis_repair_finding *f)
{
    struct backup *b = ctx;
    note_unread(&b->unread, f);
    print_finding(b->list, f);
}

static int print_report(const struct options *o, const struct backup *b,
                        const struct tamis_backup_report *report)
{
    work_is_done();
    if (b->list != NULL) {
        json_print(json_of(
            "findings", b->list, "segments", json_count(report->n_segments), "files",
            json_count(report->n_files), "bytes", json_count(report->n_bytes),
            "damaged", json_count(report->n_damaged), "left_out",
            json_count(report->n_left)));
    } else {
        printf("%s, %s, %llu bytes\n", COUNTED(report->n_segments, "segment"),
               COUNTED(report->n_files, "file"), LLU(report->n_bytes));
    }
    if (!output_works())
        return EXIT_IO;
    if (report->n_damaged + report->n_left == 0)
        return EXIT_DONE;
    if (report->n_damaged + report->n_left == b->unread.n)
        return complain_unread(&b->unread, o->args[0]);
    return complain(EXIT_DAMAGE,
                    "%s: copied, but %s damaged in it and %s left out: 'tamis verify' "
                    "of the store says what would mend it",
                    o->args[1], COUNTED(report->n_damaged, "file"),
                    COUNTED(report->n_left, "file"));
}

static int run(int argc, char **argv)
{
    struct tamis_backup_report report;
    struct tamis_diag diag = {0};
    struct tamis_store *store;
    struct backup b = {0};
    struct tamis_backup_options opt = {.size = sizeof(opt), .found = found, .ctx = &b};
    struct endings endings;
    struct options o;
    parse_options(argc, argv, 2, 2, &o);
    if (o.args[1][0] == '\0')
        usage_error("DIR is a path, and this one is empty");
    int status = store_open(o.args[0], &store);
    if (status != EXIT_DONE)
        return status;
    /* A backup inside the store would be part of the next backup. */
    if (lies_inside(o.args[1], o.args[0])) {
        tamis_store_close(store);
        return complain(EXIT_USAGE,
                        "%s: inside the store itself: name a directory "
                        "elsewhere",
                        o.args[1]);
    }
    if (given(&o, OPT_JSON))
        b.list = memory_or_exit(json_array());
    endings_catch(&endings);
    int err = tamis_store_backup(store, o.args[1], &opt, &report, &diag);
    endings_let(&endings, err != 0);
    if (err == 0) {
        status = print_report(&o, &b, &report);
    } else {
        json_decref(b.list);
        status = complain_error(
            err, &diag, o.args[1],
            err == TAMIS_ERR_EXISTS ? "a backup makes its own directory" : NULL);
    }
    tamis_store_close(store);
    return status;
}

const struct command cmd_backup = {
    .name = "backup",
    .arguments = "STORE DIR [--json]",
    .summary = "copy a store while it is used",
    .about =
        "Makes the directory DIR, whole or not at all: a copy of the store at one "
        "moment, with every earlier commit and edit. Readers and writers "
        "go on meanwhile. The copy is the same store, so go on with only one of them.\n"
        "\n"
        "Damaged filters are reported and copied as they are. Lost or unreadable "
        "filters are left out: their segments are listed without a filter. A "
        "terminating signal leaves nothing. After kill -9 remove the directory DIR.<8 "
        "hex digits>.tmp by hand. If only the output failed (status 4), DIR is there "
        "and whole.\n",
    .options = {OPTION(JSON)},
    .examples = "tamis backup store /backup/store-$(date +%F)\n",
    .run = run,
};

/* ---- init ---- */

static int run_init(int argc, char **argv)
{
    struct tamis_open_options opt = {
        .size = sizeof(opt), .create = TAMIS_CREATE_NEW, .waiting = wait_ends};
    struct tamis_store *store = NULL;
    struct tamis_diag diag = {0};
    struct tamis_domain domain;
    struct options o;
    int err = 0;
    parse_options(argc, argv, 1, 1, &o);
    opt.growth = o.growth;
    if (given(&o, OPT_SEED)) {
        err = tamis_domain_init(&domain, 1, o.seed);
        opt.domain = &domain;
    }
    if (err == 0)
        err = tamis_store_open(o.args[0], &opt, &store, &diag);
    tamis_store_close(store);
    return err ? complain_error(err, &diag, o.args[0],
                                err == TAMIS_ERR_EXISTS ? "name a new directory" : NULL)
               : EXIT_DONE;
}

const struct command cmd_init = {
    .name = "init",
    .arguments = "STORE [--fpr P] [-s S] [-r R] [--n0 N] [--seed HEX]",
    .summary = "make an empty store",
    .about = "Makes the directory STORE, or uses an empty one. The numbers are the "
             "defaults of the filters that will be in it.\n",
    .options =
        {OPTION(FPR, "error of a filter, 1e-8..0.5 or with %; default: 0.01"),
         OPTION(
             FACTOR,
             "growing filters: a stage holds S times the last, 1.25..16; default: 1.9"),
         OPTION(TIGHTENING, "... at R times its error, 0.5..0.95; default: 0.85"),
         OPTION(FIRST,
                "... keys in the first stage, 1..2^32, k is 1000; default: 50000"),
         OPTION(SEED, "hash seed, 16 hex digits; default: random, so that nobody can "
                      "make keys collide")},
    .examples = "tamis init /var/lib/engine/filters\n"
                "tamis init store --fpr 0.1%\n",
    .run = run_init,
};
