/* The table of all options, from option_table.h. */
#include "options.h"

const struct option_row option_table[N_OPTIONS] = {
#define X(id, name, letter, type, field, value, range, help)                           \
    [OPT_##id] = {name,  letter, OPTION_##type, offsetof(struct options, field),       \
                  value, range,  help},
    OPTION_TABLE(X)
#undef X
};
