/* tamis-leveldb: a filter for each table of an existing LevelDB database, in a store.
 * The database is not opened and not changed, and another process may be writing to it:
 * what is built is what its MANIFEST lists at one moment, all of it or nothing, in one
 * edit. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../process.h"
#include "fill.h"

/* fail.c wants to know the command's name for mistakes that it finds itself. */
const char program[] = "tamis-leveldb";
static const struct command self = {.name = "tamis-leveldb"};
const struct command *this_command = &self;

static const char help[] =
    "usage: tamis-leveldb [--fpr P] STORE DATABASE\n"
    "\n"
    "Brings STORE (see 'tamis init') up to date with a LevelDB database: a segment "
    "for\n"
    "each of its tables, named by its file, with a filter of the table's keys, "
    "tombstones\n"
    "included. Segments of tables that are gone are dropped. The database may be in "
    "use.\n"
    "\n"
    "  --fpr P          error, 1e-8..0.5 or with %; the store's default\n"
    "  -h, --help       this\n"
    "  -V, --version    the version of tamis\n"
    "\n"
    "What LevelDB has in its log only is in no table, and in no segment; it says how "
    "much\n"
    "that is. A segment's binding, by which to ask for it, is the file's size and the\n"
    "XXH3-64 (seed 0) of all its bytes, both u64, little-endian; its rank is its "
    "level.\n"
    "\n"
    "Exit status: 0 done; 2 usage; 3 damage; 4 input or output; 5 no such database or\n"
    "store; 6 the database changes too fast, or the store is busy; 7 the database has "
    "a\n"
    "comparator of its own, under which different bytes may be the same key. Unless it "
    "is\n"
    "0, nothing has changed.\n";

static int parse_error(const char *text, double *error)
{
    char *end;

    *error = strtod(text, &end);
    if (end != text && strcmp(end, "%") == 0) {
        *error /= 100;
        end++;
    }
    if (end == text || *end != '\0' || !(*error >= 1e-8 && *error <= 0.5))
        return complain(EXIT_USAGE, "--fpr %s: give an error of 1e-8..0.5, or with %%",
                        text);
    return EXIT_DONE;
}

/* Comes back from getopt_long() having said nothing itself. */
static int parse(int argc, char **argv, struct fill *f)
{
    static const struct option options[] = {{"fpr", required_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    int c, status = EXIT_DONE;

    opterr = 0;
    while (status == EXIT_DONE &&
           (c = getopt_long(argc, argv, "hV", options, NULL)) != -1)
        switch (c) {
        case 'f':
            status = parse_error(optarg, &f->error);
            break;
        case 'h':
            fputs(help, stdout);
            exit(finish_output(EXIT_DONE));
        case 'V':
            printf("tamis-leveldb %s\n", tamis_version());
            exit(finish_output(EXIT_DONE));
        default:
            status = complain(EXIT_USAGE,
                              "%s: no such option, or it lacks its value: "
                              "see 'tamis-leveldb --help'",
                              argv[optind - 1]);
        }
    if (status == EXIT_DONE && argc - optind != 2)
        status = complain(EXIT_USAGE, "a STORE and a DATABASE are wanted: see "
                                      "'tamis-leveldb --help'");
    if (status == EXIT_DONE) {
        f->store_path = argv[optind];
        f->database = argv[optind + 1];
    }
    return status;
}

int main(int argc, char **argv)
{
    struct fill f = {0};
    struct tamis_diag diag = {0};
    int err, status;

    process_begin();
    status = parse(argc, argv, &f);
    if (status != EXIT_DONE)
        return status;
    err = tamis_store_open(f.store_path, &f.store, &diag);
    if (err != 0)
        return complain_error(err, &diag, f.store_path,
                              store_advice(err, f.store_path));
    status = fill_store(&f);
    tamis_store_close(f.store);
    return finish_output(status);
}
