/* tamis grow: adds keys to the growing filter of a segment and commits. */
#include <math.h>

#include "../talk/endings.h"
#include "command.h"
#include "grow.h"

/* Finds the segment in a new snapshot, which the caller releases. */
static int look_up(const struct grow *g, struct tamis_snapshot **snapshot,
                   struct tamis_segment_info *info)
{
    struct tamis_target target;
    int err = tamis_snapshot_current(g->store, snapshot, NULL);
    if (err == 0)
        err = tamis_snapshot_find(*snapshot, g->name, strlen(g->name), NULL, 0, 0,
                                  &target);
    if (err == 0)
        err = tamis_snapshot_segment(*snapshot, target.slot - 1, info);
    return err;
}

static int create(struct grow *g, struct tamis_diag *diag)
{
    const struct options *o = g->o;
    struct tamis_segment_options opt;
    struct tamis_edit *e;
    int err = edit_begin(g->store, false, &e, diag);
    if (err != 0)
        return err;
    segment_options(o, &opt);
    err = tamis_edit_put_growing(e, g->name, strlen(g->name),
                                 o->given & GROWTH_OPTIONS ? &o->growth : NULL, &opt,
                                 diag);
    if (err == 0)
        err = edit_commit(e, diag);
    else
        tamis_edit_abort(e);
    g->created = err == 0;
    return err;
}

/* How a filter grows is fixed when it is made. A request for something else must not
 * look like success. */
static int check_growth(const struct grow *g)
{
    const struct options *o = g->o;
    struct tamis_filter_info info;
    int err = tamis_writer_info(g->writer, &info, NULL);
    if (err != 0)
        return grow_failed(g, err, NULL);
    if ((given(o, OPT_FPR) && fabs(info.growth.error - o->growth.error) > 1e-12) ||
        (given(o, OPT_FACTOR) && fabs(info.growth.factor - o->growth.factor) > 1e-9) ||
        (given(o, OPT_TIGHTENING) &&
         fabs(info.growth.tightening - o->growth.tightening) > 1e-9) ||
        (given(o, OPT_FIRST) && info.growth.first_capacity != o->growth.first_capacity))
        return complain(EXIT_USAGE,
                        "%s: segment '%s' grows with --fpr %g -s %g -r %g --n0 %llu: "
                        "leave them out or take a new segment",
                        g->path, TEXT(g->name), info.growth.error, info.growth.factor,
                        info.growth.tightening, LLU(info.growth.first_capacity));
    return EXIT_DONE;
}

/* The same for binding and rank. */
static int check_identity(const struct grow *g)
{
    const struct options *o = g->o;
    struct tamis_snapshot *snapshot = NULL;
    struct tamis_segment_info info;
    int err = look_up(g, &snapshot, &info), status = EXIT_DONE;
    if (err != 0) {
        status = grow_failed(g, err, NULL);
    } else if (given(o, OPT_BIND) &&
               (info.binding_bytes != o->binding_bytes ||
                memcmp(info.binding, o->binding, o->binding_bytes) != 0)) {
        char *bound = hex(info.binding, info.binding_bytes);
        status =
            complain(EXIT_DAMAGE,
                     "%s: segment '%s' is bound to %s: leave out --bind, or take "
                     "the segment that belongs to the file",
                     g->path, TEXT(g->name), info.binding_bytes ? bound : "nothing");
        free(bound);
    } else if (given(o, OPT_RANK) && info.rank != o->rank) {
        status = complain(EXIT_USAGE,
                          "%s: segment '%s' has --rank %u: leave it out or take a new "
                          "segment",
                          g->path, TEXT(g->name), info.rank);
    }
    tamis_snapshot_release(snapshot);
    return status;
}

/* Refuses a name whose segment has no filter. */
static int no_filter(const struct grow *g)
{
    char *word = shell_quoted(g->name, strlen(g->name));
    complain(0,
             "%s: segment '%s' is registered without a filter: 'tamis build' it with "
             "--replaces %s",
             g->path, TEXT(g->name), word);
    free(word);
    return EXIT_USAGE;
}

/* Other processes may want the segment's writer while this one waits for keys. A list
 * whose first key is bad makes no segment. */
