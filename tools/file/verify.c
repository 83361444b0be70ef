/* tamis file verify: is every page of this one filter whole, and every key in it? */
#include "file.h"

static int run(int argc, char **argv)
{
    struct against against = {0};
    struct tamis_filter_info info;
    struct tamis_filter *filter;
    struct options o;
    json_t *list = NULL, *root = NULL;
    int status, keys = EXIT_DONE;
    parse_options(argc, argv, 1, 1, &o);
    if (given(&o, OPT_EMPTY) && !given(&o, OPT_AGAINST))
        usage_error("--empty is for --against");
    status = file_open(&o, &filter);
    if (status != EXIT_DONE)
        return status;
    struct name name = filter_name(filter, o.args[0], &info);
    if (given(&o, OPT_JSON))
        list = memory_or_exit(json_array());
    status = verify_one(filter, name, o.args[0], NULL, NULL, list);
    if (list != NULL)
        root = json_incref(json_array_get(list, 0));
    json_decref(list);
    if (given(&o, OPT_AGAINST)) {
        if (root != NULL)
            against.list = memory_or_exit(json_array());
        progress_start("verify", regular_bytes(o.against));
        keys = against_list(&against, o.against, &o, &info.domain, name, probe_filter,
                            filter);
        progress_clear();
        keys = first_failure(keys, against_end(&against, o.args[0], root));
    }
    if (root != NULL)
        json_print(root);
    tamis_filter_close(filter);
    return status ? status : keys;
}

const struct command cmd_file_verify = {
    .name = "file verify",
    .arguments = "FILE [--offset N] [--against KEYFILE]",
    .summary = "check every page of one filter",
    .about =
        "Reads and checks every page. A pack answers for all its columns together, so "
        "that one may hide what another has lost: 'tamis verify STORE' asks each.\n",
    .options = {OPTION(OFFSET, "the filter starts here in FILE, a multiple of 4096"),
                OPTION(AGAINST, "look up every key of the list as well"),
                OPTION(EMPTY, "accept a list without keys: it checks nothing"),
                OPTION(JSON), OPTIONS(KEY_FLAGS)},
    .examples = "tamis file verify words.tamis --against /usr/share/dict/words\n",
    .run = run,
};
