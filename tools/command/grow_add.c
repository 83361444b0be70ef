/* tamis grow: adds the keys, commits, and reports what is in, however it ends. */
#include "../output/output.h"
#include "../talk/endings.h"
#include "grow.h"

/* ---- a signal to end ---- */

static struct endings endings;

int grow_keys(const struct options *o, struct key_reader **keys)
{
    return keys_open(o->n_args > 2 ? o->args[2] : "-", o->format, &endings_came, keys);
}

void grow_catch(void)
{
    complain_despite_signals();
    endings_note(&endings);
}

int grow_ended(const struct grow *g)
{
    if (!endings_came)
        return EXIT_DONE;
    return complain(EXIT_IO,
                    "%s: segment '%s': interrupted: no key of the list is committed: "
                    "run it again with the list",
                    g->path, TEXT(g->name));
}

int grow_end(int status)
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

/* A watermark claims that all keys up to it are in. An empty list makes no claim. */
static int check_claim(const struct grow *g, uint64_t old)
{
    bool rises = given(g->o, OPT_WATERMARK) && g->o->watermark > old;
    return check_empty(g->keys, !rises || given(g->o, OPT_EMPTY),
                       "the new watermark would claim keys that did not come");
}

static int check_watermark(const struct grow *g, uint64_t old)
{
    if (!given(g->o, OPT_WATERMARK) || g->o->watermark >= old)
        return EXIT_DONE;
    return complain(EXIT_USAGE,
                    "%s: segment '%s' is at watermark %llu: --watermark never falls",
                    g->path, TEXT(g->name), LLU(old));
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
    int status = check_watermark(g, old), stored;
    if (status != EXIT_DONE)
        return status;
    if (!given(g->o, OPT_QUIET))
        progress_start("grow", keys_size(g->keys));
    status = add_keys(w);
    w->interrupted = status != EXIT_DONE;
    if (status == EXIT_DONE && (status = check_claim(g, old)) != EXIT_DONE)
        return status;
    if (w->failed)
        return status;
    stored = commit(w, !w->interrupted && given(g->o, OPT_WATERMARK) ? g->o->watermark
                                                                     : old);
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

static void print_line(const struct grow *g, const struct tamis_filter_info *info,
                       const char *name)
{
    uint64_t n = keys_count(g->keys);
    progress_close("added %s to segment '%s': %llu in all, %s, error %s, %s wanted, "
                   "watermark %llu",
                   COUNTED(n, "key"), name, LLU(info->keys), SIZE(info->file_bytes),
                   PERCENT(info->expected_error), PERCENT(info->growth.error),
                   LLU(info->watermark));
}

/* The keys are in, but the error exceeds the target: this is a failure. */
static int stuck(const struct grow *g, const struct tamis_filter_info *info,
                 const char *name)
{
    bool over = over_target(info);
    return complain(EXIT_IO,
                    "%s: segment '%s' could not grow: all %llu keys of the list are "
                    "committed, but the error is %s, and %s wanted: make room%s",
                    g->path, name, LLU(keys_count(g->keys)),
                    PERCENT(info->expected_error), PERCENT(info->growth.error),
                    over ? " and build it anew from its keys"
                         : " before more keys come");
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
    bool json = given(g->o, OPT_JSON);
    if (w->committed && !w->interrupted)
        work_is_done();
    if (json)
        print_object(w, info, name);
    if ((w->interrupted || endings_came) && !w->failed)
        interrupted(g, info, name);
    else if (status == EXIT_DONE && info->over_target)
        status = stuck(g, info, name);
    else if (status == EXIT_DONE && !json && !given(g->o, OPT_QUIET))
        print_line(g, info, name);
    return status;
}

int grow_add(const struct grow *g)
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

/* Reports a failed call. Until a writer has the segment, others can drop it. */
int grow_failed(const struct grow *g, int err, const struct tamis_diag *diag)
{
    if (err == TAMIS_ERR_NO_SEGMENT)
        return complain(EXIT_NONE,
                        "%s: segment '%s' has just been dropped or replaced: run it "
                        "again",
                        g->path, TEXT(g->name));
    if (diag != NULL &&
        (err == ENOENT || err == TAMIS_ERR_NOT_TAMIS || is_wrong_type(err)))
        return segment_error(err, diag, g->path,
                             (struct name){g->name, strlen(g->name)}, NULL);
    return complain_error(err, diag, g->path, NULL);
}
