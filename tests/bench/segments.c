/* Stores of many segments (segments.h). Segment i has keys i * n .. i * n + n - 1, by
 * hash: no key range lets a probe skip one. */
#include "tests/bench/segments.h"
#include "tests/bench/bench.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st, (void)flag, (void)at;
    return remove(path);
}

void tree_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void segments_put(struct tamis_edit *edit, uint64_t i, uint64_t first, uint64_t n)
{
    char name[32];
    struct tamis_builder *builder;
    struct tamis_diag diag = {0};
    size_t n_bytes =
        (size_t)snprintf(name, sizeof name, "segment-%06llu", (unsigned long long)i);
    must(tamis_edit_builder(edit, name, n_bytes, 0.01, NULL, &builder, &diag), &diag,
         "builder");
    uint64_t *hashes = hashes_of(first, n);
    must(tamis_builder_add_hashes(builder, bench.domain.tag, hashes, n), NULL,
         "adding");
    free(hashes);
    must(tamis_edit_put(edit, builder, &diag), &diag, "put");
    tamis_builder_free(builder);
}

void segments_drop(struct tamis_edit *edit, uint64_t i)
{
    char name[32];
    struct tamis_diag diag = {0};
    size_t n_bytes =
        (size_t)snprintf(name, sizeof name, "segment-%06llu", (unsigned long long)i);
    must(tamis_edit_drop(edit, name, n_bytes, &diag), &diag, "drop");
}

struct tamis_store *segments_store(const char *path, uint64_t n, uint64_t keys_each)
{
    struct tamis_store *store;
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    struct tamis_store_options options = {.size = sizeof options,
                                          .domain = &bench.domain};
    tree_remove(path);
    must(tamis_store_create(path, &options, &diag), &diag, path);
    must(tamis_store_open(path, &store, &diag), &diag, path);
    must(tamis_edit_begin(store, &edit, &diag), &diag, "edit");
    for (uint64_t i = 0; i < n; i++)
        segments_put(edit, i, i * keys_each, keys_each);
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
    return store;
}

void segments_replace(struct tamis_store *store, uint64_t i, uint64_t keys_each)
{
    struct tamis_edit *edit;
    struct tamis_diag diag = {0};
    must(tamis_edit_begin(store, &edit, &diag), &diag, "edit");
    segments_drop(edit, i);
    segments_put(edit, i, i * keys_each, keys_each);
    must(tamis_edit_commit(edit, &diag), &diag, "commit of an edit");
}
