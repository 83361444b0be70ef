/* tamis seal: closes growing filters for ever. */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static int seal(struct tamis_store *store, const char *path, const char *name,
                const struct options *o)
{
    struct tamis_writer *writer;
    struct tamis_diag diag = {0};
    uint64_t n_damaged = 0, watermark;
    int err = tamis_store_writer(store, name, strlen(name), &writer, &diag);

    if (err != 0)
        return complain_error(err, &diag, path,
                              err == TAMIS_ERR_SEALED ? "nothing is left to do" : NULL);
    watermark = given(o, OPT_WATERMARK) ? o->watermark : tamis_writer_watermark(writer);
    err = tamis_writer_seal(writer, watermark, &n_damaged, &diag);
    if (err != 0) {
        tamis_writer_close(writer);
        return complain_error(err, &diag, path,
                              err == TAMIS_ERR_RANGE ? "--watermark never falls"
                                                     : NULL);
    }
    err = tamis_writer_close(writer);
    if (err != 0)
        return complain_error(err, NULL, path, NULL);
    if (n_damaged > 0) {
        char *text = escape(name, strlen(name));

        complain(0,
                 "%s: segment '%s': %llu damaged pages, sealed as all ones: no key is "
                 "lost, but build it anew for its error",
                 path, text, (unsigned long long)n_damaged);
        free(text);
        return EXIT_DAMAGE;
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct tamis_store *store;
    struct options o;
    int status;

    parse_options(argc, argv, WITH(OPT_WATERMARK), 2, 0, &o);
    for (size_t i = 1; i < o.n_args; i++)
        check_name(o.args[i], strlen(o.args[i]));
    status = store_open(o.args[0], &store);
    if (status != EXIT_DONE)
        return status;
    for (size_t i = 1; i < o.n_args; i++) {
        int one = seal(store, o.args[0], o.args[i], &o);

        if (one != EXIT_DONE)
            status = one;
        if (one != EXIT_DONE && one != EXIT_DAMAGE)
            break;
    }
    tamis_store_close(store);
    return status;
}

const struct command cmd_seal = {
    "seal", "STORE SEGMENT... [--watermark N]", "close growing filters for ever",
    "Commits, digests every page and closes the filters: no key can be added any "
    "more.\n"
    "\n"
    "  --watermark N    your log position; the one of the last commit\n",
    run};
