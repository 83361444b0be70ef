/* A list as a source of a merge, or of a filter: its pages one by one, each checked
 * before a hash of it is used. */
#include "lib/list/source.h"
#include "lib/filter/filter.h"
#include "format/list.h"

#include <errno.h>
#include <stdlib.h>

struct list_source {
    struct tamis_filter *list;
    const struct list_map *map;
    struct tamis_list_cursor *cursor;
    uint64_t page; /* so many were read */
    bool is_bad;
    uint64_t values[LIST_PAGE_MAX_HASHES];
};

int list_source_open(struct tamis_filter *list, struct list_source **out,
                     struct tamis_diag *diag)
{
    *out = NULL;
    const struct list_map *map = list ? filter_list(list) : NULL;
    if (!map)
        return diag_fail(diag, TAMIS_ERR_UNFIT, list ? filter_path(list) : NULL,
                         "not a list of hashes: a filter's keys cannot be read back");
    struct list_source *s = malloc(sizeof *s);
    if (!s)
        return diag_errno(diag, ENOMEM, filter_path(list), "reading a list");
    s->list = list;
    s->map = map;
    s->page = 0;
    s->is_bad = false;
    int err = tamis_list_cursor_create(list, &s->cursor, diag);
    if (err)
        free(s);
    else
        *out = s;
    return err;
}

void list_source_close(struct list_source *s)
{
    if (s)
        tamis_list_cursor_free(s->cursor);
    free(s);
}

int list_source_next(void *source, const uint64_t **block, size_t *n)
{
    struct list_source *s = source;
    int err = list_cursor_page(s->cursor, s->values, n);
    *block = s->values;
    s->is_bad = err != 0;
    s->page += !err && s->page < s->map->n_pages;
    return err;
}

uint64_t list_source_n_values(const struct list_source *s)
{
    return s->map->n_hashes;
}

uint64_t list_source_n_pages(const struct list_source *s)
{
    return s->map->n_pages;
}

uint64_t list_source_pages_read(const struct list_source *s)
{
    return s->page;
}

uint32_t list_source_hash_bits(const struct list_source *s)
{
    return s->map->hash_bits;
}

bool list_source_is_bad(const struct list_source *s)
{
    return s->is_bad;
}

int list_source_failed(const struct list_source *s, int err, struct tamis_diag *diag)
{
    const char *path = filter_path(s->list);
    if (err != TAMIS_ERR_DAMAGED)
        return diag_errno(diag, err, path, "reading the list");
    return diag_fail(
        diag, err, path,
        "page %llu of %llu fails its check: what is made of the list would "
        "lack keys",
        (unsigned long long)s->page + 1, (unsigned long long)s->map->n_pages);
}
