/* The same arguments, statuses and words for each engine. */
#include <getopt.h>

#include "bridge.h"

const char bridge_options_help[] =
    "  --fpr P          error of new filters, 1e-8..0.5 or with %; default: STORE's\n"
    "  --dry-run        say what would change, and change nothing\n"
    "  --wait SECONDS   wait so long at most for another process, 0: not at all\n"
    "  --force          replace and drop segments of other databases, or of none\n"
    "  --json           the summary as one JSON value: tamis-json(5)\n"
    "  -h, --help       print this help\n"
    "  -V, --version    print the version of tamis\n";

const char bridge_exit_help[] =
    "Exit: 0 done; 2 usage; 3 damage, another comparator, no such database, or not\n"
    "the one that STORE mirrors; 4 I/O error; 5 no such STORE or directory; 6 in use.\n"
    "STORE changes in one edit, or not at all. If only the summary fails, the edit is\n"
    "done, and it exits 4.\n";

static int parse_real(const char *name, double min, double max, double *x)
{
    char *end;
    *x = strtod(optarg, &end);
    if (end != optarg && strcmp(end, "%") == 0) {
        *x /= 100;
        end++;
    }
    if (end == optarg || *end != '\0' || !(*x >= min && *x <= max))
        return complain(EXIT_USAGE, "--%s %s: give %g..%g, or with %%", name, optarg,
                        min, max);
    return EXIT_DONE;
}

static int parse_option(int c, char **argv, const char *help, struct bridge *out)
{
    switch (c) {
    case 'f':
        return parse_real("fpr", 1e-8, 0.5, &out->error);
    case 'w':
        return parse_real("wait", 0, 1e9, &wait_limit);
    case 'd':
        out->dry_run = true;
        return EXIT_DONE;
    case 'F':
        out->force = true;
        return EXIT_DONE;
    case 'j':
        out->json = true;
        return EXIT_DONE;
    case 'h':
        fputs(help, stdout);
        fputs(bridge_options_help, stdout);
        printf("\n%s", bridge_exit_help);
        exit(finish_output(EXIT_DONE));
    case 'V':
        printf("%s %s\n", program, tamis_version());
        exit(finish_output(EXIT_DONE));
    default:
        return complain(EXIT_USAGE,
                        "%s: no such option, or it lacks its value: see '%s --help'",
                        argv[optind - 1], program);
    }
}

int bridge_parse(int argc, char **argv, const char *help, size_t max_directories,
                 struct bridge *out)
{
    static const struct option options[] = {
        {"fpr", required_argument, NULL, 'f'}, {"wait", required_argument, NULL, 'w'},
        {"dry-run", no_argument, NULL, 'd'},   {"force", no_argument, NULL, 'F'},
        {"json", no_argument, NULL, 'j'},      {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},   {NULL, 0, NULL, 0}};
    int c, status = EXIT_DONE;
    *out = (struct bridge){.store = NULL};
    opterr = 0;
    while (status == EXIT_DONE &&
           (c = getopt_long(argc, argv, "hV", options, NULL)) != -1)
        status = parse_option(c, argv, help, out);
    size_t n = (size_t)(argc - optind);
    if (status == EXIT_DONE && (n < 2 || n - 1 > max_directories))
        status = complain(
            EXIT_USAGE, "a STORE and a DATABASE are wanted: see '%s --help'", program);
    if (status == EXIT_DONE) {
        out->store = argv[optind];
        out->directories = argv + optind + 1;
        out->n_directories = n - 1;
    }
    return status;
}
