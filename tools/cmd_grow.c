/* tamis grow: adds keys to the growing filter of a segment and commits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static int create(struct tamis_store *store, const struct options *o,
                  struct tamis_diag *diag)
{
    struct tamis_segment_options opt;
    struct tamis_edit *e;
    int err = tamis_edit_begin(store, &e, diag);

    if (err != 0)
        return err;
    segment_options(o, &opt);
    err = tamis_edit_put_growing(e, o->args[1], strlen(o->args[1]),
                                 o->given & GROWTH_OPTIONS ? &o->growth : NULL, &opt,
                                 diag);
    if (err != 0) {
        tamis_edit_abort(e);
        return err;
    }
    return tamis_edit_commit(e, diag);
}

/* How a filter grows is fixed when it is made: asking for something else, and not
 * getting it, must not look like success. */
static int check_growth(struct tamis_writer *writer, const struct options *o)
{
    struct tamis_filter_info info;
    int err = tamis_writer_info(writer, &info);

    if (err != 0)
        return complain_error(err, NULL, o->args[0], NULL);
    if ((given(o, OPT_FPR) && fabs(info.growth.error - o->growth.error) > 1e-12) ||
        (given(o, OPT_FACTOR) && fabs(info.growth.factor - o->growth.factor) > 1e-9) ||
        (given(o, OPT_TIGHTENING) &&
         fabs(info.growth.tightening - o->growth.tightening) > 1e-9) ||
        (given(o, OPT_FIRST) && info.growth.first_capacity != o->growth.first_capacity))
        return complain(EXIT_USAGE,
                        "%s: segment '%s' grows with --fpr %g -s %g -r %g --n0 %llu: "
                        "leave them out or take a new segment",
                        o->args[0], o->args[1], info.growth.error, info.growth.factor,
                        info.growth.tightening,
                        (unsigned long long)info.growth.first_capacity);
    return EXIT_DONE;
}

static int no_filter(const struct options *o)
{
    char *name = escape(o->args[1], strlen(o->args[1]));

    complain(0,
             "%s: segment '%s' is registered without a filter: 'tamis build' it with "
             "--replaces '%s'",
             o->args[0], name, name);
    free(name);
    return EXIT_USAGE;
}

static int open_writer(struct tamis_store *store, const struct options *o,
                       struct tamis_writer **writer)
{
    size_t n = strlen(o->args[1]);
    struct tamis_diag diag = {0};
    int err = tamis_store_writer(store, o->args[1], n, writer, &diag);

    if (err == TAMIS_ERR_NO_SEGMENT) {
        err = create(store, o, &diag);
        /* Another process was faster: then it is there. */
        if (err == 0 || err == TAMIS_ERR_EXISTS)
            err = tamis_store_writer(store, o->args[1], n, writer, &diag);
        if (err == TAMIS_ERR_NO_SEGMENT)
            return no_filter(o);
    } else if (err == 0 && (o->given & GROWTH_OPTIONS) != 0) {
        int status = check_growth(*writer, o);

        if (status != EXIT_DONE)
            tamis_writer_close(*writer);
        return status;
    }
    return err ? complain_error(err, &diag, o->args[0], NULL) : EXIT_DONE;
}

static int add_keys(struct tamis_writer *writer, struct key_reader *keys,
                    const struct options *o)
{
    uint64_t position = 0, n = 0, now;
    const void *key;
    size_t bytes;
    int got, err;

    while ((got = keys_next(keys, &key, &bytes)) > 0) {
        err = tamis_writer_add_key(writer, key, bytes);
        if (err != 0)
            return complain_error(err, NULL, o->args[0], NULL);
        if (++n % 4096 == 0) {
            now = keys_position(keys);
            progress_advance(4096, now - position);
            position = now;
        }
    }
    progress_advance(n % 4096, keys_position(keys) - position);
    return got < 0 ? keys_status(keys) : EXIT_DONE;
}

static int grow(struct tamis_writer *writer, struct key_reader *keys,
                const struct options *o)
{
    struct tamis_diag diag = {0};
    uint64_t old = tamis_writer_watermark(writer);
    int err, status;

    if (given(o, OPT_WATERMARK) && o->watermark < old) {
        tamis_writer_close(writer);
        return complain(
            EXIT_USAGE,
            "%s: segment '%s' is at watermark %llu: --watermark never falls",
            o->args[0], o->args[1], (unsigned long long)old);
    }
    progress_start("grow", keys_size(keys));
    status = add_keys(writer, keys, o);
    if (status == EXIT_DONE) {
        err = tamis_writer_commit(writer, given(o, OPT_WATERMARK) ? o->watermark : old,
                                  &diag);
        if (err != 0)
            status = complain_error(err, &diag, o->args[0], NULL);
    }
    err = tamis_writer_close(writer);
    if (err != 0 && status == EXIT_DONE)
        status = complain_error(err, NULL, o->args[0], NULL);
    if (status == EXIT_DONE)
        progress_end();
    return status;
}

static int run(int argc, char **argv)
{
    struct tamis_store *store = NULL;
    struct tamis_writer *writer = NULL;
    struct key_reader *keys = NULL;
    struct options o;
    int status;

    parse_options(argc, argv,
                  KEY_FLAGS | GROWTH_OPTIONS | WITH(OPT_WATERMARK) | WITH(OPT_BIND) |
                      WITH(OPT_RANK),
                  2, 3, &o);
    check_name(o.args[1], strlen(o.args[1]));
    status = store_open(o.args[0], &store);
    if (status == EXIT_DONE)
        status = keys_open(o.n_args > 2 ? o.args[2] : "-", o.format, &keys);
    if (status == EXIT_DONE)
        status = open_writer(store, &o, &writer);
    if (status == EXIT_DONE)
        status = grow(writer, keys, &o);
    keys_close(keys);
    tamis_store_close(store);
    return status;
}

const struct command cmd_grow = {
    "grow", "STORE SEGMENT [KEYFILE|-] [--watermark N]", "add keys to a growing filter",
    "Adds keys to the growing filter of a segment, which is made if there is none, "
    "and\n"
    "commits: on return they are durable. Readers see them at once.\n"
    "\n"
    "  --watermark N         your log position: all keys up to here are in; never "
    "falls\n"
    "  --fpr P               error as a whole, 1e-8..0.5 or with %; the store's "
    "default\n"
    "  -s, --factor S        each stage holds S times the last, 1.25..16\n"
    "  -r, --tightening R    ... at R times its error, 0.5..0.95\n"
    "  --n0 N                keys in the first stage, 1..4294967296\n"
    "  --bind HEX, --rank N  of a new segment: see 'tamis help build'\n"
    "  -0, --hex, --binary   what KEYFILE looks like: 'tamis help keys'\n",
    run};
