/* Opens a store, and reports failures. */
#include "open.h"

int store_open(const char *path, struct tamis_store **store)
{
    struct tamis_diag diag = {0};
    struct tamis_open_options opt = {.size = sizeof(opt), .waiting = wait_ends};
    int err = tamis_store_open(path, &opt, store, &diag);
    return err ? complain_error(err, &diag, path, store_advice(err, path)) : EXIT_DONE;
}

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
    size_t n = strlen(path);
    char *parent = memory_or_exit(malloc(n + 4)), *from, *at;
    bool inside = false;
    memcpy(parent, path, n + 1);
    while (n > 1 && parent[n - 1] == '/')
        parent[--n] = '\0';
    at = strrchr(parent, '/');
    if (at == NULL)
        strcpy(parent, ".");
    else
        at[1] = '\0';
    from = realpath(parent, NULL);
    free(parent);
    at = realpath(store, NULL);
    if (from != NULL && at != NULL) {
        n = strlen(at);
        inside = strncmp(from, at, n) == 0 && (from[n] == '\0' || from[n] == '/');
    }
    free(from);
    free(at);
    return inside;
}
