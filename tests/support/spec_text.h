/* Reading SPEC.md: its text, and the tables in it that follow a line such as
 * "<!-- table: identity_disk -->". For the tests that hold it against the code. */
#ifndef TAMIS_TESTS_SPEC_TEXT_H
#define TAMIS_TESTS_SPEC_TEXT_H

#include <stdbool.h>
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

#ifndef TAMIS_SOURCE_DIR
#define TAMIS_SOURCE_DIR "."
#endif
static const char *spec_path = TAMIS_SOURCE_DIR "/SPEC.md";
static char *spec; /* the whole text, NUL-terminated */

static inline char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    assert_true(n > 0 && feof(f));
    fclose(f);
    return text;
}

static inline int load_spec(void **state)
{
    spec = read_text(spec_path);
    return 0;
}

static inline int free_spec(void **state)
{
    free(spec);
    return 0;
}

/* The text after "<!-- WHAT: NAME -->\n", from `from` on; NULL if there is none. */
static inline const char *marker(const char *from, const char *what, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "<!-- %s: %s -->\n", what, name);
    const char *at = strstr(from, line);
    return at ? at + strlen(line) : NULL;
}

enum { MAX_CELLS = 12, MAX_CELL_BYTES = 160 };
struct row {
    size_t n;
    char cell[MAX_CELLS][MAX_CELL_BYTES];
};

/* Reads "| a | b |" at *at, which it moves to the next line; false if it is none. */
static inline bool next_row(const char **at, struct row *r)
{
    const char *p = *at;
    memset(r, 0, sizeof *r);
    if (*p != '|')
        return false;
    for (p++; *p && *p != '\n' && r->n < MAX_CELLS;) {
        const char *end = p + strcspn(p, "|\n");
        if (*end != '|')
            break;
        while (*p == ' ')
            p++;
        int n = (int)(end - p);
        while (n > 0 && p[n - 1] == ' ')
            n--;
        snprintf(r->cell[r->n++], MAX_CELL_BYTES, "%.*s", n, p);
        p = end + 1;
    }
    p += strcspn(p, "\n");
    *at = *p ? p + 1 : p;
    return true;
}

/* The first row of a table, past its two lines of head. */
static inline const char *table(const char *what, const char *name)
{
    struct row r;
    const char *at = marker(spec, what, name);
    if (!at)
        fail_msg("SPEC.md has no \"%s: %s\"", what, name);
    assert_true(next_row(&at, &r) && next_row(&at, &r));
    assert_memory_equal(r.cell[0], "---", 3);
    return at;
}

static inline uint64_t number(const char *text)
{
    char *end;
    uint64_t v = strtoull(text, &end, 0);
    if (end == text || *end)
        fail_msg("\"%s\" is no number", text);
    return v;
}

/* For tests that hold SPEC.md, or the text that is named, against the code. */
#define RUN_SPEC_TESTS                                                                 \
    int main(int argc, char **argv)                                                    \
    {                                                                                  \
        if (argc > 1)                                                                  \
            spec_path = argv[1];                                                       \
        return run_listed_tests(load_spec, free_spec);                                 \
    }

#endif
