/* tamis file build: keys in, one sealed filter file out, no store needed. */
#include <math.h>

#include "../talk/endings.h"
#include "file.h"

static int prepare(const struct options *o, struct tamis_store_info *info,
                   struct tamis_domain *domain, struct tamis_builder_options *opt)
{
    struct tamis_diag diag = {0};
    struct tamis_store *store;
    opt->size = sizeof(*opt);
    opt->error = o->growth.error;
    opt->watermark = o->watermark;
    opt->n_threads = o->jobs;
    opt->check = given(o, OPT_CHECK);
    opt->list_bits = o->list_bits;
    opt->kind = filter_kind(o);
    opt->identity = identity_of(o);
    if (given(o, OPT_SEED)) {
        opt->domain = domain;
        return status_of_error(tamis_domain_init(domain, 1, o->seed));
    }
    if (given(o, OPT_STORE)) {
        /* Domain and UUID of the store, so that the file can be attached there. */
        int status = store_open(o->store, &store);
        if (status != EXIT_DONE)
            return status;
        int err = tamis_store_info(store, info, &diag);
        tamis_store_close(store);
        if (err != 0)
            return complain_error(err, &diag, o->store, NULL);
        opt->domain = &info->domain;
        opt->identity.store_uuid = info->uuid;
        if (!given(o, OPT_FPR))
            opt->error = info->growth.error;
    }
    return EXIT_DONE;
}

static void print_closing(const struct options *o, const char *file)
{
    struct tamis_filter_info info = {0};
    struct tamis_filter *filter;
    if (tamis_filter_open(file, NULL, &filter, NULL) == 0)
        tamis_filter_info(filter, &info, NULL);
    tamis_filter_close(filter);
    if (info.hash_bits) /* the header of a list has no error below 1e-8 */
        info.growth.error = fmin(1, ldexp((double)info.n_hashes, -(int)info.hash_bits));
    work_is_done();
    if (given(o, OPT_JSON)) {
        progress_clear();
        json_print(json_of("file", json_text(file), "keys", json_count(info.keys),
                           "bytes", json_count(info.file_bytes), "error",
                           json_number(info.growth.error)));
    } else if (!given(o, OPT_QUIET)) {
        progress_close("built %s: %s, %s, error %s", PATH(file),
                       COUNTED(info.keys, "key"), SIZE(info.file_bytes),
                       PERCENT(info.growth.error));
    }
}

static int build(const struct options *o, const struct tamis_builder_options *opt)
{
    struct tamis_builder *builder = NULL;
    struct key_reader *keys = NULL;
    struct tamis_diag diag = {0};
    const char *file = o->args[0];
    int status = check_new_file(file); /* before any key is read */
    if (status == EXIT_DONE)
        status = keys_open(o->n_args > 1 ? o->args[1] : "-", o->format, NULL, &keys);
    if (status != EXIT_DONE)
        return status;
    int err = tamis_builder_create(opt, &builder, &diag);
    if (!given(o, OPT_QUIET))
        progress_start("build", keys_size(keys));
    if (err == 0)
        status = keys_into(builder, keys, UINT64_MAX, file);
    if (err == 0 && status == EXIT_DONE)
        status = check_empty(keys, given(o, OPT_EMPTY),
                             "its filter would say ABSENT of every key");
    if (err == 0 && status == EXIT_DONE) {
        struct tamis_finish_options how = {.size = sizeof how,
                                           .list = given(o, OPT_LIST)};
        struct endings endings;
        endings_catch(&endings); /* if a signal ends it, no file stays */
        err = tamis_builder_finish(builder, file, &how, NULL, &diag);
        endings_let(&endings, err != 0);
    }
    if (err != 0)
        status = complain_error(err, &diag, file,
                                err == TAMIS_ERR_DAMAGED ? advice_flipped : NULL);
    if (status == EXIT_DONE)
        print_closing(o, file);
    tamis_builder_free(builder);
    keys_close(keys);
    return status;
}

static int run(int argc, char **argv)
{
    struct tamis_builder_options opt = {0};
    struct tamis_store_info info;
    struct tamis_domain domain;
    struct options o;
    parse_options(argc, argv, 1, 2, &o);
    if (given(&o, OPT_STORE) && given(&o, OPT_SEED))
        usage_error("--store has its own seed: leave out --seed");
    if (given(&o, OPT_LIST) &&
        (given(&o, OPT_FPR) || given(&o, OPT_CHECK) || given(&o, OPT_KIND)))
        usage_error("--list makes a list of hashes and no filter: leave out --%s",
                    given(&o, OPT_FPR)     ? "fpr"
                    : given(&o, OPT_CHECK) ? "check"
                                           : "kind, or --list");
    int status = prepare(&o, &info, &domain, &opt);
    if (status == EXIT_DONE)
        status = build(&o, &opt);
    return status;
}

const struct command cmd_file_build = {
    .name = "file build",
    .arguments = "FILE [KEYFILE|-]",
    .summary = "build a filter file without a store",
    .about =
        "Builds a sealed filter of exact size, or a list of the keys' hashes. FILE "
        "must not exist.\n",
    .options = {OPTION(FPR,
                       "error, 1e-8..0.5 or with %; default: the store's, or 0.01"),
                OPTION(STORE), OPTION(SEED), OPTION(SEGMENT), OPTION(BIND),
                OPTION(WATERMARK),
                OPTION(LIST, "a list of their hashes instead, of BITS, 1..64 (64)"),
                OPTION(KIND), OPTION(JOBS),
                OPTIONS(WITH(OPT_CHECK) | WITH(OPT_EMPTY),
                        "ask the filter for every key; accept a list without keys"),
                QUIET_OR_JSON, OPTIONS(KEY_FLAGS)},
    .notes = "It keeps 64 MiB of hashes, 8 bytes a key; others go to an unlinked file "
             "in $TMPDIR or /tmp. A larger filter takes its own size.\n",
    .examples = "tamis file build words.tamis /usr/share/dict/words --fpr 0.1%\n"
                "tamis file build s.tamis keys.txt --store store --segment s\n",
    .run = run,
};
