/* The packs of a store, as its segments name them. */
#include <sys/stat.h>

#include "open.h"

bool stat_in(const char *store, const char *file, struct stat *st)
{
    char *path = memory_or_exit(malloc(strlen(store) + strlen(file) + 2));
    sprintf(path, "%s/%s", store, file);
    bool good = stat(path, st) == 0;
    free(path);
    return good;
}

void pack_file_name(const uint8_t *uuid, char file[64])
{
    snprintf(file, 64, "filters/%s.tamis", HEX(uuid, TAMIS_UUID_BYTES));
}

bool is_column(struct tamis_snapshot *snapshot, size_t i,
               struct tamis_pack_place *place)
{
    return tamis_snapshot_pack(snapshot, i, NULL, place, NULL) == 0;
}

bool is_in_lost_pack(struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_segment_info s;
    char file[64];
    if (is_column(snapshot, i, NULL) || tamis_snapshot_segment(snapshot, i, &s) != 0)
        return false;
    pack_file_name(s.uuid, file); /* the segment's own is named as packs are */
    return s.file[0] != '\0' && strcmp(file, s.file) != 0;
}

bool pack_is_unlisted(const struct tamis_pack_info *info)
{
    return info->error != 0 && info->n_columns == 0;
}

/* Another process may have packed its segments anew since the snapshot. */
bool pack_is_lost(struct tamis_store *store, const struct tamis_pack_info *info)
{
    struct tamis_pack_info pack;
    struct tamis_snapshot *fresh;
    bool lost = false;
    if (info->error == 0 || tamis_snapshot_current(store, &fresh, NULL) != 0)
        return info->error != 0;
    for (size_t i = 0; tamis_snapshot_pack_info(fresh, i, &pack) == 0; i++)
        lost |=
            pack.error != 0 && memcmp(pack.uuid, info->uuid, sizeof(pack.uuid)) == 0;
    tamis_snapshot_release(fresh);
    return lost;
}

static void add_pack(struct pack *pack, const struct tamis_pack_info *info,
                     const char *store)
{
    struct tamis_filter_info f;
    struct stat st;
    *pack = (struct pack){.filter = info->pack,
                          .n_columns = info->n_columns,
                          .n_bands = info->n_bands,
                          .n_segments = info->n_listed + info->n_overridden};
    pack_file_name(info->uuid, pack->file);
    strcpy(pack->name, HEX(info->uuid, TAMIS_UUID_BYTES));
    if (tamis_filter_info(info->pack, &f, NULL) == 0)
        pack->file_bytes = f.file_bytes;
    pack->allocated = pack->file_bytes;
    if (stat_in(store, pack->file, &st))
        pack->allocated = (uint64_t)st.st_blocks * 512;
}

struct pack *packs_list(struct tamis_snapshot *snapshot, const char *store, size_t *n)
{
    struct tamis_pack_info info;
    struct pack *packs = NULL;
    *n = 0;
    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &info) == 0; i++)
        if (info.pack != NULL) {
            packs = memory_or_exit(realloc(packs, (*n + 1) * sizeof(*packs)));
            add_pack(&packs[(*n)++], &info, store);
        }
    return packs;
}
