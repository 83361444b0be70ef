/* Packs that are verified: which pages are damaged, and which segments that touches. */
#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../open/open.h"
#include "../output/output.h"
#include "../talk/screen.h"
#include "../talk/talk.h"

/* A pack of a snapshot, checked. Another snapshot's pack may be at its address later.
 */
struct checked {
    const struct tamis_filter *pack;
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_verify report;
    struct tamis_diag diag;
    int err;
    size_t n_segments, n_affected;
    size_t n_listed; /* of those affected: repair makes them anew from their lists */
};

bool made_for_segment(struct tamis_snapshot *snapshot, size_t i,
                      struct tamis_filter *own)
{
    struct tamis_segment_info s;
    struct tamis_filter_info f;
    struct tamis_verify rows;

    if (own == NULL)
        return tamis_snapshot_pack_pages(snapshot, i, &rows) != TAMIS_ERR_MISMATCH;
    return tamis_snapshot_segment(snapshot, i, &s) != 0 ||
           tamis_filter_info(own, &f) != 0 || f.name_bytes == 0 ||
           (f.name_bytes == s.name_bytes && memcmp(f.name, s.name, s.name_bytes) == 0);
}

/* All segments for which the pack answers. */
static void count_affected(struct checked *c, struct tamis_snapshot *snapshot)
{
    size_t n = tamis_snapshot_n_segments(snapshot);
    struct tamis_filter *pack;
    struct tamis_verify rows;

    for (size_t i = 0; i < n; i++)
        if (tamis_snapshot_pack(snapshot, i, &pack, NULL) == 0 && pack == c->pack &&
            tamis_snapshot_pack_pages(snapshot, i, &rows) == 0) {
            c->n_segments++;
            if (rows.n_damaged == 0)
                continue;
            c->n_affected++;
            c->n_listed += advice_from_list(snapshot, i) != NULL;
        }
}

static void damage_text(const struct checked *c, char *text, size_t room)
{
    int n;

    n = snprintf(text, room, "%llu of its %llu pages damaged: ",
                 (unsigned long long)c->report.n_damaged,
                 (unsigned long long)c->report.n_pages);
    if (c->n_affected == 0)
        snprintf(text + n, room - (size_t)n,
                 "no answer of its %s depends on that; 'tamis pack --repack' writes a "
                 "whole pack",
                 COUNTED(c->n_segments, "segment"));
    else
        snprintf(text + n, room - (size_t)n, "segments affected: %zu of %zu; %s%s",
                 c->n_affected, c->n_segments,
                 c->n_listed == c->n_affected
                     ? "'tamis repair' makes these anew from their lists"
                 : c->n_listed > 0
                     ? "'tamis repair' makes those with lists anew; build "
                       "the rest from their keys"
                     : "build these anew from their keys",
                 c->n_affected < c->n_segments
                     ? ", and 'tamis pack --repack' saves the others"
                     : "");
}

static void print_damage(const struct checked_packs *packs, const struct checked *c,
                         const char *path)
{
    const char *file = path + strlen(packs->store) + 1;
    char what[320];
    json_t *o;

    damage_text(c, what, sizeof(what));
    complain(0, "%s: %s", path, what);
    if (packs->damaged == NULL) {
        progress_wipe();
        printf("-\tpack\t%s: %s\n", file, what);
        return;
    }
    o = memory_or_exit(json_object());
    json_put(o, "file", json_string(file));
    json_put(o, "what", json_string(what));
    json_put(o, "pages", json_count(c->report.n_pages));
    json_put(o, "damaged", json_count(c->report.n_damaged));
    json_put(o, "first_damaged", json_count(c->report.first_damaged));
    json_put(o, "segments", json_count(c->n_segments));
    json_put(o, "affected", json_count(c->n_affected));
    json_put(packs->damaged, NULL, o);
}

static const struct checked *check_pack(struct checked_packs *packs,
                                        struct tamis_snapshot *snapshot, size_t index,
                                        struct tamis_filter *pack, const char *path,
                                        int *status)
{
    struct tamis_pack_place place;
    struct checked *c;

    tamis_snapshot_pack(snapshot, index, NULL, &place);
    for (size_t i = 0; i < packs->n; i++)
        if (packs->at[i].pack == pack &&
            memcmp(packs->at[i].uuid, place.uuid, sizeof(place.uuid)) == 0)
            return &packs->at[i];
    packs->at = memory_or_exit(realloc(packs->at, (packs->n + 1) * sizeof(*packs->at)));
    c = &packs->at[packs->n++];
    *c = (struct checked){.pack = pack};
    memcpy(c->uuid, place.uuid, sizeof(c->uuid));
    c->err = tamis_filter_verify(pack, &c->report, &c->diag);
    *status = status_of_error(c->err);
    if (c->report.n_damaged > 0) {
        count_affected(c, snapshot);
        print_damage(packs, c, path);
    } else if (c->err != 0) {
        complain_error(c->err, &c->diag, path, NULL);
    }
    return c;
}

/* NULL: nothing is wrong. */
static const char *column_advice(struct tamis_snapshot *snapshot, size_t index,
                                 bool known, int err, const struct tamis_verify *rows)
{
    const char *advice;

    if (!known)
        return usual_advice(err);
    if (rows->n_damaged == 0)
        return NULL;
    advice = advice_from_list(snapshot, index);
    return advice != NULL ? advice : usual_advice(TAMIS_ERR_DAMAGED);
}

int verify_column(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                  size_t index, struct tamis_filter *pack, const char *path,
                  json_t *list, int *of_pack)
{
    const struct checked *c = check_pack(packs, snapshot, index, pack, path, of_pack);
    bool known = c->err == 0 || c->report.n_damaged > 0;
    struct tamis_segment_info info;
    struct tamis_verify rows;
    char what[128];

    tamis_snapshot_segment(snapshot, index, &info);
    tamis_snapshot_pack_pages(snapshot, index, &rows);
    if (!known)
        snprintf(what, sizeof(what), "%.100s",
                 c->diag.what[0] ? c->diag.what : tamis_strerror(c->err));
    else if (rows.n_damaged > 0)
        snprintf(what, sizeof(what), "column; %llu of the %llu pages of its rows %s",
                 (unsigned long long)rows.n_damaged, (unsigned long long)rows.n_pages,
                 rows.n_damaged == 1 ? "is damaged" : "are damaged");
    else
        snprintf(what, sizeof(what), "column of a pack of %llu pages%s",
                 (unsigned long long)c->report.n_pages,
                 c->err ? ", of which those with its rows are good" : "");
    verify_line(list, (struct tamis_name){info.name, info.name_bytes},
                known && rows.n_damaged == 0 ? "ok"
                : c->err > 0                 ? "unreadable"
                                             : "damaged",
                path, what, &rows,
                column_advice(snapshot, index, known, c->err, &rows));
    return known && rows.n_damaged == 0 ? EXIT_DONE : status_of_error(c->err);
}
