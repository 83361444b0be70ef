/* tamis build: sealed filters of exact size, one segment or one per key file, all in
 * one edit. */
#include <pthread.h>

#include "../talk/endings.h"
#include "command.h"

struct task {
    const char *file;
    bool sized; /* its size is chosen, or is no concern of the others */
};

struct work {
    const struct options *o;
    const char *store_path;
    struct tamis_store *store;
    struct tamis_edit *edit;
    struct tamis_packer *packer; /* NULL: each gets a file */
    struct task *tasks;
    struct name *names; /* of their segments */
    size_t n, next;
    uint64_t n_bytes;    /* of the key files */
    size_t n_sized;      /* of the first ones, without a gap */
    pthread_cond_t turn; /* n_sized or status changed */
    size_t n_workers;    /* that have begun, at most max_workers */
    size_t max_workers;
    int status; /* of the first that failed; then the others stop */
    pthread_mutex_t lock;
};

static int put_error(const struct work *w, struct name name, int err,
                     const struct tamis_diag *diag)
{
    if (err == TAMIS_ERR_DAMAGED && given(w->o, OPT_CHECK))
        return complain_error(err, diag, w->store_path, advice_flipped);
    if (err != TAMIS_ERR_EXISTS)
        return complain_error(err, diag, w->store_path, NULL);
    return exists_already(w->store_path, name);
}

/* A packer serves one thread at a time. */
static int put(struct work *w, struct tamis_builder *builder, struct tamis_diag *diag)
{
    if (w->packer == NULL)
        return tamis_edit_put(w->edit, builder, NULL, diag);
    pthread_mutex_lock(&w->lock);
    int err = tamis_packer_take(w->packer, builder, diag);
    pthread_mutex_unlock(&w->lock);
    return err;
}

/* ---- sizes, each by those before it, in the order of the key files ---- */

static void now_sized(struct work *w, struct task *task)
{
    pthread_mutex_lock(&w->lock);
    task->sized = true;
    while (w->n_sized < w->n && w->tasks[w->n_sized].sized)
        w->n_sized++;
    pthread_cond_broadcast(&w->turn);
    pthread_mutex_unlock(&w->lock);
}

/* False: another task has failed. */
static bool wait_turn(struct work *w, const struct task *task)
{
    pthread_mutex_lock(&w->lock);
    while (task != &w->tasks[w->n_sized] && w->status == EXIT_DONE)
        pthread_cond_wait(&w->turn, &w->lock);
    bool ours = w->status == EXIT_DONE;
    pthread_mutex_unlock(&w->lock);
    return ours;
}

/* Reads all keys. Nobody waits for the rest of a long list. */
static int read_task(struct work *w, struct task *task, struct tamis_builder *builder,
                     struct key_reader *keys)
{
    bool alone =
        w->o->growth.error != 0 || w->packer || filter_kind(w->o) == TAMIS_RIBBON;
    uint64_t most = alone ? 0 : TAMIS_EDIT_BALANCED_KEYS;
    int status = keys_into(builder, keys, most, w->store_path);
    if (status == EXIT_DONE && keys_count(keys) > most) {
        now_sized(w, task);
        status = keys_into(builder, keys, UINT64_MAX, w->store_path);
    }
    return status == EXIT_DONE ? check_empty(keys, given(w->o, OPT_EMPTY),
                                             "its filter would say ABSENT of every key")
                               : status;
}

static int build_one(struct work *w, struct task *task, uint32_t n_threads)
{
    struct tamis_segment_options opt;
    struct tamis_builder *builder = NULL;
    struct key_reader *keys = NULL;
    struct tamis_diag diag = {0};
    struct name name = w->names[task - w->tasks];
    int err, status = keys_open(task->file, w->o->format, &endings_came, &keys);
    if (status != EXIT_DONE)
        return status;
    segment_options(w->o, &opt);
    opt.watermark = w->o->watermark;
    opt.n_threads = n_threads;
    opt.check = given(w->o, OPT_CHECK);
    opt.list_bits = w->o->list_bits;
    opt.kind = filter_kind(w->o);
    pthread_mutex_lock(&w->lock);
    err = tamis_edit_builder(w->edit, name.bytes, name.n_bytes, w->o->growth.error,
                             &opt, &builder, &diag);
    pthread_mutex_unlock(&w->lock);
    if (err == 0)
        status = read_task(w, task, builder, keys);
    if (err == 0 && status == EXIT_DONE && !task->sized && wait_turn(w, task)) {
        err = tamis_edit_size(w->edit, builder, &diag);
        now_sized(w, task);
    }
    if (err == 0 && status == EXIT_DONE && task->sized)
        err = put(w, builder, &diag);
    if (err != 0)
        status = put_error(w, name, err, &diag);
    tamis_builder_free(builder);
    keys_close(keys);
    return status;
}

