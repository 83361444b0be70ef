/* Finds the segments of a store that are named, and reports failures. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../input/input.h"
#include "../talk/talk.h"
#include "open.h"
#include "tamis.h"

bool stat_in(const char *store, const char *file, struct stat *st)
{
    char *path = memory_or_exit(malloc(strlen(store) + strlen(file) + 2));
    bool good;

    sprintf(path, "%s/%s", store, file);
    good = stat(path, st) == 0;
    free(path);
    return good;
}

uint64_t allocated_bytes(const char *store, const struct tamis_segment_info *s)
{
    struct stat st;

    return stat_in(store, s->file, &st) ? (uint64_t)st.st_blocks * 512 : s->file_bytes;
}

int not_found(int err, const struct tamis_snapshot *snapshot, const char *path,
              struct tamis_name name)
{
    struct tamis_segment_info info;
    struct suggestion meant;
    char *text = escape(name.bytes, name.n_bytes), *hint;

    suggest_begin(&meant, name.bytes, name.n_bytes);
    for (size_t i = 0;
         err == TAMIS_ERR_NO_SEGMENT && tamis_snapshot_segment(snapshot, i, &info) == 0;
         i++)
        suggest_among(&meant, (const char *)info.name, info.name_bytes);
    hint = suggestion_text(&meant);
    if (err == TAMIS_ERR_NO_SEGMENT)
        complain(0, "%s: no segment '%s'%s 'tamis ls' lists the segments", path, text,
                 hint ? hint : ":");
    else
        complain(0, "%s: the record of segment '%s': %s: 'tamis repair' mends it", path,
                 text, tamis_strerror(err));
    free(hint);
    free(text);
    return status_of_error(err);
}

int not_dropped(int err, struct tamis_store *store, const char *path, const char *name,
                const struct tamis_diag *diag)
{
    struct tamis_snapshot *snapshot;
    int status;

    if (err != TAMIS_ERR_NO_SEGMENT ||
        tamis_snapshot_current(store, &snapshot, NULL) != 0)
        return complain_error(err, diag, path, NULL);
    status = not_found(err, snapshot, path, (struct tamis_name){name, strlen(name)});
    tamis_snapshot_release(snapshot);
    return status;
}

int segment_error(int err, const struct tamis_diag *diag, const char *path,
                  struct tamis_name name, const char *advice)
{
    char *text = escape(name.bytes, name.n_bytes), offset[48] = "";

    if (advice == NULL)
        advice = err == ENOENT               ? "build it anew from its keys"
                 : err == TAMIS_ERR_MISMATCH ? advice_unread(err)
                                             : usual_advice(err);
    if (diag->has_offset)
        snprintf(offset, sizeof(offset), " (offset %llu)",
                 (unsigned long long)diag->offset);
    complain(0, "%s: segment '%s': %s%s%s%s", path, text,
             diag->what[0] ? diag->what : tamis_strerror(err), offset,
             advice && advice[0] ? ": " : "", advice ? advice : "");
    free(text);
    return status_unread(err);
}

int pick_segments(const struct tamis_snapshot *snapshot, const char *path,
                  char *const *names, size_t n_names, size_t **list, size_t *n)
{
    size_t n_all = tamis_snapshot_n_segments(snapshot);
    bool *picked = memory_or_exit(calloc(n_all + 1, sizeof(*picked)));
    int status = EXIT_DONE;

    *n = 0;
    *list = memory_or_exit(malloc((n_all + 1) * sizeof(**list)));
    for (; n_names == 0 && *n < n_all; ++*n)
        (*list)[*n] = *n;
    for (size_t i = 0; i < n_names; i++) {
        struct tamis_target target;
        int err;

        check_name(names[i], strlen(names[i]));
        err = tamis_snapshot_find(snapshot, names[i], strlen(names[i]), NULL, 0, 0,
                                  &target);
        if (err != 0) {
            status = not_found(err, snapshot, path,
                               (struct tamis_name){names[i], strlen(names[i])});
            free(*list);
            *list = NULL;
            *n = 0;
            break;
        }
        if (!picked[target.slot - 1])
            (*list)[(*n)++] = target.slot - 1;
        picked[target.slot - 1] = true;
    }
    free(picked);
    return status;
}

int segment_now(struct tamis_store *store, const struct tamis_segment_info *old,
                struct tamis_snapshot **fresh, size_t *index)
{
    struct tamis_segment_info now;
    struct tamis_target target;
    int err = tamis_snapshot_current(store, fresh, NULL);

    *index = SIZE_MAX;
    if (err != 0)
        return err;
    tamis_snapshot_find(*fresh, old->name, old->name_bytes, NULL, 0, 0, &target);
    if (target.slot == 0)
        return TAMIS_ERR_NO_SEGMENT;
    *index = target.slot - 1;
    err = tamis_snapshot_segment(*fresh, *index, &now);
    if (err != 0)
        return err;
    /* Packing keeps the UUID, and moves the filter to another file. */
    return memcmp(now.uuid, old->uuid, sizeof(now.uuid)) == 0 &&
                   strcmp(now.file, old->file) == 0
               ? 0
               : TAMIS_ERR_NO_SEGMENT;
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

static bool any_moved(struct tamis_store *store, struct tamis_snapshot *snapshot,
                      const size_t *list, size_t n)
{
    bool moved = false;

    for (size_t i = 0; i < n && !moved; i++) {
        struct tamis_segment_info info;
        struct tamis_filter *filter;
        struct tamis_snapshot *fresh;
        size_t index;

        if (tamis_snapshot_segment(snapshot, list[i], &info) != 0 ||
            tamis_snapshot_filter(snapshot, list[i], &filter, NULL) != ENOENT)
            continue;
        moved = segment_now(store, &info, &fresh, &index) == TAMIS_ERR_NO_SEGMENT;
        tamis_snapshot_release(fresh);
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

int exists_already(const char *path, struct tamis_name name)
{
    char *text = escape(name.bytes, name.n_bytes);
    char *word = shell_quoted(name.bytes, name.n_bytes);

    complain(0, "%s: segment '%s' exists already: --replaces %s replaces it", path,
             text, word);
    free(text);
    free(word);
    return EXIT_USAGE;
}

const char *state_name(enum tamis_segment_state state)
{
    switch (state) {
    case TAMIS_SEGMENT_BARE:
        return "bare";
    case TAMIS_SEGMENT_GROWING:
        return "growing";
    case TAMIS_SEGMENT_SEALED:
        return "sealed";
    }
    return "unknown";
}

void segment_options(const struct options *o, struct tamis_segment_options *out)
{
    *out = (struct tamis_segment_options){.size = sizeof(*out), .rank = o->rank};
    if (o->binding_bytes > 0) {
        out->binding = o->binding;
        out->binding_bytes = o->binding_bytes;
    }
}
