/* tamis ls: one line per segment. */
#include <unistd.h>

#include "command.h"

static void print_line(const struct tamis_segment_info *s, bool packed)
{
    if (s->state == TAMIS_SEGMENT_BARE)
        printf("%-8s %5u %12s %12s %9s %12s ", state_name(s->state), s->rank, "-", "-",
               "-", "-");
    else
        printf("%-8s %5u %12llu %12llu %9s %12llu ",
               packed ? "packed" : state_name(s->state), s->rank, LLU(s->keys),
               LLU(s->file_bytes), PERCENT(s->error), LLU(s->watermark));
    printf("%-20s  %s\n", TIME(s->created), NAME_OR(s->name, s->name_bytes));
}

static int run(int argc, char **argv)
{
    struct tamis_snapshot *snapshot;
    struct tamis_store *store;
    struct options o;
    json_t *list = NULL;
    size_t *picked, n, n_nameless = 0;
    parse_options(argc, argv, 1, 0, &o);
    if (given(&o, OPT_NUL) && !given(&o, OPT_NAMES))
        usage_error("-0 is for --names");
    if (given(&o, OPT_NAMES) && given(&o, OPT_JSON))
        usage_error("--names and --json exclude each other");
    store_snapshot(o.args[0], &store, &snapshot);
    int status = pick_named(snapshot, o.args[0], o.args + 1, o.n_args - 1, &picked, &n);
    if (status == EXIT_DONE && given(&o, OPT_JSON))
        list = json_stream(NULL, NULL);
    else if (status == EXIT_DONE && !given(&o, OPT_NAMES) && isatty(STDOUT_FILENO) == 1)
        printf("%-8s %5s %12s %12s %9s %12s %-20s  %s\n", "STATE", "RANK", "KEYS",
               "BYTES", "ERROR", "WATERMARK", "CREATED", "SEGMENT");
    for (size_t at = 0, i;
         status == EXIT_DONE && next_picked(snapshot, picked, n, &at, &i);) {
        struct tamis_segment_info info;
        int err = tamis_snapshot_segment(snapshot, i, &info);
        if (err != 0)
            status = complain_error(err, NULL, o.args[0], NULL);
        else if (list != NULL)
            json_put(list, NULL, segment_json(snapshot, i, &info));
        else if (given(&o, OPT_NAMES) && info.name == NULL)
            n_nameless++;
        else if (given(&o, OPT_NUL)) /* as it is, for programs and shells */
            printf("%.*s%c", (int)info.name_bytes, (const char *)info.name, '\0');
        else if (given(&o, OPT_NAMES))
            puts(NAME(info.name, info.name_bytes));
        else
            print_line(&info, tamis_snapshot_pack(snapshot, i, NULL, NULL, NULL) == 0 ||
                                  is_in_lost_pack(snapshot, i));
    }
    if (list != NULL && status == EXIT_DONE)
        json_end(NULL);
    if (n_nameless > 0 && status == EXIT_DONE && output_works())
        status = complain(EXIT_DAMAGE,
                          "%s: %s left out, without a readable name: 'tamis verify' "
                          "says what works",
                          o.args[0], COUNTED(n_nameless, "segment"));
    free(picked);
    tamis_snapshot_release(snapshot);
    tamis_store_close(store);
    return status;
}

const struct command cmd_ls = {
    .name = "ls",
    .arguments = "STORE [SEGMENT...] [--names [-0]] [--json]",
    .summary = "list segments",
    .about =
        "Prints one line for each segment: first those with a record of their own, by "
        "rank and name, then the columns of each pack. A line has state (sealed, "
        "packed, growing, or bare: without a filter), rank, keys added (one that build "
        "reads twice counts twice, unless side by side), bytes of the file or of its "
        "share of a pack (0: the pack is lost), target error, watermark, time of "
        "registration, name. For a growing filter these are the catalog's last "
        "figures; 'tamis stat' reads the file.\n",
    .options = {OPTION(NAMES,
                       "print only names; a damaged record or pack may hide one"),
                OPTION(NUL, "... as they are and NUL-terminated, for xargs -0"),
                OPTION(JSON)},
    .examples = "tamis ls store\n"
                "tamis ls store --names -0 | xargs -0 -n 1 echo\n",
    .run = run,
};
