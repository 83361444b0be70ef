/* Packs that are verified: which pages are damaged, and which segments that touches. */
#include "verify.h"

#include "../output/output.h"

/* A snapshot's checked pack. Another snapshot's pack may be at its address later. */
struct checked {
    const struct tamis_filter *pack;
    uint8_t uuid[TAMIS_UUID_BYTES];
    struct tamis_verify report;
    struct tamis_diag diag;
    int err;
    uint32_t band; /* whose rows were asked for last */
    struct tamis_verify rows;
    size_t n_segments, n_affected, n_nameless;
    size_t n_listed; /* of those affected: repair makes them anew from their lists */
};

/* The pages of a column's rows: all columns of a band have the same. */
static const struct tamis_verify *its_rows(struct checked *c,
                                           struct tamis_snapshot *snapshot, size_t i)
{
    struct tamis_pack_place place;
    tamis_snapshot_pack(snapshot, i, NULL, &place, NULL);
    if (c->rows.n_pages == 0 || c->band != place.band)
        tamis_snapshot_pack(snapshot, i, NULL, NULL, &c->rows);
    c->band = place.band;
    return &c->rows;
}

/* All segments for which the pack answers. */
static void count_affected(struct checked *c, struct tamis_snapshot *snapshot)
{
    struct tamis_segment_info info;
    struct tamis_filter *pack;
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++)
        if (tamis_snapshot_pack(snapshot, i, &pack, NULL, NULL) == 0 &&
            pack == c->pack) {
            c->n_segments++;
            c->n_nameless +=
                tamis_snapshot_segment(snapshot, i, &info) == 0 && info.name == NULL;
            if (its_rows(c, snapshot, i)->n_damaged == 0)
                continue;
            c->n_affected++;
            c->n_listed += advice_from_list(snapshot, i) != NULL;
        }
}

static void damage_text(const struct checked *c, char *text, size_t room)
{
    const char *advice =
        c->n_affected == 0 ? "'tamis pack --repack' writes a whole pack"
        : c->n_listed == c->n_affected
            ? "'tamis repair' makes these anew from their lists"
        : c->n_listed > 0
            ? "'tamis repair' makes those with lists anew; build the rest "
              "from their keys"
            : "build these anew from their keys";
    int n = snprintf(text, room,
                     "%llu of its %llu pages damaged: ", LLU(c->report.n_damaged),
                     LLU(c->report.n_pages));
    if (c->n_nameless > 0)
        snprintf(text + n, room - (size_t)n, "the names of %zu of its %s are lost: %s",
                 c->n_nameless, COUNTED(c->n_segments, "segment"), advice_pack);
    else
        snprintf(text + n, room - (size_t)n, "segments affected: %zu of %zu; %s%s",
                 c->n_affected, c->n_segments, advice,
                 c->n_affected > 0 && c->n_affected < c->n_segments
                     ? ", and 'tamis pack --repack' saves the others"
                     : "");
}

/* The file is within the store. `counts` (NULL: text) has more fields of JSON. */
static void print_pack(const struct checked_packs *packs, const char *file,
                       const char *what, json_t *counts)
{
    complain(0, "%s/%s: %s", packs->store, file, what);
    if (packs->damaged == NULL) {
        progress_wipe();
        printf("-\tpack\t%s: %s\n", file, what);
        return;
    }
    json_put(counts, "file", json_string(file));
    json_put(counts, "what", json_string(what));
    json_put(packs->damaged, NULL, counts);
}

static void print_damage(const struct checked_packs *packs, const struct checked *c,
                         const char *path)
{
    json_t *counts = NULL;
    char what[320];
    damage_text(c, what, sizeof(what));
    if (packs->damaged != NULL)
        counts =
            json_of("pages", json_count(c->report.n_pages), "damaged",
                    json_count(c->report.n_damaged), "first_damaged",
                    json_count(c->report.first_damaged), "segments",
                    json_count(c->n_segments), "affected", json_count(c->n_affected));
    print_pack(packs, path + strlen(packs->store) + 1, what, counts);
}

int verify_unlisted(const struct checked_packs *packs, struct tamis_store *store,
                    struct tamis_snapshot *snapshot)
{
    struct tamis_pack_info pack;
    char file[64];
    int status = EXIT_DONE;
    for (size_t i = 0; tamis_snapshot_pack_info(snapshot, i, &pack) == 0; i++)
        if (pack_is_unlisted(&pack) && pack_is_lost(store, &pack)) {
            pack_file_name(pack.uuid, file);
            print_pack(packs, file, PACK_UNLISTED,
                       packs->damaged ? memory_or_exit(json_object()) : NULL);
            status = EXIT_DAMAGE;
        }
    return status;
}

static struct checked *check_pack(struct checked_packs *packs,
                                  struct tamis_snapshot *snapshot, size_t index,
                                  struct tamis_filter *pack, const char *path,
                                  int *status)
{
    struct tamis_pack_place place;
    tamis_snapshot_pack(snapshot, index, NULL, &place, NULL);
    for (size_t i = 0; i < packs->n; i++)
        if (packs->at[i].pack == pack &&
            memcmp(packs->at[i].uuid, place.uuid, sizeof(place.uuid)) == 0)
            return &packs->at[i];
    packs->at = memory_or_exit(realloc(packs->at, (packs->n + 1) * sizeof(*packs->at)));
    struct checked *c = &packs->at[packs->n++];
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
    if (!known)
        return usual_advice(err);
    if (rows->n_damaged == 0)
        return NULL;
    const char *advice = advice_from_list(snapshot, index);
    return advice != NULL ? advice : usual_advice(TAMIS_ERR_DAMAGED);
}

int verify_column(struct checked_packs *packs, struct tamis_snapshot *snapshot,
                  size_t index, struct tamis_filter *pack, const char *path,
                  json_t *list, int *of_pack)
{
    struct checked *c = check_pack(packs, snapshot, index, pack, path, of_pack);
    bool known = c->err == 0 || c->report.n_damaged > 0, good;
    struct tamis_segment_info info;
    const struct tamis_verify *rows = its_rows(c, snapshot, index);
    char what[128];
    tamis_snapshot_segment(snapshot, index, &info);
    good = known && rows->n_damaged == 0 && info.name != NULL;
    if (!known)
        snprintf(what, sizeof(what), "%.100s",
                 c->diag.what[0] ? c->diag.what : tamis_strerror(c->err));
    else if (rows->n_damaged > 0)
        snprintf(what, sizeof(what), "column; %llu of the %llu pages of its rows %s",
                 LLU(rows->n_damaged), LLU(rows->n_pages),
                 rows->n_damaged == 1 ? "is damaged" : "are damaged");
    else if (info.name == NULL)
        snprintf(what, sizeof(what), "column; its name is lost");
    else
        snprintf(what, sizeof(what), "column of a pack of %llu pages%s",
                 LLU(c->report.n_pages),
                 c->err ? ", of which those with its rows are good" : "");
    if (info.name == NULL && list == NULL && c->report.n_damaged > 0)
        return status_of_error(c->err); /* the line of its pack counts it */
    verify_line(list, (struct name){info.name, info.name_bytes},
                good         ? "ok"
                : c->err > 0 ? "unreadable"
                             : "damaged",
                path, what, rows, column_advice(snapshot, index, known, c->err, rows));
    return good ? EXIT_DONE : status_of_error(c->err);
}
