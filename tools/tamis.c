/* The `tamis` command: its table of commands, and main. Each command is in a file of
 * its own, in command/ or file/. */
#include "command/command.h"
#include "file/file.h"

static const struct command *const commands[] = {
    &cmd_init,           &cmd_build,        &cmd_attach,        &cmd_grow,
    &cmd_seal,           &cmd_drop,         &cmd_pack,          &cmd_unpack,
    &cmd_union,          &cmd_intersect,    &cmd_fold,          &cmd_merge,
    &cmd_probe,          &cmd_ls,           &cmd_stat,          &cmd_compare,
    &cmd_verify,         &cmd_repair,       &cmd_backup,        &cmd_file_build,
    &cmd_file_show,      &cmd_file_probe,   &cmd_file_verify,   &cmd_file_union,
    &cmd_file_intersect, &cmd_file_fold,    &cmd_file_merge,    &cmd_file_contains,
    &cmd_file_equal,     &cmd_file_compare, &cmd_file_estimate, &cmd_plan,
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

/* Prints the commands of one file, or all others. */
static void print_summaries(FILE *to, bool of_file)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if ((strncmp(commands[i]->name, "file ", 5) == 0) == of_file)
            fprintf(to, "  tamis %-*s %s\n", of_file ? 15 : 10, commands[i]->name,
                    commands[i]->summary);
}

static void print_commands(FILE *to)
{
    fprintf(to, "usage: tamis COMMAND ... [--wait SECONDS]  (an absent key needs no "
                "disk read)\n\n");
    print_summaries(to, false);
    fprintf(to, "  tamis %-10s %s\n", "file ...",
            "work on one filter file: 'tamis help file'");
    fprintf(to,
            "'tamis help COMMAND' describes one; 'tamis help keys', 'exit', 'json' the "
            "rest.\n");
}

static const char key_help[] =
    "A KEYFILE has one key per line: any bytes but newline, at most 65536. A carriage\n"
    "return belongs to its key. An empty line is the empty key. The last newline may\n"
    "be missing. '-' is standard input.\n"
    "  -0, --null   keys end with NUL instead\n"
    "  --hex        lines of hex digits, for keys of any bytes\n"
    "  --binary     each key after its length, 4 bytes little-endian\n"
    "\n"
    "In output, unprintable bytes and backslashes are \\xHH. Keys given with --hex\n"
    "are printed in lower-case hex digits.\n";

static const char help_help[] =
    "usage: tamis help [COMMAND | TOPIC]\n"
    "\n"
    "Lists the commands, or describes one, as 'tamis COMMAND --help' does. Topics:\n"
    "  file         the commands for one filter file, without a store\n"
    "  keys         lists of keys\n"
    "  exit         exit statuses\n"
    "  json         output for programs\n"
    "\n"
    "All commands take --color=never|auto|always; 'tamis --version'. They wait for a\n"
    "process that changes the store, each time for at most --wait SECONDS, say 0.5\n"
    "(0: not at all; without it, for ever).\n"
    "\n"
    "Examples:\n"
    "  tamis help probe\n"
    "  tamis help file show\n";

static const char exit_help[] =
    "Exit status:\n"
    "   0  done (probe --quiet: the key may be there)\n"
    "   2  wrong usage, a number out of range, a bad key list, or a segment, file or\n"
    "      store that exists already, is sealed, or does not suit the command\n"
    "   3  not a filter or store, a newer format, damage or lost keys found, or a\n"
    "      filter of another domain or binding; a filter or list of a store that is\n"
    "      missing, or no regular file, counts as damage\n"
    "   4  any other failure: of I/O, permissions, space or memory, or a FILE that\n"
    "      is missing; if the work is done and only its report is lost, the line on\n"
    "      standard error says so\n"
    "   5  no such segment or store, or a segment has no list\n"
    "   6  busy: another process has the segment, or the store for --wait SECONDS, or\n"
    "      changed the segment meanwhile\n"
    "  10  probe --quiet: the key is absent; file contains or equal --quiet: no\n";

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
    static const char are[] = "it is build, show, probe, verify, union, intersect, "
                              "fold, merge, contains, equal, compare or estimate";
    bool of_file = strcmp(words[0], "file") == 0;
    const char *word = of_file && n > 1 ? words[1] : words[0];
    struct suggestion meant;
    if (of_file && n == 1)
        return complain(EXIT_USAGE, "file: which command: %s", are);
    suggest_begin(&meant, word, strlen(word));
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *name = commands[i]->name;
        if (of_file && strncmp(name, "file ", 5) == 0)
            suggest_among(&meant, name + 5, strlen(name + 5));
        if (!of_file)
            suggest_among(&meant, name, strcspn(name, " "));
    }
    if (!of_file)
        suggest_among(&meant, "help", 4);
    char *hint = suggestion_text(&meant);
    complain(0, "%sno such command '%s'%s %s", of_file ? "file: " : "", PATH(word),
             hint ? hint : ":", of_file ? are : "'tamis help' lists the commands");
    free(hint);
    return EXIT_USAGE;
}

static int help(char *const *words, size_t n)
{
    const char *text = n == 0                          ? NULL
                       : strcmp(words[0], "json") == 0 ? json_help
                       : strcmp(words[0], "keys") == 0 ? key_help
                       : strcmp(words[0], "exit") == 0 ? exit_help
                       : strcmp(words[0], "help") == 0 ? help_help
                                                       : NULL;
    bool of_file = n == 1 && strcmp(words[0], "file") == 0;
    size_t used = n > 0;
    if (n > 0 && text == NULL && !of_file &&
        (this_command = find(words, n, &used)) == NULL)
        return unknown(words, n);
    if (n > used)
        return complain(EXIT_USAGE,
                        "help: too many arguments, from '%s' on: see 'tamis help help'",
                        words[used]);
    if (n == 0)
        print_commands(stdout);
    else if (text != NULL)
        fputs(text, stdout);
    else if (of_file)
        print_summaries(stdout, true);
    else
        print_help_and_exit();
    return EXIT_DONE;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 ||
           strcmp(word, "-h") == 0;
}

static int run(int argc, char **argv)
{
    size_t n = (size_t)argc - 1, used = 0;
    if (n == 0) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    if (asks_for_help(argv[1]))
        return help(argv + 2, n - 1);
    if (n > 1 && strcmp(argv[1], "file") == 0 && asks_for_help(argv[2])) {
        argv[2] = argv[1];
        return help(argv + 2, n - 1);
    }
    bool version = strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0;
    if (version && n > 1)
        return complain(EXIT_USAGE, "%s takes no argument: leave it out", argv[1]);
    if (version) {
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
    process_begin("tamis");
    if (argc < 1)
        return EXIT_USAGE;
    int status = run(argc, argv);
    options_free();
    return finish_output(status);
}
