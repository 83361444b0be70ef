/* The command that runs: mistakes in its arguments, the table of its options, and its
 * help. */
#include <stdarg.h>

#include "input.h"

const struct command *this_command;

void usage_error(const char *format, ...)
{
    char message[1536];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    complain(0, "%s: %s%s see 'tamis help %s'", this_command->name, message,
             message[strlen(message) - 1] == '?' ? "" : ":", this_command->name);
    exit(EXIT_USAGE);
}

const struct option_row option_table[N_OPTIONS] = {
#define X(id, name, letter, type, field, value, range, help)                           \
    [OPT_##id] = {name,  letter, OPTION_##type, offsetof(struct options, field),       \
                  value, range,  help},
    OPTION_TABLE(X)
#undef X
};

enum { LABEL_BYTES = 64 };

/* "-s, --factor S"; the shorter form if several options share a line. */
static void add_label(char *label, enum option_id id, bool alone)
{
    const struct option_row *row = &option_table[id];
    size_t n = strlen(label);
    if (n > 0)
        n += (size_t)snprintf(label + n, LABEL_BYTES - n, ", ");
    if (row->letter)
        n += (size_t)snprintf(label + n, LABEL_BYTES - n, "-%c%s", row->letter,
                              alone ? ", " : "");
    if (!row->letter || alone)
        n += (size_t)snprintf(label + n, LABEL_BYTES - n, "--%s", row->name);
    if (row->value)
        snprintf(label + n, LABEL_BYTES - n, id == OPT_LIST ? "[=%s]" : " %s",
                 row->value);
}

static const char *label_of(const struct option_help *line, char label[LABEL_BYTES])
{
    bool alone = (line->ids & (line->ids - 1)) == 0;
    if (line->label != NULL)
        return line->label;
    label[0] = '\0';
    for (unsigned id = 0; id < N_OPTIONS; id++)
        if (line->ids & WITH(id))
            add_label(label, (enum option_id)id, alone);
    return label;
}

/* Wraps one line of `text` at 80 columns. The cursor is at column `indent` already. */
static void print_wrapped(const char *text, size_t indent)
{
    size_t column = indent;
    while (*text != '\0' && *text != '\n') {
        size_t n = strcspn(text, " \n");
        if (column > indent && column + 1 + n > 80) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        }
        column += (size_t)printf("%s%.*s", column > indent ? " " : "", (int)n, text);
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

/* Each line is a paragraph. A line that begins with a blank is not wrapped. */
static void print_text(const char *text)
{
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        if (*text == ' ' || *text == '\n')
            printf("%.*s\n", (int)(end - text), text);
        else
            print_wrapped(text, 0);
    }
}

static void print_options(const struct command *c)
{
    char label[LABEL_BYTES];
    size_t width = 0;
    for (size_t i = 0; i < MAX_OPTION_HELP; i++) {
        size_t n = strlen(label_of(&c->options[i], label));
        width = n > width ? n : width;
    }
    putchar('\n');
    for (size_t i = 0; i < MAX_OPTION_HELP; i++) {
        if (label_of(&c->options[i], label)[0] == '\0')
            continue;
        const char *text = c->options[i].text;
        for (unsigned id = 0; text == NULL && id < N_OPTIONS; id++)
            if (c->options[i].ids & WITH(id))
                text = option_table[id].help;
        printf("  %-*s  ", (int)width, label_of(&c->options[i], label));
        print_wrapped(text, width + 4);
    }
}

_Noreturn void print_help_and_exit(void)
{
    const struct command *c = this_command;
    printf("usage: tamis %s %s\n\n", c->name, c->arguments);
    print_text(c->about);
    print_options(c);
    if (c->notes != NULL) {
        putchar('\n');
        print_text(c->notes);
    }
    const char *line = c->examples;
    printf("\nExample%s:\n", strchr(line, '\n')[1] ? "s" : "");
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        printf("  %.*s\n", (int)(end - line), line);
    exit(finish_output(EXIT_DONE));
}
