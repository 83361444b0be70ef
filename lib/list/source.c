/* A list as a source of a merge, or of a filter: its pages one by one, each checked
 * before a hash of it is used. */
#include "lib/list/source.h"
#include "lib/filter/filter.h"
#include "lib/kernel/list_page.h"

#include <errno.h>
#include <stdlib.h>

struct list_source {
    struct tamis_filter *list;
    const struct list_map *map;
    uint64_t page, n_read, last;
    bool is_bad;
    uint8_t copy[PAGE_BYTES];
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
    s->page = s->n_read = s->last = 0;
    s->is_bad = false;
    *out = s;
    return 0;
}

void list_source_close(struct list_source *s)
{
    free(s);
}

/* Pages follow each other in order, and have as many hashes as the header says: a page
 * that lacks some, with a good digest, was made so. */
static bool follows(const struct list_source *s, const struct list_page *p)
{
    if (p->n == 0)
        return s->map->n_hashes == 0;
    if (s->n_read > 0 && s->values[0] <= s->last)
        return false;
    uint64_t n = s->n_read + p->n;
    return s->page + 1 < s->map->n_pages ? n < s->map->n_hashes : n == s->map->n_hashes;
}

int list_source_next(void *source, const uint64_t **block, size_t *n)
{
    struct list_source *s = source;
    struct list_page p;
    *n = 0;
    *block = s->values;
    if (s->page == s->map->n_pages)
        return 0;
    if (!filter_list_copy(s->list, LIST_PAGES, s->page, s->copy) ||
        !list_page_open(s->copy, s->map->hash_bits, &p) ||
        (p.n && !list_page_values(s->copy, s->map->hash_bits, &p, s->values)) ||
        !follows(s, &p)) {
        s->is_bad = true;
        return TAMIS_ERR_DAMAGED;
    }
    s->page++;
    s->n_read += p.n;
    s->last = p.n ? s->values[p.n - 1] : 0;
    *n = p.n;
    return 0;
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
