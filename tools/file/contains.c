/* tamis file contains: may a filter have every key of another? */
#include "../tool.h"

static int ask(const struct options *o, struct tamis_filter **f)
{
    struct tamis_diag diag = {0};
    enum tamis_answer answer;
    int err = tamis_filter_contains(f[0], f[1], &answer, &diag);

    if (err != 0)
        return derive_error(err, &diag, o->args[0]);
    return print_answer(o, answer != TAMIS_ABSENT, "MAYBE", "ABSENT");
}

static int run(int argc, char **argv)
{
    return ask_two_files(argc, argv, WITH(OPT_QUIET), ask);
}

const struct command cmd_file_contains = {
    "file contains",
    "WHOLE PART",
    "may a filter have every key of another?",
    "Prints MAYBE, or ABSENT if a bit of PART is missing in WHOLE: PART then has a\n"
    "key that WHOLE has not, if all its bits are keys' (those of an intersection are\n"
    "not). A filter of one key as PART asks for that key. Both are sealed, of one\n"
    "seed, of one stage, and of sizes that divide each other. Damaged pages prove\n"
    "nothing.\n"
    "\n"
    "  -q, --quiet    print nothing: exit 0 if it may, 10 if not\n"
    "\n"
    "Examples:\n"
    "  tamis file build more.tamis keys.txt --seed 0123456789abcdef\n"
    "  tamis file build words.tamis wanted.txt --seed 0123456789abcdef\n"
    "  tamis file contains words.tamis more.tamis\n",
    run,
};
