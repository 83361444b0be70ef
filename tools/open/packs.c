/* The packs of a store, as its segments name them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../talk/talk.h"
#include "open.h"
#include "tamis.h"

static void pack_file_name(const uint8_t *uuid, char file[64])
{
    char *name = hex(uuid, TAMIS_UUID_BYTES);

    snprintf(file, 64, "filters/%s.tamis", name);
    free(name);
}

bool is_column(struct tamis_snapshot *snapshot, size_t i,
               struct tamis_pack_place *place)
{
    struct tamis_segment_info s;
    char file[64];

    if (tamis_snapshot_pack(snapshot, i, NULL, place) != 0 ||
        tamis_snapshot_segment(snapshot, i, &s) != 0)
        return false;
    pack_file_name(place->uuid, file);
    return strcmp(file, s.file) == 0;
}

bool is_in_lost_pack(struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_segment_info s;
    char file[64];

    if (tamis_snapshot_pack(snapshot, i, NULL, NULL) == 0 ||
        tamis_snapshot_segment(snapshot, i, &s) != 0)
        return false;
    pack_file_name(s.uuid, file); /* a file of its own would have this name */
    return s.file[0] != '\0' && strcmp(file, s.file) != 0;
}

static void add_pack(struct pack *pack, struct tamis_filter *filter,
                     const struct tamis_pack_place *place, const char *store)
{
    struct tamis_filter_info info;
    struct stat st;

    *pack = (struct pack){.filter = filter, .place = *place};
    pack_file_name(place->uuid, pack->file);
    pack->name = hex(place->uuid, TAMIS_UUID_BYTES);
    if (tamis_filter_info(filter, &info) == 0)
        pack->file_bytes = info.file_bytes;
    pack->allocated = pack->file_bytes;
    if (stat_in(store, pack->file, &st))
        pack->allocated = (uint64_t)st.st_blocks * 512;
}

struct pack *packs_list(struct tamis_snapshot *snapshot, const char *store, size_t *n)
{
    struct pack *packs = NULL;
    struct tamis_pack_place place;
    struct tamis_filter *filter;
    size_t n_all = tamis_snapshot_n_segments(snapshot), at;

    *n = 0;
    for (size_t i = 0; i < n_all; i++) {
        if (tamis_snapshot_pack(snapshot, i, &filter, &place) != 0)
            continue;
        for (at = 0; at < *n && packs[at].filter != filter; at++)
            ;
        if (at == *n) {
            packs = memory_or_exit(realloc(packs, (at + 1) * sizeof(*packs)));
            add_pack(&packs[(*n)++], filter, &place, store);
        }
        packs[at].n_segments++;
    }
    return packs;
}

void packs_forget(struct pack *packs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(packs[i].name);
    free(packs);
}
