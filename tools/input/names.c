/* Names of segments, as arguments or made of the names of files. */
#include <stdlib.h>
#include <string.h>

#include "../talk/talk.h"
#include "input.h"
#include "tamis.h"

void check_name(const char *name, size_t n_bytes)
{
    if (n_bytes < 1 || n_bytes > TAMIS_NAME_MAX)
        usage_error("a segment's name is 1..%d bytes long, not %zu", TAMIS_NAME_MAX,
                    n_bytes);
    if (memchr(name, '\0', n_bytes) != NULL)
        usage_error("a segment's name has no NUL in it");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void check_names(const char *const *names, size_t n)
{
    const char **sorted, *twice = NULL;

    for (size_t i = 0; i < n; i++)
        check_name(names[i], strlen(names[i]));
    sorted = memory_or_exit(malloc((n + 1) * sizeof(*sorted)));
    for (size_t i = 0; i < n; i++)
        sorted[i] = names[i];
    qsort(sorted, n, sizeof(*sorted), compare_names);
    for (size_t i = 1; i < n && twice == NULL; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            twice = sorted[i];
    free(sorted);
    if (twice != NULL)
        usage_error("segment '%s' is named twice: once will do", twice);
}

struct tamis_name name_of_file(const char *path, const char *strip)
{
    const char *slash = strrchr(path, '/');
    struct tamis_name name = {slash ? slash + 1 : path, 0};
    size_t suffix = strip ? strlen(strip) : 0;

    if (path[0] == '\0')
        usage_error("the path of a key list is empty");
    name.n_bytes = strlen(name.bytes);
    if (suffix > 0 && name.n_bytes >= suffix &&
        memcmp((const char *)name.bytes + name.n_bytes - suffix, strip, suffix) == 0)
        name.n_bytes -= suffix;
    if (name.n_bytes == 0)
        usage_error("%s: no name of 1..255 bytes is left for its segment: rename it, "
                    "or take another --strip",
                    path);
    check_name(name.bytes, name.n_bytes);
    return name;
}
