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

static int compare_bytes(const void *left, const void *right)
{
    const struct name *a = *(const struct name *const *)left;
    const struct name *b = *(const struct name *const *)right;
    int order =
        memcmp(a->bytes, b->bytes, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);
    return order ? order : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
}

/* Two that are the same, the first one first. */
static bool find_twice(const struct name *names, size_t n, size_t *a, size_t *b)
{
    const struct name **sorted = memory_or_exit(malloc((n + 1) * sizeof(*sorted)));
    bool found = false;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &names[i];
    qsort(sorted, n, sizeof(*sorted), compare_bytes);
    for (size_t i = 1; i < n && !found; i++)
        if (compare_bytes(&sorted[i - 1], &sorted[i]) == 0) {
            bool in_order = sorted[i - 1] < sorted[i];
            *a = (size_t)(sorted[i - in_order] - names);
            *b = (size_t)(sorted[i - !in_order] - names);
            found = true;
        }
    free(sorted);
    return found;
}

void check_names(const char *const *names, size_t n)
{
    struct name *list = memory_or_exit(malloc((n + 1) * sizeof(*list)));
    size_t a, b;
    for (size_t i = 0; i < n; i++) {
        list[i] = name_of_text(names[i]);
        check_name(names[i], list[i].n_bytes);
    }
    bool twice = find_twice(list, n, &a, &b);
    free(list);
    if (twice)
        usage_error("segment '%s' is named twice: once will do", names[a]);
}

struct name name_of_file(const char *path, const char *strip)
{
    const char *slash = strrchr(path, '/');
    struct name name = {slash ? slash + 1 : path, 0};
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

void check_key_files(char *const *files, size_t n, const char *strip,
                     const char *remedy)
{
    struct name *names = memory_or_exit(malloc((n + 1) * sizeof(*names)));
    size_t a, b;
    for (size_t i = 0; i < n; i++)
        names[i] = name_of_file(files[i], strip);
    if (find_twice(names, n, &a, &b))
        usage_error("%s and %s are both for segment '%.*s': %s", files[a], files[b],
                    (int)names[a].n_bytes, (const char *)names[a].bytes, remedy);
    free(names);
}
