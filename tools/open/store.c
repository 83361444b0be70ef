/* Opens a store for a command, and looks where it is. */
#include <libgen.h>

#include "open.h"

static bool lacks_packs(struct tamis_snapshot *snapshot)
{
    struct tamis_pack_info pack;
    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &pack) == 0; i++)
        if (pack.error != 0)
            return true;
    return false;
}

void store_snapshot(const char *path, struct tamis_store **store,
                    struct tamis_snapshot **snapshot)
{
    struct tamis_diag diag = {0};
    unsigned tries = 0;
    int err, status = store_open(path, store);
    if (status != EXIT_DONE)
        exit(finish_output(status));
    err = tamis_snapshot_current(*store, snapshot, &diag);
    if (err != 0)
        exit(finish_output(complain_error(err, &diag, path, NULL)));
    /* A pack may have been replaced after the list was read. */
    while (lacks_packs(*snapshot) && newer_snapshot(*store, snapshot, &tries))
        ;
}

bool lies_inside(const char *path, const char *store)
{
    char *copy = memory_or_exit(strdup(path));
    char *parent = realpath(dirname(copy), NULL), *root = realpath(store, NULL);
    size_t n = root != NULL ? strlen(root) : 0;
    bool inside = parent != NULL && root != NULL && strncmp(parent, root, n) == 0 &&
                  (parent[n] == '\0' || parent[n] == '/');
    free(copy);
    free(parent);
    free(root);
    return inside;
}
