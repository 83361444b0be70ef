/* Opens a store for a command, finds the segments that are named, and reports
 * failures. */
#include <libgen.h>
#include <sys/stat.h>

#include "open.h"

void store_snapshot(const char *path, struct tamis_store **store,
                    struct tamis_snapshot **snapshot)
{
    struct tamis_diag diag = {0};
    struct tamis_pack_info pack;
    unsigned tries = 0;
    int err, status = store_open(path, store);
    if (status != EXIT_DONE)
        exit(finish_output(status));
    err = tamis_snapshot_current(*store, snapshot, &diag);
    if (err != 0)
        exit(finish_output(complain_error(err, &diag, path, NULL)));
    /* A pack may have been replaced after the list was read. */
    for (size_t i = 0; tamis_snapshot_pack_info(*snapshot, i, &pack) == 0; i++)
        if (pack.error != 0) {
            if (!newer_snapshot(*store, snapshot, &tries))
                break;
            i = SIZE_MAX; /* look at all of them again */
        }
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

/* ---- packs, as segments name them ---- */

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

/* ---- segments ---- */

uint64_t allocated_bytes(const char *store, struct tamis_snapshot *snapshot, size_t i,
                         const struct tamis_segment_info *s)
{
    struct stat st;
    return !is_column(snapshot, i, NULL) && stat_in(store, s->file, &st)
               ? (uint64_t)st.st_blocks * 512
               : s->file_bytes;
}

int not_found(int err, const struct tamis_snapshot *snapshot, const char *path,
              struct name name)
{
    struct tamis_segment_info info;
    struct suggestion meant;
    struct tamis_target target;
    const char *text = NAME(name.bytes, name.n_bytes);
    int status = status_of_error(err);
    suggest_begin(&meant, name.bytes, name.n_bytes);
    for (size_t i = 0; err == TAMIS_ERR_NO_SEGMENT && tamis_snapshot_next(snapshot, &i);
         i++)
        if (tamis_snapshot_segment(snapshot, i, &info) == 0 && info.name != NULL)
            suggest_among(&meant, (const char *)info.name, info.name_bytes);
    char *hint = suggestion_text(&meant);
    if (err == TAMIS_ERR_NO_SEGMENT)
        complain(0, "%s: no segment '%s'%s 'tamis ls' lists the segments", path, text,
                 hint ? hint : ":");
    else if (tamis_snapshot_find(snapshot, name.bytes, name.n_bytes, NULL, 0, 0,
                                 &target) == err &&
             target.ordinal == 0) {
        complain(0, "%s: segment '%s': the pack that may have it: %s: %s", path, text,
                 tamis_strerror(err), advice_unread(err, "this pack"));
        status = status_unread(err);
    } else
        complain(0, "%s: the record of segment '%s': %s: 'tamis repair' mends it", path,
                 text, tamis_strerror(err));
    free(hint);
    return status;
}

int not_dropped(int err, struct tamis_store *store, const char *path, const char *name,
                const struct tamis_diag *diag)
{
    struct tamis_snapshot *snapshot;
    if (err != TAMIS_ERR_NO_SEGMENT ||
        tamis_snapshot_current(store, &snapshot, NULL) != 0)
        return complain_error(err, diag, path, NULL);
    int status = not_found(err, snapshot, path, name_of_text(name));
    tamis_snapshot_release(snapshot);
    return status;
}

int segment_error(int err, const struct tamis_diag *diag, const char *path,
                  struct name name, const char *advice)
{
    char offset[48] = "";
    if (advice == NULL)
        advice = advice_unread(err, diag->what);
    if (diag->has_offset)
        snprintf(offset, sizeof(offset), " (offset %llu)", LLU(diag->offset));
    return complain(status_unread(err), "%s: segment '%s': %s%s%s%s", path,
                    NAME(name.bytes, name.n_bytes),
                    diag->what[0] ? diag->what : tamis_strerror(err), offset,
                    advice && advice[0] ? ": " : "", advice ? advice : "");
}

int pick_named(const struct tamis_snapshot *snapshot, const char *path,
               char *const *names, size_t n_names, size_t **list, size_t *n)
{
    bool *picked;
    int status = EXIT_DONE;
    *list = NULL;
    *n = n_names > 0 ? 0 : tamis_snapshot_info(snapshot).n_segments;
    if (n_names == 0)
        return EXIT_DONE;
    picked = memory_or_exit(
        calloc(tamis_snapshot_info(snapshot).n_numbers + 1, sizeof(*picked)));
    *list = memory_or_exit(malloc(n_names * sizeof(**list)));
    for (size_t i = 0; i < n_names; i++) {
        struct tamis_target target;
        check_name(names[i], strlen(names[i]));
        int err = tamis_snapshot_find(snapshot, names[i], strlen(names[i]), NULL, 0, 0,
                                      &target);
        if (err != 0) {
            status = not_found(err, snapshot, path, name_of_text(names[i]));
            free(*list);
            *list = NULL;
            *n = 0;
            break;
        }
        if (!picked[target.ordinal - 1])
            (*list)[(*n)++] = target.ordinal - 1;
        picked[target.ordinal - 1] = true;
    }
    free(picked);
    return status;
}

bool next_picked(const struct tamis_snapshot *snapshot, const size_t *list, size_t n,
                 size_t *at, size_t *segment)
{
    if (list != NULL ? *at >= n : n == 0 || !tamis_snapshot_next(snapshot, at))
        return false;
    *segment = list != NULL ? list[*at] : *at;
    ++*at;
    return true;
}

int pick_segments(const struct tamis_snapshot *snapshot, const char *path,
                  char *const *names, size_t n_names, size_t **list, size_t *n)
{
    int status = pick_named(snapshot, path, names, n_names, list, n);
    if (status != EXIT_DONE || n_names > 0)
        return status;
    *list = memory_or_exit(malloc((*n + 1) * sizeof(**list)));
    *n = 0;
    for (size_t i = 0; tamis_snapshot_next(snapshot, &i); i++)
        (*list)[(*n)++] = i;
    return EXIT_DONE;
}

enum fate segment_now(struct tamis_store *store, const struct tamis_segment_info *old,
                      struct tamis_snapshot **fresh, size_t *index)
{
    struct tamis_segment_info now;
    struct tamis_pack_info pack;
    struct tamis_target target;
    char file[64];
    *index = SIZE_MAX;
    if (tamis_snapshot_current(store, fresh, NULL) != 0)
        return SEGMENT_STAYS;
    for (size_t i = 0; old->name == NULL; i++) { /* a column: is its pack there? */
        if (tamis_snapshot_pack_info(*fresh, i, &pack) != 0)
            return SEGMENT_DROPPED;
        pack_file_name(pack.uuid, file);
        if (strcmp(file, old->file) == 0)
            return SEGMENT_STAYS;
    }
    tamis_snapshot_find(*fresh, old->name, old->name_bytes, NULL, 0, 0, &target);
    if (target.ordinal == 0)
        return SEGMENT_DROPPED;
    *index = target.ordinal - 1;
    /* Packing keeps the UUID, and moves the filter to another file. */
    return tamis_snapshot_segment(*fresh, *index, &now) != 0 ||
                   (memcmp(now.uuid, old->uuid, sizeof(now.uuid)) == 0 &&
                    strcmp(now.file, old->file) == 0)
               ? SEGMENT_STAYS
               : SEGMENT_MOVED;
}

enum fate segment_fate(struct tamis_store *store, const struct tamis_segment_info *old)
{
    struct tamis_snapshot *fresh;
    size_t index;
    enum fate fate = segment_now(store, old, &fresh, &index);
    tamis_snapshot_release(fresh);
    return fate;
}

bool newer_snapshot(struct tamis_store *store, struct tamis_snapshot **snapshot,
                    unsigned *tries)
{
    enum { MAX_TRIES = 5 };
    struct tamis_snapshot *fresh;
    if (++*tries > MAX_TRIES || tamis_snapshot_current(store, &fresh, NULL) != 0)
        return false;
    if (fresh == *snapshot) {
        tamis_snapshot_release(fresh);
        return false;
    }
    tamis_snapshot_release(*snapshot);
    *snapshot = fresh;
    return true;
}

/* Opens all files, so that they stay, beyond 1024 until they are opened again: then one
 * that another process has packed meanwhile ends the command. */
static bool any_moved(struct tamis_store *store, struct tamis_snapshot *snapshot,
                      const size_t *list, size_t n)
{
    bool moved = false;
    for (size_t i = 0; i < n && !moved; i++) {
        struct tamis_segment_info info;
        struct tamis_filter *filter = NULL;
        int err = tamis_snapshot_pack(snapshot, list[i], NULL, NULL, NULL);
        if (err == TAMIS_ERR_NO_SEGMENT) /* it has a file of its own */
            err = tamis_snapshot_filter(snapshot, list[i], &filter, NULL);
        tamis_filter_close(filter);
        moved = err == ENOENT &&
                tamis_snapshot_segment(snapshot, list[i], &info) == 0 &&
                segment_fate(store, &info) != SEGMENT_STAYS;
    }
    return moved;
}

int pick_open_segments(struct tamis_store *store, struct tamis_snapshot **snapshot,
                       const char *path, char *const *names, size_t n_names,
                       size_t **list, size_t *n)
{
    unsigned tries = 0;
    for (;;) {
        int status = pick_segments(*snapshot, path, names, n_names, list, n);
        if (status != EXIT_DONE || !any_moved(store, *snapshot, *list, *n) ||
            !newer_snapshot(store, snapshot, &tries))
            return status;
        free(*list);
    }
}

int exists_already(const char *path, struct name name)
{
    char *word = shell_quoted(name.bytes, name.n_bytes);
    complain(0, "%s: segment '%s' exists already: --replaces %s replaces it", path,
             NAME(name.bytes, name.n_bytes), word);
    free(word);
    return EXIT_USAGE;
}

const char *state_name(enum tamis_segment_state state)
{
    static const char *const names[] = {[TAMIS_SEGMENT_BARE] = "bare",
                                        [TAMIS_SEGMENT_GROWING] = "growing",
                                        [TAMIS_SEGMENT_SEALED] = "sealed"};
    return state > 0 && state <= TAMIS_SEGMENT_SEALED ? names[state] : "unknown";
}

void segment_options(const struct options *o, struct tamis_segment_options *out)
{
    *out = (struct tamis_segment_options){.size = sizeof(*out), .rank = o->rank};
    if (o->binding_bytes > 0) {
        out->binding = o->binding;
        out->binding_bytes = o->binding_bytes;
    }
}