static void *worker(void *arg)
{
    struct work *w = arg;
    int status = EXIT_DONE;
    /* With fewer segments than threads, some segments get several threads to finish;
     * together they use as many as were asked for. */
    pthread_mutex_lock(&w->lock);
    uint32_t n_threads = (uint32_t)((w->o->jobs + w->n_workers++) / w->max_workers);
    pthread_mutex_unlock(&w->lock);
    for (;;) {
        struct task *task = NULL;
        pthread_mutex_lock(&w->lock);
        /* If several fail: the status of the one that was reported. */
        if (w->status == EXIT_DONE || complained_here())
            w->status = status;
        if (w->status != EXIT_DONE)
            pthread_cond_broadcast(&w->turn);
        if (w->status == EXIT_DONE && w->next < w->n)
            task = &w->tasks[w->next++];
        pthread_mutex_unlock(&w->lock);
        if (task == NULL)
            return NULL;
        status = build_one(w, task, n_threads);
    }
}

static int build_all(struct work *w)
{
    size_t n_threads = w->o->jobs < w->n ? w->o->jobs : w->n, n = 0;
    pthread_t *threads = memory_or_exit(calloc(n_threads + 1, sizeof(*threads)));
    w->max_workers = n_threads;
    /* This thread works, too. Fewer threads than asked for do the same work. */
    while (n + 1 < n_threads && pthread_create(&threads[n], NULL, worker, w) == 0)
        n++;
    worker(w);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    free(threads);
    return w->status;
}

/* The segments to build; the total size of their files for the progress line. */
static void plan_tasks(const struct options *o, struct work *w)
{
    w->n = given(o, OPT_EACH) ? o->n_args - 1 : 1;
    w->tasks = memory_or_exit(calloc(w->n, sizeof(*w->tasks)));
    w->names = memory_or_exit(calloc(w->n, sizeof(*w->names)));
    if (!given(o, OPT_EACH)) {
        check_name(o->args[1], strlen(o->args[1]));
        w->names[0] = name_of_text(o->args[1]);
        w->tasks[0].file = o->n_args > 2 ? o->args[2] : "-";
    }
    for (size_t i = 0; i < w->n; i++) {
        struct task *task = &w->tasks[i];
        if (given(o, OPT_EACH)) {
            task->file = o->args[i + 1];
            if (strcmp(task->file, "-") == 0)
                usage_error("--each takes a name from each file: '-' has none");
            w->names[i] = name_of_file(task->file, o->strip);
        }
        w->n_bytes += regular_bytes(task->file);
    }
}

static int build_pack(struct work *w)
{
    struct tamis_diag diag = {0};
    int err = tamis_edit_packer(w->edit, NULL, &w->packer, &diag), status;
    if (err != 0)
        return complain_error(err, &diag, w->store_path, NULL);
    status = build_all(w);
    if (status == EXIT_DONE) {
        err = tamis_edit_put_packed(w->edit, w->packer, NULL, &diag);
        if (err != 0)
            status = put_error(w, w->names[0], err, &diag);
    }
    tamis_packer_free(w->packer);
    return status;
}

static bool is_replaced(const struct options *o, const struct name *name)
{
    for (size_t i = 0; i < o->replaces.n; i++)
        if (strlen(o->replaces.at[i]) == name->n_bytes &&
            memcmp(o->replaces.at[i], name->bytes, name->n_bytes) == 0)
            return true;
    return false;
}

/* Checks for taken names before any key is read. The commit checks again. */
static int check_free(struct work *w)
{
    struct tamis_snapshot *snapshot;
    struct tamis_target target;
    struct tamis_diag diag = {0};
    int err = tamis_snapshot_current(w->store, &snapshot, &diag), status = EXIT_DONE;
    if (err != 0)
        return complain_error(err, &diag, w->store_path, NULL);
    for (size_t i = 0; i < w->n && status == EXIT_DONE; i++) {
        const struct name *name = &w->names[i];
        tamis_snapshot_find(snapshot, name->bytes, name->n_bytes, NULL, 0, 0, &target);
        if (target.ordinal > 0 && !is_replaced(w->o, name))
            status = put_error(w, *name, TAMIS_ERR_EXISTS, &diag);
    }
    tamis_snapshot_release(snapshot);
    return status;
}

static int put_all(void *work)
{
    struct work *w = work;
    struct tamis_segment_options opt;
    struct tamis_diag diag = {0};
    if (!given(w->o, OPT_QUIET))
        progress_start("build", w->n_bytes);
    int status = drop_replaced(w->edit, w->store, w->o);
    if (status == EXIT_DONE)
        status = check_free(w);
    if (status != EXIT_DONE)
        return status;
    if (given(w->o, OPT_BARE)) {
        segment_options(w->o, &opt);
        int err = tamis_edit_put_bare(w->edit, w->names[0].bytes, w->names[0].n_bytes,
                                      &opt, &diag);
        return err ? put_error(w, w->names[0], err, &diag) : EXIT_DONE;
    }
    return given(w->o, OPT_PACK) ? build_pack(w) : build_all(w);
}

