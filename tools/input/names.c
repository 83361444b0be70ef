/* Names of segments, as arguments or made of the names of files. */
#include "input.h"

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

static int compare_bytes(const void *left, const void *right)
{
    const struct tamis_name *a = *(const struct tamis_name *const *)left;
    const struct tamis_name *b = *(const struct tamis_name *const *)right;
    int order =
        memcmp(a->bytes, b->bytes, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);
    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

void check_key_files(char *const *files, size_t n, const char *strip,
                     const char *remedy)
{
    struct tamis_name *names = memory_or_exit(malloc((n + 1) * sizeof(*names)));
    const struct tamis_name **sorted =
        memory_or_exit(malloc((n + 1) * sizeof(*sorted)));
    struct tamis_name name = {NULL, 0};
    size_t a = n, b = n;
    for (size_t i = 0; i < n; i++) {
        names[i] = name_of_file(files[i], strip);
        sorted[i] = &names[i];
    }
    qsort(sorted, n, sizeof(*sorted), compare_bytes);
    for (size_t i = 1; i < n && a == n; i++)
        if (compare_bytes(&sorted[i - 1], &sorted[i]) == 0) {
            a = (size_t)(sorted[i - 1] - names);
            b = (size_t)(sorted[i] - names);
            name = names[a];
        }
    free(sorted);
    free(names);
    if (a < n)
        usage_error("%s and %s are both for segment '%.*s': %s", files[a < b ? a : b],
                    files[a < b ? b : a], (int)name.n_bytes, (const char *)name.bytes,
                    remedy);
}
