/* The `tamis` command: its table of commands and main. Everything else of a command is
 * in its own cmd_*.c. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

static const struct command *const commands[] = {
    &cmd_init,        &cmd_build,  &cmd_attach,     &cmd_grow,      &cmd_seal,
    &cmd_drop,        &cmd_probe,  &cmd_ls,         &cmd_stat,      &cmd_verify,
    &cmd_repair,      &cmd_backup, &cmd_file_build, &cmd_file_show, &cmd_file_probe,
    &cmd_file_verify, &cmd_plan,
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const struct command *this_command;

/* Those whose names begin so. */
static void print_summaries(FILE *to, const char *prefix)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strncmp(commands[i]->name, prefix, strlen(prefix)) == 0)
            fprintf(to, "  tamis %-12s %s\n", commands[i]->name, commands[i]->summary);
}

static void print_commands(FILE *to)
{
    fprintf(to,
            "tamis keeps one filter per segment of a storage engine, so that looking "
            "up\nan absent key reads no disk.\n\nusage:\n");
    print_summaries(to, "");
    fprintf(to,
            "\n'tamis help COMMAND' or 'tamis COMMAND --help' says more; 'tamis help "
            "keys',\n'tamis help exit' and 'tamis help json' what all have in common; "
            "'tamis\n--version' which one this is.\n");
}

static const char key_help[] =
    "A KEYFILE has one key per line: any bytes but newline, at most 65536 of them (a\n"
    "carriage return belongs to its key, an empty line is the empty key, the last\n"
    "newline may be missing). '-' is standard input.\n"
    "  -0, --null   keys end with NUL instead\n"
    "  --hex        lines of hex digits, for keys of any bytes\n"
    "  --binary     each key after its length, 4 bytes little-endian\n"
    "\n"
    "In output, unprintable bytes and backslashes are \\xHH.\n";

static const char exit_help[] =
    "Exit status:\n"
    "   0  done (probe --quiet: the key may be there)\n"
    "   2  wrong usage, a number out of range, a bad key list, or a segment, file or\n"
    "      store that exists already\n"
    "   3  not a filter or store, a newer format, damage or lost keys found, or a\n"
    "      filter of another domain or binding\n"
    "   4  I/O error, of the output as well\n"
    "   5  no such segment or store\n"
    "   6  busy: another writer has the segment\n"
    "  10  probe --quiet: the key is absent\n";

_Noreturn void print_help_and_exit(void)
{
    printf("usage: tamis %s %s\n\n%s", this_command->name, this_command->arguments,
           this_command->help);
    exit(finish_output(EXIT_DONE));
}

/* The command that words[0], or words[0] and words[1], name. */
static const struct command *find(char *const *words, size_t n, size_t *used)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i]->name, *space = strchr(name, ' ');
        size_t first = space ? (size_t)(space - name) : strlen(name);

        if (n == 0 || strlen(words[0]) != first || memcmp(name, words[0], first) != 0)
            continue;
        *used = space ? 2 : 1;
        if (space == NULL || (n > 1 && strcmp(words[1], space + 1) == 0))
            return commands[i];
    }
    return NULL;
}

static int unknown(char *const *words, size_t n)
{
    char *name = escape(words[0], strlen(words[0]));
    int status;

    if (strcmp(name, "file") == 0)
        status = complain(EXIT_USAGE, "file: %s: it is build, show, probe or verify",
                          n > 1 ? "no such command" : "which command");
    else
        status = complain(
            EXIT_USAGE, "no such command '%s': 'tamis help' lists the commands", name);
    free(name);
    return status;
}

static int help(char *const *words, size_t n)
{
    size_t used;

    if (n == 0)
        print_commands(stdout);
    else if (strcmp(words[0], "json") == 0)
        fputs(json_help, stdout);
    else if (strcmp(words[0], "keys") == 0)
        fputs(key_help, stdout);
    else if (strcmp(words[0], "exit") == 0)
        fputs(exit_help, stdout);
    else if (n == 1 && strcmp(words[0], "file") == 0)
        print_summaries(stdout, "file ");
    else if ((this_command = find(words, n, &used)) != NULL)
        print_help_and_exit();
    else
        return unknown(words, n);
    return EXIT_DONE;
}

/* A closed standard descriptor would be given to the next file that is opened, and
 * messages would go into a store. What takes its place fails when it is used. */
static void plug_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDWR};

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            exit(EXIT_IO);
}

static int run(int argc, char **argv)
{
    size_t n = (size_t)argc - 1, used = 0;

    if (n == 0) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0)
        return help(argv + 2, n - 1);
    if (strcmp(argv[1], "--version") == 0 && n > 1)
        return complain(EXIT_USAGE, "--version takes no argument: leave it out");
    if (strcmp(argv[1], "--version") == 0) {
        printf("tamis %s\n", tamis_version());
        return EXIT_DONE;
    }
    this_command = find(argv + 1, n, &used);
    if (this_command == NULL)
        return unknown(argv + 1, n);
    return this_command->run(argc - (int)used, argv + used);
}

int main(int argc, char **argv)
{
    int status;

    plug_descriptors();
    /* Past a limit of file sizes, writing fails with EFBIG: that can be said and
     * cleaned up after, a signal can't. */
    signal(SIGXFSZ, SIG_IGN);
    /* A page that the disk cannot deliver is an answer, not the end. */
    tamis_guard_install(NULL);
    if (argc < 1)
        return EXIT_USAGE;
    status = run(argc, argv);
    options_free();
    return finish_output(status);
}
