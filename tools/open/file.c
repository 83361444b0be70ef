/* Opens filter files, and reports failures. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open.h"

uint64_t regular_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

int check_new_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    char *parent;
    int err = 0;
    if (strcmp(path, "-") == 0)
        return complain(EXIT_USAGE, "-: a filter is a file, not standard output: ./- "
                                    "is a file of that name");
    if (lstat(path, &st) == 0) {
        struct tamis_diag diag = {.code = TAMIS_ERR_EXISTS, .what = "exists already"};
        return complain_error(TAMIS_ERR_EXISTS, &diag, path, NULL);
    }
    parent =
        memory_or_exit(slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("."));
    if (access(parent, W_OK | X_OK) != 0)
        err = errno;
    free(parent);
    return err ? complain_errno(err, path, "cannot create") : EXIT_DONE;
}

int not_a_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return complain_errno(errno, path, "cannot open"); /* links in a circle */
    const char *kind = S_ISDIR(st.st_mode)                          ? "a directory"
                       : S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) ? "a device"
                       : S_ISFIFO(st.st_mode)                       ? "a FIFO"
                       : S_ISSOCK(st.st_mode)                       ? "a socket"
                                              : "not a regular file";
    return complain(EXIT_DAMAGE,
                    "%s: %s, not a filter: name a file that 'tamis file build' has "
                    "made",
                    path, kind);
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
    else if (err == TAMIS_ERR_NOT_TAMIS && strstr(o->args[0], ".dead") != NULL)
        advice = "tombstones of a pack: name the .tamis file beside them";
    return complain_error(err, diag, o->args[0], advice);
}

int file_open(const struct options *o, struct tamis_filter **filter)
{
    struct tamis_filter_options opt = {
        .size = sizeof(opt), .min_watermark = o->min_watermark, .offset = o->offset};
    struct tamis_diag diag = {0};
    int err;
    if (o->binding_bytes > 0) {
        opt.identity.binding = o->binding;
        opt.identity.binding_bytes = o->binding_bytes;
    }
    if (o->offset == 0) {
        err = tamis_filter_open(o->args[0], &opt, filter, &diag);
    } else {
        opt.fd = open(o->args[0], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (opt.fd < 0)
            return complain_errno(errno, o->args[0], "cannot open");
        err = tamis_filter_open(NULL, &opt, filter, &diag);
        close(opt.fd);
    }
    return file_error(o, err, &diag);
}

struct name filter_name(struct tamis_filter *filter, const char *path,
                        struct tamis_filter_info *info)
{
    tamis_filter_info(filter, info, NULL);
    return info->name_bytes > 0 ? (struct name){info->name, info->name_bytes}
                                : name_of_text(path);
}

int files_open(const struct options *o, size_t first, size_t n,
               struct tamis_filter **filters)
{
    struct tamis_filter_options opt = {.size = sizeof(opt)};
    int status = EXIT_DONE;
    for (size_t i = 0; i < n && status == EXIT_DONE; i++) {
        struct tamis_diag diag = {0};
        const char *path = o->args[first + i];
        if (path[0] == '\0')
            usage_error("FILE is a path, and this one is empty");
        int err = tamis_filter_open(path, &opt, &filters[i], &diag);
        if (is_wrong_type(err))
            status = not_a_file(path);
        else if (err != 0)
            status = complain_error(err, &diag, path, NULL);
    }
    return status;
}

void files_close(struct tamis_filter **filters, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tamis_filter_close(filters[i]);
}
