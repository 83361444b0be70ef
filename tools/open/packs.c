/* The packs of a store, as its segments name them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../talk/talk.h"
#include "open.h"
#include "tamis.h"

void pack_file_name(const uint8_t *uuid, char file[64])
{
    char *name = hex(uuid, TAMIS_UUID_BYTES);

    snprintf(file, 64, "filters/%s.tamis", name);
    free(name);
}

/* Does its record name a file that is the segment's alone? */
static bool has_own_file(const struct tamis_segment_info *s)
{
    char file[64];

    pack_file_name(s->uuid, file); /* it is named as packs are */
    return strcmp(file, s->file) == 0;
}

bool is_column(struct tamis_snapshot *snapshot, size_t i,
               struct tamis_pack_place *place)
{
    return tamis_snapshot_pack(snapshot, i, NULL, place) == 0;
}

bool is_in_lost_pack(struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_segment_info s;

    return tamis_snapshot_pack(snapshot, i, NULL, NULL) != 0 &&
           tamis_snapshot_segment(snapshot, i, &s) == 0 && s.file[0] != '\0' &&
           !has_own_file(&s);
}

/* Why the pack that the segment names, *uuid, does not answer; 0: it does, or there is
 * none. */
static int lost_pack_of(struct tamis_snapshot *snapshot, size_t i,
                        uint8_t uuid[TAMIS_UUID_BYTES])
{
    struct tamis_pack_place place = {0};
    int err = tamis_snapshot_pack(snapshot, i, NULL, &place);

    memcpy(uuid, place.uuid, TAMIS_UUID_BYTES);
    return err == TAMIS_ERR_NO_SEGMENT ? 0 : err;
}

/* Another process may have packed the segment anew since the snapshot. */
static bool is_still_lost(struct tamis_store *store, struct tamis_snapshot *snapshot,
                          size_t i, const uint8_t *uuid)
{
    uint8_t now[TAMIS_UUID_BYTES];
    struct tamis_segment_info s;
    struct tamis_snapshot *fresh;
    struct tamis_target t;
    bool lost = false;

    if (tamis_snapshot_segment(snapshot, i, &s) != 0 ||
        tamis_snapshot_current(store, &fresh, NULL) != 0)
        return true;
    tamis_snapshot_find(fresh, s.name, s.name_bytes, NULL, 0, 0, &t);
    if (t.slot != 0 && lost_pack_of(fresh, t.slot - 1, now) != 0)
        lost = memcmp(now, uuid, sizeof(now)) == 0;
    tamis_snapshot_release(fresh);
    return lost;
}

bool add_lost_pack(struct lost_packs *known, struct tamis_store *store,
                   struct tamis_snapshot *snapshot, size_t i)
{
    uint8_t uuid[TAMIS_UUID_BYTES];
    int err = lost_pack_of(snapshot, i, uuid);

    if (err == 0)
        return false;
    for (size_t k = 0; k < known->n; k++)
        if (memcmp(known->uuids[k], uuid, sizeof(uuid)) == 0)
            return false;
    if (!is_still_lost(store, snapshot, i, uuid))
        return false;
    known->uuids =
        memory_or_exit(realloc(known->uuids, (known->n + 1) * sizeof(*known->uuids)));
    memcpy(known->uuids[known->n++], uuid, sizeof(uuid));
    known->error = err;
    known->status = status_unread(err);
    known->n_unread += known->status != EXIT_DAMAGE;
    return true;
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
