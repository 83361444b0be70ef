/* The keys that a probe asks for: arguments, or a list. */
#include <unistd.h>

#include "../talk/screen.h"
#include "input.h"

void check_probe_options(const struct options *o)
{
    size_t n_keys = o->n_args - 1;
    if (given(o, OPT_KEYS_FILE) == (n_keys > 0))
        usage_error(n_keys > 0 ? "either KEYs or --keys FILE, not both"
                               : "no key: name some, or --keys FILE");
    if (given(o, OPT_QUIET) && n_keys != 1)
        usage_error("--quiet answers for one KEY by exit status");
    if (given(o, OPT_QUIET) && (given(o, OPT_JSON) || given(o, OPT_COUNT)))
        usage_error("--quiet prints nothing: leave out --json and --count");
    if (given(o, OPT_EXPLAIN) && (given(o, OPT_QUIET) || given(o, OPT_COUNT)))
        usage_error("--explain prints each answer: leave out --quiet and --count");
    if ((given(o, OPT_NUL) || given(o, OPT_BINARY)) && n_keys > 0)
        usage_error("-0 and --binary are for --keys FILE");
}

static int ask_list(const struct options *o, const struct tamis_domain *domain,
                    ask_fn *ask, void *ctx)
{
    struct key_batch batch;
    struct key_reader *reader;
    uint64_t position = 0;
    int got = 0, status = keys_open(o->keys_file, o->format, NULL, &reader);
    if (status != EXIT_DONE)
        return status;
    /* Answers on the same terminal show more than progress. */
    if (given(o, OPT_COUNT) || isatty(STDOUT_FILENO) != 1)
        progress_start("probe", keys_size(reader));
    while (status == EXIT_DONE && (got = keys_batch(reader, domain, &batch)) > 0) {
        status = ask(ctx, batch.keys, batch.n);
        progress_advance(batch.n, keys_position(reader) - position);
        position = keys_position(reader);
        /* A program that asks through pipes gets each answer before it asks again. */
        if (!output_works())
            status = EXIT_IO;
    }
    if (got < 0)
        status = keys_status(reader);
    if (status == EXIT_DONE)
        progress_end();
    keys_close(reader);
    return status;
}

int ask_keys(const struct options *o, const struct tamis_domain *domain, ask_fn *ask,
             void *ctx)
{
    int status = EXIT_DONE;
    if (given(o, OPT_KEYS_FILE))
        return ask_list(o, domain, ask, ctx);
    for (size_t i = 1; i < o->n_args && status == EXIT_DONE; i++) {
        char *text = o->args[i];
        size_t n = strlen(text);
        if (o->format == KEYS_HEX) {
            long bytes = parse_hex(text, n, (uint8_t *)text, n);
            if (bytes < 0)
                usage_error("'%s' is not an even number of hex digits", text);
            n = (size_t)bytes;
        }
        struct tamis_key key = tamis_key_of(domain, text, n);
        status = ask(ctx, &key, 1);
    }
    return status;
}
