/* tamis seal: closes growing filters for ever. */
#include "command.h"

static int seal(struct tamis_store *store, const char *path, const char *name,
                const struct options *o)
{
    struct tamis_writer *writer;
    struct tamis_filter_info info;
    struct tamis_diag diag = {0};
    uint64_t n_damaged = 0, watermark;
    int err = tamis_store_writer(store, name, strlen(name), NULL, &writer, &diag);
    if (err != 0)
        return segment_error(err, &diag, path, (struct name){name, strlen(name)},
                             err == TAMIS_ERR_SEALED ? "nothing is left to do" : NULL);
    tamis_writer_info(writer, &info, NULL);
    watermark = given(o, OPT_WATERMARK) ? o->watermark : info.watermark;
    err = tamis_writer_seal(writer, watermark, &n_damaged, &diag);
    if (err != 0) {
        tamis_writer_close(writer, NULL);
        return complain_error(err, &diag, path,
                              err == TAMIS_ERR_RANGE ? "--watermark never falls"
                                                     : NULL);
    }
    err = tamis_writer_close(writer, &diag);
    if (err != 0)
        return complain_error(err, &diag, path, NULL);
    if (n_damaged == 0)
        return EXIT_DONE;
    return complain(EXIT_DAMAGE,
                    "%s: segment '%s': %s, sealed as all ones: no key is lost; build "
                    "it anew to lower its error",
                    path, TEXT(name), COUNTED(n_damaged, "damaged page"));
}

/* Checks every segment before the first one is sealed. */
static int check(struct tamis_snapshot *snapshot, const struct options *o, size_t i)
{
    struct tamis_segment_info s;
    struct tamis_filter_info info = {.watermark = 0};
    struct tamis_filter *filter;
    int err = tamis_snapshot_segment(snapshot, i, &s);
    if (err != 0)
        return complain_error(err, NULL, o->args[0], NULL);
    const char *name = NAME(s.name, s.name_bytes);
    if (s.state == TAMIS_SEGMENT_SEALED)
        return complain(EXIT_USAGE, "%s: segment '%s' is sealed: nothing is left to do",
                        o->args[0], name);
    if (s.state == TAMIS_SEGMENT_BARE)
        return complain(EXIT_USAGE,
                        "%s: segment '%s' is registered without a filter: only growing "
                        "ones are sealed",
                        o->args[0], name);
    if (tamis_snapshot_filter(snapshot, i, &filter, NULL) == 0)
        tamis_filter_info(filter, &info, NULL);
    tamis_filter_close(filter);
    if (given(o, OPT_WATERMARK) && o->watermark < info.watermark)
        return complain(EXIT_USAGE,
                        "%s: segment '%s' is at watermark %llu: --watermark never "
                        "falls",
                        o->args[0], name, LLU(info.watermark));
    return EXIT_DONE;
}

static int check_all(struct tamis_snapshot *snapshot, const struct options *o)
{
    size_t *picked, n;
    int status =
        pick_segments(snapshot, o->args[0], o->args + 1, o->n_args - 1, &picked, &n);
    if (status != EXIT_DONE)
        return status;
    for (size_t i = 0; i < n && status == EXIT_DONE; i++)
        status = check(snapshot, o, picked[i]);
    free(picked);
    return status;
}

static int run(int argc, char **argv)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    struct options o;
    bool damaged = false;
    int status, one;
    parse_options(argc, argv, 2, 0, &o);
    check_names((const char *const *)o.args + 1, o.n_args - 1);
    store_snapshot(o.args[0], &store, &snapshot);
    status = check_all(snapshot, &o);
    tamis_snapshot_release(snapshot);
    for (size_t i = 1; status == EXIT_DONE && i < o.n_args; i++) {
        one = seal(store, o.args[0], o.args[i], &o);
        /* A damaged page is sealed, too: go on. */
        damaged |= one == EXIT_DAMAGE;
        status = one == EXIT_DAMAGE ? EXIT_DONE : one;
    }
    tamis_store_close(store);
    return status == EXIT_DONE && damaged ? EXIT_DAMAGE : status;
}

const struct command cmd_seal = {
    .name = "seal",
    .arguments = "STORE SEGMENT... [--watermark N]",
    .summary = "close growing filters for ever",
    .about =
        "Commits, digests every page and closes the filters: they take no more keys. "
        "If a segment is missing, not growing or beyond the watermark, none is sealed. "
        "Else they are sealed in turn, up to the first failure, such as a segment that "
        "a writer has.\n",
    .options = {OPTION(WATERMARK, "your log position; default: the last commit's")},
    .examples = "tamis seal store memtable --watermark 2000\n",
    .run = run,
};
