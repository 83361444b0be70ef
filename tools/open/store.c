/* What several commands do with stores and files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tool.h"

int store_open(const char *path, struct tamis_store **store)
{
    struct tamis_diag diag = {0};
    int err = tamis_store_open(path, store, &diag);

    return err ? complain_error(err, &diag, path, store_advice(err, path)) : EXIT_DONE;
}

int store_snapshot(const char *path, struct tamis_store **store,
                   struct tamis_snapshot **snapshot)
{
    struct tamis_diag diag = {0};
    int err, status = store_open(path, store);

    *snapshot = NULL;
    if (status != EXIT_DONE)
        return status;
    err = tamis_snapshot_current(*store, snapshot, &diag);
    if (err == 0)
        return EXIT_DONE;
    tamis_store_close(*store);
    *store = NULL;
    return complain_error(err, &diag, path, NULL);
}

bool stat_in(const char *store, const char *file, struct stat *st)
{
    char *path = need(malloc(strlen(store) + strlen(file) + 2));
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
        advice = err == ENOENT ? "build it anew from its keys"
                 : err == TAMIS_ERR_MISMATCH
                     ? "put its own file in its place, or build "
                       "it anew from its keys"
                     : usual_advice(err);
    if (diag->has_offset)
        snprintf(offset, sizeof(offset), " (offset %llu)",
                 (unsigned long long)diag->offset);
    complain(0, "%s: segment '%s': %s%s%s%s", path, text,
             diag->what[0] ? diag->what : tamis_strerror(err), offset,
             advice && advice[0] ? ": " : "", advice ? advice : "");
    free(text);
    return status_of_error(err);
}

int pick_segments(const struct tamis_snapshot *snapshot, const char *path,
                  char *const *names, size_t n_names, size_t **list, size_t *n)
{
    size_t n_all = tamis_snapshot_n_segments(snapshot);
    bool *picked = need(calloc(n_all + 1, sizeof(*picked)));
    int status = EXIT_DONE;

    *n = 0;
    *list = need(malloc((n_all + 1) * sizeof(**list)));
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
    return memcmp(now.uuid, old->uuid, sizeof(now.uuid)) == 0 ? 0
                                                              : TAMIS_ERR_NO_SEGMENT;
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

bool lies_inside(const char *path, const char *store)
{
    size_t n = strlen(path);
    char *parent = need(malloc(n + 4)), *from, *at;
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

int check_new_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    char *parent;
    int err = 0;

    if (lstat(path, &st) == 0) {
        struct tamis_diag diag = {.code = TAMIS_ERR_EXISTS, .what = "exists already"};

        return complain_error(TAMIS_ERR_EXISTS, &diag, path, NULL);
    }
    parent = need(slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("."));
    if (access(parent, W_OK | X_OK) != 0)
        err = errno;
    free(parent);
    return err ? complain_errno(err, path, "cannot create") : EXIT_DONE;
}

void segment_options(const struct options *o, struct tamis_segment_options *out)
{
    *out = (struct tamis_segment_options){.size = sizeof(*out), .rank = o->rank};
    if (o->binding_bytes > 0) {
        out->binding = o->binding;
        out->binding_bytes = o->binding_bytes;
    }
}

int not_a_file(const char *path)
{
    const char *kind = "not a regular file";
    struct stat st;
    char *name;

    if (stat(path, &st) != 0)
        return complain_errno(errno, path, "cannot open"); /* links in a circle */
    kind = S_ISDIR(st.st_mode)                          ? "a directory"
           : S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? "a device"
           : S_ISFIFO(st.st_mode)                       ? "a FIFO"
           : S_ISSOCK(st.st_mode)                       ? "a socket"
                                                        : kind;
    name = escape(path, strlen(path));
    complain(0, "%s: %s, not a filter: name a file that 'tamis file build' has made",
             name, kind);
    free(name);
    return EXIT_DAMAGE;
}

int file_error(const struct options *o, int err, const struct tamis_diag *diag)
{
    const char *advice = NULL;

    if (err == 0)
        return EXIT_DONE;
    if (is_wrong_type(err))
        return not_a_file(o->args[0]);
    if (err == TAMIS_ERR_NOT_TAMIS && o->offset > 0)
        advice = "check --offset";
    return complain_error(err, diag, o->args[0], advice);
}

int file_open(const struct options *o, struct tamis_filter **filter)
{
    struct tamis_filter_options opt = {.size = sizeof(opt),
                                       .min_watermark = o->min_watermark};
    struct tamis_diag diag = {0};
    int err, fd;

    if (o->binding_bytes > 0) {
        opt.binding = o->binding;
        opt.binding_bytes = o->binding_bytes;
    }
    if (o->offset == 0) {
        err = tamis_filter_open(o->args[0], &opt, filter, &diag);
    } else {
        fd = open(o->args[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
            return complain_errno(errno, o->args[0], "cannot open");
        err = tamis_filter_open_fd(fd, o->offset, 0, &opt, filter, &diag);
        close(fd);
    }
    return file_error(o, err, &diag);
}
