/* The command that runs, and mistakes in its arguments. */
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
