/* tamis grow: finds the growing filter of a segment or makes it, adds keys, commits,
 * and reports what is in, however it ends. */
#include <math.h>

#include "../talk/endings.h"
#include "command.h"

struct grow {
    const struct options *o;
    const char *path, *name; /* of the store; of the segment */
    struct key_reader *keys;
    struct tamis_store *store;
    struct tamis_writer *writer;
    bool created; /* the segment, by this very command */
};

/* Reports a failed call. Until a writer has the segment, others can drop it. */
static int grow_failed(const struct grow *g, int err, const struct tamis_diag *diag)
{
    if (err == TAMIS_ERR_NO_SEGMENT)
        return complain(EXIT_NONE,
                        "%s: segment '%s' has just been dropped or replaced: run it "
                        "again",
                        g->path, TEXT(g->name));
    if (diag != NULL &&
        (err == ENOENT || err == TAMIS_ERR_NOT_TAMIS || is_wrong_type(err)))
        return segment_error(err, diag, g->path, name_of_text(g->name), NULL);
    return complain_error(err, diag, g->path, NULL);
}

/* ---- a signal to end ---- */

static struct endings endings;

/* Has a signal come before any key was added? Reports it, and returns a status. */
static int grow_ended(const struct grow *g)
{
    if (!endings_came)
        return EXIT_DONE;
    return complain(EXIT_IO,
                    "%s: segment '%s': interrupted: no key of the list is committed: "
                    "run it again with the list",
                    g->path, TEXT(g->name));
}

/* Obeys the signal and does not return. Returns `status` if no signal came. */
static int grow_end(int status)
{
    if (!endings_came)
        return status;
    status = finish_output(status);
    endings_let(&endings, true);
    return status;
}

/* ---- keys ---- */

struct session {
    const struct grow *g;
    bool failed;      /* the writer has, and reported it */
    bool interrupted; /* before the end of the list, or before the commit */
    bool committed;
};

static int add_keys(struct session *w)
{
    const struct grow *g = w->g;
    uint64_t position = 0, n = 0, now;
    const void *key;
    size_t bytes;
    int got = 1, err;
    complain_later();
    while (!endings_came && (got = keys_next(g->keys, &key, &bytes)) > 0) {
        err = tamis_writer_add_key(g->writer, key, bytes);
        if (err != 0) {
            w->failed = true;
            return grow_failed(g, err, NULL);
        }
        if (++n % 4096 == 0) {
            now = keys_position(g->keys);
            progress_advance(4096, now - position);
            position = now;
        }
    }
    progress_advance(n % 4096, keys_position(g->keys) - position);
    return endings_came ? EXIT_IO : got < 0 ? keys_status(g->keys) : EXIT_DONE;
}

/* Keys that came before a bad key or a signal are committed at the old watermark. */
static int commit(struct session *w, uint64_t watermark)
{
    struct tamis_diag diag = {0};
    int err = tamis_writer_commit(w->g->writer, watermark, &diag);
    w->committed = err == 0;
    w->failed = err != 0;
    w->interrupted = w->interrupted || w->failed;
    return err ? grow_failed(w->g, err, &diag) : EXIT_DONE;
}

static int add_and_commit(struct session *w)
{
    const struct grow *g = w->g;
    struct tamis_filter_info info;
    tamis_writer_info(g->writer, &info, NULL);
    uint64_t old = info.watermark;
    uint64_t wanted = given(g->o, OPT_WATERMARK) ? g->o->watermark : old;
    if (wanted < old)
        return complain(
            EXIT_USAGE,
            "%s: segment '%s' is at watermark %llu: --watermark never falls", g->path,
            TEXT(g->name), LLU(old));
    if (!given(g->o, OPT_QUIET))
        progress_start("grow", keys_size(g->keys));
    int status = add_keys(w), stored;
    w->interrupted = status != EXIT_DONE;
    /* A watermark claims that all keys up to it are in. An empty list makes no claim.
     */
    if (status == EXIT_DONE &&
        (status = check_empty(
             g->keys, wanted == old || given(g->o, OPT_EMPTY),
             "the new watermark would claim keys that did not come")) != EXIT_DONE)
        return status;
    if (w->failed)
        return status;
    stored = commit(w, w->interrupted ? old : wanted);
    return stored != EXIT_DONE ? stored : status;
}

/* ---- what there is now ---- */

static void print_object(const struct session *w, const struct tamis_filter_info *info,
                         const char *name)
{
    const struct grow *g = w->g;
    progress_clear();
    json_print(json_of(
        "segment", json_string(name), "created", json_boolean(g->created), "keys_read",
        json_count(keys_count(g->keys)), "keys", json_count(info->keys), "bytes",
        json_count(info->file_bytes), "error", json_number(info->growth.error),
        "expected_error", json_number(info->expected_error), "over_target",
        json_boolean(over_target(info)), "watermark", json_count(info->watermark),
        "interrupted", json_boolean(w->interrupted), "committed",
        json_boolean(w->committed)));
}