static int not_committed(void *work, int err, const struct tamis_diag *diag)
{
    const struct work *w = work;
    return put_error(w, w->names[0], err, diag);
}

static int rebuild(const struct options *o)
{
    const uint64_t fit = WITH(OPT_FROM_LIST) | WITH(OPT_FPR) | WITH(OPT_CHECK) |
                         WITH(OPT_KIND) | WITH(OPT_JOBS) | WITH(OPT_QUIET) |
                         WITH(OPT_JSON);
    if (given(o, OPT_EACH))
        usage_error("--from-list is for one segment: leave out --each");
    if (o->n_args > 2)
        usage_error("--from-list reads no keys: leave out '%s'", o->args[2]);
    for (unsigned id = 0; id < N_OPTIONS; id++)
        if (o->given & WITH(id) & ~fit)
            usage_error("--from-list changes only the filter: leave out --%s",
                        option_table[id].name);
    return build_from_list(o);
}

static int run(int argc, char **argv)
{
    struct work w = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .turn = PTHREAD_COND_INITIALIZER};
    struct options o;
    parse_options(argc, argv, 2, 0, &o);
    if (given(&o, OPT_BARE) && !given(&o, OPT_EACH) && o.n_args > 2)
        usage_error("--bare reads no keys: leave out '%s'", o.args[2]);
    if (!given(&o, OPT_EACH) && o.n_args > 3)
        usage_error("too many arguments: --each builds a segment per key file");
    if (given(&o, OPT_EACH) && (given(&o, OPT_BIND) || given(&o, OPT_BARE)))
        usage_error("--each goes with neither --bind nor --bare");
    if (given(&o, OPT_BARE) && given(&o, OPT_EMPTY))
        usage_error("--bare reads no keys: leave out --empty");
    if (given(&o, OPT_STRIP) && !given(&o, OPT_EACH))
        usage_error("--strip is for --each");
    if (given(&o, OPT_CHECK) && given(&o, OPT_BARE))
        usage_error("--check is for a filter, and --bare makes none");
    if (given(&o, OPT_PACK) && !given(&o, OPT_EACH))
        usage_error("--pack is for --each");
    if (given(&o, OPT_LIST) && (given(&o, OPT_BARE) || given(&o, OPT_PACK)))
        usage_error("--list goes with neither --bare nor --pack");
    if (given(&o, OPT_PACK) && given(&o, OPT_CHECK))
        usage_error("--pack makes no files: leave out --check");
    if ((given(&o, OPT_KIND) || given(&o, OPT_WATERMARK)) && given(&o, OPT_BARE))
        usage_error("--%s is for a filter, and --bare makes none",
                    given(&o, OPT_KIND) ? "kind" : "watermark");
    filter_kind(&o); /* a mistake in it is one in the arguments */
    if (given(&o, OPT_FROM_LIST))
        return rebuild(&o);
    w.o = &o;
    w.store_path = o.args[0];
    plan_tasks(&o, &w);
    if (given(&o, OPT_EACH))
        check_key_files(o.args + 1, w.n, o.strip,
                        "rename one, or build it by 'tamis build STORE SEGMENT "
                        "KEYFILE'");
    int status = store_open(w.store_path, &w.store);
    if (status == EXIT_DONE)
        status = edit_store(w.store, w.store_path, &w.edit, put_all, &w, false,
                            not_committed);
    if (status == EXIT_DONE)
        status = closing_print(&o, w.store, w.names, w.n,
                               given(&o, OPT_BARE)   ? "listed"
                               : given(&o, OPT_PACK) ? "packed"
                                                     : "built");
    tamis_store_close(w.store);
    free(w.tasks);
    free(w.names);
    return status;
}

const struct command cmd_build = {
    .name = "build",
    .arguments = "STORE SEGMENT [KEYFILE|-] | STORE --each KEYFILE...",
    .summary = "build sealed filters from keys",
    .about = "Builds a filter of exact size from a segment's keys and registers it.\n",
    .options = {OPTION(FPR, "error, 1e-8..0.5 or with %; default: the store's"),
                OPTION(REPLACES), OPTION(BIND), OPTION(RANK),
                OPTION(WATERMARK, "your log position, up to which the keys go"),
                OPTION(BARE), OPTION(EACH), OPTION(STRIP), OPTION(PACK),
                OPTION(FROM_LIST),
                OPTION(LIST, "keep a list of hashes, cut to BITS (64); merge needs 64"),
                OPTION(KIND), OPTION(JOBS),
                OPTIONS(WITH(OPT_CHECK) | WITH(OPT_EMPTY),
                        "ask the filter for every key; accept a list without keys"),
                QUIET_OR_JSON, OPTIONS(KEY_FLAGS)},
    .examples = "tamis build store 000012.sst keys.txt --replaces 000007.sst\n"
                "tamis build store --each lists/*.keys --strip .keys --pack\n",
    .run = run,
};