static int wait_for_keys(const struct grow *g)
{
    int any = keys_any(g->keys), status = grow_ended(g);
    return status == EXIT_DONE && any < 0 ? keys_status(g->keys) : status;
}

/* May the segment be made? A list without keys makes none unless --empty is given. */
static int check_new(const struct grow *g)
{
    struct tamis_snapshot *snapshot = NULL;
    struct tamis_segment_info info;
    int err = look_up(g, &snapshot, &info);
    tamis_snapshot_release(snapshot);
    if (err == 0 && info.state == TAMIS_SEGMENT_BARE)
        return no_filter(g);
    return err == 0 || keys_any(g->keys) > 0
               ? EXIT_DONE
               : check_empty(g->keys, given(g->o, OPT_EMPTY),
                             "a new filter would say ABSENT of every key");
}

static int open_writer(struct grow *g)
{
    const struct tamis_segment_writer_options opt = {.size = sizeof opt,
                                                     .one_thread = 1};
    size_t n = strlen(g->name);
    struct tamis_diag diag = {0};
    int err = tamis_store_writer(g->store, g->name, n, &opt, &g->writer, &diag);
    int status = EXIT_DONE;
    if (err == TAMIS_ERR_NO_SEGMENT) {
        status = check_new(g);
        if (status != EXIT_DONE)
            return status;
        err = create(g, &diag);
        /* Another process was faster: the segment exists. */
        if (err == 0 || err == TAMIS_ERR_EXISTS)
            err = tamis_store_writer(g->store, g->name, n, &opt, &g->writer, &diag);
    }
    if (err != 0)
        return grow_failed(g, err, &diag);
    if (!g->created && (g->o->given & GROWTH_OPTIONS) != 0)
        status = check_growth(g);
    if (!g->created && status == EXIT_DONE)
        status = check_identity(g);
    if (status != EXIT_DONE)
        tamis_writer_close(g->writer, NULL);
    return status;
}

static int run(int argc, char **argv)
{
    struct grow g = {0};
    struct options o;
    parse_options(argc, argv, 2, 3, &o);
    check_name(o.args[1], strlen(o.args[1]));
    g.o = &o;
    g.path = o.args[0];
    g.name = o.args[1];
    grow_catch();
    endings_hold();
    int status = store_open(g.path, &g.store);
    endings_release();
    if (status == EXIT_DONE)
        status = grow_keys(&o, &g.keys);
    if (status == EXIT_DONE)
        status = wait_for_keys(&g);
    if (status == EXIT_DONE) {
        endings_hold(); /* a segment is made, or none */
        status = open_writer(&g);
        endings_release();
    }
    if (status != EXIT_DONE)
        grow_ended(&g); /* unless something was said */
    status = status == EXIT_DONE ? grow_add(&g) : grow_end(status);
    keys_close(g.keys);
    tamis_store_close(g.store);
    return status;
}

const struct command cmd_grow = {
    .name = "grow",
    .arguments = "STORE SEGMENT [KEYFILE|-] [--watermark N]",
    .summary = "add keys to a growing filter",
    .about = "Adds keys to the growing filter of a segment, makes the segment if there "
             "is none, and commits: on return the keys are durable. Readers see them "
             "at once. After a bad key or a signal, the keys before it are in, and the "
             "watermark stays. If the filter cannot grow, all keys are in, its error "
             "is higher, and it exits 4.\n",
    .options = {OPTION(WATERMARK,
                       "your log position: all keys up to here are in; never falls"),
                OPTION(
                    FPR,
                    "error of all stages, 1e-8..0.5 or with %; default: the store's"),
                OPTION(FACTOR, NULL),
                OPTION(TIGHTENING, NULL),
                OPTION(FIRST, NULL),
                {WITH(OPT_BIND) | WITH(OPT_RANK),
                 "for a new segment: see 'tamis help build'", NULL},
                OPTION(EMPTY, "accept a list without keys, even for a new segment or a "
                              "higher --watermark"),
                {WITH(OPT_QUIET) | WITH(OPT_JSON),
                 "print no closing line, or JSON: 'tamis help json'", NULL},
                {KEY_FLAGS, NULL, NULL}},
    .examples = "tail -n +1001 log | tamis grow store memtable --watermark 2000\n",
    .run = run,
};