/* Ended early by a signal, or by a bad key, whose line is held back. */
static void interrupted(const struct grow *g, const struct tamis_filter_info *info,
                        const char *name)
{
    char store[1024] = "";
    uint64_t n = keys_count(g->keys);
    if (endings_came)
        snprintf(store, sizeof(store), "%s: ", g->path);
    if (g->created && n == 0) {
        complain(0,
                 "%ssegment '%s': interrupted: it was made, and no key is in: run it "
                 "again with the list",
                 store, name);
        return;
    }
    complain(0,
             "%ssegment '%s': %sthe first %s of the list %s committed, %llu in all, at "
             "watermark %llu: run it again with the list",
             store, name, endings_came ? "interrupted: " : "", COUNTED(n, "key"),
             n == 1 ? "is" : "are", LLU(info->keys), LLU(info->watermark));
}

static int tell(const struct session *w, const struct tamis_filter_info *info,
                int status)
{
    const struct grow *g = w->g;
    const char *name = TEXT(g->name);
    uint64_t n = keys_count(g->keys);
    bool json = given(g->o, OPT_JSON);
    if (w->committed && !w->interrupted)
        work_is_done();
    if (json)
        print_object(w, info, name);
    if ((w->interrupted || endings_came) && !w->failed)
        interrupted(g, info, name);
    else if (status == EXIT_DONE && info->over_target) /* this is a failure */
        status =
            complain(EXIT_IO,
                     "%s: segment '%s' could not grow: all %llu keys of the list are "
                     "committed, but the error is %s, and %s wanted: make room%s",
                     g->path, name, LLU(n), PERCENT(info->expected_error),
                     PERCENT(info->growth.error),
                     over_target(info) ? " and build it anew from its keys"
                                       : " before more keys come");
    else if (status == EXIT_DONE && !json && !given(g->o, OPT_QUIET))
        progress_close("added %s to segment '%s': %llu in all, %s, error %s, %s "
                       "wanted, watermark %llu",
                       COUNTED(n, "key"), name, LLU(info->keys), SIZE(info->file_bytes),
                       PERCENT(info->expected_error), PERCENT(info->growth.error),
                       LLU(info->watermark));
    return status;
}

/* Adds all keys, commits, closes the writer and reports the filter. A terminating
 * signal is obeyed when the keys so far are committed and reported: then it does not
 * return. */
static int grow_add(const struct grow *g)
{
    struct session w = {.g = g};
    struct tamis_filter_info info;
    int status = add_and_commit(&w);
    bool known = tamis_writer_info(g->writer, &info, NULL) == 0;
    struct tamis_diag diag;
    int err = tamis_writer_close(g->writer, &diag);
    if (w.committed && err != 0)
        status = grow_failed(g, err, &diag);
    if (known && (w.committed || w.failed))
        status = tell(&w, &info, status);
    return w.committed && err == 0 ? grow_end(status) : status;
}

/* ---- the segment ---- */

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
        err = tamis_snapshot_segment(*snapshot, target.ordinal - 1, info);
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
        status = complain(
            EXIT_DAMAGE,
            "%s: segment '%s' is bound to %s: leave out --bind, or take the segment "
            "that belongs to the file",
            g->path, TEXT(g->name),
            info.binding_bytes ? HEX(info.binding, info.binding_bytes) : "nothing");
    } else if (given(o, OPT_RANK) && info.rank != o->rank) {
        status = complain(EXIT_USAGE,
                          "%s: segment '%s' has --rank %u: leave it out or take a new "
                          "segment",
                          g->path, TEXT(g->name), info.rank);
    }
    tamis_snapshot_release(snapshot);
    return status;
}

/* May the segment be made? A list without keys makes none unless --empty is given. */
static int check_new(const struct grow *g)
{
    struct tamis_snapshot *snapshot = NULL;
    struct tamis_segment_info info;
    int err = look_up(g, &snapshot, &info);
    tamis_snapshot_release(snapshot);
    if (err == 0 && info.state == TAMIS_SEGMENT_BARE) {
        char *word = shell_quoted(g->name, strlen(g->name));
        complain(
            0,
            "%s: segment '%s' is registered without a filter: 'tamis build' it with "
            "--replaces %s",
            g->path, TEXT(g->name), word);
        free(word);
        return EXIT_USAGE;
    }
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
    complain_despite_signals();
    endings_note(&endings);
    endings_hold();
    int status = store_open(g.path, &g.store);
    endings_release();
    if (status == EXIT_DONE)
        status =
            keys_open(o.n_args > 2 ? o.args[2] : "-", o.format, &endings_came, &g.keys);
    /* Other processes may want the segment's writer while this one waits for keys. A
     * list whose first key is bad makes no segment. */
    if (status == EXIT_DONE) {
        int any = keys_any(g.keys);
        status = grow_ended(&g);
        if (status == EXIT_DONE && any < 0)
            status = keys_status(g.keys);
    }
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
                OPTION(FACTOR), OPTION(TIGHTENING), OPTION(FIRST),
                OPTIONS(WITH(OPT_BIND) | WITH(OPT_RANK),
                        "for a new segment: see 'tamis help build'"),
                OPTION(EMPTY, "accept a list without keys, even for a new segment or a "
                              "higher --watermark"),
                QUIET_OR_JSON, OPTIONS(KEY_FLAGS)},
    .examples = "tail -n +1001 log | tamis grow store memtable --watermark 2000\n",
    .run = run,
};
