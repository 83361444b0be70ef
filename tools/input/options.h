/* A row of the table of options. options.c parses by it, help.c prints it. */
#ifndef TAMIS_OPTIONS_H
#define TAMIS_OPTIONS_H

#include "input.h"

enum option_type {
    OPTION_FLAG,
    OPTION_FORMAT, /* of a list of keys: the first number of its range */
    OPTION_REAL,
    OPTION_NUMBER,
    OPTION_SMALL, /* a number of 32 bits */
    OPTION_COUNT, /* of keys: k is 1000 */
    OPTION_BYTES, /* K is 1024 */
    OPTION_PAGES, /* bytes, a multiple of 4096 */
    OPTION_TEXT,
    OPTION_PATH,
    OPTION_FILE,  /* a path, or '-' */
    OPTION_NAMES, /* of segments; may be repeated */
    OPTION_KIND,
    OPTION_SEED,
    OPTION_BINDING,
    OPTION_UUID,
    OPTION_COLOUR,
    OPTION_WAIT,
};

struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_type type;
    size_t field; /* its offset in struct options */
    const char *value;
    union {
        uint64_t whole[2];
        double real[2];
    } range;
    const char *help;
};
extern const struct option_row option_table[N_OPTIONS];

#endif
